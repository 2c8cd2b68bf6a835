"""Searches over settings: a plan's cells trained one after the other, each written when it is finished."""

import dataclasses
import itertools
import json
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.engines import devices
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.engines.hosted_study import HostedStudy
from mean_actor_critic.engines.memory import memory_faults, need, require_memory
from mean_actor_critic.engines.study import choose_width
from mean_actor_critic.environments.catalogue import EnvironmentSpec, find_environment
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.spaces import fitted
from mean_actor_critic.errors import InputError, Interrupted
from mean_actor_critic.files import as_file_name, as_path, parsed_json
from mean_actor_critic.progress import Progress, Show, progress_display
from mean_actor_critic.runs import signals, store
from mean_actor_critic.runs.loop import GATHERING_SECONDS, Aside
from mean_actor_critic.spec.algorithms import ALGORITHMS, CRITIC
from mean_actor_critic.spec.checks import checked_name, plain
from mean_actor_critic.spec.experiment import Experiment, hyper_names, make_experiment
from mean_actor_critic.spec.grid import Grid, grid_from_json
from mean_actor_critic.spec.presets import SEARCH_SEEDS, start_from
from mean_actor_critic.studies.sweep import (
    CELLS,
    HALVING,
    LEARNER,
    PLAN,
    Cell,
    CellResult,
    Plan,
    Sweep,
    checked_algorithms,
    checked_rung,
    create_sweep,
    is_sweep,
    plan_from_json,
)

ADVICE = "the same command goes on from here"
KEEP = 1 / 3


def make_plan(
    environment: str,
    algorithms: Sequence[str],
    grid: Grid,
    trials: int,
    episodes: int,
    *,
    rule: str = "asymptotic",
    halving: str | None = None,
    seed: int = SEARCH_SEEDS.start,
) -> Plan:
    """A checked plan: exhaustive, or by successive halving (Jamieson & Talwalkar, 2016) over `HALVING`.

    Raises:
        InputError: something cannot be used.
    """
    last = checked_rung(trials, episodes)
    if halving is not None:
        checked_name("halving", halving, HALVING)
    if halving is None:
        rungs = [last]
    elif halving == "trials":
        if trials < 2:
            raise InputError("trials", trials, "several, to be halved")
        rungs = [last._replace(trials=math.ceil(trials * share)) for share in (1 / 5, 1 / 2, 1)]
    else:
        if episodes < 3:
            raise InputError("episodes", episodes, "several, to be halved")
        rungs = [last._replace(episodes=math.ceil(episodes * share)) for share in (1 / 9, 1 / 3, 1)]
    plan = Plan(environment, tuple(algorithms), grid, tuple(dict.fromkeys(rungs)), KEEP, rule, seed)
    return plan_from_json(plan.to_json())


def started(grid: Grid, environment: EnvironmentSpec, algorithms: Sequence[str]) -> Grid:
    """A user's grid, whose points start from the settings that `train` would start from."""
    start = {name: start_from(environment.name, name, engine=environment.engine).settings for name in algorithms}
    return grid._replace(start={name: settings for name, settings in start.items() if settings})


def sweep(
    environment: str,
    grid: Mapping[str, Any],
    algorithm: str | Sequence[str] = "mac",
    *,
    trials: int = 10,
    episodes: int = 200,
    rule: str = "asymptotic",
    halving: str | None = None,
    seed: int = SEARCH_SEEDS.start,
    out: str | Path | None = None,
    progress: bool = True,
) -> Sweep:
    """Search the settings of algorithms on an environment; the same call goes on where one was interrupted.

    Args:
        environment: as for `train`, by name.
        grid: setting to the values to try, such as {"hidden": [[64], [128]], "lr": [0.001, 0.01]}, where `lr` is both
            learning rates; or {"choices": …, "fixed": …}. Everything else is as `train` has it.
        algorithm: one, or several.
        trials: of each setting.
        episodes: of each trial.
        rule: who wins: "asymptotic" or "area".
        halving: stop hopeless settings early, by "trials" or "episodes"; None to train all.
        seed: one that searches use: reported results have others.
        out: the sweep folder; by default runs/sweep-ENVIRONMENT.
        progress: show a progress bar.

    Returns:
        The search, with `winners()`, `outcomes()` and what was planned.
    """
    algorithms = checked_algorithms([algorithm] if isinstance(algorithm, str) else algorithm)
    chosen = started(_as_grid(grid), find_environment(environment), algorithms)
    planned = make_plan(environment, algorithms, chosen, trials, episodes, rule=rule, halving=halving, seed=seed)
    folder = as_path("out", f"{store.RUNS}/sweep-{as_file_name(environment)}" if out is None else out)
    with progress_display(quiet=not progress) as watch:
        for _ in search(folder, planned, watch(f"sweep {environment}")):
            pass
    return Sweep.load(folder).by(rule)


