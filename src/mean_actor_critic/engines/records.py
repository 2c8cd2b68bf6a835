"""What every study of episodes holds beside its engine: curves, evaluations, and states from or for a checkpoint."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from mean_actor_critic.engines import compiled
from mean_actor_critic.engines.curves import PLAYING, REPLAY, SNAPSHOTS, STATE, Curves, Evaluations
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.updates import Carried
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.learners import EPISODES
from mean_actor_critic.trees import Array, Arrays, named, require_arrays, restored

FIRST_COLUMNS = 64  # episodes that curves have room for at first, where the budget is in steps


class Snapshots:
    """The networks of every trial as they were at some moments of training."""

    def __init__(self, moments: Sequence[int], setup: Any, state: Any, saved: Arrays | None) -> None:
        """For these `moments`, with learners' states [trials] on the host; from a checkpoint, if there is one.

        Raises:
            DamagedFileError: the arrays are not those of these moments.
        """
        self.moments, self._setup = tuple(moments), setup
        self._arrays = {
            f"{SNAPSHOTS}{moment}/{name}": np.zeros_like(array)
            for moment in moments
            for name, array in _networks(self._setup, state).items()
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

    def take(self, episode: int, place: Array, state: Any) -> None:
        """Keep the networks in states [n] of the trials at some places [n], if `episode` is a moment."""
        if episode in self.moments:
            for name, array in _networks(self._setup, state).items():
                self._arrays[f"{SNAPSHOTS}{episode}/{name}"][place] = np.asarray(array)

    def arrays(self) -> Arrays:
        """For a checkpoint; those of moments to come are zeros."""
        return dict(self._arrays)


def _networks(setup: Any, state: Any) -> Arrays:
    """What an agent keeps of a state, by its names there."""
    return named(learner_of(setup).keep(setup, state))


class Start(NamedTuple):
    """Where a study begins."""

    carried: Carried  # [trials], on the host
    curves: Curves
    evaluations: Evaluations


def starting_point(experiment: Experiment, setup: Any, spaces: Spaces, saved: Arrays | None) -> Start:
    """The beginning, or where the arrays of a checkpoint left off.

    Args:
        experiment: what is run.
        setup: the experiment's, or as it is for a program that several share.
        spaces: of the environment.
        saved: the arrays of a checkpoint, if any.

    Raises:
        DamagedFileError: the arrays are not those of this experiment.
    """
    initial = compiled.initialiser(setup, spaces.flat_shapes)
    seed, numbers = np.uint32(experiment.seed), experiment.trial_numbers()
    evaluations = Evaluations.empty(experiment)
    if saved is None:
        columns = experiment.episodes or FIRST_COLUMNS
        return Start(on_host(initial(seed, numbers)), Curves.empty(experiment.trials, columns), evaluations)
    template: Any = jax.eval_shape(initial, seed, numbers)
    shape = (experiment.trials, experiment.episodes if experiment.episodes is not None else _columns(saved))
    expected: dict[str, Any] = {
        **named_carried(template),
        "returns": jax.ShapeDtypeStruct(shape, np.float32),
        "lengths": jax.ShapeDtypeStruct(shape, np.int32),
        **evaluations.arrays(),
    }
    require_arrays({name: array for name, array in saved.items() if not name.startswith(SNAPSHOTS)}, expected)
    carried = Carried(restored(template.learner, saved, STATE), restored(template.replay, saved, REPLAY))
    curves = Curves(saved["returns"].copy(), saved["lengths"].copy())
    if evaluations.arrays():
        evaluations = Evaluations(**{name: saved[name].copy() for name in evaluations.arrays()})
    in_limits = (evaluations.evaluated >= 0) & (evaluations.evaluated <= experiment.evaluations)
    if not np.array_equal(carried.learner.episode, curves.played) or not in_limits.all():
        raise DamagedFileError("checkpoint: its curves do not fit its states")
    return Start(carried, curves, evaluations)


def _columns(saved: Arrays) -> int:
    """Episodes of a checkpoint's curves, which the budget does not tell where it is in steps."""
    returns = saved.get("returns")
    return returns.shape[1] if returns is not None and returns.ndim == 2 else 0


def named_carried(carried: Carried) -> dict[str, Any]:
    """What trials carry, by the names that it has in a checkpoint."""
    parts = ((carried.learner, STATE), (carried.replay, REPLAY), (carried.playing, PLAYING))
    return {name: leaf for part, prefix in parts for name, leaf in named(part, prefix).items()}


def checkpoint_arrays(carried: Carried, curves: Curves, evaluations: Evaluations, snapshots: Snapshots) -> Arrays:
    """Everything that a checkpoint holds, from what trials carry [trials] on the host."""
    require_same_moment(carried.learner.episode, curves.played)
    return {**curves.arrays(), **named_carried(carried), **evaluations.arrays(), **snapshots.arrays()}


def require_same_moment(of_states: Array, of_curves: Array) -> None:
    """Refuse to write states that are ahead of their curves [trials], which a fault between the two may have left."""
    if not np.array_equal(of_states, of_curves):
        raise RuntimeError(f"states are those after {of_states.tolist()} updates, curves after {of_curves.tolist()}")


def trimmed(experiment: Experiment, curves: Curves) -> Curves:
    """Curves as a checkpoint holds them: where the budget is in steps, with as many columns as episodes were played."""
    if experiment.budget.unit == EPISODES:
        return curves
    return curves.with_columns(int(curves.played.max(initial=0)))
