"""The paper's Atari study: A2C and MAC on six games."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mean_actor_critic.atari_experiment import make_atari_experiment, preset
from mean_actor_critic.atari_run import AtariRun
from mean_actor_critic.environments.atari import find_game
from mean_actor_critic.errors import InputError
from mean_actor_critic.presets import require_reporting_seed
from mean_actor_critic.progress import Watch
from mean_actor_critic.studies.paper import Game
from mean_actor_critic.training.atari_loop import resume_atari, train_atari


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
    asked = {}
    for name, game in games.items():
        for algorithm in algorithms:
            chosen = {**preset(algorithm, protocol), **(settings or {})}
            experiment = make_atari_experiment(game.environment, algorithm, trials, steps, seed, chosen)
            find_game(experiment.setup)
            path = folder / name / algorithm
            if (path / "manifest.json").exists() and AtariRun.load(path).experiment != experiment:
                allowed = f"a folder without another study; {path} was run with other settings"
                raise InputError("out", str(folder), allowed)
            asked[path] = (f"{name} {algorithm}", game, algorithm, chosen)
    for path, (label, game, algorithm, chosen) in asked.items():
        there = AtariRun.load(path) if (path / "manifest.json").exists() else None
        if there is None:
            yield (
                train_atari(
                    game.environment,
                    algorithm,
                    trials=trials,
                    steps=steps,
                    seed=seed,
                    threads=threads,
                    out=path,
                    on_progress=watch(label),
                    **chosen,
                ),
                False,
            )
        elif there.finished:
            yield there, True
        else:
            yield resume_atari(path, threads=threads, on_progress=watch(label)), False
