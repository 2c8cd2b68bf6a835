"""Training runs: what is to be trained is checked and planned, and the loop carries it out, or carries it on."""

import contextlib
import dataclasses
import datetime
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from mean_actor_critic.engines import devices
from mean_actor_critic.engines.memory import memory_faults, need, require_memory
from mean_actor_critic.engines.study import choose_width
from mean_actor_critic.environments.catalogue import (
    AUTO,
    EnvironmentSpec,
    engine_of,
    environment_of,
    find_environment,
    find_game,
    remember,
)
from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS, WorkerLimits
from mean_actor_critic.environments.spaces import fitted
from mean_actor_critic.errors import InputError
from mean_actor_critic.files import as_file_name, as_path
from mean_actor_critic.progress import Answer, Progress, progress_display
from mean_actor_critic.runs import store
from mean_actor_critic.runs.loop import OnStart, OnStudy, Watchers, carry_on
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import checked_algorithm, is_given
from mean_actor_critic.spec.checks import (
    as_kwargs,
    checked_kwargs,
    checked_name,
    plain,
    require_whole,
    settings_as_words,
)
from mean_actor_critic.spec.experiment import (
    AMOUNTS,
    Budget,
    Experiment,
    checked_moments,
    learner_to_train,
    make_experiment,
    settings_for_engine,
    usual_budget,
)
from mean_actor_critic.spec.learners import ENGINES, EPISODES, GENERAL, LEARNERS, STEPS, learners_on
from mean_actor_critic.spec.presets import Start, start_from
from mean_actor_critic.spec.rules import MAX_EPISODE_STEPS
from mean_actor_critic.spec.typed import Settings


