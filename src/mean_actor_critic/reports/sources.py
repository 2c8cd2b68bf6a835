"""What a report is about: runs and sweeps of one task, or runs on several, found where its reader points.

Runs on several tasks are judged by their evaluations: those on Atari games, and those of learners that count steps.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.files import disk_faults
from mean_actor_critic.gradients.theory import Theory, is_theory, read_theory
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec import modern
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.paper import ATARI, CLASSIC_CONTROL, Game, Task
from mean_actor_critic.spec.presets import SEARCH_SEEDS
from mean_actor_critic.studies.sweep import Sweep, is_sweep
from mean_actor_critic.terminal import printable


class RunSource(NamedTuple):
    """A run, and what its reader calls it."""

    name: str  # the path as given
    run: Run

    @property
    def done(self) -> int:
        """Episodes that all of its trials have."""
        return int(self.run.episodes_done.min())

    @property
    def algorithm(self) -> str:
        """The name of its algorithm."""
        return self.run.experiment.algorithm

    @property
    def on_game(self) -> bool:
        """Whether the run is counted in updates, keeps no single episodes and is judged by its evaluations."""
        return self.run.experiment.is_game

    @property
    def is_evaluated(self) -> bool:
        """Whether all of its trials were evaluated."""
        return bool(self.run.evaluations.evaluated.min())

    @property
    def has_results(self) -> bool:
        """Whether all of its trials have played an episode or, on games, were evaluated."""
        return self.is_evaluated if self.on_game else bool(self.done)

    @property
    def by_evaluations(self) -> bool:
        """Whether it can be compared by its evaluations: it counts steps and is evaluated, but not on a game."""
        experiment = self.run.experiment
        return experiment.counts_updates and not experiment.is_game and experiment.evaluations > 0


class SweepSource(NamedTuple):
    """A sweep, and what its reader calls it."""

    name: str
    sweep: Sweep


class TheorySource(NamedTuple):
    """What was measured of estimators, and what its reader calls it."""

    name: str
    theory: Theory


class Sources(NamedTuple):
    """Runs, sweeps and measurements of one task; or runs on one or several Atari games, or on one or several tasks."""

    environment: str  # in words
    task: Task | None  # the paper's, if it is one of them
    runs: list[RunSource]  # in the paper's order of algorithms
    sweeps: list[SweepSource]
    # what the command that trained them says of each, by its folder; None: a report of what was found
    origins: Mapping[Path, str] | None = None
    theories: tuple[TheorySource, ...] = ()

    @property
    def on_games(self) -> bool:
        """Whether the runs are on Atari games."""
        return any(source.on_game for source in self.runs)

    @property
    def on_tasks(self) -> bool:
        """Whether the runs are compared by their evaluations, task by task."""
        return len(self.runs) > 1 and all(source.by_evaluations for source in self.runs)


def find_sources(paths: Sequence[str | Path]) -> Sources:
    """The runs and sweeps in some folders: each a run, a sweep, or a folder of these as `mac reproduce` makes.

    Raises:
        InputError: there is nothing to report, it is neither about one task nor of runs only that can be compared by
            their evaluations, or a result was run with a search's seed.
        DamagedFileError: a file is not what was written.
    """
    runs: dict[Path, RunSource] = {}  # by where they really are: what is named twice counts once
    sweeps: dict[Path, SweepSource] = {}
    theories: dict[Path, TheorySource] = {}
    for place in (place for path in paths for place in _places(Path(path))):
        where = Path(os.path.realpath(place))
        if is_theory(place):
            theories.setdefault(where, TheorySource(printable(place), read_theory(place)))
        if is_sweep(place):
            sweeps.setdefault(where, SweepSource(printable(place), Sweep.load(place)))
        elif where not in runs and os.path.lexists(place / "manifest.json"):
            runs[where] = RunSource(printable(place), Run.load(place))
    found = sorted(runs.values(), key=_order)
    for source in found:
        _require_reporting_seed(source)
    for sweep in sweeps.values():
        _require_search(sweep)
    _require_one_kind(
        found, [*(source.name for source in sweeps.values()), *(source.name for source in theories.values())]
    )
    _require_results(found, list(sweeps.values()), bool(theories))
    if found and found[0].on_game:
        return Sources(_games_in_words(found), None, found, [])
    on_tasks = Sources(_tasks_in_words(found), None, found, [])
    if on_tasks.on_tasks and not sweeps and not theories:
        return on_tasks
    environment, task = _one_task(found, list(sweeps.values()), list(theories.values()))
    return Sources(environment, task, found, list(sweeps.values()), theories=tuple(theories.values()))


def _order(source: RunSource) -> tuple[int, str, int, str, str]:
    """The order of the paper: of its games, then of its algorithms; what it does not have comes last, by name."""
    games, algorithms = [game.environment for game in ATARI.values()], list(ALGORITHMS)
    environment, algorithm = source.run.experiment.environment if source.on_game else "", source.algorithm
    return (
        games.index(environment) if environment in games else len(games),
        environment,
        algorithms.index(algorithm) if algorithm in algorithms else len(algorithms),
        algorithm,
        source.run.experiment.engine,
    )


def _require_one_kind(runs: Sequence[RunSource], others: Sequence[str]) -> None:
    """Raise an InputError if there are runs on games and also something that is not."""
    beside = [*(source.name for source in runs if not source.on_game), *others]
    if beside and any(source.on_game for source in runs):
        raise InputError("RUN", beside[0], "runs on Atari games, or runs that count episodes, but not both")


def _require_results(runs: Sequence[RunSource], sweeps: Sequence["SweepSource"], measured: bool) -> None:
    """Raise an InputError if nothing has come out yet."""
    if measured or any(source.has_results for source in runs) or any(source.sweep.begun for source in sweeps):
        return
    given = [*(source.name for source in runs), *(source.name for source in sweeps), "nothing"][0]
    allowed = "a run whose trials have all played an episode, or a sweep of which something has been trained"
    if runs and runs[0].on_game:
        allowed = "a run whose trials were all evaluated once"
    raise InputError("RUN", given, allowed)


def _places(folder: Path) -> list[Path]:
    """The folder itself if it is a run or a sweep, else those in it that are, and what was measured of them.

    The study of Atari games has a folder for each game, and the runs in these.
    """
    if _is_place(folder):
        return [folder]
    folders = _folders_in(folder)
    inside = list(filter(_is_place, folders)) or [
        place for game in folders for place in _folders_in(game) if _is_place(place)
    ]
    inside += [folder] if is_theory(folder) else []
    if not inside:
        raise InputError("RUN", str(folder), "a run folder, a folder of run folders, or a sweep folder")
    return inside


def _folders_in(folder: Path) -> list[Path]:
    with disk_faults(folder, "read"):
        return sorted(path for path in folder.iterdir() if os.path.isdir(path)) if os.path.isdir(folder) else []


def _is_place(folder: Path) -> bool:
    return is_sweep(folder) or os.path.lexists(folder / "manifest.json")


def _require_reporting_seed(source: RunSource) -> None:
    seed = source.run.experiment.seed
    if seed in SEARCH_SEEDS:
        allowed = f"runs with seeds below {SEARCH_SEEDS.start}: {seed} is one that settings are searched with"
        raise InputError("RUN", source.name, allowed)


def _require_search(source: SweepSource) -> None:
    if source.sweep.plan.seed not in SEARCH_SEEDS:
        allowed = f"sweeps with seeds from {SEARCH_SEEDS.start}: those below are for results that are reported"
        raise InputError("RUN", source.name, allowed)


# --- the task --------------------------------------------------------------------------------------------------------


def game_of(environment: str) -> Game | None:
    """The game of the paper's Table 2; None if it is not in there."""
    return next((game for game in ATARI.values() if game.environment == environment), None)


