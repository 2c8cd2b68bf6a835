"""Runs: studies advanced segment by segment, each checkpoint written before the next begins."""

import concurrent.futures
import datetime
import functools
import shlex
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax

from mean_actor_critic.files import as_file_name
from mean_actor_critic.trees import Arrays
from mean_actor_critic.runs import store
from mean_actor_critic.spec.atari_experiment import GAME
from mean_actor_critic.environments.catalogue import AUTO, EnvironmentSpec, environment_of, find_environment, resume_words
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS, WorkerLimits
from mean_actor_critic.errors import EnvironmentFault, InputError, Interrupted, OutOfMemoryError
from mean_actor_critic.spec.experiment import MAX_EPISODE_STEPS, Experiment, checked_moments, make_experiment, require_whole
from mean_actor_critic.spec.presets import TUNED, settings_for
from mean_actor_critic.progress import Progress, Show
from mean_actor_critic.runs.run import Run
from mean_actor_critic.engines import devices
from mean_actor_critic.runs import signals
from mean_actor_critic.engines.study import Advancing, Study, choose_width, make_study
from mean_actor_critic.runs import store
from mean_actor_critic.spec.atari_experiment import GAME
from mean_actor_critic.environments.catalogue import AUTO
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.catalogue import environment_of
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.environments.catalogue import resume_words
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.errors import EnvironmentFault
from mean_actor_critic.errors import InputError
from mean_actor_critic.errors import Interrupted
from mean_actor_critic.spec.experiment import MAX_EPISODE_STEPS
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.experiment import checked_moments
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.experiment import require_whole
from mean_actor_critic.spec.presets import TUNED
from mean_actor_critic.spec.presets import settings_for
from mean_actor_critic.progress import Progress
from mean_actor_critic.progress import Show
from mean_actor_critic.runs.run import Run
from mean_actor_critic.engines import devices
from mean_actor_critic.runs import signals
from mean_actor_critic.engines.memory import memory_faults
from mean_actor_critic.engines.memory import need
from mean_actor_critic.engines.memory import require_memory
from mean_actor_critic.engines.study import Advancing
from mean_actor_critic.engines.study import Study
from mean_actor_critic.engines.study import choose_width
from mean_actor_critic.engines.study import make_study

PATIENCE_SECONDS = 6.0  # after a signal, for a segment to end; beyond it the last checkpoint must do

OnStart = Callable[[Path, EnvironmentSpec], None]
OnCurves = Callable[[Any, Any], None]
AnyStudy = TypeVar("AnyStudy", bound=Advancing)
Result = TypeVar("Result")


