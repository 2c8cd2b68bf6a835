"""What every study holds beside its engine: the learning curves, and states from or for a checkpoint."""

from typing import Any, NamedTuple

import jax
import numpy as np

from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.experiment import Experiment, Setup
from mean_actor_critic.run import STATE
from mean_actor_critic.store import Arrays
from mean_actor_critic.training import compiled
from mean_actor_critic.types import LearnerState


class Curves(NamedTuple):
    """Learning curves so far."""

    returns: np.ndarray[Any, Any]  # [trials, episodes], NaN where not played yet
    lengths: np.ndarray[Any, Any]  # [trials, episodes] agent steps, 0 where not played yet

    @property
    def played(self) -> np.ndarray[Any, Any]:
        """Episodes of each trial [trials]."""
        return np.sum(self.lengths > 0, axis=1)

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""
        return int(np.sum(self.lengths > 0))

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""
        return self.episodes_done == self.lengths.size


def starting_point(
    experiment: Experiment, setup: Setup, spaces: Spaces, saved: Arrays | None
) -> tuple[LearnerState, Curves]:
    """States [trials] on the host and curves: of the beginning, or where the arrays of a checkpoint left off.

    `setup` is the experiment's, or as it is for a program that several share.

    Raises:
        DamagedFileError: the arrays are not those of this experiment.
    """
    shape = (experiment.trials, experiment.episodes)
    initial = compiled.initialiser(setup, spaces.observation_size, spaces.actions)
    if saved is None:
        state = jax.tree.map(np.asarray, initial(experiment.seed, experiment.trial_numbers()))
        return state, Curves(np.full(shape, np.nan, np.float32), np.zeros(shape, np.int32))
    template = jax.eval_shape(initial, experiment.seed, experiment.trial_numbers())
    state = _state_from_arrays(template, shape, saved)
    curves = Curves(saved["returns"].copy(), saved["lengths"].copy())
    if not np.array_equal(state.episode, curves.played):
        raise DamagedFileError("checkpoint: its curves do not fit its states")
    return state, curves


def checkpoint_arrays(state: LearnerState, curves: Curves) -> Arrays:
    """Everything that a checkpoint holds, from states [trials] on the host."""
    return {**curves._asdict(), **named_leaves(state)}


def named_leaves(state: Any, prefix: str = STATE) -> Arrays:
    """The arrays of a pytree, by their places in it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    return {prefix + jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def require_arrays(arrays: Arrays, expected: dict[str, Any]) -> None:
    """Raise a DamagedFileError unless `arrays` are exactly those `expected`, by shape and type."""
    foreign = set(arrays) - set(expected)
    if foreign:
        raise DamagedFileError(f"checkpoint: holds something that no run writes: {min(foreign)}")
    for name, leaf in expected.items():
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise DamagedFileError(f"checkpoint: {name} is missing or does not fit the manifest")


def _state_from_arrays(template: LearnerState, shape: tuple[int, int], arrays: Arrays) -> LearnerState:
    """The states in the arrays of a checkpoint, which must be exactly those that `checkpoint_arrays` gives."""
    states = named_leaves(template)
    expected: dict[str, Any] = {
        **states,
        "returns": jax.ShapeDtypeStruct(shape, np.float32),
        "lengths": jax.ShapeDtypeStruct(shape, np.int32),
    }
    require_arrays(arrays, expected)
    return jax.tree.unflatten(jax.tree.structure(template), [arrays[name] for name in states])
