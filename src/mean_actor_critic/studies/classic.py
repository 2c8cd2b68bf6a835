"""The paper's classic-control studies: five algorithms, 100 trials each."""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.progress import Watch
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.train import resume, train
from mean_actor_critic.spec.experiment import ALGORITHMS, SETTINGS, applicable_settings, make_experiment
from mean_actor_critic.spec.grid import Settings
from mean_actor_critic.spec.presets import require_reporting_seed, settings_for
from mean_actor_critic.studies.paper import Task
from mean_actor_critic.studies.stored import completed, require_asked, stored


def reproduce(
    task: Task,
    folder: Path,
    trials: int,
    episodes: int,
    seed: int,
    watch: Watch,
    winners: Mapping[str, Settings] | None = None,
) -> Iterator[tuple[Run, bool]]:
    """Yield each algorithm's run in the paper's order, and whether it was already there. Interrupted ones go on.

    Args:
        task: which study.
        folder: of its runs.
        trials: of each algorithm.
        episodes: of each trial.
        seed: of the trials; not one that searches use.
        watch: shows progress.
        winners: settings by algorithm, as a search found them; by default the presets.
    """
    require_reporting_seed(seed)
    environment = find_environment(task.environment)
    for algorithm in ALGORITHMS:
        path = folder / algorithm
        # all of them, so that no preset fills in what a search left at its default
        settings = (
            settings_for(environment.name, environment.max_episode_steps, algorithm)
            if winners is None
            else _complete(winners[algorithm], algorithm)
        )
        settings = {"max_episode_steps": environment.max_episode_steps, **settings}
        asked = make_experiment(
            task.environment, algorithm, trials, episodes, seed, settings, engine=environment.engine
        )
        there = stored(path, Run.load)
        require_asked(path, there is None or there.experiment == asked)
        fresh = functools.partial(
            train, task.environment, algorithm, trials=trials, episodes=episodes, seed=seed, out=path, **settings
        )
        yield completed(there, fresh, functools.partial(resume, path), watch, algorithm)


def require_same_study(folder: Path, trials: int, episodes: int, seed: int) -> None:
    """Raise an InputError if a folder holds runs of other trials, episodes or seed. To be asked before a search."""
    for algorithm in ALGORITHMS:
        there = stored(folder / algorithm, Run.load)
        asked = (trials, episodes, seed)
        same = there is None or asked == (there.experiment.trials, there.experiment.episodes, there.experiment.seed)
        require_asked(folder / algorithm, same)


def _complete(settings: Settings, algorithm: str) -> Settings:
    defaults = {name: SETTINGS[name].default for name in applicable_settings(algorithm) if name != "max_episode_steps"}
    return {**defaults, **settings}