def train(
    environment: Any,
    algorithm: Any = "mac",
    *,
    trials: int = 1,
    episodes: int | None = None,
    steps: int | None = None,
    until: float | None = None,
    evaluate_every: int | None = None,
    seed: int = 0,
    first_trial: int = 0,
    engine: str = AUTO,
    learner: str | None = None,
    network: Any = None,
    env_kwargs: Mapping[str, Any] | None = None,
    max_episode_steps: int | None = None,
    preset: str | None = None,
    protocol: str | None = None,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    out: str | Path | None = None,
    checkpoint_seconds: float | None = None,
    snapshots: int | Sequence[int] = 0,
    progress: bool = True,
    on_progress: Callable[[Progress], Answer] | None = None,
    on_start: OnStart | None = None,
    on_study: OnStudy | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Train `trials` independent agents and keep everything in a run folder.

    Args:
        environment: a Gymnasium id such as "LunarLander-v3" or "ALE/Pong-v5" ("package:Id-v0" imports the package
            first), a callable that makes a gymnasium.Env, "module:callable", or a functional environment (`FuncEnv`),
            which needs `max_episode_steps`.
        algorithm: "mac", "advantage_actor_critic", "actor_critic", "advantage_reinforce", "reinforce", "a2c";
            or an estimator of your own: a function from `Evidence` to weights [time, action].
        trials: how many.
        steps: the budget of each trial in agent steps; 100 000 by default, on games 50 million (frames are four times
            as many).
        episodes: the budget of each trial in episodes instead, which the learner "episodic" counts.
        until: end a trial early when its mean return is that high: over its last 100 episodes, or of its last
            evaluation where there are evaluations.
        evaluate_every: play evaluations that often, in the unit of the budget; on games every 200 000 steps.
        seed: trial i is a pure function of (seed, i, settings).
        first_trial: the number of the first trial, to add trials to a study or to run one again alone.
        engine: "compiled" for JAX programs, "hosted" for environments in worker processes, "atari" for ALE's emulators;
            "auto" chooses.
        learner: "replayed", with one setting for every environment, which is the default; "episodic", the paper's, also
            where `episodes`, a preset, or a setting or algorithm of its own is asked for; "rollout", which has short
            rollouts of several environments as A2C does, on games and for "a2c".
        network: your own in the place of ours, for each critic and the policy: an object with `init(key, observation)`
            and `apply(weights, observation)`, such as a flax module, or the two functions as a pair. Observations are
            shown as the environment has them, in a batch [n, …] and unscaled; features [n, f] are to come of them, on
            which our heads for actions are put. The learner is a general one.
        env_kwargs: keyword arguments for the environment.
        max_episode_steps: agent steps after which an episode is cut off; by default the environment's own limit, or
            1000 if it has none.
        preset: "tuned"; or the winners of the paper's search by its rule ("paper"), or by all episodes ("paper-area").
        protocol: of games: "paper", or "machado" for sticky actions and whole games.
        workers: processes that step hosted environments, threads that step a trial's emulators; by default one per
            core. Their number changes no bits.
        step_seconds: a hosted environment that takes longer for one step is taken to hang.
        out: the run folder, new or empty; by default one below `runs/`.
        checkpoint_seconds: time between checkpoints, which is what a kill -9 or a power cut can cost; 30 by default, on
            games 300.
        snapshots: moments of training from which every trial's networks are kept, for `Run.agent(trial, episode)`: how
            many, evenly spaced from before the first episode to after the last, or a list of episodes.
        progress: show a progress bar, unless `on_progress` is given.
        on_progress: called after every segment; training ends, with a checkpoint, if it returns `STOP` or raises.
        on_start: called once, before training begins.
        on_study: called after every segment with the curves and evaluations so far, to look at only.
        **settings: by the names of `mac train --help`; the rest come from the preset of the environment and algorithm.
            A number may be given for each trial, as a list.

    Raises:
        InputError: something cannot be used; nothing was written.
        DiskError: the disk refused; what was written before is whole.
        EnvironmentFault: an environment failed; what was learned before is on disk.
        Interrupted: a signal came; what is on disk is whole.
    """
    limits = WorkerLimits(workers, step_seconds).checked()
    asked: dict[str, Any] = dict(settings)
    if evaluate_every is not None:
        asked["evaluation_interval"] = evaluate_every
    if max_episode_steps is not None:
        asked["max_episode_steps"] = require_whole("max_episode_steps", max_episode_steps, *MAX_EPISODE_STEPS)
    if learner is None and plain(snapshots) not in (0, ()) and engine_of(environment, engine) != "atari":
        learner = "episodic"  # whose trials are told by episodes, as snapshots are
    with memory_faults("run"):
        spec, experiment, origin = plan(
            environment,
            algorithm,
            trials=trials,
            episodes=episodes,
            steps=steps,
            seed=seed,
            settings=asked,
            engine=engine,
            learner=learner,
            network=network,
            env_kwargs=env_kwargs,
            preset=preset,
            protocol=protocol,
            first_trial=first_trial,
            until=until,
            seconds=step_seconds,
        )
    seconds = _checked_seconds(checkpoint_seconds, experiment)
    moments = checked_moments(snapshots, experiment.episodes)
    versions = devices.versions(experiment.engine)
    require_memory(need(experiment, spec.spaces, moments))
    name = f"{as_file_name(spec.name)}-{as_file_name(experiment.algorithm)}-seed{experiment.seed}"
    path = as_path("out", out) if out is not None else free_folder(name)
    withdraw = functools.partial(store.withdraw, path, "manifest.json", store.missing_folders(path))
    manifest = store.create_run(path, experiment, spec.spaces, choose_width(experiment), versions, moments, origin)
    manifest = manifest._replace(experiment=experiment)  # which no file can give back where it has a function
    with _shown(progress, on_progress, experiment) as show:
        return carry_on(path, manifest, spec, limits, seconds, Watchers(on_start, show, on_study), withdraw)


class Plan(NamedTuple):
    """What is to be trained, where, and where its settings come from."""

    environment: EnvironmentSpec
    experiment: Experiment
    origin: str


def plan(
    environment: Any,
    algorithm: Any,
    *,
    trials: int,
    seed: int,
    settings: Mapping[str, Any],
    episodes: int | None = None,
    steps: int | None = None,
    engine: str = AUTO,
    learner: str | None = None,
    network: Any = None,
    env_kwargs: Mapping[str, Any] | None = None,
    preset: str | None = None,
    protocol: str | None = None,
    first_trial: int = 0,
    until: float | None = None,
    seconds: float = STEP_SECONDS,
    found: EnvironmentSpec | None = None,
) -> Plan:
    """What `train` would train, checked; the arguments are its own.

    `found` is what `find_environment` says of the environment, where it was asked before.

    Raises:
        InputError: something cannot be used.
    """
    engine = engine_of(environment, engine)
    name, _ = checked_algorithm(algorithm)
    env_kwargs = checked_kwargs(as_kwargs(env_kwargs))
    if learner is not None:
        checked_name("learner", learner, LEARNERS)
    limit = settings.get("max_episode_steps")
    if engine == "atari":
        if env_kwargs:
            raise InputError("env_kwargs", env_kwargs, "settings: everything about the emulators is one")
        if limit is not None:
            raise InputError("max_episode_steps", limit, "max_episode_frames, with Atari games")
        spec, environment_name = None, environment
    else:
        spec = found or find_environment(environment, engine, env_kwargs, limit, seconds)
        engine, environment_name, limit = spec.engine, spec.name, spec.max_episode_steps
    if learner is None and network is not None and GENERAL in learners_on(engine):
        learner = GENERAL
    if learner is None:
        learner = learner_to_train(algorithm, engine, episodes=episodes, preset=preset, settings=settings)
    start = start_from(
        environment_name,
        name,
        engine=engine,
        learner=learner,
        max_episode_steps=limit,
        preset=preset,
        protocol=protocol,
    )
    experiment = make_experiment(
        environment_name,
        algorithm,
        trials,
        _budget(episodes, steps, engine, learner),
        seed,
        {**start.settings, **settings},
        first_trial=first_trial,
        engine=engine,
        learner=learner,
        environment_kwargs=env_kwargs,
        until=until,
        network=network,
    )
    _require_estimator(experiment)
    experiment.require_network()
    if spec is None:
        spec = find_game(environment_name, experiment.rules)
    remember(spec, environment)
    spec = spec.by(experiment.rules)
    experiment = fitted(experiment, spec.spaces)
    return Plan(spec, experiment, _origin(start, experiment))


def _origin(start: Start, experiment: Experiment) -> str:
    """Where an experiment's settings come from, in words: what they started from, and those that differ from it."""
    usual = {name: s.default for name, s in settings_for_engine(experiment.engine, experiment.learner).items()}
    usual |= start.settings
    given = {name: value for name, value in experiment.settings().items() if value != usual[name]}
    return start.origin + (f"; given: {' '.join(settings_as_words(given))}" if given else "")


def _budget(episodes: int | None, steps: int | None, engine: str, learner: str) -> Budget:
    """What each trial may use up: episodes or steps, whichever was asked for."""
    if episodes is not None and steps is not None:
        raise InputError("steps", steps, "either steps or episodes")
    if steps is not None:
        return Budget(STEPS, steps)
    if episodes is not None:
        return Budget(EPISODES, episodes)
    return usual_budget(engine, learner)


def resume(
    path: "str | Path | Run",
    environment: Any = None,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    algorithm: Any = None,
    network: Any = None,
    workers: int | None = None,
    step_seconds: float = STEP_SECONDS,
    checkpoint_seconds: float | None = None,
    progress: bool = True,
    on_progress: Callable[[Progress], Answer] | None = None,
    on_start: OnStart | None = None,
    on_study: OnStudy | None = None,
) -> Run:
    """Continue an interrupted run to its end, or a finished one beyond it.

    The results are those of a run that was never interrupted, or that was as long from the start, bit for bit.

    Args:
        path: the run folder, or the run.
        environment: what the run was started with, if it cannot be found by name.
        episodes: a longer budget than the run has, where it counts episodes.
        steps: a longer budget than the run has, where it counts steps.
        algorithm: the estimator that the run was started with, if it was a function.
        network: the network that the run was started with, if it was a user's own.
        workers: as for `train`; their number changes no bits.
        step_seconds: as for `train`.
        checkpoint_seconds: as for `train`.
        progress: as for `train`.
        on_progress: as for `train`.
        on_start: as for `train`.
        on_study: as for `train`.
    """
    limits = WorkerLimits(workers, step_seconds).checked()
    folder = path.path if isinstance(path, Run) else as_path("path", path)
    manifest = store.read_manifest(folder)
    experiment = manifest.experiment.with_network(network)
    experiment.require_network()
    longer = _longer(experiment, episodes, steps)
    spec = environment_of(experiment, manifest.spaces, environment, step_seconds)
    seconds = _checked_seconds(checkpoint_seconds, experiment)
    changed = devices.changes(manifest.versions, spec.engine)
    if changed:
        warnings.warn(f"the low bits of the results may change with {', '.join(changed)}", stacklevel=2)
    require_memory(need(longer or experiment, spec.spaces, manifest.snapshots))
    estimator = None if algorithm is None else _checked_estimator(experiment, algorithm)
    _require_estimator(_with_estimator(experiment, estimator))  # before anything is written
    if longer is not None:
        with store.sole_writer(folder):
            manifest = store.extend_run(folder, store.read_manifest(folder), longer)
    experiment = _with_estimator(manifest.experiment.with_network(network), estimator)
    manifest = manifest._replace(experiment=experiment)
    with _shown(progress, on_progress, manifest.experiment) as show:
        return carry_on(folder, manifest, spec, limits, seconds, Watchers(on_start, show, on_study))


def _longer(experiment: Experiment, episodes: int | None, steps: int | None) -> Experiment | None:
    """The experiment with the longer budget that was asked for; None if none was."""
    asked = {EPISODES: episodes, STEPS: steps}
    for unit, amount in asked.items():
        if amount is not None and unit != experiment.budget.unit:
            raise InputError(unit, amount, f"{experiment.budget.unit}, which this run counts")
    asked_for = asked[experiment.budget.unit]
    if asked_for is None:
        return None
    amount = require_whole(experiment.budget.unit, asked_for, *AMOUNTS[experiment.budget.unit])
    return None if amount == experiment.budget.amount else experiment.extended(amount)


def _require_estimator(experiment: Experiment) -> None:
    """Refuse an algorithm that is known by the name of a function, without the function."""
    if is_given(experiment.algorithm) and experiment.setup.estimator is None:
        raise InputError("algorithm", experiment.algorithm, "the function itself, given from Python: algorithm=…")


def _checked_estimator(experiment: Experiment, algorithm: Any) -> Callable[..., Any] | None:
    """The function that was given for a run's algorithm; None where a name was."""
    name, estimator = checked_algorithm(algorithm)
    if name != experiment.algorithm:
        raise InputError("algorithm", name, f"{experiment.algorithm}, which this run was started with")
    return estimator


def _with_estimator(experiment: Experiment, estimator: Callable[..., Any] | None) -> Experiment:
    """The same experiment with a function to learn by; unchanged without one."""
    if estimator is None:
        return experiment
    return dataclasses.replace(experiment, setup=dataclasses.replace(experiment.setup, estimator=estimator))


@contextlib.contextmanager
def _shown(
    progress: bool, on_progress: Callable[[Progress], Answer] | None, experiment: Experiment
) -> Iterator[Callable[[Progress], Answer]]:
    """What is told of each segment: who asked to be, or a progress bar."""
    if on_progress is not None:
        yield on_progress
        return
    with progress_display(quiet=not progress) as watch:
        yield watch(f"{experiment.environment} {experiment.algorithm}")


def _checked_seconds(checkpoint_seconds: float | None, experiment: Experiment) -> float:
    """The time between checkpoints; an InputError unless it is a time."""
    if checkpoint_seconds is None:
        return store.CHECKPOINT_SECONDS[experiment.engine]
    seconds = plain(checkpoint_seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InputError("checkpoint_seconds", checkpoint_seconds, "a number of seconds from 0")
    return min(seconds, sys.float_info.max)


def free_folder(name: str) -> Path:
    """A folder for a new run, below the usual one."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    base = Path(store.RUNS) / f"{name}-{stamp}"
    candidates = [base, *(base.with_name(f"{base.name}-{i}") for i in range(2, 100))]
    return next((path for path in candidates if not os.path.lexists(path)), base)


def _signature() -> inspect.Signature:
    """That of `train` with every setting as a keyword, for completion in notebooks."""
    own = inspect.signature(train)
    known: dict[str, Any] = {}
    # where learners or engines have different usual values, those of the general learner are shown, or of the first
    pairs = [(ENGINES[0], GENERAL), *((engine, learner) for engine in ENGINES for learner in learners_on(engine))]
    for engine, learner in pairs:
        for name, s in settings_for_engine(engine, learner).items():
            known.setdefault(name, s.default)
    keyword = inspect.Parameter.KEYWORD_ONLY
    named = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    taken = {p.name for p in named}
    more = [inspect.Parameter(name, keyword, default=value) for name, value in known.items() if name not in taken]
    return own.replace(parameters=[*named, *more])


train.__signature__ = _signature()  # type: ignore[attr-defined]
