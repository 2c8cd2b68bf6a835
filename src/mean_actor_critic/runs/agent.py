"""One-file agents: a trained policy and all that is needed to use it. Runs on NumPy alone."""

import itertools
import json
import re
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from mean_actor_critic.trees import Arrays
from mean_actor_critic.runs import store
from mean_actor_critic.spec.atari_experiment import AnyExperiment, AtariExperiment, any_experiment_from_json
from mean_actor_critic.environments.spaces import FormError, Spaces, flatten, spaces_from_json
from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.spec.experiment import SEEDS, Experiment, require_whole
from mean_actor_critic.learning.networks import GameNetwork, Layer, Network, game_layer_shapes, game_outputs, inverse_cdf, mlp, normalize, softmax

AGENT_FORMAT = "mean_actor_critic agent 2"

_PARAMETER = re.compile(r"(policy|critic)/(\d)/(weight|bias)")
_NORMALIZER = ("normalizer/mean", "normalizer/variance")


class Networks(NamedTuple):
    """What an agent has learned."""

    policy: Network  # layers from observation to action logits
    critic: Network  # layers from observation to action values; empty if the algorithm has none
    normalizer: tuple[Any, ...] = ()  # mean and variance [size] of observations, if they are normalised

    def to_arrays(self) -> Arrays:
        """By the names that `networks_from_arrays` knows."""
        normalizer = {name: np.asarray(x) for name, x in zip(_NORMALIZER, self.normalizer, strict=False)}
        return {**_named("policy", self.policy), **_named("critic", self.critic), **normalizer}


class Agent:
    """A policy for one environment, with the critic it was trained with, if any.

    Attributes:
        experiment: what it was trained by; `experiment.setup.environment` names the environment.
        spaces: of that environment.
        trial: which trial of that experiment it is, by its place, from 0.
        networks: what it has learned.
    """

    def __init__(
        self, experiment: AnyExperiment, spaces: Spaces, trial: int, networks: Networks | GameNetwork, seed: int = 0
    ) -> None:
        self.experiment = experiment
        self.spaces = spaces
        self.trial = trial
        self.networks = networks
        self.seed(seed)

    @property
    def policy(self) -> Network:
        """Layers from observation to action logits."""
        networks = self.networks
        return networks.policy if isinstance(networks, Networks) else (*_trunk(networks), networks.policy)

    @property
    def critic(self) -> Network:
        """Layers from observation to action values; empty if the algorithm has none."""
        networks = self.networks
        return networks.critic if isinstance(networks, Networks) else (*_trunk(networks), networks.critic)

    def seed(self, seed: int) -> None:
        """Start the draws of sampled actions anew."""
        self._random = np.random.default_rng(require_whole("seed", seed, *SEEDS))

    def action_probabilities(self, observation: Any) -> np.ndarray[Any, Any]:
        """Probabilities [..., actions] for one observation of the environment, or a batch of them [...]."""
        try:
            seen = flatten(self.spaces.observation, observation)
        except FormError as fault:
            raise InputError(
                "observation", _brief(observation), f"one of {self.spaces.observation}; it {fault}"
            ) from None
        if isinstance(self.experiment, AtariExperiment):
            assert isinstance(self.networks, GameNetwork)
            shape: Any = self.spaces.observation.shape
            policy = softmax(game_outputs(self.networks, seen.astype(np.uint8).reshape(-1, *shape)).logits)
            return np.asarray(policy.reshape(*seen.shape[:-1], -1))
        assert isinstance(self.networks, Networks)
        if self.networks.normalizer:
            seen = normalize(seen, *self.networks.normalizer)
        return softmax(mlp(self.policy, seen, self.experiment.setup.activation))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002
        deterministic: bool = False,
    ) -> tuple[np.ndarray[Any, Any], None]:
        """Actions for one observation or a batch of n, in the form of Stable-Baselines3.

        Args:
            observation: what the environment, or a vector of them, returned.
            state: for compatibility; the policies here have no memory.
            episode_start: for compatibility.
            deterministic: take the most probable action instead of sampling.

        Returns:
            The action as the environment takes it, a 0-d integer array or [n], and None.
        """
        del state
        policy = self.action_probabilities(observation)
        if deterministic:
            choice = np.argmax(policy, axis=-1)
        else:
            choice = inverse_cdf(policy, self._random.random(policy.shape[:-1], np.float32))
        return np.asarray(self.spaces.first_action + choice), None

    def save(self, path: str | Path) -> None:
        """Write the agent as one .safetensors file."""
        file = Path(path)
        if file.suffix != ".safetensors":
            raise InputError("path", str(path), "a file name that ends in .safetensors")
        words = {
            "format": AGENT_FORMAT,
            "experiment": json.dumps(self.experiment.to_json()),
            "spaces": json.dumps(self.spaces.to_json()),
            "trial": str(self.trial),
        }
        networks = self.networks
        arrays = networks.to_arrays() if isinstance(networks, Networks) else _game_arrays(networks)
        store.write_arrays(file, arrays, words)

    @classmethod
    def load(cls, path: str | Path, seed: int = 0) -> Self:
        """The agent in a file; `seed` starts its draws of sampled actions.

        Raises:
            DamagedFileError: the file is not one that `save` wrote.
        """
        file = Path(path)
        arrays, words = store.read_arrays(file, AGENT_FORMAT)
        try:
            experiment = any_experiment_from_json(json.loads(words["experiment"]))
            trial = int(words["trial"])
            if not 0 <= trial < experiment.trials:
                raise ValueError(f"there is no trial {trial}")
            spaces = spaces_from_json(json.loads(words["spaces"]))
            networks = networks_from_arrays(experiment, spaces, arrays)
        except (KeyError, ValueError, RecursionError, InputError) as fault:
            raise DamagedFileError(f"{file}: is not an agent: {fault}") from None
        return cls(experiment, spaces, trial, networks, seed=seed)


