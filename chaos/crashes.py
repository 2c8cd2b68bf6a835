"""Crash points: at every file call of everything that is written, the process ends; readers see the old or the new.

A forked child writes, and ends amid its n-th file call: at once, as after a power cut or a kill, or by an exception
that no code knows, so that whatever cleans up is run. Half of what is written by a call may be on disk. The next writer
then finishes the work and finds nothing in its way.
"""

import builtins
import dataclasses
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from chaos.files import made
from chaos.harness import Attempt, Budget, Kind
from chaos.tally import LEFT, LOST, TRACEBACK, Finding, Tally
from chaos.workers import Try, in_workers

NAME = "crashes"
CRASHED, WHOLE, FAILED = 77, 0, 78  # how a child ends
CALLS = ("open", "rename", "replace", "fsync", "unlink", "remove", "mkdir", "rmdir", "ftruncate", "pwrite", "close",
         "write", "truncate", "link", "symlink")  # fmt: skip


class Crash(BaseException):
    """What no code knows."""


class Writing(NamedTuple):
    """Something that is written to a folder."""

    name: str
    source: str  # what is there before, of the true files
    write: Callable[[Path], object]
    read: Callable[[Path], Any]  # what readers see
    prepare: Callable[[Path], object] = lambda _: None  # what is changed of that


def run(budget: Budget, seed: int) -> Tally:
    """Crash at every point."""
    made(budget.folder)
    return in_workers("chaos.crashes", NAME, budget, seed)


KIND = Kind(
    NAME, "an end at one file call of a write: checkpoint, agent, cell, evaluation, manifest, theory", 1000, 0.1, run
)


