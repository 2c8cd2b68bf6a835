"""A study in memory: all trials of an experiment, advanced segment by segment."""

import math
import time
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.experiment import Experiment
from mean_actor_critic.progress import Progress
from mean_actor_critic.run import STATE
from mean_actor_critic.store import Arrays
from mean_actor_critic.training import compiled
from mean_actor_critic.types import LearnerState

SEGMENT_SECONDS = 0.5  # long enough to make calls cheap, short enough for smooth progress and prompt signals


class _Block(NamedTuple):
    """A group of lanes for every device. Arrays are spread over the devices."""

    trial: Any  # [lane]
    hyper: Any
    state: LearnerState
    groups: int  # groups with real trials; the rest are padding


class Study:
    """All trials of an experiment, and their curves so far."""

    def __init__(self, experiment: Experiment, environment: EnvironmentSpec, width: int, saved: Arrays | None) -> None:
        """Start at the beginning, or where the arrays of a checkpoint left off.

        Raises:
            DamagedFileError: the arrays are not those of this experiment.
        """
        self.experiment = experiment
        self._width = width
        trials, episodes = experiment.trials, experiment.episodes
        initial = compiled.initialiser(experiment.setup, environment.observation_size, environment.actions)
        if saved is None:
            state = jax.tree.map(np.asarray, initial(experiment.seed, np.arange(trials)))
            self.returns: np.ndarray[Any, Any] = np.full((trials, episodes), np.nan, np.float32)
            self.lengths: np.ndarray[Any, Any] = np.zeros((trials, episodes), np.int32)
        else:
            template = jax.eval_shape(initial, experiment.seed, np.arange(trials))
            state = _state_from_arrays(template, (trials, episodes), saved)
            self.returns, self.lengths = saved["returns"].copy(), saved["lengths"].copy()
            if not np.array_equal(state.episode, np.sum(self.lengths > 0, axis=1)):
                raise DamagedFileError("checkpoint: its curves do not fit its states")

        groups = math.ceil(trials / width)
        devices = min(compiled.device_count(), groups)
        mesh = compiled.lane_mesh(devices)
        self._sharding = NamedSharding(mesh, PartitionSpec("lane"))
        self._program = compiled.segment_program(experiment.setup, environment, mesh)
        self._blocks = [
            self._block(experiment, state, first, devices) for first in range(0, groups * width, devices * width)
        ]
        self._seconds_per_episode = math.inf  # of one block; unknown yet

    def _block(self, experiment: Experiment, state: LearnerState, first: int, devices: int) -> _Block:
        # padding lanes repeat the last trial: same work, no special case
        trial = np.minimum(np.arange(first, first + devices * self._width), experiment.trials - 1)
        hyper, state = jax.tree.map(lambda x: x[trial], (experiment.hyper_of_trials(), state))
        groups = min(devices, math.ceil((experiment.trials - first) / self._width))
        trial, hyper, state = jax.device_put((trial.astype(np.int32), hyper, state), self._sharding)
        return _Block(trial, hyper, state, groups)

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""
        return int(np.sum(self.lengths > 0))

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""
        return self.episodes_done == self.lengths.size

    def advance(self) -> Progress:
        """Play one segment of the block that is furthest behind."""
        behind = min(range(len(self._blocks)), key=lambda i: self._group_episodes(self._blocks[i]).min())
        block = self._blocks[behind]
        done = self._group_episodes(block)
        affordable = max(1, min(compiled.SEGMENT_CAPACITY, int(SEGMENT_SECONDS / self._seconds_per_episode)))
        episodes = np.minimum(affordable, self.experiment.episodes - done).astype(np.int32)

        started = time.perf_counter()
        segment = self._program(
            np.uint32(self.experiment.seed),
            block.trial,
            block.hyper,
            block.state,
            jax.device_put(episodes, self._sharding),
        )
        metrics = jax.tree.map(np.asarray, segment.metrics)
        elapsed = time.perf_counter() - started
        # the first call compiles: what it took says nothing about an episode, so it is only halved into an estimate
        first_call = math.isinf(self._seconds_per_episode)
        self._seconds_per_episode = SEGMENT_SECONDS / 2 if first_call else elapsed / max(1, episodes.max())

        self._blocks[behind] = block._replace(state=segment.state)
        new_returns = self._record(block, done, episodes, metrics)
        return Progress(self.episodes_done, self.lengths.size, float(np.mean(new_returns)), self._diverged())

    def _group_episodes(self, block: _Block) -> np.ndarray[Any, Any]:
        """Episodes played by each device's group [device]; groups of padding count as done."""
        lanes = np.asarray(block.trial).reshape(-1, self._width)[:, 0]
        done = np.sum(self.lengths[lanes] > 0, axis=1)
        return np.where(np.arange(len(lanes)) < block.groups, done, self.experiment.episodes)

    def _record(self, block: _Block, done: Any, episodes: Any, metrics: Any) -> np.ndarray[Any, Any]:
        """Put a segment's metrics into the curves; returns the new returns."""
        lanes = np.asarray(block.trial).reshape(-1, self._width)
        new = []
        for group, trial in enumerate(lanes[: block.groups]):
            rows = slice(group * self._width, (group + 1) * self._width)
            columns = slice(done[group], done[group] + episodes[group])
            self.returns[trial, columns] = metrics.episode_return[rows, : episodes[group]]
            self.lengths[trial, columns] = metrics.length[rows, : episodes[group]]
            new.append(self.returns[trial, columns].ravel())
        return np.concatenate(new)

    def _diverged(self) -> int:
        return int(np.sum(self._gather("diverged_at") > 0))

    def _gather(self, field: str) -> Any:
        """One field of the states of all real trials, on the host."""
        parts = [jax.tree.map(np.asarray, getattr(block.state, field)) for block in self._blocks]
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[: self.experiment.trials], *parts)

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        state = LearnerState(*(self._gather(field) for field in LearnerState._fields))
        return {"returns": self.returns, "lengths": self.lengths, **_named_leaves(state)}


def _named_leaves(state: LearnerState) -> Arrays:
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {STATE + jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def _state_from_arrays(template: LearnerState, curves: tuple[int, int], arrays: Arrays) -> LearnerState:
    """The states in the arrays of a checkpoint, which must be exactly those that `Study.arrays` gives."""
    states = _named_leaves(template)
    expected: dict[str, Any] = {
        **states,
        "returns": jax.ShapeDtypeStruct(curves, np.float32),
        "lengths": jax.ShapeDtypeStruct(curves, np.int32),
    }
    foreign = set(arrays) - set(expected)
    if foreign:
        raise DamagedFileError(f"checkpoint: holds something that no run writes: {min(foreign)}")
    for name, leaf in expected.items():
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise DamagedFileError(f"checkpoint: {name} is missing or does not fit the manifest")
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in states])
