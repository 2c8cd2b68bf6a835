"""What all kinds of faults share: a budget, attempts that depend on a seed and a number alone, and marked processes.

Every process that the campaign starts carries a mark in its environment, which its children inherit, also those in
sessions of their own. By it they are found again and ended; nobody else's process is ever touched.
"""

import concurrent.futures
import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from chaos.tally import HUNG, LEFT, TRACEBACK, Finding, Tally, tally_of

MARK = "MAC_CHAOS"  # the environment variable
PATIENCE = 30.0  # seconds beyond what was expected, after which something hangs
STARVED = 6  # times the limit that a process may take which a busy machine gives no core
GOODBYE = 30.0  # seconds that children of a killed process have to notice it
MAC = (sys.executable, "-m", "mean_actor_critic")


class Budget(NamedTuple):
    """How much of a kind is tried."""

    first: int  # number of the first attempt
    count: int  # of faults
    until: float  # on the monotonic clock: nothing is begun later
    jobs: int  # attempts at a time
    folder: Path  # for whatever is written
    stop: threading.Event  # set when the campaign is to end now

    def goes_on(self, tried: int) -> bool:
        """Whether there is something left to do, and time for it."""
        return tried < self.count and time.monotonic() < self.until and not self.stop.is_set()


class Kind(NamedTuple):
    """A kind of fault."""

    name: str
    tries: str  # what a single one is, in words
    usual: int  # how many are tried at N = 1
    share: float  # of the time
    run: Callable[[Budget, int], Tally]


class Attempt(NamedTuple):
    """A try of one or several faults: all of it follows from the seed and the number."""

    kind: str
    seed: int
    number: int
    folder: Path  # its own, empty
    random: random.Random

    def found(self, column: str, what: str, details: object = "") -> Finding:
        """A finding of this attempt."""
        return Finding(column, what, self.kind, self.seed, self.number, str(details)[-2000:])

    @property
    def mark(self) -> str:
        """By which its processes are known."""
        return f"{os.getpid()}/{self.kind}/{self.number}/"


class Outcome(NamedTuple):
    """What came of an attempt: how many faults it had, and what was found."""

    tried: int
    findings: list[Finding]


def random_of(kind: str, seed: int, number: int) -> random.Random:
    """The draws of an attempt."""
    return random.Random(f"{kind}/{seed}/{number}")


def one_by_one(kind: str, attempt: Callable[[Attempt], Outcome], budget: Budget, seed: int) -> Tally:
    """Attempts with processes of their own, a few at a time."""
    total = Tally(next_number=budget.first)
    number, tried = budget.first, 0
    with concurrent.futures.ThreadPoolExecutor(budget.jobs) as pool:
        running: set[concurrent.futures.Future[Tally]] = set()
        while running or budget.goes_on(tried):
            while budget.goes_on(tried) and len(running) < min(budget.jobs, budget.count - tried):
                running.add(pool.submit(_attempted, kind, attempt, budget, seed, number))
                number += 1
            done, running = concurrent.futures.wait(running, 0.5, concurrent.futures.FIRST_COMPLETED)
            for future in done:
                total += future.result()
                tried = total.tried
            if budget.stop.is_set():
                end_marked(f"{os.getpid()}/")
    return total


def _attempted(kind: str, attempt: Callable[[Attempt], Outcome], budget: Budget, seed: int, number: int) -> Tally:
    folder = budget.folder / f"{kind}-{number}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    this = Attempt(kind, seed, number, folder, random_of(kind, seed, number))
    try:
        outcome = attempt(this)
        findings = [*outcome.findings, *left_behind(this)]
    finally:
        end_marked(this.mark)
    if budget.stop.is_set():  # it was ended in the middle, and says nothing
        return Tally(next_number=number)
    shutil.rmtree(folder, ignore_errors=True)
    return tally_of(max(1, outcome.tried), findings, number)


# --- processes -------------------------------------------------------------------------------------------------------


class Ended(NamedTuple):
    """A process that is over."""

    code: int | None  # None: it hung, and was ended
    out: str
    err: str
    seconds: float


class Limits(NamedTuple):
    """What a process may use; None: as much as it likes."""

    memory: int | None = None
    files: int | None = None
    file_size: int | None = None
    processes: int | None = None

    def set(self) -> None:
        """For this process and its children."""
        for name, value in zip(("AS", "NOFILE", "FSIZE", "NPROC"), self, strict=True):
            if value is not None:
                resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


