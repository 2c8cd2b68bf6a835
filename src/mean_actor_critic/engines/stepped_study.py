"""A study whose learner is called after every rollout of several environments: all trials advance together.

Who plays is one of two: `CompiledTrials`, environments as JAX programs, or `HostedTrials`, environments in worker
processes. Everything else, from curves to checkpoints, is the same for both.
"""

import functools
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mean_actor_critic.engines import compiled, devices, stepped
from mean_actor_critic.engines.curves import KEPT, PLAYING, REPLAY, STATE, Curves, Ends, Evaluations
from mean_actor_critic.engines.memory import joined, on_host
from mean_actor_critic.engines.play import HostedPlayers, Playing, compiled_returns, episodes_of_evaluation
from mean_actor_critic.engines.records import FIRST_COLUMNS, named_carried, require_same_moment
from mean_actor_critic.engines.stepped_hosted import HostedTrials, whole
from mean_actor_critic.engines.updates import Carried
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.errors import DamagedFileError, EnvironmentFault
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import Networks
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array, Arrays, named, require_arrays, restored

SEGMENT_SECONDS = 0.5


def choose_width(experiment: Experiment, trials: int) -> int:
    """Trials of a group, which one device runs: as few groups as the cache allows, or as there are devices."""
    if experiment.engine == "hosted":  # where each group has worker processes of its own
        return math.ceil(trials / compiled.device_count())
    return compiled.choose_width(experiment.setup, trials, compiled.device_count())


class Trials(Protocol):
    """All trials of an experiment at play."""

    def advance(self, first: int, rollouts: int, active: Array) -> stepped.Advanced:
        """Take so many rollouts of all environments of the trials that are active [trials], and learn from each.

        The active trials have taken `first` rollouts before. After a fault, all trials stand between two rollouts, each
        where it has got to.
        """

    def carried(self, part: Callable[[Carried], Any] = whole) -> Any:
        """What trials [trials] carry, or a part of it, on the host."""

    def arrays(self) -> Arrays:
        """What else a checkpoint needs to go on, by name."""

    def close(self) -> None:
        """End whatever processes there are."""


class _Block(NamedTuple):
    """A group of lanes for every device. Arrays are spread over the devices."""

    place: Array  # [lane] among the trials; the last is repeated to fill the block
    trial: Any  # [lane] their numbers
    hyper: Any
    carried: Carried


class CompiledTrials:
    """Trials whose environments are JAX programs."""

    def __init__(self, experiment: Experiment, environment: EnvironmentSpec, width: int, carried: Carried) -> None:
        """With what trials [trials] carry, on the host."""
        self._experiment = experiment
        groups = math.ceil(experiment.trials / width)
        count = min(compiled.device_count(), groups)
        mesh = devices.mesh(count)
        self._sharding = NamedSharding(mesh, PartitionSpec(devices.AXIS))
        self._devices = count
        self._name = environment.name
        limit = experiment.rules.max_episode_steps
        self._program = stepped.segment_program(experiment.setup, limit, environment.build, mesh)
        self._blocks = []
        for first in range(0, groups * width, count * width):
            place = np.minimum(np.arange(first, first + count * width), experiment.trials - 1)
            own = (experiment.trial_numbers(), experiment.hyper_of_trials(), carried)
            own = jax.device_put(jax.tree.map(lambda x, place=place: x[place], own), self._sharding)
            self._blocks.append(_Block(place, *own))

    def advance(self, first: int, rollouts: int, active: Array) -> stepped.Advanced:
        """See `Trials`. The fault is a state without a legal action; its trial stands still before it."""
        steps = rollouts * self._experiment.rollout_steps
        shape = (steps, self._experiment.trials, self._experiment.environments)
        stuck: list[tuple[int, int]] = []  # a trial's place, and the step of an episode
        ended = stepped.Ended(np.zeros(shape, np.float32), np.zeros(shape, np.int32))
        taken = np.where(active, rollouts, 0)
        on_devices = functools.partial(jax.device_put, device=self._sharding)
        begin, count = (on_devices(np.full(self._devices, x, np.int32)) for x in (first, rollouts))
        for number, block in enumerate(self._blocks):
            same = (np.uint32(self._experiment.seed), np.int32(self._experiment.updates))
            playing = on_devices(active[block.place])
            segment = self._program(*same, block.trial, block.hyper, block.carried, begin, count, playing)
            self._blocks[number] = block._replace(carried=segment.carried)
            for all_, new in zip(ended, on_host(segment.ended), strict=True):
                all_[:, block.place] = np.moveaxis(new, 0, 1)[:steps]
            if self._experiment.setup.masked:
                nowhere = on_host(segment.stuck)[:, :steps].max(axis=2)
                for lane in np.flatnonzero(nowhere.any(axis=1)):
                    at = int(np.argmax(nowhere[lane] > 0))
                    taken[block.place[lane]] = at // self._experiment.rollout_steps
                    stuck.append((block.place[lane], nowhere[lane, at]))
        fault = None
        if stuck:
            place, step = min(stuck)
            trial = int(self._experiment.trial_numbers()[place])
            fault = EnvironmentFault.no_legal_action(self._name, trial, "an episode in training", int(step))
        return stepped.Advanced(ended, taken, fault)

    def carried(self, part: Callable[[Carried], Any] = whole) -> Any:
        """See `Trials`."""
        return jax.tree.map(
            lambda *arrays: joined([on_host(array) for array in arrays])[: self._experiment.trials],
            *(part(block.carried) for block in self._blocks),
        )

    def arrays(self) -> Arrays:
        """See `Trials`: what these environments are at is part of what trials carry."""
        return {}

    def close(self) -> None:
        """See `Trials`."""