def make_try(folder: Path) -> Try:
    """For a worker: what an attempt does."""
    corpus = folder.parent / "corpus"
    writings = all_writings(corpus)
    calls: dict[str, int] = {}
    states: dict[str, tuple[Any, Any]] = {}

    def attempt(this: Attempt) -> list[Finding]:
        writing = writings[this.number % len(writings)]
        place = folder / "place"
        if writing.name not in calls:
            before = _state(writing, _laid_out(writing, corpus, place))
            calls[writing.name] = _counted(writing, place, folder / "calls")
            states[writing.name] = before, _state(writing, place)
        before, after = states[writing.name]
        _laid_out(writing, corpus, place)
        # every point in its turn, then again in other ways
        turn = this.number // len(writings)
        point = turn % calls[writing.name] + 1
        way = ("exit", "exception")[turn // calls[writing.name] % 2] if turn < 2 * calls[writing.name] else None
        way = way or this.random.choice(("exit", "exception"))
        code = _in_a_child(lambda: _crashing(writing, place, point, way, this.random.random()))
        where = f"{writing.name}, {way} at call {point} of {calls[writing.name]}"
        if code not in (CRASHED, WHOLE):
            return [this.found(TRACEBACK, f"{writing.name}: the writer ended with {code}", where)]
        findings = []
        now = _state(writing, place)
        if now not in (before, after):
            findings.append(this.found(LOST, f"{writing.name}: neither the old nor the new", f"{where}: {now}"))
        if _in_a_child(lambda: _write(writing, place)) != WHOLE:
            findings.append(this.found(LOST, f"{writing.name}: cannot be written after a crash", where))
        elif (now := _state(writing, place)) != after:
            findings.append(this.found(LOST, f"{writing.name}: written again, it is another", f"{where}: {now}"))
        elif left := [str(file) for file in place.rglob(".*.tmp")]:
            findings.append(
                this.found(LEFT, f"{writing.name}: a temporary file, after the next writer", f"{where}: {left}")
            )
        return findings

    return attempt


def _laid_out(writing: Writing, corpus: Path, place: Path) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    if writing.source:
        shutil.copytree(corpus / writing.source, place)
    else:
        place.mkdir()
    writing.prepare(place)
    return place


def _state(writing: Writing, place: Path) -> Any:
    """What readers see, or the line that they end with."""
    from mean_actor_critic.errors import MacError

    try:
        return writing.read(place)
    except MacError as fault:
        return f"refused: {fault}"


# --- in a child ------------------------------------------------------------------------------------------------------


def _in_a_child(do: Callable[[], object]) -> int:
    """Do something in a forked child; how it ended."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            do()
            code = WHOLE
        except Crash:
            code = CRASHED
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _write(writing: Writing, place: Path) -> None:
    """As the next process does it, which holds the lock and thereby clears what the last one left."""
    from mean_actor_critic.runs import store

    with store.sole_writer(place, "agents", "cells"):
        writing.write(place)


def _counted(writing: Writing, place: Path, file: Path) -> int:
    """File calls of an undisturbed write."""

    def count() -> None:
        calls = Calls(0, "count", 0.0)
        with calls:
            _write(writing, place)
        file.write_text(str(calls.seen))

    if _in_a_child(count) != WHOLE:
        raise RuntimeError(f"{writing.name} cannot be written undisturbed")
    return int(file.read_text())


def _crashing(writing: Writing, place: Path, point: int, way: str, share: float) -> None:
    with Calls(point, way, share):
        _write(writing, place)


class Calls:
    """Counts file calls, in the place of the true ones, and ends the process at one of them.

    `way` is "exit"; "exception", after which whatever clears up may do so; or "dead", an exception after which no file
    call does anything, which is what a kill looks like to the disk, without a process of its own.
    """

    def __init__(self, point: int, way: str, share: float) -> None:
        self.point, self.way, self.share, self.seen, self.crashed = point, way, share, 0, False
        self._true = {name: getattr(os, name) for name in CALLS}
        self._open = io.open

    def __enter__(self) -> None:
        for name, call in self._true.items():
            setattr(os, name, self._counting(call))
        io.open = builtins.open = self._opening  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        for name, call in self._true.items():
            setattr(os, name, call)
        io.open = builtins.open = self._open  # type: ignore[assignment]

    def _counting(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **more: Any) -> Any:
            if call is self._true["close"] and self.way == "dead":  # the system closes what the dead have left open
                call(*arguments, **more)
                return self._at_a_call()
            self._at_a_call()
            return call(*arguments, **more)

        return counted

    def _opening(self, *arguments: Any, **more: Any) -> Any:
        mode = more.get("mode", arguments[1] if len(arguments) > 1 else "r")
        if isinstance(mode, str) and set(mode) & set("wxa+"):
            self._at_a_call()
            return _Half(self._open(*arguments, **more), self)
        return self._open(*arguments, **more)

    def _at_a_call(self) -> None:
        self.seen += 1
        if self.crashed and self.way == "dead":  # who is dead clears nothing up
            raise Crash
        if self.seen == self.point and not self.crashed:
            self.crash()

    def crash(self) -> None:
        """The end: of the process, or of all that does not catch everything."""
        self.crashed = True
        if self.way == "exit":
            os._exit(CRASHED)
        raise Crash


class _Half:
    """A file of which a write may be half done when the process ends."""

    def __init__(self, file: Any, calls: Calls) -> None:
        self._file, self._calls = file, calls

    def write(self, content: Any) -> int:
        calls = self._calls
        calls.seen += 1
        if calls.crashed and calls.way == "dead":
            raise Crash
        if calls.seen == calls.point and not calls.crashed:
            self._file.write(content[: int(calls.share * len(content))])
            self._file.flush()
            calls.crash()
        return self._file.write(content)

    def __enter__(self) -> "_Half":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __iter__(self) -> Any:
        return iter(self._file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


# --- what is written -------------------------------------------------------------------------------------------------


def all_writings(corpus: Path) -> list[Writing]:
    """Everything that the package writes, by the functions that it is written with."""
    from mean_actor_critic.files import folder_within
    from mean_actor_critic.gradients.theory import read_theory, write_theory
    from mean_actor_critic.reports.search import write_summary
    from mean_actor_critic.runs import store
    from mean_actor_critic.runs.run import Run
    from mean_actor_critic.studies.sweep import Sweep

    true = Run.load(corpus / "episodic")
    manifest, arrays = true.manifest, store.read_checkpoint(true.path, true.manifest).arrays
    assert arrays is not None
    other = {name: x + 1 if name == "returns" else x for name, x in arrays.items()}
    agent, sweep = true.agent(1), Sweep.load(corpus / "sweep")
    cell = next(iter(sweep.cells("mac")))
    result = sweep.read(cell)

    def begin(place: Path) -> None:
        if not (place / "new" / "manifest.json").exists():
            store.create_run(place / "new", manifest.experiment, manifest.spaces, manifest.width, manifest.versions)

    def extend(place: Path) -> None:
        there = store.read_manifest(place)
        if not there.extended:
            store.extend_run(place, there, there.experiment.extended(10))

    writings = [
        Writing(
            "checkpoint", "episodic",
            lambda place: store.write_checkpoint(place, manifest, 7, other),
            lambda place: (Run.load(place).digest, Run.load(place).warnings),
        ),
        Writing(
            "evaluation", "episodic",
            lambda place: agent.save(folder_within(place, "agents") / "best-0.safetensors"),
            lambda place: _agent_of(place / "agents" / "best-0.safetensors"),
        ),
        Writing(
            "agent", "",
            lambda place: agent.save(place / "a.safetensors"), lambda place: _agent_of(place / "a.safetensors"),
        ),
        Writing(
            "cell", "sweep", lambda place: Sweep.load(place).write(cell, result), _cells_of,
            lambda place: (place / "cells" / f"{cell.name}.safetensors").unlink(),
        ),
        Writing("run that begins", "", begin, _begun),
        Writing(
            "run made longer", "episodic", extend,
            lambda place: (Run.load(place).experiment.budget, Run.load(place).episodes_done.tolist()),
        ),
        Writing(
            "summary", "sweep", lambda place: write_summary(Sweep.load(place), place / "summary.csv"),
            lambda place: (place / "summary.csv").read_bytes() if (place / "summary.csv").exists() else None,
        ),
    ]  # fmt: skip
    if (corpus / "theory").exists():
        measured = dataclasses.replace(read_theory(corpus / "theory"), command="another one")
        writings.insert(6, Writing("theory", "theory", lambda place: write_theory(place, measured), _theory_of))
    return writings


def _theory_of(place: Path) -> Any:
    from mean_actor_critic.gradients.theory import read_theory

    return repr(read_theory(place))


def _agent_of(file: Path) -> Any:
    import numpy as np

    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.trees import named

    agent = Agent.load(file)
    return agent.trial, {name: np.asarray(x).tobytes() for name, x in named(agent.networks).items()}


def _cells_of(place: Path) -> Any:
    from mean_actor_critic.studies.sweep import Sweep

    sweep = Sweep.load(place)
    return sweep.digest, sorted(cell.name for cell in sweep.cells("mac") if sweep.is_done(cell)), sweep.results_digest


def _begun(place: Path) -> Any:
    from mean_actor_critic.runs.run import Run

    file = place / "new" / "manifest.json"
    return json.dumps(Run.load(place / "new").experiment.to_json()) if file.exists() else None
