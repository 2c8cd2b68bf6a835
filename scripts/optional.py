"""Installs what some tests and benchmarks use and everybody else can do without: `python scripts/optional.py NAME …`.

Nothing is installed twice, and nothing is forced: where a thing cannot be had, one line says so and the exit code is
still 0. Whoever wanted it leaves something out then, and says that too.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent

# An unreachable mirror or index must not hold up the tests: no second tries, and an end to waiting.
UPDATE = ["timeout", "120", "apt-get", "-qq", "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "update"]
INSTALL = ["apt-get", "-qq", "--yes", "--no-install-recommends", "install", "chromium"]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--retries", "1", "install", "--quiet"]


class InstallError(Exception):
    """Why something cannot be installed."""


def browser() -> None:
    """Chromium, from Debian's packages: for tests of pages."""
    sys.path.insert(0, str(ROOT / "tests"))  # where it is known by which names a browser goes
    from browser import find_program

    if find_program():
        return
    if not shutil.which("apt-get"):
        raise InstallError("there is no apt-get")
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]  # -n: never wait for a password
    if as_root and not shutil.which("sudo"):
        raise InstallError("only root may do that")
    print("Installing chromium for the tests of the report's page …", flush=True)
    for command in (UPDATE, INSTALL):
        run([*as_root, "env", "DEBIAN_FRONTEND=noninteractive", *command])


def stable_baselines3() -> None:
    """Stable-Baselines3 with its contrib package, after a PyTorch without GPU packages.

    By itself it would bring these along by the gigabyte.
    """
    if importlib.util.find_spec("sb3_contrib"):
        return
    constraints = ROOT / "constraints.txt"
    (torch,) = [line for line in constraints.read_text().splitlines() if line.startswith("torch==")]
    print("Installing Stable-Baselines3 and PyTorch for comparisons with them …", flush=True)
    try:
        run([*PIP, "--constraint", str(constraints), f"{torch}+cpu"])
    except InstallError as reason:
        raise InstallError(f"pip finds no PyTorch without GPU packages ({reason})") from None
    run([*PIP, "--constraint", str(constraints), "stable-baselines3", "sb3-contrib"])


def minatar() -> None:
    """MinAtar's package, a judge of our programs of its games, without what it draws its windows with."""
    if not importlib.util.find_spec("minatar"):
        run([*PIP, "--constraint", str(ROOT / "constraints.txt"), "--no-deps", "minatar"])


def minigrid() -> None:
    """MiniGrid's environments, for comparisons on them."""
    if not importlib.util.find_spec("minigrid"):
        run([*PIP, "--constraint", str(ROOT / "constraints.txt"), "minigrid"])


def run(command: list[str]) -> None:
    """Run a command, and show no more of it than its last words if it fails."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InstallError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])


OPTIONAL = {"browser": browser, "minatar": minatar, "minigrid": minigrid, "stable-baselines3": stable_baselines3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", nargs="+", choices=OPTIONAL)
    for name in parser.parse_args().name:
        try:
            OPTIONAL[name]()
        except InstallError as reason:
            print(f"{name} cannot be installed here: {reason}", flush=True)


if __name__ == "__main__":
    main()
