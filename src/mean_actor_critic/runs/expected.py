"""What the files of a run may hold by its manifest: shapes of networks, and how large a checkpoint can be. No JAX."""

from typing import Any

import numpy as np

from mean_actor_critic.environments.programs import PROGRAMS
from mean_actor_critic.environments.spaces import Spaces
from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.networks import Layer, Networks, Scale, Units
from mean_actor_critic.learning.torsos import Normed
from mean_actor_critic.spec.algorithms import POLICY, algorithm_of
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.learners import CHOICE
from mean_actor_critic.trees import Array, Arrays, named, restored

NUMBER = 4  # bytes
COPIES = (
    10  # of an agent's networks in a learner's state, at most: targets, averages of the optimiser, the agent itself
)
FEATURES = 2 * 128  # numbers, at most, that are kept for each number of an observation, and for each other
STATE_OF_OURS, STATE_OF_OTHERS = 2**18, 2**26  # bytes, at most, of what an environment is at that is a JAX program
SLACK = 2  # whatever was not thought of: a limit that refuses no run


def most_bytes(experiment: Experiment, spaces: Spaces, snapshots: int) -> float:
    """More than any checkpoint of a run holds, so that a larger one is none; infinite where that is not known.

    What a checkpoint holds to the byte, only the programs know, and JAX takes a second to be imported.

    Args:
        experiment: what is run.
        spaces: of its environment.
        snapshots: moments from which networks are kept.
    """
    if experiment.network is not None:
        return float("inf")  # a user's own
    setup: Any = experiment.setup
    seen, environments = spaces.observation_size, experiment.environments
    network = sum(x.size for x in named(blank_networks(experiment, spaces)).values())
    rows = getattr(setup, "replay_capacity", 0) + environments
    numbers = (COPIES + snapshots) * network + FEATURES * (seen + FEATURES) + rows * (2 * seen + spaces.actions + 16)
    numbers += environments * (2 * seen + spaces.actions + experiment.rules.max_episode_steps + 64)
    if not experiment.is_game:
        numbers += 4 * experiment.budget.amount  # curves: an episode has a step at least
    numbers += experiment.evaluations * (2 * experiment.most_evaluation_episodes + 4)
    of_environment = 0
    if experiment.engine == "compiled" and experiment.counts_updates:
        of_environment = STATE_OF_OURS if experiment.environment in PROGRAMS else STATE_OF_OTHERS
    return SLACK * experiment.trials * (NUMBER * numbers + environments * of_environment)


def networks_from_arrays(experiment: Experiment, spaces: Spaces, arrays: Arrays) -> Networks:
    """Networks from arrays named `policy/0/weight`, `normalizer/mean` and so on; others are an error.

    Raises:
        ValueError: the arrays do not form the networks of the experiment.
        KeyError: one is missing.
    """
    template = blank_networks(experiment, spaces)
    networks: Networks = restored(template, arrays)
    for name, like in named(template).items():
        if arrays[name].shape != like.shape:
            raise ValueError(f"{name} does not fit the spaces and settings")
    if set(arrays) != set(named(template)) or any(array.dtype != np.float32 for array in arrays.values()):
        raise ValueError("unexpected arrays")
    return networks


def require_choices_in_units_of_one(experiment: Experiment, networks: Networks) -> None:
    """Refuse units that would make something else of the one 1 among 0s by which a choice is told: it is looked up.

    This looks at numbers, where `networks_from_arrays` looks at shapes.

    Raises:
        ValueError: a choice is shifted, or divided by something else than 1.
    """
    units, start = networks.normalizer, 0
    for part in getattr(experiment.setup, "parts", ()) if units else ():
        own = slice(start, start + part.size)
        if part.kind == CHOICE and not ((units.mean[own] == 0).all() and (units.deviation[own] == 1).all()):
            raise ValueError("choices among its observations are not measured from 0 in units of 1")
        start += part.size


def blank_networks(experiment: Experiment, spaces: Spaces) -> Networks:
    """Networks of the right shapes, which take no memory."""
    setup: Any = experiment.setup
    network = network_of(setup)
    if network.shared:
        if spaces.observation.shape != getattr(experiment.rules, "observation_shape", spaces.observation.shape):
            raise ValueError("the observation space does not fit the settings")
        values = 1 if setup.has_state_values else spaces.actions
        return Networks(network=_blank(network.shapes(*spaces.whole_shapes, values)))
    if hasattr(setup, "parts"):
        return _template_of_stacks(setup, spaces)
    layers = _blank(network.shapes(*spaces.flat_shapes))
    size = _blank_array((spaces.observation_size,))
    scale: Any = Scale(size, size) if setup.normalize_observations else ()
    return Networks(layers, layers if setup.has_critic else (), scale)


def _template_of_stacks(setup: Any, spaces: Spaces) -> Networks:
    """The same for stacks of networks: the policy, or the critics where there is none, and the critics."""
    shapes = network_of(setup).shapes(*spaces.flat_shapes)
    size = _blank_array((spaces.observation_size,))
    has_policy = POLICY in algorithm_of(setup.algorithm).parts
    policy = _blank(shapes, (1 if has_policy else setup.critics,))
    critics = _blank(shapes, (setup.critics,)) if setup.critics else ()
    return Networks(policy, critics, Units(size, size) if setup.scales_observations else ())


def _blank(shapes: Any, leading: tuple[int, ...] = ()) -> Any:
    """Layers of shapes as layers of arrays, with more dimensions in front."""
    if isinstance(shapes, Layer):
        return Layer(*(_blank_or_none(shape, leading) for shape in shapes))
    if hasattr(shapes, "shape"):
        return _blank_array((*leading, *shapes.shape))
    if isinstance(shapes, Normed):
        return Normed(_blank(shapes.layer, leading), *(_blank_or_none(shape, leading) for shape in shapes[1:]))
    parts = [_blank(part, leading) for part in shapes]
    return type(shapes)(*parts) if hasattr(shapes, "_fields") else tuple(parts)


def _blank_or_none(shape: tuple[int, ...], leading: tuple[int, ...]) -> Any:
    """An array of a layer; () where the layer has none."""
    return _blank_array((*leading, *shape)) if shape else ()


def _blank_array(shape: tuple[int, ...]) -> Array:
    return np.broadcast_to(np.float32(0), shape)