@contextlib.contextmanager
def started(
    this: Attempt, words: Sequence[object], more: Mapping[str, str] = {}, name: str = "process", **options: Any
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of an attempt: in a session of its own, in the attempt's folder, its streams in files there."""
    environment = {**os.environ, **more, MARK: this.mark}
    with open(this.folder.parent / f"{this.folder.name}-{name}.out", "wb") as out:
        streams = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out.name.removesuffix("out") + "err"}
        with open(streams["stderr"], "wb") as err:
            streams = {**streams, "stderr": err, **options}
            streams.setdefault("cwd", this.folder)
            process = subprocess.Popen([*map(str, words)], env=environment, start_new_session=True, **streams)
        try:
            yield process
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                process.wait()


def finished(this: Attempt, process: subprocess.Popen[bytes], seconds: float, name: str = "process") -> Ended:
    """Wait for a process; one that takes much longer than so many seconds is ended, with all that it started."""
    begun = time.monotonic()
    limit = seconds + PATIENCE
    code: int | None = None
    for _ in range(STARVED):
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(limit)
            break
        if not waits_for_a_core(marked(this.mark), limit / 2):
            break
    if code is None:
        end_marked(this.mark)
        process.wait()
    base = this.folder.parent / f"{this.folder.name}-{name}"
    texts = []
    for end in ("out", "err"):
        file = base.with_name(f"{base.name}.{end}")
        texts.append(file.read_bytes().decode(errors="replace") if file.exists() else "")
        file.unlink(missing_ok=True)
    return Ended(code, texts[0], texts[1], time.monotonic() - begun)


def ran(this: Attempt, words: Sequence[object], seconds: float, more: Mapping[str, str] = {}, **options: Any) -> Ended:
    """A process from beginning to end."""
    with started(this, words, more, **options) as process:
        return finished(this, process, seconds)


def complaints(this: Attempt, ended: Ended, codes: Iterable[int | None], doing: str) -> list[Finding]:
    """What is wrong with how a process ended: it hung, had a traceback, or an exit code that was not to be."""
    if ended.code is None:
        return [this.found(HUNG, f"{doing}: did not end", f"after {ended.seconds:.0f} s; {ended.err}")]
    if "Traceback (most recent call last)" in ended.err:
        last = [line for line in ended.err.splitlines() if line.strip()][-1]
        return [this.found(TRACEBACK, f"{doing}: {last[:200]}", ended.err)]
    if ended.code not in codes:
        return [this.found(TRACEBACK, f"{doing}: exit code {ended.code}", ended.err)]
    return []


def waits_for_a_core(processes: Iterable[int], seconds: float) -> bool:
    """Whether one of these could go on if it had a core, and all together have had less than so many seconds of one.

    On a busy machine that is no hang: one uses no core, or all of it.
    """
    used, ready = 0.0, False
    for number in processes:
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()
            used += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
            threads = Path(f"/proc/{number}/task").glob("*/stat")
            ready |= any(thread.read_text().rpartition(")")[2].split()[0] == "R" for thread in threads)
    return ready and used < seconds


def marked(mark: str, folder: Path | None = None) -> dict[int, str]:
    """Processes whose mark begins so, or that work below a folder, by their numbers; and what they are."""
    found = {}
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            here = Path(entry.path)
            of_ours = f"\0{MARK}={mark}".encode() in b"\0" + (here / "environ").read_bytes()
            if not of_ours and folder is not None:
                of_ours = Path(os.readlink(here / "cwd")).is_relative_to(folder)
            if of_ours and (here / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                words = (here / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = words.strip()
    return found


def end_marked(mark: str) -> None:
    """End all processes with such a mark."""
    for _ in range(20):
        numbers = marked(mark)
        if not numbers:
            return
        for number in numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGCONT)
                os.kill(number, signal.SIGKILL)
        time.sleep(0.05)


def left_behind(this: Attempt) -> list[Finding]:
    """Processes of an attempt that should be gone, and are not after some seconds."""
    until = time.monotonic() + GOODBYE
    while there := marked(this.mark, this.folder):
        if time.monotonic() > until:
            for number in there:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            what = next(iter(there.values()))
            return [this.found(LEFT, f"processes are left: {what[:120]}", there)]
        time.sleep(0.05)
    return []


def leftovers(this: Attempt, folder: Path) -> list[Finding]:
    """Half-written files that nobody has removed."""
    files = [str(file.relative_to(folder)) for file in folder.rglob(".*.tmp")]
    return [this.found(LEFT, "temporary files are left", files)] if files else []
