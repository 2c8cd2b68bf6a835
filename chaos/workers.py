"""Attempts within a process, thousands a second: readers and parsers in worker processes that are watched.

A worker says in shared memory which attempt it is at. One that dies there, or does not come back, is a finding; the
next one goes on behind it.
"""

import contextlib
import importlib
import json
import mmap
import os
import resource
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from chaos.harness import MARK, STARVED, Attempt, Budget, random_of, waits_for_a_core
from chaos.tally import HUNG, LOST, TRACEBACK, Finding, Tally, tally_of

STUCK = 30.0  # seconds without a sign, after which an attempt hangs
COSTLY = 5.0  # seconds of CPU that no attempt is to take
ROOM = 2 * 2**30  # bytes of memory that attempts may take, beyond what a worker has when it begins
BEGINNING = 300.0  # seconds for a worker to begin
KEPT = 200  # findings of a worker that are written down; beyond, they are counted

Try = Callable[[Attempt], list[Finding]]
# number of the attempt (-1: beginning), attempts done, findings; when it began, by the clock and in seconds of CPU
_STATE = struct.Struct("qqqdd")


class Share(NamedTuple):
    """What a worker is to do: every so-manieth number."""

    module: str
    kind: str
    seed: int
    first: int
    step: int
    count: int
    seconds: float
    folder: str