def train(
    environment: Any,
    algorithm: str = "mac",
    *,
    trials: int = 1,
    episodes: int = 200,
    seed: int = 0,
    first_trial: int = 0,
    engine: str = AUTO,
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    preset: str = TUNED,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    out: str | Path | None = None,
    checkpoint_seconds: float = store.CHECKPOINT_SECONDS,
    snapshots: int | Sequence[int] = 0,
    on_progress: Show | None = None,
    on_start: OnStart | None = None,
    on_curves: OnCurves | None = None,
    **settings: Any,
) -> Run:
    """Train `trials` independent agents and keep everything in a run folder.

    Args:
        environment: a Gymnasium id such as "LunarLander-v3" ("package:Id-v0" imports the package first), a callable
            that makes a gymnasium.Env, "module:callable", or a functional environment (`FuncEnv`), which needs
            `max_episode_steps`.
        algorithm: "mac", "advantage_actor_critic", "actor_critic", "advantage_reinforce" or "reinforce".
        trials: how many.
        episodes: of each trial.
        seed: trial i is a pure function of (seed, i, settings).
        first_trial: the number of the first trial, to add trials to a study or to run one again alone.
        engine: "compiled" for JAX programs, "hosted" for environments in worker processes; "auto" chooses.
        env_kwargs: keyword arguments for the environment.
        max_episode_steps: agent steps after which an episode is cut off; by default the environment's own limit, or
            1000 if it has none.
        preset: "tuned"; or the winners of the paper's search by its rule ("paper"), or by all episodes ("paper-area").
        workers: processes that step hosted environments; by default one per core.
        step_seconds: a hosted environment that takes longer for one step is taken to hang.
        out: the run folder, new or empty; by default one below `runs/`.
        checkpoint_seconds: time between checkpoints, which is what a kill -9 or a power cut can cost.
        snapshots: moments of training from which every trial's networks are kept, for `Run.agent(trial, episode)`: how
            many, evenly spaced from before the first episode to after the last, or a list of episodes.
        on_progress: called after every segment.
        on_start: called once with the run folder and the environment, before training begins.
        on_curves: called after every segment with returns and lengths [trials, episodes] so far, to look at only.
        **settings: by the names of `mac train --help`; the rest come from the preset of the environment and algorithm.
            A number may be given for each trial, as a list.

    Raises:
        InputError: something cannot be used; nothing was written.
        DiskError: the disk refused; what was written before is whole.
        OutOfMemoryError: there is less memory than the run needs; if that is clear beforehand, nothing was written.
        EnvironmentFault: an environment failed; what was learned before is on disk.
        Interrupted: a signal came; what is on disk is whole.
    """
    check_seconds(checkpoint_seconds)
    limits = WorkerLimits(workers, step_seconds).checked()
    if max_episode_steps is not None:
        max_episode_steps = require_whole("max_episode_steps", max_episode_steps, *MAX_EPISODE_STEPS)
    if engine == AUTO and isinstance(environment, str) and environment.startswith(GAME):
        raise InputError("environment", environment, "other environments; train_atari trains on Atari games")
    spec = find_environment(environment, engine, env_kwargs, max_episode_steps, step_seconds)
    experiment = make_experiment(
        spec.name,
        algorithm,
        trials,
        episodes,
        seed,
        {**settings_for(spec.name, spec.max_episode_steps, algorithm, preset), **settings},
        first_trial=first_trial,
        engine=spec.engine,
        environment_kwargs=env_kwargs,
    )
    moments = checked_moments(snapshots, experiment.episodes)
    versions = devices.versions(spec.engine)
    require_memory(need(experiment, spec.spaces, moments))
    width = choose_width(experiment.setup, experiment.trials, spec.engine)
    path = Path(out) if out is not None else free_folder(f"{as_file_name(spec.name)}-{algorithm}-seed{seed}")
    manifest = store.create_run(path, experiment, spec.spaces, width, versions, moments)
    return _carry_on(path, manifest, experiment, spec, limits, checkpoint_seconds, on_progress, on_start, on_curves)


def resume(
    path: str | Path,
    environment: Any = None,
    *,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    checkpoint_seconds: float = store.CHECKPOINT_SECONDS,
    on_progress: Show | None = None,
    on_curves: OnCurves | None = None,
) -> Run:
    """Continue an interrupted run to its end. The results are those of a run that was never interrupted, bit for bit.

    Args:
        path: the run folder.
        environment: what the run was started with, if it cannot be found by name.
        workers: as for `train`; their number changes no bits.
        step_seconds: as for `train`.
        checkpoint_seconds: time between checkpoints.
        on_progress: called after every segment.
        on_curves: as for `train`.
    """
    check_seconds(checkpoint_seconds)
    limits = WorkerLimits(workers, step_seconds).checked()
    folder = Path(path)
    manifest = store.read_manifest(folder)
    experiment = manifest.experiment
    if not isinstance(experiment, Experiment):
        raise InputError("run", str(path), "a run that counts episodes; resume_atari continues those on Atari games")
    spec = environment_of(experiment, manifest.spaces, environment, step_seconds)
    changed = devices.changes(manifest.versions, spec.engine)
    require_memory(need(experiment, spec.spaces, manifest.snapshots))
    if changed:
        warnings.warn(f"the low bits of the results may change with {', '.join(changed)}", stacklevel=2)
    return _carry_on(folder, manifest, experiment, spec, limits, checkpoint_seconds, on_progress, None, on_curves)


def _carry_on(
    path: Path,
    manifest: store.Manifest,
    experiment: Experiment,
    environment: EnvironmentSpec,
    limits: WorkerLimits,
    checkpoint_seconds: float,
    on_progress: Show | None,
    on_start: OnStart | None = None,
    on_curves: OnCurves | None = None,
) -> Run:
    words = resume_words(environment)
    command = f"resume({str(path)!r}, environment)" if words is None else f"mac resume {shlex.quote(str(path))}{words}"

    def begin(saved: Arrays | None) -> Study:
        return make_study(experiment, manifest.width, environment, saved, limits, manifest.snapshots)

    def show(study: Study, progress: Progress) -> None:
        if on_progress:
            on_progress(progress)
        if on_curves:
            on_curves(study.curves.returns, study.curves.lengths)

    started = functools.partial(on_start, path, environment) if on_start else None
    return Run(path, manifest, carry_on(path, manifest, begin, show, command, checkpoint_seconds, started))


