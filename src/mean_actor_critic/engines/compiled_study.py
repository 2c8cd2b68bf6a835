"""A study in one compiled program: all trials of an experiment in blocks of lanes, advanced segment by segment."""

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mean_actor_critic.engines import compiled, devices
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.records import Snapshots, checkpoint_arrays, starting_point
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.learning.networks import ACTIVATIONS
from mean_actor_critic.learning.types import LearnerState
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import OPTIMIZERS, Experiment
from mean_actor_critic.trees import Arrays

SEGMENT_SECONDS = 0.5  # long enough to make calls cheap, short enough for smooth progress and prompt signals


class _Block(NamedTuple):
    """A group of lanes for every device. Arrays are spread over the devices."""

    place: np.ndarray[Any, Any]  # [lane] among the trials of the experiment
    trial: Any  # [lane] their numbers
    hyper: Any
    state: LearnerState
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
        setup = experiment.setup.generalised() if shared_program else experiment.setup
        self.experiment = experiment
        self._width = width
        state, self.curves = starting_point(experiment, setup, environment.spaces, saved)
        self._snapshots = Snapshots(snapshots, state, saved)
        if saved is None:
            self._snapshots.take(0, np.arange(experiment.trials), state)
        groups = math.ceil(experiment.trials / width)
        count = min(compiled.device_count(), groups)
        mesh = devices.mesh(count)
        self._sharding = NamedSharding(mesh, PartitionSpec(devices.AXIS))
        self._program = compiled.segment_program(setup, environment.build, mesh)
        places = (
            list(ACTIVATIONS).index(experiment.setup.activation),
            OPTIMIZERS.index(experiment.setup.optimizer),
        )
        self._choice = compiled.Choice(*(self._of_devices(np.full(count, place, np.int32)) for place in places))
        self._blocks = [
            self._block(experiment, state, first, count) for first in range(0, groups * width, count * width)
        ]
        self._seconds_per_episode = math.inf  # of one block; unknown yet

    def _of_devices(self, values: Any) -> Any:
        """An array [device], each value on its device."""
        return jax.device_put(values, self._sharding)

    def _block(self, experiment: Experiment, state: LearnerState, first: int, devices: int) -> _Block:
        # padding lanes repeat the last trial: same work, no special case
        place = np.minimum(np.arange(first, first + devices * self._width), experiment.trials - 1)
        of_trials = (experiment.trial_numbers(), experiment.hyper_of_trials(), state)
        trial, hyper, state = jax.device_put(jax.tree.map(lambda x: x[place], of_trials), self._sharding)
        groups = min(devices, math.ceil((experiment.trials - first) / self._width))
        return _Block(place, trial, hyper, state, groups)

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""
        return self.curves.episodes_done

    @property
    def position(self) -> int:
        """Episodes played so far, over all trials."""
        return self.episodes_done

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""
        return self.curves.finished

    def advance(self) -> Progress:
        """Play one segment of the block that is furthest behind."""
        behind = min(range(len(self._blocks)), key=lambda i: self._group_episodes(self._blocks[i]).min())
        block = self._blocks[behind]
        done = self._group_episodes(block)
        affordable = max(1, min(compiled.SEGMENT_CAPACITY, int(SEGMENT_SECONDS / self._seconds_per_episode)))
        episodes = np.minimum(affordable, self.experiment.episodes - done)
        episodes = np.minimum(episodes, self._snapshots.episodes_until_next(done)).astype(np.int32)

        started = time.perf_counter()
        segment = self._program(
            np.uint32(self.experiment.seed),
            self._choice,
            block.trial,
            block.hyper,
            block.state,
            self._of_devices(episodes),
        )
        metrics = on_host(segment.metrics)
        elapsed = time.perf_counter() - started
        # the first call compiles: what it took says nothing about an episode, so it is only halved into an estimate
        first_call = math.isinf(self._seconds_per_episode)
        self._seconds_per_episode = SEGMENT_SECONDS / 2 if first_call else elapsed / max(1, episodes.max())

        self._blocks[behind] = block._replace(state=segment.state)
        new_returns = self._record(block, done, episodes, metrics)
        self._take_snapshots(self._blocks[behind], done + episodes)
        return Progress(self.episodes_done, self.curves.lengths.size, float(np.mean(new_returns)), self._diverged())

    def _group_episodes(self, block: _Block) -> np.ndarray[Any, Any]:
        """Episodes played by each device's group [device]; groups of padding count as done."""
        lanes = block.place.reshape(-1, self._width)[:, 0]
        done = np.sum(self.curves.lengths[lanes] > 0, axis=1)
        return np.where(np.arange(len(lanes)) < block.groups, done, self.experiment.episodes)

    def _record(self, block: _Block, done: Any, episodes: Any, metrics: Any) -> np.ndarray[Any, Any]:
        """Put a segment's metrics into the curves; returns the new returns."""
        lanes = block.place.reshape(-1, self._width)
        new = []
        for group, trial in enumerate(lanes[: block.groups]):
            rows = slice(group * self._width, (group + 1) * self._width)
            columns = slice(done[group], done[group] + episodes[group])
            self.curves.returns[trial, columns] = metrics.episode_return[rows, : episodes[group]]
            self.curves.lengths[trial, columns] = metrics.length[rows, : episodes[group]]
            new.append(self.curves.returns[trial, columns].ravel())
        return np.concatenate(new)

    def _take_snapshots(self, block: _Block, done: np.ndarray[Any, Any]) -> None:
        """Of groups [device] that have so many episodes now."""
        for group in range(block.groups):
            if done[group] in self._snapshots.moments:
                rows = slice(group * self._width, (group + 1) * self._width)
                state = jax.tree.map(lambda x, rows=rows: x[rows], on_host(block.state._replace(replay=())))
                self._snapshots.take(int(done[group]), block.place[rows], state)

    def _diverged(self) -> int:
        return int(np.sum(self._gather("diverged_at") > 0))

    def _gather(self, field: str) -> Any:
        """One field of the states of all real trials, on the host."""
        parts = [on_host(getattr(block.state, field)) for block in self._blocks]
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[: self.experiment.trials], *parts)

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        state = LearnerState(*(self._gather(field) for field in LearnerState._fields))
        return checkpoint_arrays(state, self.curves, self._snapshots)

    def close(self) -> None:
        """Nothing to end: this engine has no processes of its own."""