def in_workers(module: str, kind: str, budget: Budget, seed: int) -> Tally:
    """Attempts in worker processes; `make_try(folder)` of the module makes what each one does."""
    jobs = min(budget.jobs, budget.count)
    shares = [budget.count // jobs + (job < budget.count % jobs) for job in range(jobs)]
    watched = [_Watched(module, kind, seed, job, jobs, shares[job], budget) for job in range(jobs)]
    try:
        while True:
            busy = [worker.look() for worker in watched]  # each of them
            if not any(busy):
                break
            time.sleep(0.05)
    finally:
        for worker in watched:
            worker.end()
    return sum((worker.tally for worker in watched), Tally(next_number=budget.first))


class _Watched:
    """A worker's place: the process in it now, and what came of those before."""

    def __init__(self, module: str, kind: str, seed: int, job: int, jobs: int, count: int, budget: Budget) -> None:
        self._module, self._kind, self._seed = module, kind, seed
        self._next, self._step, self._left, self._budget = budget.first + job, jobs, count, budget
        self._folder = budget.folder / f"{kind}-worker-{job}"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.tally = Tally(next_number=budget.first)

    def look(self) -> bool:
        """See what it does; False if it has nothing more to do."""
        if self._process is None:
            if self._left <= 0 or not self._budget.goes_on(0):
                return False
            self._begin()
            return True
        number, done, found, since, used = _STATE.unpack_from(self._state)
        if self._process.poll() is None:
            limit = BEGINNING if number < 0 else STUCK
            waited = time.monotonic() - since
            if not self._budget.stop.is_set() and (waited < limit or self._is_starved(waited / limit, used)):
                return True
            self._process.kill()
            self._process.wait()
            self._account(done, found)
            if not self._budget.stop.is_set():
                self._failed(number, HUNG, f"no answer after {limit:.0f} s")
        elif self._process.returncode:
            self._account(done, found)
            self._failed(number, TRACEBACK, f"the process died: {self._process.returncode}")
        else:
            self._account(done, found)
            self._left = 0
        self._process = None
        return True

    def _is_starved(self, limits: float, used: float) -> bool:
        assert self._process is not None
        return limits < STARVED and waits_for_a_core([self._process.pid], used + STUCK / 2)

    def _begin(self) -> None:
        file = self._folder / "state"
        with open(file, "wb") as state:
            state.write(_STATE.pack(-1, 0, 0, time.monotonic(), 0.0))
        with open(file, "r+b") as state:
            self._state = mmap.mmap(state.fileno(), _STATE.size)
        (self._folder / "findings").write_bytes(b"")
        seconds = max(0.0, self._budget.until - time.monotonic())
        share = Share(
            self._module, self._kind, self._seed, self._next, self._step, self._left, seconds, str(self._folder)
        )
        environment = {**os.environ, MARK: f"{os.getpid()}/{self._kind}/worker/", "JAX_PLATFORMS": "cpu"}
        root = str(Path(__file__).parent.parent)
        path = filter(None, [root, environment.get("PYTHONPATH")])
        with open(self._folder / "errors", "wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "chaos.workers", json.dumps(share)],
                env={**environment, "PYTHONPATH": os.pathsep.join(path)},
                stdin=subprocess.DEVNULL, stdout=errors, stderr=errors, start_new_session=True, cwd=self._folder,
            )  # fmt: skip

    def _account(self, done: int, found: int) -> None:
        """Count what a process has done."""
        lines = (self._folder / "findings").read_bytes().splitlines()
        findings = [Finding(*json.loads(line)) for line in lines]
        more = [finding._replace(what="and more") for finding in findings[-1:]] * (found - len(findings))
        self.tally += tally_of(done, [*findings, *more], self._next + done * self._step - self._step)
        self._next, self._left = self._next + done * self._step, self._left - done

    def _failed(self, number: int, column: str, what: str) -> None:
        """The process is gone in the middle of an attempt; one that could not even begin is a fault of ours."""
        errors = (self._folder / "errors").read_bytes().decode(errors="replace")[-2000:]
        if number < 0:
            raise RuntimeError(f"{self._kind}: a worker could not begin: {what}: {errors}")
        self.tally += tally_of(1, [Finding(column, what, self._kind, self._seed, number, errors)], self._next)
        self._next, self._left = self._next + self._step, self._left - 1

    def end(self) -> None:
        """Nothing is left of it."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


# --- in the worker ---------------------------------------------------------------------------------------------------


def work(share: Share) -> None:
    """Attempt after attempt."""
    folder = Path(share.folder)
    with open(folder / "state", "r+b") as file:
        state = mmap.mmap(file.fileno(), _STATE.size)
    attempt = importlib.import_module(share.module).make_try(folder)
    limit_memory()
    until = time.monotonic() + share.seconds
    found = 0
    with open(folder / "findings", "a") as findings:
        for done in range(share.count):
            number = share.first + done * share.step
            begun = time.monotonic()
            if begun > until:
                break
            used = time.process_time()
            _STATE.pack_into(state, 0, number, done, found, begun, used)
            this = Attempt(share.kind, share.seed, number, folder, random_of(share.kind, share.seed, number))
            for finding in tried(attempt, this):
                found += 1
                if found <= KEPT:
                    print(json.dumps(finding), file=findings, flush=True)
            _STATE.pack_into(state, 0, number, done + 1, found, begun, used)
    os._exit(0)


def tried(attempt: Try, this: Attempt) -> list[Finding]:
    """An attempt, what it costs included."""
    before = time.process_time()
    try:
        findings = list(attempt(this))
    except BaseException as fault:  # panics of other languages too
        findings = [this.found(TRACEBACK, in_short(fault), traceback.format_exc())]
    took = time.process_time() - before
    if took > COSTLY:
        findings.append(this.found(HUNG, f"took more than {COSTLY:g} s of CPU", f"{took:.1f} s"))
    return findings


def in_short(fault: BaseException) -> str:
    """An exception and where in the package it came from."""
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "mean_actor_critic" in frame.filename]
    where = f" in {Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}" if frames else ""
    return f"{type(fault).__name__}{where}"


def limit_memory() -> None:
    """From now on, no more than so much beyond what this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + ROOM
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def differing(this: Attempt, there: object, ones: Iterable[object], what: str) -> list[Finding]:
    """Lost, unless what is there is one of those that may be."""
    return [] if there in ones else [this.found(LOST, what, there)]


if __name__ == "__main__":
    work(Share(*json.loads(sys.argv[1])))
