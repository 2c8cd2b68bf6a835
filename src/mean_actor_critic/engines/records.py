"""What every study holds beside its engine: the learning curves, and states from or for a checkpoint."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mean_actor_critic.engines import compiled
from mean_actor_critic.engines.curves import NETWORKS, SNAPSHOTS, STATE, Curves
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.learning.types import LearnerState
from mean_actor_critic.spec.experiment import Experiment, Setup
from mean_actor_critic.trees import Arrays, named, require_arrays, restored


class Snapshots:
    """The networks of every trial as they were at some moments of training."""

    def __init__(self, moments: Sequence[int], state: LearnerState, saved: Arrays | None) -> None:
        """For these `moments`, with states [trials] on the host; from the arrays of a checkpoint, if there is one.

        Raises:
            DamagedFileError: the arrays are not those of these moments.
        """
        self.moments = tuple(moments)
        self._arrays = {
            f"{SNAPSHOTS}{moment}/{name}": np.zeros_like(array)
            for moment in moments
            for name, array in _networks(state).items()
        }
        if saved is None:
            return
        kept = {name: array for name, array in saved.items() if name.startswith(SNAPSHOTS)}
        fits = set(kept) == set(self._arrays) and all(
            (kept[name].shape, kept[name].dtype) == (array.shape, array.dtype) for name, array in self._arrays.items()
        )
        if not fits:
            raise DamagedFileError("checkpoint: its snapshots do not fit the manifest")
        self._arrays = {name: array.copy() for name, array in kept.items()}

    def episodes_until_next(self, done: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Episodes [...] from those that are done [...] until the next moment; very many after the last."""
        ahead = np.array([*self.moments, np.iinfo(np.int32).max])
        return ahead[np.searchsorted(ahead, done, side="right")] - done

    def take(self, episode: int, place: np.ndarray[Any, Any], state: Any) -> None:
        """Keep the networks in states [n] of the trials at some places [n], if `episode` is a moment."""
        if episode in self.moments:
            for name, array in _networks(state).items():
                self._arrays[f"{SNAPSHOTS}{episode}/{name}"][place] = np.asarray(array)

    def arrays(self) -> Arrays:
        """For a checkpoint; those of moments to come are zeros."""
        return dict(self._arrays)


def _networks(state: LearnerState) -> Arrays:
    """What an agent is made of, by an agent's names."""
    learned = state._replace(policy_optimizer=(), critic_optimizer=(), replay=())
    return {name: leaf for name, leaf in named(learned).items() if name.startswith(NETWORKS)}


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
        state = on_host(initial(experiment.seed, experiment.trial_numbers()))
        return state, Curves(np.full(shape, np.nan, np.float32), np.zeros(shape, np.int32))
    template = jax.eval_shape(initial, experiment.seed, experiment.trial_numbers())
    own = {name: array for name, array in saved.items() if not name.startswith(SNAPSHOTS)}
    state = _state_from_arrays(template, shape, own)
    curves = Curves(saved["returns"].copy(), saved["lengths"].copy())
    if not np.array_equal(state.episode, curves.played):
        raise DamagedFileError("checkpoint: its curves do not fit its states")
    return state, curves


def checkpoint_arrays(state: LearnerState, curves: Curves, snapshots: Snapshots) -> Arrays:
    """Everything that a checkpoint holds, from states [trials] on the host."""
    return {**curves._asdict(), **named(state, STATE), **snapshots.arrays()}


def _state_from_arrays(template: LearnerState, shape: tuple[int, int], arrays: Arrays) -> LearnerState:
    """The states in the arrays of a checkpoint, which must be exactly those that `checkpoint_arrays` gives."""
    states = named(template, STATE)
    expected: dict[str, Any] = {
        **states,
        "returns": jax.ShapeDtypeStruct(shape, np.float32),
        "lengths": jax.ShapeDtypeStruct(shape, np.int32),
    }
    require_arrays(arrays, expected)
    return restored(template, arrays, STATE)