def carry_on(
    path: Path,
    manifest: store.Manifest,
    begin: Callable[[Arrays | None], AnyStudy],
    show: Callable[[AnyStudy, Progress], None],
    command: str,
    checkpoint_seconds: float,
    on_start: Callable[[], None] | None = None,
    is_due: Callable[[AnyStudy], bool] = lambda _: False,
) -> store.Checkpoint:
    """Advance the study of a run folder to its end, from its last checkpoint on, and write others on the way.

    Args:
        path: the run folder.
        manifest: its manifest.
        begin: makes the study from the arrays of a checkpoint, or from nothing.
        show: called after every segment.
        command: what continues the run, to be said if it is interrupted.
        checkpoint_seconds: between checkpoints.
        on_start: called once, when nobody else can write to the folder any more.
        is_due: whether a checkpoint should be written after a segment, whatever the time.
    """
    worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mac-training")
    advice = f"continue with: {command}"
    with memory_faults("run"), store.sole_writer(path), signals.listening() as listener:
        if on_start:
            on_start()
        saved_arrays, warned = store.read_checkpoint(path, manifest, set_aside=True)
        study = begun(worker, functools.partial(begin, saved_arrays), listener, advice)
        del saved_arrays  # the study has its own
        saved = time.monotonic()
        unsaved = False
        try:
            while not study.finished:
                # nothing to save, perhaps because it is compiling; or a segment so long that it is given up
                patience = PATIENCE_SECONDS if unsaved else 0.0
                try:
                    progress = next_segment(worker, study, listener, patience, advice)
                except EnvironmentFault as fault:
                    _save(path, manifest, study)
                    raise fault.with_advice(f"whole episodes are kept; {advice}") from None
                show(study, progress)
                unsaved = True
                due = study.finished or is_due(study) or time.monotonic() - saved >= checkpoint_seconds
                if due or listener.received is not None:
                    _save(path, manifest, study)
                    saved, unsaved = time.monotonic(), False
                if listener.received is not None:
                    raise Interrupted(listener.received, f"{path} is finished" if study.finished else advice)
            return store.Checkpoint(study.arrays(), warned)
        finally:
            study.close()
            worker.shutdown(wait=False)


def next_segment(
    worker: concurrent.futures.ThreadPoolExecutor,
    study: Advancing,
    listener: signals.Listener,
    patience: float,
    advice: str,
) -> Progress:
    """Advance a study in the `worker` thread: Python hears signals only while its main thread is not inside JAX.

    Raises:
        Interrupted: a signal came so many seconds ago, and the segment still runs.
    """
    return _awaited(worker, worker.submit(study.advance), listener, patience, advice)


def begun(
    worker: concurrent.futures.ThreadPoolExecutor,
    begin: Callable[[], AnyStudy],
    listener: signals.Listener,
    advice: str,
) -> AnyStudy:
    """A study, made in the worker's thread; a signal is answered meanwhile.

    Raises:
        Interrupted: a signal came.
    """
    beginning = worker.submit(begin)
    try:
        return _awaited(worker, beginning, listener, 0.0, advice)
    except Interrupted:  # whatever it becomes is not left behind
        beginning.add_done_callback(lambda done: done.exception() or done.result().close())
        raise


def _awaited(
    worker: concurrent.futures.ThreadPoolExecutor,
    future: "concurrent.futures.Future[Result]",
    listener: signals.Listener,
    patience: float,
    advice: str,
) -> Result:
    while not future.done():
        concurrent.futures.wait([future], timeout=0.2)
        if listener.received is not None and time.monotonic() - listener.received_at > patience:
            worker.shutdown(wait=False)
            raise Interrupted(listener.received, advice)
    return future.result()


def _save(path: Path, manifest: store.Manifest, study: Advancing) -> None:
    """Write a checkpoint. A function, so that the arrays do not outlive it: the engine reuses their memory."""
    arrays = study.arrays()  # first: with it, what was still being learned begins to count
    store.write_checkpoint(path, manifest, study.position, arrays)


def check_seconds(checkpoint_seconds: float) -> None:
    """Raise an InputError unless it is a time."""
    if not checkpoint_seconds >= 0:
        raise InputError("checkpoint_seconds", checkpoint_seconds, "a number of seconds from 0")


def free_folder(name: str) -> Path:
    """A folder for a new run, below the usual one."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path(store.RUNS) / f"{name}-{stamp}"
    candidates = [base, *(base.with_name(f"{base.name}-{i}") for i in range(2, 100))]
    return next((path for path in candidates if not path.exists()), base)