class SteppedStudy:
    """All trials of an experiment, and their curves so far."""

    def __init__(
        self,
        experiment: Experiment,
        environment: EnvironmentSpec,
        width: int,
        saved: Arrays | None,
        limits: WorkerLimits,
    ) -> None:
        """Start at the beginning, or where the arrays of a checkpoint left off.

        Raises:
            DamagedFileError: the arrays are not those of this experiment.
        """
        self.experiment, self._environment, self._limits = experiment, environment, limits
        hosted = experiment.engine == "hosted"
        carried, self.curves, self.evaluations = _starting_point(experiment, environment, saved, hosted)
        self._calls = np.array(carried.learner.update, np.int64)
        self._ends = Ends(experiment)
        self._players: HostedPlayers | None = None
        self._trials: Trials = (
            HostedTrials(experiment, environment, width, carried, saved, limits)
            if hosted
            else CompiledTrials(experiment, environment, width, carried)
        )
        self._played = self.curves.played
        self._seconds_per_rollout = math.inf  # of all trials; unknown yet
        self._recent = float("nan")
        self.newly_evaluated: list[int] = []

    # --- how far it is -----------------------------------------------------------------------------------------------

    @property
    def steps_taken(self) -> int:
        """Agent steps of training so far, over all trials."""
        return int(self._calls.sum()) * self.experiment.steps_per_update

    @property
    def position(self) -> int:
        """Agent steps and evaluations so far, over all trials."""
        return self.steps_taken + int(self.evaluations.evaluated.sum())

    @property
    def finished(self) -> bool:
        """Whether every trial has been trained and evaluated as it should be."""
        return bool(self._trained().all()) and not self._due().any()

    def _solved(self) -> Array:
        """Whether each trial was as good as `until` asks for when that was last looked at [trials]."""
        if self.experiment.until is None:
            return np.zeros(self.experiment.trials, bool)
        looked_at = self._ends.looked_at(self.curves, self._calls * self.experiment.steps_per_update)
        return self._ends.solved_at(looked_at, self.evaluations) > 0

    def _trained(self) -> Array:
        """Whether each trial has been trained as long as it should be [trials]."""
        return (self._calls >= self.experiment.updates) | self._solved()

    def _due(self) -> Array:
        """Whether an evaluation of each trial is due before it is trained further [trials]."""
        moments = [self.experiment.update_of_evaluation(number) for number in range(self.experiment.evaluations)]
        following = np.array([*moments, np.iinfo(np.int64).max])[self.evaluations.evaluated]
        return (self._calls >= following) & ~self._solved()

    # --- advancing ---------------------------------------------------------------------------------------------------

    def advance(self) -> Progress:
        """Play and learn for about half a second, or evaluate.

        Raises:
            EnvironmentFault: an environment failed; all that was learned until then is kept.
        """
        self.newly_evaluated = []
        waiting = self._trained() | self._due()
        if waiting.all():
            self._evaluate()
        else:
            self._train(~waiting)
        amount = self.experiment.updates
        done = np.where(self._trained(), amount, np.minimum(self._calls, amount)) * self.experiment.steps_per_update
        total = amount * self.experiment.trials * self.experiment.steps_per_update
        diverged_at, health = self._trials.carried(
            lambda carried: (carried.learner.diverged_at, carried.learner.health)
        )
        entropy = float(np.mean(health.entropy.mean))
        words = f"entropy {entropy:.0%}" if np.any(health.entropy.n) and entropy else ""
        diverged = int(np.sum(diverged_at > 0))
        return Progress(int(done.sum()), total, self._recent, diverged, words, steps=self.steps_taken)

    def _train(self, active: Array) -> None:
        """Advance those that are behind, where a fault has left trials at different updates; else all of them."""
        now = int(self._calls[active].min())
        ahead = self._calls[active & (self._calls > now)]
        active = active & (self._calls == now)
        affordable = int(SEGMENT_SECONDS / self._seconds_per_rollout)
        barrier = min([self._barrier(now), *ahead.tolist()])
        possible = min(barrier - now, stepped.segment_capacity(self.experiment.setup))
        rollouts = max(1, min(affordable, possible))
        started = time.perf_counter()
        advanced = self._trials.advance(now, rollouts, active)
        elapsed = time.perf_counter() - started
        # the first call compiles: what it took says nothing about a rollout
        first_call = math.isinf(self._seconds_per_rollout)
        self._seconds_per_rollout = SEGMENT_SECONDS / 8 if first_call else elapsed / rollouts
        self._record(advanced.ended, now)
        self._calls += advanced.taken
        if advanced.fault is not None:
            raise advanced.fault

    def _barrier(self, now: int) -> int:
        """The update at which something is to be looked at next."""
        moments = [self.experiment.update_of_evaluation(number) for number in range(self.experiment.evaluations)]
        moments.append(self.experiment.updates)
        if self.experiment.until is not None:
            every = self._ends.look_every // self.experiment.steps_per_update
            moments.append((now // every + 1) * every)
        return min(moment for moment in moments if moment > now)

    def _record(self, ended: stepped.Ended, first: int) -> None:
        """Put the episodes that ended from the rollout `first` on into the curves, by the step with which they did."""
        over = ended.length > 0
        counts = over.sum(axis=(0, 2))
        needed = int((self._played + counts).max())
        if needed > self.curves.returns.shape[1]:
            self.curves = self.curves.with_columns(2 * needed)
        assert self.curves.ends is not None
        for trial in np.flatnonzero(counts):
            step, environment = np.nonzero(over[:, trial])
            columns = slice(self._played[trial], self._played[trial] + counts[trial])
            self.curves.returns[trial, columns] = ended.episode_return[step, trial, environment]
            self.curves.lengths[trial, columns] = ended.length[step, trial, environment]
            before = first * self.experiment.steps_per_update
            self.curves.ends[trial, columns] = before + (step + 1) * self.experiment.environments
        self._played = self._played + counts
        if over.any():
            self._recent = float(ended.episode_return[over].mean())

    def _evaluate(self) -> None:
        """Let the trials for which it is time play a few episodes without learning."""
        due = np.flatnonzero(self._due())
        experiment, numbers = self.experiment, self.evaluations.evaluated[due]
        actors = on_host(_actors(experiment.setup)(self._trials.carried(lambda carried: carried.learner)))
        everyone = Playing(actors, experiment.trial_numbers(), experiment.evaluation_ways)
        for number in np.unique(numbers):
            some = due[numbers == number]
            episodes = episodes_of_evaluation(int(number), experiment.evaluation.evaluation_episodes)
            if experiment.engine == "hosted":
                own = everyone._replace(actors=jax.tree.map(lambda x, some=some: x[some], actors))
                returns = self._hosted_players(actors).returns(own._replace(trials=everyone.trials[some]), episodes)
            else:
                returns = compiled_returns(experiment, self._environment, everyone, episodes)[:, some]
            self.evaluations.record(some, int(number), returns)
        self.newly_evaluated = due.tolist()

    def _hosted_players(self, actors: Any) -> HostedPlayers:
        """The lanes of evaluations, which stay for all of them: new workers would take longer than the episodes."""
        if self._players is None:
            experiment = self.experiment
            turns = experiment.trials * experiment.evaluation.evaluation_episodes * len(experiment.evaluation_ways)
            self._players = HostedPlayers(experiment, self._environment, actors, turns, self._limits)
        return self._players

    # --- for checkpoints and agents ----------------------------------------------------------------------------------

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        carried = self._trials.carried()
        require_same_moment(carried.learner.update, self._calls)
        curves = self.curves.with_columns(int(self._played.max(initial=0)))
        kept = named(_kept(self.experiment.setup)(carried.learner), KEPT)
        return {
            **curves.arrays(),
            **named_carried(carried),
            **{name: np.asarray(array) for name, array in kept.items()},
            **self.evaluations.arrays(),
            **self._trials.arrays(),
        }

    def networks(self, trial: int) -> Networks:
        """What an agent of one trial, by its place, keeps, on the host."""
        kept = _kept(self.experiment.setup)(self._trials.carried(lambda carried: carried.learner))
        return on_host(jax.tree.map(lambda x: x[trial], kept))

    def close(self) -> None:
        """End the worker processes, where there are any."""
        self._trials.close()
        if self._players is not None:
            self._players.close()


@functools.cache
def _actors(setup: Any) -> Any:
    """Compiled `(state [trials]) -> actor [trials]`."""
    return jax.jit(jax.vmap(functools.partial(learner_of(setup).actor, setup)))


@functools.cache
def _kept(setup: Any) -> Any:
    """Compiled `(state [trials]) -> what agents keep [trials]`."""
    return jax.jit(jax.vmap(functools.partial(learner_of(setup).keep, setup)))


def _starting_point(
    experiment: Experiment, environment: EnvironmentSpec, saved: Arrays | None, hosted: bool
) -> tuple[Carried, Curves, Evaluations]:
    """The beginning, or where the arrays of a checkpoint left off."""
    initial = stepped.initialiser(
        experiment.setup, environment.spaces.flat_shapes, None if hosted else environment.build
    )
    seed, numbers = np.uint32(experiment.seed), experiment.trial_numbers()
    evaluations = Evaluations.empty(experiment)
    if saved is None:
        curves = Curves.empty(experiment.trials, FIRST_COLUMNS, side_by_side=True)
        return on_host(initial(seed, numbers)), curves, evaluations
    template: Any = jax.eval_shape(initial, seed, numbers)
    columns = saved["returns"].shape[1] if saved.get("returns", np.zeros(0)).ndim == 2 else 0
    expected: dict[str, Any] = {
        **named_carried(template),
        **named(jax.eval_shape(_kept(experiment.setup), template.learner), KEPT),
        **Curves.empty(experiment.trials, columns, side_by_side=True).arrays(),
        **evaluations.arrays(),
    }
    own = {name: array for name, array in saved.items() if not (hosted and name.startswith(PLAYING))}
    require_arrays(own, expected)
    carried = Carried(*(
        restored(part, saved, prefix)
        for part, prefix in zip(template, (STATE, REPLAY, PLAYING), strict=True)
    ))  # fmt: skip
    curves = Curves(*(saved[name].copy() for name in Curves._fields))
    if evaluations.arrays():
        evaluations = Evaluations(**{name: saved[name].copy() for name in evaluations.arrays()})
    in_limits = (evaluations.evaluated >= 0) & (evaluations.evaluated <= experiment.evaluations)
    if np.any(carried.learner.update < 0) or not in_limits.all():
        raise DamagedFileError("checkpoint: its curves do not fit its states")
    return carried, curves, evaluations