def networks_from_arrays(experiment: AnyExperiment, spaces: Spaces, arrays: Arrays) -> "Networks | GameNetwork":
    """Networks from arrays named `policy/0/weight`, `normalizer/mean` and so on; others are an error.

    Raises:
        ValueError: the arrays do not form the networks of the experiment.
    """
    if isinstance(experiment, AtariExperiment):
        return _game_network(experiment, spaces, arrays)
    return _mlps(experiment, spaces, arrays)


def _mlps(experiment: Experiment, spaces: Spaces, arrays: Arrays) -> Networks:
    known = all(name in _NORMALIZER or _PARAMETER.fullmatch(name) for name in arrays)
    if not known or any(array.dtype != np.float32 for array in arrays.values()):
        raise ValueError("unexpected arrays")
    sizes = [spaces.observation_size, *experiment.setup.hidden, spaces.actions]

    def network(part: str) -> Network:
        layers = []
        for i, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
            layer = Layer(arrays[f"{part}/{i}/weight"], arrays[f"{part}/{i}/bias"])
            if layer.weight.shape != (inputs, outputs) or layer.bias.shape != (outputs,):
                raise ValueError(f"the {part}'s layers do not fit the spaces and settings")
            layers.append(layer)
        return tuple(layers)

    normalizer = tuple(arrays[name] for name in _NORMALIZER) if experiment.setup.normalize_observations else ()
    if any(statistic.shape != (spaces.observation_size,) for statistic in normalizer):
        raise ValueError("the normalizer does not fit the observation space")
    networks = Networks(network("policy"), network("critic") if experiment.setup.has_critic else (), normalizer)
    if len(arrays) != len(networks.to_arrays()):
        raise ValueError("unexpected arrays")
    return networks


def _trunk(network: GameNetwork) -> Network:
    return (*network.convolutions, network.features)


def _game_arrays(network: GameNetwork) -> Arrays:
    """By the names that they have in a checkpoint."""
    layers = {f"convolutions/{i}": layer for i, layer in enumerate(network.convolutions)}
    layers |= {name: getattr(network, name) for name in ("features", "policy", "critic")}
    return {
        f"network/{place}/{name}": np.asarray(array)
        for place, layer in layers.items()
        for name, array in layer._asdict().items()
    }


def _game_network(experiment: AtariExperiment, spaces: Spaces, arrays: Arrays) -> GameNetwork:
    setup = experiment.setup
    if spaces.observation.shape != setup.observation_shape:
        raise ValueError("the observation space does not fit the settings")
    values = 1 if setup.has_state_values else spaces.actions
    shapes = game_layer_shapes(setup.observation_shape, spaces.actions, values)

    def layer(place: str, shape: Layer) -> Layer:
        found = Layer(arrays[f"network/{place}/weight"], arrays[f"network/{place}/bias"])
        if found.weight.shape != shape.weight or found.bias.shape != shape.bias:
            raise ValueError(f"the layer {place} does not fit the spaces and settings")
        return found

    network = GameNetwork(
        tuple(layer(f"convolutions/{i}", shape) for i, shape in enumerate(shapes.convolutions)),
        *(layer(name, getattr(shapes, name)) for name in ("features", "policy", "critic")),
    )
    if set(arrays) != set(_game_arrays(network)) or any(array.dtype != np.float32 for array in arrays.values()):
        raise ValueError("unexpected arrays")
    return network


def _brief(observation: Any) -> str:
    shape = getattr(observation, "shape", None)
    return type(observation).__name__ if shape is None else f"an array of shape {shape}"


def _named(part: str, network: Network) -> Arrays:
    return {
        f"{part}/{i}/{name}": np.asarray(array)
        for i, layer in enumerate(network)
        for name, array in zip(Layer._fields, layer, strict=True)
    }
