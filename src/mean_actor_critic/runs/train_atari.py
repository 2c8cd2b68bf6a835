"""Runs on Atari games: measured in agent steps, evaluated on the way, resumable at any point."""

import shlex
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.files import as_file_name, disk_faults
from mean_actor_critic.trees import Arrays
from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.spec.atari_experiment import ENGINE, PAPERS_STEPS, AtariExperiment, make_atari_experiment, preset
from mean_actor_critic.runs.atari_run import AGENTS, BEST, KEPT, AtariRun
from mean_actor_critic.engines.curves import AtariCurves, mean_scores
from mean_actor_critic.environments.atari import Game, find_game
from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.experiment import require_whole
from mean_actor_critic.progress import Progress, Show
from mean_actor_critic.engines import devices
from mean_actor_critic.engines.vector_study import AtariStudy
from mean_actor_critic.runs.train import carry_on, check_seconds, free_folder
from mean_actor_critic.engines import devices
from mean_actor_critic.engines.vector_study import AtariStudy
from mean_actor_critic.runs.train import carry_on
from mean_actor_critic.runs.train import check_seconds
from mean_actor_critic.runs.train import free_folder
from mean_actor_critic.engines.memory import need
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.memory import require_memory

CHECKPOINT_SECONDS = 300.0  # a checkpoint of one trial has 15 megabytes
KEEP_EVERY = 25  # evaluations: the agent of every such one is kept, besides the best
THREADS = (1, 1024)

OnStart = Callable[[Path, Game], None]
HostArray = np.ndarray[Any, Any]
OnEvaluations = Callable[[AtariCurves, HostArray], None]


def train_atari(
    game: str,
    algorithm: str = "mac",
    *,
    trials: int = 1,
    steps: int = PAPERS_STEPS,
    seed: int = 0,
    first_trial: int = 0,
    protocol: str = "paper",
    threads: int | None = None,
    out: str | Path | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_progress: Show | None = None,
    on_start: OnStart | None = None,
    on_evaluations: OnEvaluations | None = None,
    **settings: Any,
) -> AtariRun:
    """Train `trials` agents on an Atari game and keep everything in a run folder.

    Args:
        game: such as "ALE/Pong-v5".
        algorithm: "mac", "advantage_actor_critic" (the paper's A2C) or "a2c" (Baselines').
        trials: how many; they take turns in one process.
        steps: agent steps of each trial, not frames: with the paper's settings four frames each.
        seed: trial i is a pure function of (seed, i, settings).
        first_trial: the number of the first trial, to add trials to a study or to run one again alone.
        protocol: "paper", or "machado" for sticky actions and whole games.
        threads: that step a trial's emulators; by default one per core. Their number changes no bits.
        out: the run folder, new or empty; by default one below `runs/`.
        checkpoint_seconds: between checkpoints; one is also written after every evaluation.
        on_progress: called after every segment.
        on_start: called once with the run folder and the game, before training begins.
        on_evaluations: called after every evaluation with the curves so far and the agent steps at each [evaluations].
        **settings: by the names of `mac train --help`; the rest are those of the protocol.
    """
    check_seconds(checkpoint_seconds)
    at_once = _threads(threads)
    experiment = make_atari_experiment(
        game, algorithm, trials, steps, seed, {**preset(algorithm, protocol), **settings}, first_trial
    )
    found = find_game(experiment.setup)
    versions = devices.versions(ENGINE)
    require_memory(need(experiment, found.spaces))
    path = Path(out) if out is not None else free_folder(f"{as_file_name(game)}-{algorithm}-seed{seed}")
    manifest = store.create_run(path, experiment, found.spaces, 1, versions)
    return _carry_on(
        path, manifest, experiment, found, at_once, checkpoint_seconds, on_progress, on_start, on_evaluations
    )


def resume_atari(
    path: str | Path,
    environment: Any = None,
    *,
    threads: int | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    on_progress: Show | None = None,
    on_evaluations: OnEvaluations | None = None,
) -> AtariRun:
    """Continue an interrupted run to its end. The results are those of a run that was never interrupted, bit for bit.

    Args:
        path: the run folder.
        environment: the game, if you like to say so; it must be the run's.
        threads: as for `train_atari`.
        checkpoint_seconds: as for `train_atari`.
        on_progress: called after every segment.
        on_evaluations: as for `train_atari`.
    """
    check_seconds(checkpoint_seconds)
    at_once = _threads(threads)
    folder = Path(path)
    manifest = store.read_manifest(folder)
    experiment = manifest.experiment
    if not isinstance(experiment, AtariExperiment):
        raise InputError("run", str(path), "a run on an Atari game; resume continues those that count episodes")
    game = find_game(experiment.setup, environment)
    if game.spaces.to_json() != manifest.spaces.to_json():
        raise InputError("environment", game.name, f"the game as training began with it: {manifest.spaces}")
    changed = devices.changes(manifest.versions, ENGINE)
    require_memory(need(experiment, game.spaces))
    if changed:
        warnings.warn(f"the low bits of the results may change with {', '.join(changed)}", stacklevel=2)
    return _carry_on(folder, manifest, experiment, game, at_once, checkpoint_seconds, on_progress, None, on_evaluations)


def _threads(threads: int | None) -> int:
    return 0 if threads is None else require_whole("threads", threads, *THREADS)


def _carry_on(
    path: Path,
    manifest: store.Manifest,
    experiment: AtariExperiment,
    game: Game,
    threads: int,
    checkpoint_seconds: float,
    on_progress: Show | None,
    on_start: OnStart | None,
    on_evaluations: OnEvaluations | None,
) -> AtariRun:
    def begin(saved: Arrays | None) -> AtariStudy:
        return AtariStudy(experiment, game, saved, threads)

    def show(study: AtariStudy, progress: Progress) -> None:
        for place in study.newly_evaluated:
            _keep_agent(path, manifest, study, place)
        if on_evaluations and study.newly_evaluated:
            on_evaluations(study.curves, experiment.evaluation_steps())
        if on_progress:
            on_progress(progress)

    def started() -> None:
        if on_start:
            on_start(path, game)

    checkpoint = carry_on(
        path,
        manifest,
        begin,
        show,
        f"mac resume {shlex.quote(str(path))}",
        checkpoint_seconds,
        started,
        is_due=lambda study: bool(study.newly_evaluated),
    )
    return AtariRun(path, manifest, checkpoint)


def _keep_agent(path: Path, manifest: store.Manifest, study: AtariStudy, place: int) -> None:
    """Write the agent of a trial's last evaluation if it is the best so far, or one of those that are always kept."""
    number = int(study.curves.evaluated[place])
    means = mean_scores(study.curves)[place, :number]
    names = [f"{BEST}-{place}"] if means.argmax() == number - 1 else []
    if number % KEEP_EVERY == 0 or number == study.experiment.evaluations:
        names.append(f"{KEPT}-{study.experiment.steps_of_evaluation(number - 1):012d}-{place}")
    if not names:
        return
    network = on_host(study.trials[place].state.network)
    with disk_faults(path, "make the folder of agents"):
        (path / AGENTS).mkdir(exist_ok=True)
    for name in names:
        Agent(study.experiment, manifest.spaces, place, network).save(path / AGENTS / f"{name}.safetensors")
