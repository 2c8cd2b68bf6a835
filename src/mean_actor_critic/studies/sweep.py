"""A sweep: a search over settings on disk, as its readers see it, and the plan that it follows. Imports no JAX.

A sweep folder holds
    sweep.json                       the plan and versions; written once
    cells/<name>.safetensors         the learning curves of one cell, each written whole when it is finished
    lock                             held by the process that writes here

A cell is what one compiled program trains at once: the points of the grid that differ only in numbers, with all their
trials. A rung is a round of the search; the exhaustive search is one rung. Which points climb to the next rung follows
from the cells of the last, so that plan and cells are all there is to know.
"""

import itertools
import json
import math
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.files import disk_faults, folder_within, now
from mean_actor_critic.runs import store
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.checks import require_whole, unknown_name
from mean_actor_critic.spec.experiment import AMOUNTS, EPISODES_IN_ALL, TRIALS, hyper_names
from mean_actor_critic.spec.grid import Grid, Settings, grid_from_json
from mean_actor_critic.spec.learners import EPISODES

SWEEP_FORMAT = "mean_actor_critic sweep 1"
CELL_FORMAT = "mean_actor_critic cell 1"
PLAN, CELLS = "sweep.json", "cells"
LEARNER = "episodic"  # whose settings are searched
MOST_RUNGS, MOST_NAMES = 20, 100
MOST_TRAININGS = 1000  # in a cell, unless a single point has more trials: an interruption costs a cell at most
ASYMPTOTE = 0.25  # the share of a training, at its end, that counts as asymptotic

Array = np.ndarray[Any, Any]

RULES = {
    "asymptotic": f"mean return of the last {ASYMPTOTE:.0%} of the episodes",
    "area": "mean return of all episodes",
}


HALVING = {
    "trials": "settings get a fifth of their trials, the best third of them a half, the best third of those all",
    "episodes": "settings get a ninth of their episodes, the best third of them a third, the best third of those all",
}


def scores(returns: Array, rule: str) -> Array:
    """What a rule makes of learning curves [..., episodes]: [...]."""
    episodes = returns.shape[-1]
    first = episodes - math.ceil(ASYMPTOTE * episodes) if rule == "asymptotic" else 0
    return np.asarray(np.mean(returns[..., first:], axis=-1, dtype=np.float64))


class Rung(NamedTuple):
    """A round of the search: how long the points that are still in it are trained."""

    trials: int  # of each point
    episodes: int  # of each trial


