"""A study in one compiled program: all trials of an experiment in blocks of lanes, advanced segment by segment."""

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mean_actor_critic.engines import compiled, devices
from mean_actor_critic.engines.curves import Ends
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.play import Playing, compiled_returns, episodes_of_evaluation
from mean_actor_critic.engines.records import Snapshots, checkpoint_arrays, starting_point, trimmed
from mean_actor_critic.engines.updates import Carried
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.errors import EnvironmentFault
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import Networks
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import SOLVED_EVERY, Experiment
from mean_actor_critic.spec.learners import ACTIVATIONS, EPISODES, OPTIMIZERS
from mean_actor_critic.trees import Array, Arrays

SEGMENT_SECONDS = 0.5  # long enough to make calls cheap, short enough for smooth progress and prompt signals
FOREVER = np.iinfo(np.int32).max


class _Block(NamedTuple):
    """A group of lanes for every device. Arrays are spread over the devices."""

    place: Array  # [lane] among the trials of the experiment
    trial: Any  # [lane] their numbers
    hyper: Any
    carried: Carried
    groups: int  # groups with real trials; the rest are padding


class CompiledStudy:
    """All trials of an experiment on a compiled environment, and their curves so far."""

    def __init__(
        self,
        experiment: Experiment,
        environment: EnvironmentSpec,
        width: int,
        saved: Arrays | None,
        shared_program: bool = False,
        snapshots: Sequence[int] = (),
    ) -> None:
        """Start at the beginning, or where the arrays of a checkpoint left off.

        Args:
            experiment: what to run.
            environment: where.
            width: lanes of a device.
            saved: the arrays of a checkpoint, if any.
            shared_program: use one that serves all activations and optimisers, for searches: a little slower, and other
                low bits.
            snapshots: episodes after which networks are kept as they were.

        Raises:
            DamagedFileError: the arrays are not those of this experiment.
        """
        chosen: Any = experiment.setup
        setup = chosen.generalised() if shared_program else chosen
        self.experiment, self._environment, self._width = experiment, environment, width
        start = starting_point(experiment, setup, environment.spaces, saved)
        self.curves, self.evaluations = start.curves, start.evaluations
        self._snapshots = Snapshots(snapshots, setup, start.carried.learner, saved)
        if saved is None:
            self._snapshots.take(0, np.arange(experiment.trials), start.carried.learner)
        self._ends = Ends(experiment)
        # whether trials may end at different moments, so that each lane has to be told when
        self._limited = experiment.budget.unit != EPISODES or experiment.until is not None
        groups = math.ceil(experiment.trials / width)
        count = min(compiled.device_count(), groups)
        mesh = devices.mesh(count)
        self._sharding = NamedSharding(mesh, PartitionSpec(devices.AXIS))
        limit = experiment.rules.max_episode_steps
        self._program = compiled.segment_program(setup, limit, environment.build, mesh, self._limited)
        places = (
            ACTIVATIONS.index(getattr(chosen, "activation", ACTIVATIONS[0])),
            OPTIMIZERS.index(getattr(chosen, "optimizer", OPTIMIZERS[0])),
        )
        self._choice = compiled.Choice(*(self._on_devices(np.full(count, place, np.int32)) for place in places))
        self._blocks = [
            self._block(experiment, start.carried, first, count) for first in range(0, groups * width, count * width)
        ]
        self._seconds_per_episode = math.inf  # of one block; unknown yet
        self._recent = float("nan")  # mean return of the last segment that had an episode
        self.newly_evaluated: list[int] = []  # trials, in the last segment

    def _on_devices(self, values: Any) -> Any:
        """An array [device * n], each part on its device."""
        return jax.device_put(values, self._sharding)

    def _block(self, experiment: Experiment, carried: Carried, first: int, devices: int) -> _Block:
        # padding lanes repeat the last trial: same work, no special case
        place = np.minimum(np.arange(first, first + devices * self._width), experiment.trials - 1)
        of_trials = (experiment.trial_numbers(), experiment.hyper_of_trials(), carried)
        trial, hyper, carried = self._on_devices(jax.tree.map(lambda x: x[place], of_trials))
        groups = min(devices, math.ceil((experiment.trials - first) / self._width))
        return _Block(place, trial, hyper, carried, groups)

    # --- how far it is -----------------------------------------------------------------------------------------------

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""
        return int(self.curves.played.sum())

    @property
    def steps_taken(self) -> int:
        """Agent steps so far, over all trials."""
        return int(self.curves.steps.sum())

    @property
    def position(self) -> int:
        """Episodes and evaluations so far, over all trials."""
        return self.episodes_done + int(self.evaluations.evaluated.sum())

    @property
    def finished(self) -> bool:
        """Whether every trial has been trained and evaluated as it should be."""
        return bool(self._trained().all()) and not self._due().any()

    def _trained(self) -> Array:
        """Whether each trial has been trained as long as it should be [trials]."""
        return self._ends.trained(self.curves, self.evaluations)

    def _done(self) -> Array:
        """What each trial has done [trials], in the budget's unit."""
        return self.curves.played if self.experiment.budget.unit == EPISODES else self.curves.steps

    def _due(self) -> Array:
        """Whether an evaluation of each trial is due before it is trained further [trials]."""
        if not self.experiment.evaluations:
            return np.zeros(self.experiment.trials, bool)
        moments = np.append(self.experiment.evaluation_moments(), np.iinfo(np.int64).max)
        solved = self._ends.solved_at(self.curves, self.evaluations) > 0
        return (self._done() >= moments[self.evaluations.evaluated]) & ~solved

    # --- advancing ---------------------------------------------------------------------------------------------------

    def advance(self) -> Progress:
        """Play one segment of the block that is furthest behind, or evaluate trials of it."""
        self.newly_evaluated = []
        waiting = self._trained() | self._due()
        behind = [np.where(waiting[block.place], FOREVER, self._done()[block.place]).min() for block in self._blocks]
        place = int(np.argmin(behind))
        if behind[place] == FOREVER:
            self._evaluate()
        else:
            self._train(place, waiting)
        diverged = sum(int(np.sum(on_host(b.carried.learner.diverged_at)[self._real(b)] > 0)) for b in self._blocks)
        amount = self.experiment.budget.amount
        done = np.where(self._trained(), amount, np.minimum(self._done(), amount))
        return Progress(
            int(done.sum()), amount * self.experiment.trials, self._recent, diverged, steps=self.steps_taken
        )

    def _real(self, block: _Block) -> slice:
        """The lanes of a block that are trials, not padding."""
        return slice(0, self.experiment.trials - int(block.place[0]))

    def _train(self, number: int, waiting: Array) -> None:
        block = self._blocks[number]
        played = self.curves.played[block.place].reshape(-1, self._width)
        affordable = max(1, min(compiled.SEGMENT_CAPACITY, int(SEGMENT_SECONDS / self._seconds_per_episode)))
        active = ~waiting[block.place].reshape(-1, self._width)
        active[block.groups :] = False
        until_barrier = np.where(active, self._episodes_until_barrier(played), FOREVER).min(axis=1)
        episodes = np.where(active.any(axis=1), np.minimum(affordable, until_barrier), 0).astype(np.int32)

        started = time.perf_counter()
        segment = self._program(
            np.uint32(self.experiment.seed),
            self._choice,
            block.trial,
            block.hyper,
            block.carried,
            self._on_devices(episodes),
            self._on_devices(self._steps_left(block.place, waiting)),
        )
        metrics = on_host(segment.metrics)
        elapsed = time.perf_counter() - started
        # the first call compiles: what it took says nothing about an episode, so it is only halved into an estimate
        first_call = math.isinf(self._seconds_per_episode)
        self._seconds_per_episode = SEGMENT_SECONDS / 2 if first_call else elapsed / max(1, episodes.max())

        self._blocks[number] = block._replace(carried=segment.carried)
        self._record(block, played, episodes, metrics)
        self._take_snapshots(self._blocks[number])
        self._require_legal(block, segment.stuck)

    def _require_legal(self, block: _Block, stuck: Any) -> None:
        """Raise an EnvironmentFault if a lane stands still before an episode without a way on."""
        if isinstance(stuck, tuple):
            return
        for place, step in zip(block.place, on_host(stuck), strict=True):
            if step:
                trial, episode = int(self.experiment.trial_numbers()[place]), int(self.curves.played[place]) + 1
                raise EnvironmentFault.no_legal_action(self._environment.name, trial, f"episode {episode}", int(step))

    def _episodes_until_barrier(self, played: Array) -> Array:
        """Episodes [...] that trials with so many [...] may play until something is to be looked at."""
        barriers = [*self._snapshots.moments]
        if self.experiment.budget.unit == EPISODES:
            barriers += [self.experiment.budget.amount, *self.experiment.evaluation_moments().tolist()]
        ahead = np.array([*sorted(set(barriers)), FOREVER])
        until = ahead[np.searchsorted(ahead, played, side="right")] - played
        if self.experiment.until is not None and not self.experiment.evaluations:
            until = np.minimum(until, SOLVED_EVERY - played % SOLVED_EVERY)
        return until

    def _steps_left(self, place: Array, waiting: Array) -> Array:
        """Agent steps that lanes [lane] may take until they end or are evaluated; 0 for those that wait."""
        if self.experiment.budget.unit == EPISODES:
            return np.where(waiting[place], 0, FOREVER).astype(np.int32)
        moments = [*self.experiment.evaluation_moments().tolist(), self.experiment.budget.amount]
        ahead = np.array([*sorted(set(moments)), np.iinfo(np.int64).max])
        steps = self.curves.steps[place]
        left = ahead[np.searchsorted(ahead, steps, side="right")] - steps
        return np.where(waiting[place], 0, np.minimum(left, FOREVER)).astype(np.int32)

    def _record(self, block: _Block, played: Array, episodes: Array, metrics: Any) -> None:
        """Put a segment's metrics into the curves."""
        needed = int((played + episodes[:, None]).max())
        if needed > self.curves.returns.shape[1]:  # the budget is in steps: room for as many again
            self.curves = self.curves.with_columns(2 * needed)
        new = []
        for group in range(block.groups):
            for lane in range(group * self._width, (group + 1) * self._width):
                trial, count = block.place[lane], int(np.sum(metrics.length[lane, : episodes[group]] > 0))
                columns = slice(played.flat[lane], played.flat[lane] + count)
                self.curves.returns[trial, columns] = metrics.episode_return[lane, :count]
                self.curves.lengths[trial, columns] = metrics.length[lane, :count]
                new.append(metrics.episode_return[lane, :count])
        if any(map(len, new)):
            self._recent = float(np.mean(np.concatenate(new)))

    def _take_snapshots(self, block: _Block) -> None:
        """Of lanes that have as many episodes now as a moment asks for. One that has ended is as it was there."""
        played = self.curves.played[block.place[: block.groups * self._width]]
        for episode in set(played.tolist()) & set(self._snapshots.moments):
            lanes = np.flatnonzero(played == episode)
            state = jax.tree.map(lambda x, lanes=lanes: np.asarray(x)[lanes], block.carried.learner)
            self._snapshots.take(episode, block.place[lanes], state)

    def _evaluate(self) -> None:
        """Let the trials for which it is time play a few episodes without learning."""
        due, experiment = np.flatnonzero(self._due()), self.experiment
        everyone = Playing(self._actors(), experiment.trial_numbers(), experiment.evaluation_ways)
        count, numbers = experiment.evaluation.evaluation_episodes, self.evaluations.evaluated[due]
        for number in np.unique(numbers):
            some = due[numbers == number]
            episodes = episodes_of_evaluation(int(number), count)
            returns = compiled_returns(experiment, self._environment, everyone, episodes)
            self.evaluations.record(some, int(number), returns[:, some])
        self.newly_evaluated = due.tolist()

    def _gather(self, part: Callable[[Carried], Any] = lambda carried: carried) -> Any:
        """What all real trials carry, or a part of it, on the host; one array at a time, for the sake of memory."""
        blocks = [part(block.carried) for block in self._blocks]
        return jax.tree.map(
            lambda *arrays: np.concatenate([on_host(array) for array in arrays])[: self.experiment.trials], *blocks
        )

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        curves = trimmed(self.experiment, self.curves)
        return checkpoint_arrays(self._gather(), curves, self.evaluations, self._snapshots)

    def networks(self, trial: int) -> Networks:
        """What an agent of one trial, by its place, keeps, on the host."""
        setup = self.experiment.setup
        kept = self._gather(lambda carried: learner_of(setup).keep(setup, carried.learner))
        return jax.tree.map(lambda x: x[trial], kept)

    def _actors(self) -> Any:
        """What plays for each trial [trials], on the host."""
        setup = self.experiment.setup
        return self._gather(lambda carried: learner_of(setup).actor(setup, carried.learner))

    def close(self) -> None:
        """Nothing to end: this engine has no processes of its own."""
