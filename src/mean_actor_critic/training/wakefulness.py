"""Keeps cores awake while the Atari engine takes turns on them.

Emulators, acting and learning are turns of a few milliseconds, and most end with one core waiting for another. A core
that waits is put to sleep, and waking it takes long, above all on virtual machines, where somebody else may have it by
then. So while a game is trained, each core has a process that does nothing, at the lowest priority there is: it gets
the core only when nobody else wants it. Decision 14 has what that is worth.
"""

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from mean_actor_critic.environments.fleet import cores

# Ends with its parent, however that ends, and sleeps while it is stopped. Linux shares a core between sessions first
# and looks at priorities within each, so that the session needs the lowest one too.
_NOTHING = """
import contextlib, os, sys, time
core, parent = map(int, sys.argv[1:3])
os.sched_setaffinity(0, {core})
os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
with contextlib.suppress(OSError):
    with open("/proc/self/autogroup", "w") as session:
        session.write("19")
while os.getppid() == parent:
    with open(f"/proc/{parent}/stat") as stat:
        stopped = stat.read().rpartition(")")[2].split()[0] in "Tt"
    until = time.monotonic() + 0.5
    while time.monotonic() < until:
        if stopped:
            time.sleep(0.5)
        for _ in range(10_000):
            pass
"""
NAME = "mean-actor-critic keeps this core awake"  # what lists of processes show
SWITCH = "MAC_CORES_AWAKE"  # an environment variable; 0 lets them sleep
MOST_CORES = 16
_OWN_GROUPS = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def cores_awake() -> Iterator[list[int]]:
    """Within the block the cores that this process may use stay awake; gives the processes that see to it.

    There are none where it would not help or might harm: on one core, on more than a game can use, where the system has
    no such priority, and where the time that they take counts against a quota; nor with MAC_CORES_AWAKE=0.
    """
    processes: list[subprocess.Popen[bytes]] = []
    try:
        wanted = hasattr(os, "SCHED_IDLE") and os.environ.get(SWITCH) != "0"
        if wanted and 1 < cores() <= MOST_CORES and not _has_quota():
            with contextlib.suppress(OSError):  # training goes on without
                processes.extend(map(_keep_awake, sorted(os.sched_getaffinity(0))))
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.kill()
            # on a busy core it can take minutes to get its turn, even for ending
            threading.Thread(target=process.wait, daemon=True).start()


def _keep_awake(core: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _NOTHING, str(core), str(os.getpid()), NAME],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal from the terminal is not for it
    )


def _has_quota() -> bool:
    """Whether this process may take less time than its cores have, by its control group or one around it."""
    with contextlib.suppress(OSError, ValueError):
        for line in _OWN_GROUPS.read_text().splitlines():
            _, kinds, place = line.split(":", 2)
            if kinds not in ("", "cpu", "cpu,cpuacct", "cpuacct,cpu"):
                continue
            root = _GROUPS / "cpu" if kinds else _GROUPS
            file, none = ("cpu.cfs_quota_us", "-1") if kinds else ("cpu.max", "max")
            group = root / place.lstrip("/")
            for folder in (group, *group.parents):
                if folder.is_relative_to(root) and not _says(folder / file, none):
                    return True
    return False


def _says(file: Path, word: str) -> bool:
    """Whether a file begins with a word, or is not there."""
    with contextlib.suppress(OSError):
        return file.read_text().split()[:1] == [word]
    return True
