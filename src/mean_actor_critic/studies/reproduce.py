"""The paper's comparisons: its algorithms on Cart Pole and Lunar Lander, 100 trials each, and on six Atari games.

And the study of the replayed learner on many tasks, which the paper does not have.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mean_actor_critic.engines import devices
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.progress import Watch
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.train import plan
from mean_actor_critic.spec import modern as modern_study
from mean_actor_critic.spec import paper
from mean_actor_critic.spec.experiment import Experiment, applicable_settings, settings_for_engine
from mean_actor_critic.spec.grid import Settings
from mean_actor_critic.spec.paper import Game, Task
from mean_actor_critic.spec.presets import require_reporting_seed
from mean_actor_critic.studies.stored import completed, require_asked, stored


class Part(NamedTuple):
    """One run of a study."""

    path: Path
    experiment: Experiment
    label: str


def classic(
    task: Task,
    folder: Path,
    trials: int,
    episodes: int,
    seed: int,
    winners: Mapping[str, Settings] | None = None,
    algorithms: Sequence[str] = paper.COMPARED,
) -> list[Part]:
    """The runs of a classic-control study, in the paper's order.

    Args:
        task: which study.
        folder: of its runs.
        trials: of each algorithm.
        episodes: of each trial.
        seed: of the trials; not one that searches use.
        winners: settings by algorithm, as a search found them; by default the presets.
        algorithms: that are compared.
    """
    require_reporting_seed(seed)
    found = []
    for algorithm in algorithms:
        # all of them, so that no preset fills in what a search left at its default
        settings = {} if winners is None else {**_defaults(algorithm), **winners[algorithm]}
        experiment = plan(
            task.environment, algorithm, trials=trials, episodes=episodes, seed=seed, settings=settings
        ).experiment
        found.append(Part(folder / algorithm, experiment, algorithm))
    return found


def _defaults(algorithm: str) -> Settings:
    settings = settings_for_engine("compiled")
    names = [name for name in applicable_settings(algorithm) if name != "max_episode_steps"]
    return {name: settings[name].default for name in names}


def atari(
    games: Mapping[str, Game],
    algorithms: Sequence[str],
    folder: Path,
    trials: int,
    steps: int,
    seed: int,
    protocol: str = "paper",
    settings: Mapping[str, Any] | None = None,
) -> list[Part]:
    """The runs of the Atari study.

    Args:
        games: by the names of their folders.
        algorithms: on each of them.
        folder: of the study; a run is in folder/game/algorithm.
        trials: of each.
        steps: agent steps of each trial.
        seed: of the trials.
        protocol: "paper" or "machado".
        settings: that differ from the protocol's.
    """
    require_reporting_seed(seed)
    return [
        Part(
            folder / name / algorithm,
            plan(
                game.environment,
                algorithm,
                trials=trials,
                steps=steps,
                seed=seed,
                settings=settings or {},
                protocol=protocol,
            ).experiment,
            f"{name} {algorithm}",
        )
        for name, game in games.items()
        for algorithm in algorithms
    ]


def modern(
    tasks: Sequence[str], variants: Sequence[str], folder: Path, extent: modern_study.Extent
) -> dict[str, list[Part]]:
    """The runs of the study of the replayed learner, by task.

    Args:
        tasks: by their names in `spec.modern`.
        variants: on each of them.
        folder: of the study; a run is in folder/task/variant.
        extent: how much of it.
    """
    modern_study.require_untuned_seed(extent.seed)
    found: dict[str, list[Part]] = {}
    for name in tasks:
        task = modern_study.TASKS[name]
        environment = find_environment(task.environment, kwargs=task.kwargs)  # once: hosted ones take a moment
        found[name] = [
            Part(
                folder / name / variant,
                plan(
                    task.environment, found=environment, **modern_study.arguments_of(task, variant, extent)
                ).experiment,
                f"{name} {variant}",
            )
            for variant in variants
        ]
    return found


def reproduce(parts: Sequence[Part], watch: Watch) -> Iterator[tuple[Run, bool]]:
    """Yield the run of each part, and whether it was already there. Interrupted ones go on."""
    for part in parts:  # before anything is trained
        there = stored(part.path)
        require_asked(part.path, there is None or there.experiment == part.experiment)
    for part in parts:
        run, reused = completed(part.path, part.experiment, watch, part.label)
        if not reused:
            devices.forget_programs()
        yield run, reused


def require_same_study(folder: Path, trials: int, episodes: int, seed: int) -> None:
    """Raise an InputError if a folder holds runs of other trials, episodes or seed. To be asked before a search."""
    for algorithm in paper.COMPARED:
        there = stored(folder / algorithm)
        asked = (trials, episodes, seed)
        same = there is None or asked == (there.experiment.trials, there.experiment.episodes, there.experiment.seed)
        require_asked(folder / algorithm, same)
