"""Resources that are refused: memory, open files, sizes of files, disks, streams, folders, locales; and a stop.

A training in such a place ends well or in one line; what it has left is readable, and goes on elsewhere to the bits of
an undisturbed one.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from json import dumps
from pathlib import Path
from typing import Any, NamedTuple

from chaos import kills
from chaos.confined import FILE_PERMISSIONS
from chaos.environments import one_line
from chaos.harness import MAC, Attempt, Budget, Kind, Outcome, complaints, finished, leftovers, one_by_one, ran, started
from chaos.kills import Undisturbed, Victim, digests, positions
from chaos.tally import LOST, MISMATCH, Tally

NAME = "resources"
CONFINED = Path(__file__).parent / "confined.py"
HOME = "home"  # the folder within an attempt's that is written to, or that a small disk is mounted on
_KEEPING = ("--checkpoint-seconds", "0.1")
_SMALL = ("--set", "hidden=16", "minibatches=2", "batch_size=8", "replay_capacity=200")


def _train(name: str, *words: str) -> Victim:
    return Victim(name, ("train", *words, *_KEEPING, "--out"), ("resume",))


VICTIMS = (
    _train("compiled", "CartPole-v0", "--trials", "2", "--episodes", "300", "--evaluate-every", "150", *_SMALL),
    _train(
        "hosted", "CartPole-v1", "--engine", "hosted", "--workers", "2", "--trials", "2", "--episodes", "60", *_SMALL
    ),
)
LOCALES: tuple[dict[str, str], ...] = (
    {"LC_ALL": "C"}, {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"LC_ALL": "tr_TR.UTF-8"},
    {"LANG": "", "LC_ALL": ""}, {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "nothing.such"}, {"TERM": "dumb"},
    {"COLUMNS": "1"}, {"TZ": "nowhere"},
)  # fmt: skip


class Situation(NamedTuple):
    """How a training is confined, as `confined.py` is told, and what else there is to it."""

    confined: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}
    disk: int = 0  # bytes of a disk that it writes to; 0: whatever there is
    stops: int = 0  # times that it is stopped and continued
    heard: bool = True  # whether somebody hears standard error


def _memory(this: Attempt) -> Situation:
    return Situation({"limits": {"AS": int(this.random.uniform(2.5, 8) * 2**30)}})


def _files(this: Attempt) -> Situation:
    return Situation({"limits": {"NOFILE": this.random.randint(24, 120)}})


def _file_size(this: Attempt) -> Situation:
    return Situation({"limits": {"FSIZE": int(10 ** this.random.uniform(1, 6))}})


def _processes(this: Attempt) -> Situation:
    return Situation({"limits": {"NPROC": this.random.randint(1, 60)}})


def _disk(this: Attempt) -> Situation:
    return Situation(disk=int(2 ** this.random.uniform(12, 18)))


def _stops(this: Attempt) -> Situation:
    return Situation(stops=this.random.randint(1, 4))


def _streams(this: Attempt) -> Situation:
    how = this.random.choice(("close", "full", "unread"))
    streams = this.random.choice(([1], [2], [1, 2], [0, 1, 2] if how == "close" else [2]))
    return Situation({how: streams}, heard=2 not in streams)


def _locale(this: Attempt) -> Situation:
    return Situation(environment=this.random.choice(LOCALES))


def _gone(this: Attempt) -> Situation:
    folder = this.folder / "gone"
    folder.mkdir()
    return Situation({"folder": str(folder), "gone": True})


def _not_ours(this: Attempt) -> Situation:
    (this.folder / HOME).chmod(this.random.choice((0o000, 0o500, 0o400, 0o100)))
    return Situation({"drop": FILE_PERMISSIONS} if os.getuid() == 0 else {})


SITUATIONS: dict[str, Callable[[Attempt], Situation]] = {
    "little memory": _memory, "few files": _files, "small files": _file_size, "few processes": _processes,
    "a small disk": _disk, "stopped and continued": _stops, "streams": _streams, "a locale": _locale,
    "a working folder that is gone": _gone, "a folder without permission": _not_ours,
}  # fmt: skip


def run(budget: Budget, seed: int) -> Tally:
    """Refuse resources."""
    undisturbed = Undisturbed(budget)
    names, notes = situations(budget.folder)
    tally = one_by_one(NAME, lambda this: attempt(this, names, undisturbed), budget, seed)
    return tally + Tally(notes=tuple(notes))


KIND = Kind(
    NAME, "a training short of memory, files, disk or streams, stopped or misplaced; then a resume", 60, 0.15, run
)


def situations(folder: Path) -> tuple[list[str], list[str]]:
    """Those that can be had here, and words on the others."""
    missing = {}
    if os.getuid() == 0:
        missing["few processes"] = "no limit on processes binds root"
    probe = folder / "disk-probe"
    probe.mkdir(exist_ok=True)
    try:
        with small_disk(probe, 4096):
            pass
    except OSError as fault:
        missing["a small disk"] = f"no small disk may be mounted ({fault})"
    if os.getuid() == 0:
        done = subprocess.run([sys.executable, CONFINED, dumps({"drop": FILE_PERMISSIONS}), "--", "/bin/true"],
                              capture_output=True, check=False)  # fmt: skip
        if done.returncode:
            missing["a folder without permission"] = "root keeps its permissions"
    names = [name for name in SITUATIONS if name not in missing]
    return names, [f"{NAME}: nothing of {name}, because {reason}" for name, reason in missing.items()]


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[None]:
    """A disk in memory of so many bytes, mounted on a folder as long as the block lasts."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(done.stderr.strip() or "refused")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def attempt(this: Attempt, names: list[str], undisturbed: Undisturbed) -> Outcome:
    """A training that is short of something, and then one that goes on without that."""
    victim = this.random.choice(VICTIMS)
    name = names[this.number % len(names)]
    home = this.folder / HOME
    out = home / kills.OUT
    elsewhere = this.folder / "elsewhere"
    plain = victim._replace(words=(*victim.words, kills.OUT))
    whole = undisturbed.of(plain, this)
    if whole is None:
        return Outcome(0, [this.found(LOST, f"{victim.name}: an undisturbed run fails")])
    home.mkdir()
    situation = SITUATIONS[name](this)
    what = f"{victim.name}, {name}"
    with contextlib.ExitStack() as stack:
        if situation.disk:
            stack.enter_context(small_disk(home, situation.disk))
        words = [sys.executable, CONFINED, dumps(situation.confined), "--", *MAC, *victim.words, out]
        with started(this, words, situation.environment) as process:
            _stop_and_continue(this, process, situation.stops, whole.seconds)
            ended = finished(this, process, 60 + 4 * whole.seconds)
        home.chmod(0o700)
        findings = complaints(this, ended, (0,) if situation.stops else (0, 1, 2), what)
        if situation.heard and not findings:
            findings += one_line(this, ended.code, ended.err, what)
        _, lost = positions(this, victim, out)
        findings += lost
        if findings:
            return Outcome(1, [f._replace(details=f"{situation}: {f.details}"[-2000:]) for f in findings])
        if situation.disk:  # there is no room to go on there
            shutil.copytree(home, elsewhere)
            out = elsewhere / kills.OUT
    begun = (out / "manifest.json").exists()
    ended = ran(this, [*MAC, *(("resume", out) if begun else (*victim.words, out)), "--quiet"], 4 * whole.seconds)
    findings += complaints(this, ended, (0,), f"{what}, gone on with")
    if ended.code == 0:
        if digests(out) != whole.digests:
            findings.append(this.found(MISMATCH, f"{what}: other results", f"{situation}: {digests(out)}"))
        findings += leftovers(this, out)
    return Outcome(1, findings)


def _stop_and_continue(this: Attempt, process: "subprocess.Popen[bytes]", times: int, seconds: float) -> None:
    """A process and all that it started, for moments."""
    for _ in range(times):
        time.sleep(this.random.uniform(0, seconds / times))
        for number, wait in ((signal.SIGSTOP, this.random.uniform(0.05, 1)), (signal.SIGCONT, 0)):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            time.sleep(wait)