def _as_grid(given: Any) -> Grid:
    """The grid that a user wrote in Python: values to try by setting, or as in a file.

    Raises:
        InputError: it is none.
    """
    if not isinstance(given, Mapping):
        raise InputError("grid", given, "values to try, by setting")
    document = given if "choices" in given else {"choices": {name: list(plain(v)) for name, v in given.items()}}
    try:
        return grid_from_json(parsed_json(json.dumps(document)))
    except InputError:
        raise
    except (TypeError, ValueError, RecursionError):  # of values that no file could hold
        raise InputError("grid", given, "values to try, by setting, as JSON has them") from None


class Done(NamedTuple):
    """A cell that has just been finished, or was there."""

    cell: Cell
    reused: bool


@dataclasses.dataclass(frozen=True)
class CellExperiment(Experiment):
    """The trials of all points of a cell, point by point. Every point has the same trials, by their numbers."""

    trials_of_point: int = 1

    def trial_numbers(self) -> np.ndarray[Any, Any]:
        """The number of each trial [trials]: not of its place, so that it does not matter who else is in the cell."""
        place = np.arange(self.trials, dtype=np.int32)
        return np.asarray(self.first_trial + place % self.trials_of_point, np.int32)


def search(path: Path, plan: Plan, show: Show | None = None) -> Iterator[Done]:
    """Train what a plan asks for and is not there yet, yielding each cell.

    Args:
        path: the sweep folder: new, empty, or of the same plan.
        plan: what to train.
        show: called after every segment; counts in units of work, not episodes: cells differ in what they cost.

    Raises:
        InputError: the folder holds another sweep, or the seed is one that reported results use.
        Interrupted: a signal came; finished cells are on disk.
    """
    if plan.seed not in SEARCH_SEEDS:
        allowed = f"one from {SEARCH_SEEDS.start}: those below are for results that are reported"
        raise InputError("seed", plan.seed, allowed)
    steps = plan.grid.fixed.get("max_episode_steps")
    environment = find_environment(plan.environment, max_episode_steps=steps)
    for algorithm in plan.algorithms:  # every value is checked before anything is trained
        for point in plan.grid.points(algorithm):
            _experiment(environment, plan, algorithm, point, 1, 1, {})
    new = None if is_sweep(path) else store.missing_folders(path)
    sweep = _open(path, plan, environment)
    with memory_faults("search"), store.sole_writer(path, CELLS), signals.listening() as listener:
        try:
            yield from _Worker(sweep, environment, listener, show).all_cells()
        except Exception:  # a signal is none: that search can go on
            if new is not None and not sweep.begun:
                store.withdraw(path, PLAN, new)
            raise


def _open(path: Path, plan: Plan, environment: EnvironmentSpec) -> Sweep:
    versions = devices.versions(environment.engine)
    if not is_sweep(path):
        return create_sweep(path, plan, versions)
    sweep = Sweep.load(path)
    other = ", ".join(name for name in Plan._fields if getattr(sweep.plan, name) != getattr(plan, name))
    if other and not (other == "rule" and len(plan.rungs) == 1):  # without rounds a rule says who wins, no more
        raise InputError("out", str(path), f"a folder without another search: the plan of this one has other {other}")
    changed = devices.changes(sweep.versions, environment.engine)
    if changed:
        warnings.warn(f"the low bits of the results may change with {', '.join(changed)}", stacklevel=2)
    return sweep


def _experiment(
    environment: EnvironmentSpec,
    plan: Plan,
    algorithm: str,
    settings: dict[str, Any],
    trials: int,
    episodes: int,
    numbers: dict[str, Any],
) -> Experiment:
    every = {"max_episode_steps": environment.max_episode_steps, **settings, **numbers}
    engine = environment.engine
    experiment = make_experiment(environment.name, algorithm, trials, episodes, plan.seed, every, engine=engine)
    return fitted(experiment, environment.by(experiment.rules).spaces)


