"""Runs: studies advanced segment by segment, each checkpoint written before the next begins."""

import concurrent.futures
import contextlib
import datetime
import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
from gymnasium.experimental.functional import FuncEnv

from mean_actor_critic import store
from mean_actor_critic.environments.catalogue import (
    COMPILED,
    EnvironmentSpec,
    describe,
    environment_of,
    find_environment,
)
from mean_actor_critic.errors import InputError, Interrupted, OutOfMemoryError
from mean_actor_critic.experiment import make_experiment
from mean_actor_critic.presets import settings_for
from mean_actor_critic.progress import Show
from mean_actor_critic.run import Run
from mean_actor_critic.training import compiled, devices, signals
from mean_actor_critic.training.study import Study

PATIENCE_SECONDS = 6.0  # after a signal, for a segment to end; beyond it the last checkpoint must do

FunctionalEnvironment = FuncEnv[Any, Any, Any, Any, Any, Any, Any]


def train(
    environment: str | FunctionalEnvironment,
    algorithm: str = "mac",
    *,
    trials: int = 1,
    episodes: int = 200,
    seed: int = 0,
    out: str | Path | None = None,
    checkpoint_seconds: float = store.CHECKPOINT_SECONDS,
    on_progress: Show | None = None,
    on_start: Callable[[Path], None] | None = None,
    **settings: Any,
) -> Run:
    """Train `trials` independent agents and keep everything in a run folder.

    Args:
        environment: a Gymnasium id such as "CartPole-v0", or a functional Gymnasium environment (then
            `max_episode_steps` must be given).
        algorithm: "mac", "advantage_actor_critic", "actor_critic", "advantage_reinforce" or "reinforce".
        trials: how many.
        episodes: of each trial.
        seed: trial i is a pure function of (seed, i, settings).
        out: the run folder, new or empty; by default one below `runs/`.
        checkpoint_seconds: time between checkpoints, which is what a kill -9 or a power cut can cost.
        on_progress: called after every segment.
        on_start: called once with the run folder, before training begins.
        **settings: by the names of `mac train --help`; the rest come from the preset of the environment and algorithm.
            A number may be given for each trial, as a list.

    Raises:
        InputError: something cannot be used; nothing was written.
        DiskError: the disk refused; what was written before is whole.
        Interrupted: a signal came; what is on disk is whole.
    """
    _check_seconds(checkpoint_seconds)
    if isinstance(environment, str):
        spec = find_environment(environment)
        defaults = settings_for(spec, algorithm)
    else:
        if "max_episode_steps" not in settings:
            raise InputError("max_episode_steps", None, "a whole number, for an environment that is not known by name")
        spec = describe(type(environment).__name__, environment, settings["max_episode_steps"])
        if spec.name in COMPILED:
            raise InputError("environment", spec.name, "a class whose name is not that of a known environment")
        defaults = {}
    experiment = make_experiment(spec.name, algorithm, trials, episodes, seed, {**defaults, **settings})
    versions = devices.versions()
    width = compiled.choose_width(experiment.setup, experiment.trials, compiled.device_count())
    path = Path(out) if out is not None else _free_folder(f"{spec.name}-{algorithm}-seed{seed}")
    manifest = store.create_run(path, experiment, width, versions)
    return _carry_on(path, manifest, spec, checkpoint_seconds, on_progress, on_start)


def resume(
    path: str | Path,
    environment: FunctionalEnvironment | None = None,
    *,
    checkpoint_seconds: float = store.CHECKPOINT_SECONDS,
    on_progress: Show | None = None,
) -> Run:
    """Continue an interrupted run to its end. The results are those of a run that was never interrupted, bit for bit.

    Args:
        path: the run folder.
        environment: the functional environment the run was started with, if it was not known by name.
        checkpoint_seconds: time between checkpoints.
        on_progress: called after every segment.
    """
    _check_seconds(checkpoint_seconds)
    folder = Path(path)
    manifest = store.read_manifest(folder)
    spec = environment_of(manifest.experiment.setup, environment)
    changed = devices.changes(manifest.versions)
    if changed:
        warnings.warn(f"the low bits of the results may change with {', '.join(changed)}", stacklevel=2)
    return _carry_on(folder, manifest, spec, checkpoint_seconds, on_progress)


def _carry_on(
    path: Path,
    manifest: store.Manifest,
    environment: EnvironmentSpec,
    checkpoint_seconds: float,
    on_progress: Show | None,
    on_start: Callable[[Path], None] | None = None,
) -> Run:
    worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mac-training")
    known = environment.name in COMPILED
    command = f"mac resume {shlex.quote(str(path))}" if known else f"resume({str(path)!r}, environment)"
    advice = f"continue with: {command}"
    with _memory_faults(), store.sole_writer(path), signals.listening() as listener:
        if on_start:
            on_start(path)
        checkpoint = store.read_checkpoint(path, manifest, set_aside=True)
        study = worker.submit(Study, manifest.experiment, environment, manifest.width, checkpoint.arrays).result()
        saved = time.monotonic()
        unsaved = False
        while not study.finished:
            # in a thread of its own, because Python hears signals only while the main thread is not inside JAX
            segment = worker.submit(study.advance)
            while not segment.done():
                concurrent.futures.wait([segment], timeout=0.2)
                waited = time.monotonic() - listener.received_at
                # nothing to save, perhaps because it is compiling; or a segment so long that it is given up
                if listener.received is not None and (not unsaved or waited > PATIENCE_SECONDS):
                    worker.shutdown(wait=False)
                    raise Interrupted(listener.received, advice)
            progress = segment.result()
            if on_progress:
                on_progress(progress)
            unsaved = True
            if study.finished or listener.received is not None or time.monotonic() - saved >= checkpoint_seconds:
                store.write_checkpoint(path, manifest, study.episodes_done, study.arrays())
                saved, unsaved = time.monotonic(), False
            if listener.received is not None:
                raise Interrupted(listener.received, f"{path} is finished" if study.finished else advice)
        worker.shutdown()
        return Run(path, manifest, store.Checkpoint(study.arrays(), checkpoint.warnings))


def _check_seconds(checkpoint_seconds: float) -> None:
    if not checkpoint_seconds >= 0:
        raise InputError("checkpoint_seconds", checkpoint_seconds, "a number of seconds from 0")


@contextlib.contextmanager
def _memory_faults() -> Iterator[None]:
    """Turn a refusal of memory, by Python or by XLA, into one line."""
    try:
        yield
    except (MemoryError, jax.errors.JaxRuntimeError) as fault:
        if isinstance(fault, MemoryError) or "RESOURCE_EXHAUSTED" in str(fault):
            raise OutOfMemoryError(f"not enough memory for this run: {fault}") from None
        raise


def _free_folder(name: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path(store.RUNS) / f"{name}-{stamp}"
    candidates = [base, *(base.with_name(f"{base.name}-{i}") for i in range(2, 100))]
    return next((path for path in candidates if not path.exists()), base)
