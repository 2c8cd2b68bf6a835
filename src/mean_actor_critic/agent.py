"""One-file agents: a trained policy and all that is needed to use it. Runs on NumPy alone."""

import json
import re
from pathlib import Path
from typing import Any, Self

import numpy as np

from mean_actor_critic import store
from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.experiment import SEEDS, Experiment, experiment_from_json, require_whole
from mean_actor_critic.networks import Layer, Network, inverse_cdf, mlp, softmax

AGENT_FORMAT = "mean_actor_critic agent 1"

_PARAMETER = re.compile(r"(policy|critic)/(\d)/(weight|bias)")


class Agent:
    """A policy for one environment, with the critic it was trained with, if any.

    Attributes:
        experiment: what it was trained by; `experiment.setup.environment` names the environment.
        trial: which trial of that experiment it is.
        policy: layers from observation to action logits.
        critic: layers from observation to action values; empty if the algorithm has none.
    """

    def __init__(self, experiment: Experiment, trial: int, policy: Network, critic: Network, seed: int = 0) -> None:
        self.experiment = experiment
        self.trial = trial
        self.policy = policy
        self.critic = critic
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Start the draws of sampled actions anew."""
        self._random = np.random.default_rng(require_whole("seed", seed, *SEEDS))

    def action_probabilities(self, observation: Any) -> np.ndarray[Any, Any]:
        """Probabilities [..., actions] for observations [..., size]."""
        observation = np.asarray(observation, np.float32)
        size = self.policy[0].weight.shape[0]
        if observation.ndim == 0 or observation.shape[-1] != size:
            raise InputError("observation", f"an array of shape {observation.shape}", f"a last dimension of {size}")
        return softmax(mlp(self.policy, observation, self.experiment.setup.activation))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002
        deterministic: bool = False,
    ) -> tuple[np.ndarray[Any, Any], None]:
        """Actions for one observation [size] or a batch [n, size], in the form of Stable-Baselines3.

        Args:
            observation: what the environment returned.
            state: for compatibility; the policies here have no memory.
            episode_start: for compatibility.
            deterministic: take the most probable action instead of sampling.

        Returns:
            The action, a 0-d integer array or [n], and None.
        """
        del state
        policy = self.action_probabilities(observation)
        if deterministic:
            return np.asarray(np.argmax(policy, axis=-1)), None
        return np.asarray(inverse_cdf(policy, self._random.random(policy.shape[:-1], np.float32))), None

    def save(self, path: str | Path) -> None:
        """Write the agent as one .safetensors file."""
        file = Path(path)
        if file.suffix != ".safetensors":
            raise InputError("path", str(path), "a file name that ends in .safetensors")
        arrays = {**_named("policy", self.policy), **_named("critic", self.critic)}
        words = {"format": AGENT_FORMAT, "experiment": json.dumps(self.experiment.to_json()), "trial": str(self.trial)}
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
            experiment = experiment_from_json(json.loads(words["experiment"]))
            trial = int(words["trial"])
            if not 0 <= trial < experiment.trials:
                raise ValueError(f"there is no trial {trial}")
            policy, critic = networks_from_arrays(experiment, arrays)
        except (KeyError, ValueError, RecursionError, InputError) as fault:
            raise DamagedFileError(f"{file}: is not an agent: {fault}") from None
        return cls(experiment, trial, policy, critic, seed=seed)


def networks_from_arrays(experiment: Experiment, arrays: store.Arrays) -> tuple[Network, Network]:
    """Policy and critic from arrays named `policy/0/weight` and so on; others are an error.

    Raises:
        ValueError: the arrays do not form the networks of the experiment.
    """
    matches = {name: _PARAMETER.fullmatch(name) for name in arrays}
    if not all(matches.values()) or any(array.dtype != np.float32 for array in arrays.values()):
        raise ValueError("unexpected arrays")
    networks = {}
    for part in ("policy", "critic") if experiment.setup.has_critic else ("policy",):
        layers = len(experiment.setup.hidden) + 1
        network = tuple(Layer(arrays[f"{part}/{i}/weight"], arrays[f"{part}/{i}/bias"]) for i in range(layers))
        if any(layer.weight.ndim != 2 or 0 in layer.weight.shape for layer in network):
            raise ValueError(f"the {part}'s layers are not matrices")
        widths = [layer.weight.shape[1] for layer in network]
        inputs = [network[0].weight.shape[0], *widths[:-1]]
        fits = widths[:-1] == list(experiment.setup.hidden) and all(
            layer.weight.shape == (size, width) and layer.bias.shape == (width,)
            for layer, size, width in zip(network, inputs, widths, strict=True)
        )
        if not fits:
            raise ValueError(f"the {part}'s layers do not fit together")
        networks[part] = network
    ends = {(network[0].weight.shape[0], network[-1].weight.shape[1]) for network in networks.values()}
    if len(ends) != 1:
        raise ValueError("policy and critic do not fit together")
    if len(arrays) != sum(2 * len(network) for network in networks.values()):
        raise ValueError("unexpected arrays")
    return networks["policy"], networks.get("critic", ())


def _named(part: str, network: Network) -> store.Arrays:
    return {
        f"{part}/{i}/{name}": np.asarray(array)
        for i, layer in enumerate(network)
        for name, array in zip(Layer._fields, layer, strict=True)
    }