class _Worker:
    """Trains cells, and knows how much of the work is done."""

    def __init__(
        self, sweep: Sweep, environment: EnvironmentSpec, listener: signals.Listener, show: Show | None
    ) -> None:
        self._sweep, self._environment, self._listener, self._show = sweep, environment, listener, show
        self._aside = Aside(listener, ADVICE)
        self._done = 0.0  # in units of work
        self._total = sum(map(self._planned, sweep.plan.algorithms))

    def all_cells(self) -> Iterator[Done]:
        try:
            for algorithm in self._sweep.plan.algorithms:
                for cell in self._sweep.cells(algorithm):
                    reused = self._sweep.is_whole(cell)
                    if not reused:
                        self._train(cell)
                    self._done += self._work(cell)
                    yield Done(cell, reused)
        finally:
            self._aside.close()

    def _train(self, cell: Cell) -> None:
        started = time.perf_counter()
        study = self._aside.begun(lambda: self._study(cell))
        try:
            while not study.finished:
                progress = self._aside.call(study.advance)
                if self._listener.received is not None:
                    raise Interrupted(self._listener.received, ADVICE)
                self._report(cell, progress)
            arrays = self._aside.call(study.arrays, GATHERING_SECONDS)
        finally:
            study.close()
        shape = (len(cell.points), cell.trials)
        result = CellResult(
            returns=arrays["returns"].reshape(*shape, cell.episodes),
            diverged_at=arrays["state/diverged_at"].reshape(shape),
            seconds=time.perf_counter() - started,
        )
        self._sweep.write(cell, result)

    def _study(self, cell: Cell) -> CompiledStudy | HostedStudy:
        points = [self._sweep.points(cell.algorithm)[place] for place in cell.points]
        numbers = {
            name: [point[name] for point in points for _ in range(cell.trials)]
            for name in hyper_names(LEARNER)
            if name in points[0]
        }
        trials = len(points) * cell.trials
        plain = _experiment(
            self._environment, self._sweep.plan, cell.algorithm, cell.settings, trials, cell.episodes, numbers
        )
        fields = {field.name: getattr(plain, field.name) for field in dataclasses.fields(plain)}
        experiment = CellExperiment(**{**fields, "first_trial": cell.first_trial}, trials_of_point=cell.trials)
        width = self._width(experiment, cell)
        require_memory(need(experiment, self._environment.spaces, writes=False), "search")
        environment = self._environment.by(experiment.rules)
        if environment.engine == "hosted":
            return HostedStudy(experiment, environment, width, None, WorkerLimits())
        return CompiledStudy(experiment, environment, width, None, shared_program=True)

    def _width(self, experiment: Experiment, cell: Cell) -> int:
        """That of the first rung, halved while a later and narrower one leaves half of it empty.

        So that the rungs of a network share a few widths, and with them compilations.
        """
        everyone = max(first.trials * len(first.points) for first in self._sweep.cells_of(cell.algorithm, 0))
        width = choose_width(experiment, everyone)
        at_once = choose_width(experiment)
        while -(-width // 2) >= at_once and width > 1:
            width = -(-width // 2)
        return width

    # --- progress ----------------------------------------------------------------------------------------------------

    def _work(self, cell: Cell) -> float:
        """What a cell costs, roughly: episodes times weights, plus what an episode costs anyway. Hosted: episodes."""
        episodes = len(cell.points) * cell.trials * cell.episodes
        if self._environment.engine == "hosted":  # environments cost more than networks
            return episodes
        spaces = self._environment.spaces
        sizes = (spaces.observation_size, *cell.settings.get("hidden", (64,)), spaces.actions)
        weights = sum(a * b for a, b in itertools.pairwise(sizes))
        critic = 3.0 if CRITIC in ALGORITHMS[cell.algorithm].parts else 1.0
        return episodes * (weights + 500) * critic

    def _planned(self, algorithm: str) -> float:
        """The work of an algorithm, its higher rungs taken to be as costly as the first."""
        rung, points = self._sweep.plan.rungs[0], len(self._sweep.points(algorithm))
        first = sum(map(self._work, self._sweep.cells_of(algorithm, 0)))
        return first * self._sweep.plan.episodes(points) / (points * rung.trials * rung.episodes)

    def _report(self, cell: Cell, progress: Progress) -> None:
        if self._show:
            share = progress.done / progress.total
            done = self._done + share * self._work(cell)
            self._show(Progress(int(done), int(max(done, self._total)), progress.mean_return, progress.diverged))
