"""The paper's Atari study: A2C and MAC on six games."""

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mean_actor_critic.environments.atari import find_game
from mean_actor_critic.progress import Watch
from mean_actor_critic.runs.atari_run import AtariRun
from mean_actor_critic.runs.train_atari import resume_atari, train_atari
from mean_actor_critic.spec.atari_experiment import make_atari_experiment, preset
from mean_actor_critic.spec.presets import require_reporting_seed
from mean_actor_critic.studies.paper import Game
from mean_actor_critic.studies.stored import completed, require_asked, stored


def reproduce(
    games: Mapping[str, Game],
    algorithms: Sequence[str],
    folder: Path,
    trials: int,
    steps: int,
    seed: int,
    watch: Watch,
    protocol: str = "paper",
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Iterator[tuple[AtariRun, bool]]:
    """Yield the run of each game and algorithm, and whether it was already there. Interrupted ones go on.

    Args:
        games: by the names of their folders.
        algorithms: on each of them.
        folder: of the study; a run is in folder/game/algorithm.
        trials: of each.
        steps: agent steps of each trial.
        seed: of the trials.
        watch: shows progress.
        protocol: "paper" or "machado".
        threads: that step a trial's emulators.
        settings: that differ from the protocol's.
    """
    require_reporting_seed(seed)
    asked = []
    for name, game in games.items():
        for algorithm in algorithms:
            chosen = {**preset(algorithm, protocol), **(settings or {})}
            experiment = make_atari_experiment(game.environment, algorithm, trials, steps, seed, chosen)
            find_game(experiment.setup)
            path = folder / name / algorithm
            there = stored(path, AtariRun.load)
            require_asked(path, there is None or there.experiment == experiment)
            whole: dict[str, Any] = {"trials": trials, "steps": steps, "seed": seed, "threads": threads, "out": path}
            train = functools.partial(train_atari, game.environment, algorithm, **whole, **chosen)
            resume = functools.partial(resume_atari, path, threads=threads)
            asked.append((path, train, resume, f"{name} {algorithm}"))
    for path, train, resume, label in asked:  # whatever has come of it meanwhile
        yield completed(stored(path, AtariRun.load), train, resume, watch, label)