def title_of_game(environment: str) -> str:
    """What the paper calls a game, or else its own name."""
    game = game_of(environment)
    return game.title if game else environment


def _games_in_words(runs: Sequence[RunSource]) -> str:
    names = list(dict.fromkeys(source.run.experiment.environment for source in runs))
    return printable(title_of_game(names[0])) if len(names) == 1 else f"{len(names)} Atari games"


def title_of_task(experiment: Experiment) -> str:
    """What the study of the replayed learner calls an experiment's environment, or else its own name."""
    name = modern.task_of(experiment)
    return modern.TASKS[name].title if name else printable(str(place_of(experiment)))


def _tasks_in_words(runs: Sequence[RunSource]) -> str:
    titles = dict.fromkeys(title_of_task(source.run.experiment) for source in runs)
    return "".join(titles) if len(titles) == 1 else f"{len(titles)} tasks"


class Place(NamedTuple):
    """Where returns come from. Those of different places are not compared."""

    environment: str
    kwargs: str
    steps: int | None  # time limit of an episode; None: not known

    def __str__(self) -> str:
        kwargs = f" with {self.kwargs}" if self.kwargs != "{}" else ""
        return f"{self.environment}{kwargs}" + (f" (at most {self.steps} steps an episode)" if self.steps else "")


def _one_task(
    runs: Sequence[RunSource], sweeps: Sequence[SweepSource], theories: Sequence[TheorySource]
) -> tuple[str, Task | None]:
    places = [(source.name, place_of(source.run.experiment)) for source in runs]
    places += [
        (name, Place(plan.environment, "{}", plan.grid.fixed.get("max_episode_steps", _usual_steps(plan.environment))))
        for name, plan in ((source.name, source.sweep.plan) for source in sweeps)
    ]
    places += [(name, Place(trial.environment, "{}", None)) for name, theory in theories for trial in theory.trials]
    if not places:
        return "Finite problems", None
    # one whose limit is known, if there is any, so that all others are held against it
    first_name, first = next(((name, place) for name, place in places if place.steps), places[0])
    for name, place in places:
        if place._replace(steps=place.steps or first.steps) != first:
            allowed = f"runs and sweeps of one task: this one is on {place}, {first_name} on {first}"
            raise InputError("RUN", name, printable(allowed))
    task = next((task for task in CLASSIC_CONTROL.values() if task.environment == first.environment), None)
    if task is not None and (first.kwargs != "{}" or first.steps not in (None, task.steps)):
        task = None  # an environment of the paper, made easier or harder
    return printable(first.environment if task else str(first)), task


def _usual_steps(environment: str) -> int | None:
    """An environment's own time limit, if Gymnasium knows of one."""
    import gymnasium  # slow to import

    spec = gymnasium.registry.get(environment)
    return spec.max_episode_steps if spec else None


def place_of(experiment: Experiment) -> Place:
    """Where an experiment's returns come from."""
    kwargs: Any = json.dumps(dict(experiment.environment_kwargs), sort_keys=True)
    return Place(experiment.environment, kwargs, experiment.rules.max_episode_steps)