class Plan(NamedTuple):
    """All that decides what a sweep trains."""

    environment: str
    algorithms: tuple[str, ...]
    grid: Grid
    rungs: tuple[Rung, ...]
    keep: float  # share of the points that climb to the next rung
    rule: str  # which ones, and who wins
    seed: int

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `plan_from_json` is the inverse."""
        rungs = [rung._asdict() for rung in self.rungs]
        algorithms = list(self.algorithms)
        return {**self._asdict(), "algorithms": algorithms, "grid": self.grid.to_json(), "rungs": rungs}

    def climbing(self, points: int) -> int:
        """How many of so many points climb."""
        return max(1, math.ceil(self.keep * points))

    def episodes(self, points: int, exhaustive: bool = False) -> int:
        """Episodes to play for an algorithm with so many points; `exhaustive`: if all were trained like the last."""
        last = self.rungs[-1]
        if exhaustive:
            return points * last.trials * last.episodes
        total, before = 0, Rung(0, 0)
        for rung in self.rungs:
            total += points * added_trials(before, rung) * rung.episodes
            points, before = self.climbing(points), rung
        return total


def plan_from_json(document: Any) -> Plan:
    """The plan that `to_json` described.

    Raises:
        InputError: a field is missing or cannot be used.
    """
    if not isinstance(document, dict) or set(document) != set(Plan._fields):
        raise InputError("plan", "its fields", ", ".join(Plan._fields))
    algorithms, rungs = document["algorithms"], document["rungs"]
    if not isinstance(document["environment"], str) or not isinstance(rungs, list) or not isinstance(algorithms, list):
        raise InputError("plan", "environment, rungs or algorithms", "a name, and lists")
    if not 1 <= len(rungs) <= MOST_RUNGS or len(algorithms) > len(ALGORITHMS):
        raise InputError("plan", "algorithms or rungs", f"each algorithm once, and up to {MOST_RUNGS} rungs")
    if not all(isinstance(rung, dict) and set(rung) == set(Rung._fields) for rung in rungs):
        raise InputError("plan", "rungs", "trials and episodes of each")
    keep = document["keep"]
    if not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise InputError("keep", keep, "a share from 0 to 1")
    climb = tuple(checked_rung(**rung) for rung in rungs)
    for before, rung in itertools.pairwise(climb):
        if not (rung.trials >= before.trials and rung.episodes >= before.episodes and rung != before):
            raise InputError("plan", "rungs", "more trials or episodes in each than in the one before")
    return Plan(
        document["environment"],
        tuple(checked_algorithms(algorithms)),
        grid_from_json(document["grid"]),
        climb,
        float(keep),
        checked_rule(document["rule"]),
        require_whole("seed", document["seed"], 0, 2**31 - 1),
    )


def checked_algorithms(names: Any) -> list[str]:
    """Names of algorithms, each once; an InputError if one is not."""
    if not isinstance(names, list | tuple) or len(names) > MOST_NAMES:
        raise InputError("algorithm", names, "names of algorithms")
    for name in names:
        known = [known for known, algorithm in ALGORITHMS.items() if LEARNER in algorithm.learners]
        if not isinstance(name, str) or name not in known:
            raise unknown_name("algorithm", name, known)
    return list(dict.fromkeys(names))


def checked_rule(rule: Any) -> str:
    """A name in `RULES`; an InputError if it is not."""
    if not isinstance(rule, str) or rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    return rule


def checked_rung(trials: Any, episodes: Any) -> Rung:
    """A rung; an InputError if its numbers cannot be used."""
    rung = Rung(require_whole("trials", trials, *TRIALS), require_whole("episodes", episodes, *AMOUNTS[EPISODES]))
    if rung.trials * rung.episodes > EPISODES_IN_ALL:
        raise InputError("trials × episodes", rung.trials * rung.episodes, f"up to {EPISODES_IN_ALL} of each setting")
    return rung


def added_trials(before: Rung, rung: Rung) -> int:
    """Trials that a point needs for a rung, beyond those of the rung before: longer episodes need all anew."""
    return rung.trials - before.trials if rung.episodes == before.episodes else rung.trials


class Cell(NamedTuple):
    """The unit of work and of storage: points that one program trains together."""

    name: str
    algorithm: str
    rung: int
    settings: Settings  # that all its points share
    points: tuple[int, ...]  # places in the grid's points of the algorithm
    first_trial: int
    trials: int  # of each point
    episodes: int  # of each trial


class CellResult(NamedTuple):
    """What came of a cell."""

    returns: Array  # [point, trial, episode] undiscounted
    diverged_at: Array  # [point, trial] episode from 1; 0: none
    seconds: float  # that it took, by the clock

    def arrays(self) -> dict[str, Array]:
        """The results themselves, by name."""
        return {"returns": self.returns, "diverged_at": self.diverged_at}


class Outcome(NamedTuple):
    """What came of one point of the grid: its longest training."""

    algorithm: str
    settings: Settings
    returns: Array  # [trial, episode]
    diverged_at: Array  # [trial]
    rung: int


class Sweep:
    """A search on disk, finished or not.

    Attributes:
        path: the sweep folder.
        plan: what is searched, and how.
        created: when it was begun, ISO 8601, UTC.
        versions: what the bits of the results depend on.
        digest: of the plan's file; cells name it, so that they cannot be mixed up between sweeps.
    """

    def __init__(self, path: Path, plan: Plan, created: str, versions: dict[str, str], digest: str) -> None:
        self.path, self.plan, self.created, self.versions, self.digest = path, plan, created, versions, digest
        self._points = {algorithm: plan.grid.points(algorithm) for algorithm in plan.algorithms}
        self._read: dict[str, CellResult] = {}
        self._climbed: dict[tuple[str, int], tuple[int, ...]] = {}  # the points of each rung beyond the first
        self._cells: dict[tuple[str, int], list[Cell]] = {}  # of each rung whose points are known

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The sweep in a folder.

        Raises:
            InputError: there is none.
            DamagedFileError: there is one, but its plan is not what was written.
        """
        folder = Path(path)
        file = folder / PLAN
        if not is_sweep(folder):
            raise InputError("sweep", str(path), "a sweep folder (with a sweep.json), as mac sweep makes")
        document, digest = store.read_document(file, SWEEP_FORMAT, {"plan", "created", "versions"})
        created, versions = document["created"], document["versions"]
        if not isinstance(versions, dict) or not all(isinstance(text, str) for text in (created, *versions.values())):
            raise DamagedFileError(f"{file}: is damaged: when it was begun, or its versions")
        try:
            return cls(folder, plan_from_json(document["plan"]), created, versions, digest)
        except InputError as fault:
            raise DamagedFileError(f"{file}: {fault}") from None

    def by(self, rule: str) -> Self:
        """The same search with its winners by another rule. For searches without rounds, where rules decide no more."""
        plan = self.plan._replace(rule=checked_rule(rule))
        return type(self)(self.path, plan, self.created, self.versions, self.digest)

    # --- cells -------------------------------------------------------------------------------------------------------

    def points(self, algorithm: str) -> list[Settings]:
        """The grid's points, by their places in cells."""
        return self._points[algorithm]

    def cells(self, algorithm: str) -> Iterator[Cell]:
        """The cells of an algorithm in the order of work; those of a higher rung once the one before is finished."""
        for rung in range(len(self.plan.rungs)):
            yield from self.cells_of(algorithm, rung)

    def cells_of(self, algorithm: str, number: int) -> list[Cell]:
        """The cells of a rung; none as long as it is not known who climbs to it."""
        alive = self._alive(algorithm, number)
        if alive is not None and (algorithm, number) not in self._cells:
            self._cells[algorithm, number] = self._grouped(algorithm, number, alive)
        return self._cells.get((algorithm, number), [])

    def _grouped(self, algorithm: str, number: int, alive: tuple[int, ...]) -> list[Cell]:
        rung = self.plan.rungs[number]
        trials = added_trials(self.plan.rungs[number - 1] if number else Rung(0, 0), rung)
        groups: dict[str, list[int]] = {}
        for place in alive if trials > 0 else ():
            groups.setdefault(_cell_name(algorithm, self._shared(algorithm, place), number), []).append(place)
        return [
            Cell(
                part_name,
                algorithm,
                number,
                self._shared(algorithm, part[0]),
                part,
                rung.trials - trials,
                trials,
                rung.episodes,
            )
            for name, places in groups.items()
            for part_name, part in _parts(name, places, max(1, MOST_TRAININGS // trials))
        ]

    def _shared(self, algorithm: str, place: int) -> Settings:
        return {
            name: value for name, value in self._points[algorithm][place].items() if name not in hyper_names(LEARNER)
        }

    def _alive(self, algorithm: str, rung: int) -> tuple[int, ...] | None:
        """The points of a rung; None as long as the rung before is not finished."""
        if rung == 0:
            return tuple(range(len(self._points[algorithm])))
        if (algorithm, rung) not in self._climbed:
            before = self._alive(algorithm, rung - 1)
            if before is None or not all(self.is_done(cell) for cell in self.cells_of(algorithm, rung - 1)):
                return None
            results = self._results(algorithm, rung - 1)
            of_point = {place: float(np.mean(scores(results[place][0], self.plan.rule))) for place in before}
            ranked = sorted(before, key=lambda place: (-of_point[place], place))
            self._climbed[algorithm, rung] = tuple(sorted(ranked[: self.plan.climbing(len(before))]))
        return self._climbed[algorithm, rung]

    def _results(self, algorithm: str, top: int) -> dict[int, tuple[Array, Array]]:
        """Returns [trial, episode] and divergences [trial] of all points, by their places, up to a rung."""
        found: dict[int, tuple[Array, Array]] = {}
        for cell in (cell for rung in range(top + 1) for cell in self.cells_of(algorithm, rung) if self.is_done(cell)):
            result = self.read(cell)
            for i, place in enumerate(cell.points):
                returns, diverged_at = result.returns[i], result.diverged_at[i]
                if cell.first_trial:  # added to those of the rung before
                    returns = np.concatenate([found[place][0], returns])
                    diverged_at = np.concatenate([found[place][1], diverged_at])
                found[place] = returns, diverged_at
        return found

    def _file(self, cell: Cell) -> Path:
        return self.path / CELLS / f"{cell.name}.safetensors"

    def is_done(self, cell: Cell) -> bool:
        """Whether its results are on disk."""
        return cell.name in self._read or os.path.lexists(self._file(cell))

    def is_whole(self, cell: Cell) -> bool:
        """Whether its results are on disk and can be read; a damaged file is set aside. Only for who holds the lock."""
        if not self.is_done(cell):
            return False
        try:
            self.read(cell)
        except DamagedFileError as fault:
            warnings.warn(f"{fault}; the cell is trained again", stacklevel=2)
            file = self._file(cell)
            with disk_faults(file, "set aside"):
                file.rename(file.with_name(f"{file.name}.damaged"))
            return False
        return True

    def write(self, cell: Cell, result: CellResult) -> None:
        """Put the results of a cell on disk."""
        folder_within(self.path, CELLS)
        words = {"format": CELL_FORMAT, **self._identity(cell), "seconds": f"{result.seconds:.3f}"}
        store.write_arrays(self._file(cell), result.arrays(), words)

    def _identity(self, cell: Cell) -> dict[str, str]:
        """Whose results a file holds: those of these points, whoever climbs later."""
        points = [self._points[cell.algorithm][place] for place in cell.points]
        return {"sweep": self.digest, "cell": cell.name, "points": store.digest_without_order({"points": points})}

    def read(self, cell: Cell) -> CellResult:
        """The results of a cell that is done.

        Raises:
            DamagedFileError: the file is not what was written.
        """
        if cell.name not in self._read:
            file = self._file(cell)
            shape = (len(cell.points), cell.trials, cell.episodes)
            form = {"returns": (shape, np.float32), "diverged_at": (shape[:2], np.int32)}

            def fits(words: dict[str, str], arrays: dict[str, Array]) -> None:
                if not self._identity(cell).items() <= words.items():
                    raise DamagedFileError(f"{file}: belongs to another sweep, or to other settings")
                if {name: (array.shape, array.dtype) for name, array in arrays.items()} != form:
                    raise DamagedFileError(f"{file}: does not fit the plan")

            arrays, words = store.read_arrays(file, CELL_FORMAT, fits)
            try:
                seconds = float(words.get("seconds", "nan"))
            except ValueError:
                seconds = math.nan
            if not 0 <= seconds < math.inf:
                raise DamagedFileError(f"{file}: does not say how long it took")
            self._read[cell.name] = CellResult(**arrays, seconds=seconds)
        return self._read[cell.name]

    # --- results -----------------------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether every cell of every rung is on disk."""
        return all(map(self.is_searched, self.plan.algorithms))

    def is_searched(self, algorithm: str) -> bool:
        """Whether every cell of an algorithm, in every rung, is on disk."""
        top = len(self.plan.rungs) - 1
        return self._alive(algorithm, top) is not None and all(map(self.is_done, self.cells_of(algorithm, top)))

    @property
    def begun(self) -> bool:
        """Whether any cell is on disk."""
        return any(self.is_done(cell) for algorithm in self.plan.algorithms for cell in self.cells_of(algorithm, 0))

    @property
    def seconds(self) -> float:
        """What training the finished cells took, by the clock, one after the other."""
        done = [cell for algorithm in self.plan.algorithms for cell in self.cells(algorithm) if self.is_done(cell)]
        return sum(self.read(cell).seconds for cell in done)

    def outcomes(self) -> list[Outcome]:
        """What came of each point that has been trained."""
        found = []
        for algorithm in self.plan.algorithms:
            done = filter(self.is_done, self.cells(algorithm))
            rung_of = {place: cell.rung for cell in done for place in cell.points}
            results = self._results(algorithm, len(self.plan.rungs) - 1)
            found += [
                Outcome(algorithm, self._points[algorithm][place], *results[place], rung_of[place])
                for place in sorted(results)
            ]
        return found

    def winners(self) -> dict[str, Outcome]:
        """The best point of each algorithm among those that climbed highest, by the plan's rule."""
        rule = self.plan.rule
        best: dict[str, Outcome] = {}
        for outcome in self.outcomes():
            now = best.get(outcome.algorithm)
            if now is None or _rank(outcome, rule) > _rank(now, rule):
                best[outcome.algorithm] = outcome
        return best

    @property
    def results_digest(self) -> str:
        """SHA-256 of everything that the finished cells hold: equal for sweeps with the same results."""
        arrays = {
            f"{cell.name}/{name}": array
            for algorithm in self.plan.algorithms
            for cell in self.cells(algorithm)
            if self.is_done(cell)
            for name, array in self.read(cell).arrays().items()
        }
        return store.digest_of_arrays(arrays, {})


def _rank(outcome: Outcome, rule: str) -> tuple[float, ...]:
    """Of equal ones, as several reach the highest return there is, the better by the other rule is better."""
    rules = sorted(RULES, key=lambda name: name != rule)
    return outcome.rung, *(float(np.mean(scores(outcome.returns, name))) for name in rules)


def is_sweep(path: Path) -> bool:
    """Whether a folder holds a sweep."""
    return os.path.isfile(path / PLAN)


def create_sweep(path: Path, plan: Plan, versions: dict[str, str]) -> Sweep:
    """Make the folder of a new sweep, or fill an empty one.

    Raises:
        InputError: the folder is in use.
        DiskError: the folder cannot be written.
    """
    document = {"format": SWEEP_FORMAT, "plan": plan.to_json(), "created": now(), "versions": versions}
    store.create_folder(path, PLAN, document)
    return Sweep.load(path)


def _cell_name(algorithm: str, settings: Settings, rung: int) -> str:
    """Such as mac-relu-32-100x100-adam-rung0: the values of all that a cell's points share, by their names' order."""
    words = [_in_a_word(value) for _, value in sorted(settings.items(), key=lambda item: item[0])]
    name = "-".join([algorithm, *words, f"rung{rung}"])
    return re.sub(r"[^\w.-]+", "_", name)


def _parts(name: str, places: Sequence[int], most: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names of parts of a group, and their points, at most so many; the group itself if it is small enough."""
    for number, start in enumerate(range(0, len(places), most)):
        yield name if len(places) <= most else f"{name}-part{number}", tuple(places[start : start + most])


def _in_a_word(value: Any) -> str:
    return ("x".join(map(str, value)) or "linear") if isinstance(value, tuple) else json.dumps(value).strip('"')
