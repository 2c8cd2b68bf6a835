"""One-file agents: a trained policy and all that is needed to use it. Runs on NumPy alone."""

import json
from pathlib import Path
from typing import Any, Self

import numpy as np

from mean_actor_critic.environments.spaces import FormError, Spaces, fitted, flatten, spaces_from_json
from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.files import as_path, parsed_json
from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.networks import Layer, Layers, Networks, highest, inverse_cdf, legal, normalize, softmax
from mean_actor_critic.runs import store
from mean_actor_critic.runs.expected import networks_from_arrays, require_choices_in_units_of_one
from mean_actor_critic.runs.facts import as_html, as_text
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.checks import require_whole
from mean_actor_critic.spec.experiment import SEEDS, Experiment, experiment_from_json
from mean_actor_critic.trees import Array, Arrays, named

AGENT_FORMAT = "mean_actor_critic agent 3"
OLD_AGENT_FORMAT = "mean_actor_critic agent 2"  # whose files are still read


class Agent:
    """A policy for one environment, with the critic it was trained with, if any.

    Attributes:
        experiment: what it was trained by; `experiment.environment` names the environment.
        spaces: of that environment.
        trial: which trial of that experiment it is, by its place, from 0.
        networks: what it has learned.
    """

    def __init__(self, experiment: Experiment, spaces: Spaces, trial: int, networks: Networks, seed: int = 0) -> None:
        self.experiment = experiment
        self.spaces = spaces
        self.trial = trial
        self.networks = networks
        self._network = network_of(experiment.setup)
        self.seed(seed)

    @property
    def policy(self) -> Layers:
        """Layers from observation to action logits."""
        return self._head("policy")

    @property
    def critic(self) -> Layers:
        """Layers from observation to action values; empty if the algorithm has none."""
        return self._head("critic")

    def _head(self, name: str) -> Layers:
        if not self._network.shared:
            layers: Layers = getattr(self.networks, name)
            return layers
        whole = self.networks.network
        return (*whole.convolutions, whole.features, getattr(whole, name))

    def seed(self, seed: int) -> None:
        """Start the draws of sampled actions anew."""
        self._random = np.random.default_rng(require_whole("seed", seed, *SEEDS))

    def action_probabilities(self, observation: Any, action_masks: Any = None) -> Array:
        """Probabilities [..., actions] for one observation of the environment, or a batch of them [...].

        Where `action_masks` [..., actions], or one for all, are given, those of actions that are not legal are 0.
        """
        return self._policy(observation, self._masks(action_masks))

    def _policy(self, observation: Any, mask: Any) -> Array:
        try:
            outputs = self._outputs(observation)
        except FormError as fault:
            allowed = f"one of {self.spaces.observation}; it {fault}"
            raise InputError("observation", _brief(observation), allowed) from None
        if not isinstance(mask, tuple) and mask.shape not in (outputs.shape, outputs.shape[-1:]):
            raise InputError("action_masks", _brief(mask), f"one for all, or of shape {outputs.shape}")
        logits = legal(outputs, mask)
        policy: Array = softmax(highest(logits) if self._network.greedy else logits)
        return policy

    def _masks(self, given: Any) -> Any:
        """Masks as booleans [..., actions]; () for none.

        Raises:
            InputError: they do not say of each action whether it is legal, or say of all that they are not.
        """
        if given is None:
            return ()
        try:
            mask = np.asarray(given)
        except ValueError:  # of rows that differ in length
            mask = np.asarray(None)
        fits = mask.ndim > 0 and mask.shape[-1] == self.spaces.actions and mask.dtype.kind in "biuf"
        if not fits or not ((mask == 0) | (mask == 1)).all():
            allowed = f"0 or 1 for each of {self.spaces.actions} actions, for one observation or a batch"
            raise InputError("action_masks", _brief(given), allowed)
        if not mask.any(axis=-1).all():
            raise InputError("action_masks", _brief(given), "those with a legal action in every row")
        return mask.astype(bool)

    def _outputs(self, observation: Any) -> Array:
        """What the network makes of observations: logits, or values where there is no policy."""
        if self._network.shared:
            return self._of_whole(np.asarray(observation))
        seen = flatten(self.spaces.observation, observation)
        if self.networks.normalizer:
            seen = normalize(seen, self.networks.normalizer)
        return np.asarray(self._network.outputs(self.policy, seen))

    def _of_whole(self, observation: Array) -> Array:
        """The same for a network that sees observations as they are."""
        space: Any = self.spaces.observation
        shape = tuple(space.shape)
        if observation.shape[-len(shape) :] != shape or observation.dtype.kind not in "biuf":
            raise FormError(f"has shape {observation.shape}, not {shape}")
        leading = observation.shape[: observation.ndim - len(shape)]
        screens = observation.astype(space.dtype, copy=False).reshape(-1, *shape)
        logits = self._network.outputs(self.networks.network, screens).logits
        return np.asarray(logits.reshape(*leading, -1))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,  # noqa: ARG002
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Array, None]:
        """Actions for one observation or a batch of n, in the form of Stable-Baselines3 and its sb3-contrib.

        Args:
            observation: what the environment, or a vector of them, returned.
            state: for compatibility; the policies here have no memory.
            episode_start: for compatibility.
            deterministic: take the most probable action instead of sampling.
            action_masks: the legal actions [actions] or [n, actions], first action first; without, all are.

        Returns:
            The action as the environment takes it, a 0-d integer array or [n], and None.
        """
        del state
        mask = self._masks(action_masks)
        policy = self._policy(observation, mask)
        if deterministic:
            choice = np.argmax(policy, axis=-1)
        else:
            draw = self._random.random(policy.shape[:-1], np.float32)
            choice = inverse_cdf(policy, draw, masked=action_masks is not None)
        return np.asarray(self.spaces.first_action + choice), None

    def save(self, path: str | Path) -> None:
        """Write the agent as one .safetensors file."""
        file = as_path("path", path)
        if file.suffix != ".safetensors":
            raise InputError("path", str(path), "a file name that ends in .safetensors")
        words = {
            "format": AGENT_FORMAT,
            "experiment": json.dumps(self.experiment.to_json()),
            "spaces": json.dumps(self.spaces.to_json()),
            "trial": str(self.trial),
        }
        store.write_arrays(file, {name: np.asarray(x) for name, x in named(self.networks).items()}, words)

    @classmethod
    def load(cls, path: str | Path, seed: int = 0, network: Any = None) -> Self:
        """The agent in a file; `seed` starts its draws of sampled actions.

        Args:
            path: of the file.
            seed: of sampled actions.
            network: what it was trained with, if it was a network of a user's own.

        Raises:
            InputError: the network is missing, or another.
            MissingFileError: there is no such file.
            DamagedFileError: the file is not one that `save` wrote.
        """
        file = as_path("path", path)

        def understood(words: dict[str, str], arrays: Arrays) -> tuple[Experiment, Spaces, int, Networks]:
            """What an agent is made of, from the words of a file and its arrays, or what its header says of them."""
            try:
                experiment = experiment_from_json(parsed_json(words["experiment"]))
                trial = int(words["trial"])
                if not 0 <= trial < experiment.trials:
                    raise ValueError(f"there is no trial {trial}")
                spaces = spaces_from_json(parsed_json(words["spaces"]))
                experiment = fitted(experiment, spaces)
            except (KeyError, ValueError, InputError) as fault:
                raise DamagedFileError(f"{file}: is not an agent: {fault}") from None
            experiment = experiment.with_network(network)
            experiment.require_network()
            try:
                return experiment, spaces, trial, networks_from_arrays(experiment, spaces, arrays)
            except (KeyError, ValueError) as fault:
                raise DamagedFileError(f"{file}: is not an agent: {fault}") from None

        def fits(words: dict[str, str], arrays: Arrays) -> None:
            understood(words, arrays)

        arrays, words = store.read_arrays(file, (AGENT_FORMAT, OLD_AGENT_FORMAT), fits)
        experiment, spaces, trial, networks = understood(words, arrays)
        try:
            require_choices_in_units_of_one(experiment, networks)
        except ValueError as fault:
            raise DamagedFileError(f"{file}: is not an agent: {fault}") from None
        return cls(experiment, spaces, trial, networks, seed)

    # --- for people --------------------------------------------------------------------------------------------------

    def _facts(self) -> dict[str, str]:
        experiment = self.experiment
        layers = [str(width) for width in _widths(self.policy)]
        return {
            "environment": experiment.environment,
            "algorithm": f"{algorithm_of(experiment.algorithm).title} ({experiment.learner})",
            "trained by": f"{experiment.budget}, trial {experiment.first_trial + self.trial}, seed {experiment.seed}",
            "network": f"{' × '.join(layers)} units, {sum(x.size for x in named(self.networks).values())} numbers",
            "actions": str(self.spaces.actions),
        }

    def __repr__(self) -> str:
        return as_text("Agent", self._facts())

    def _repr_html_(self) -> str:
        return as_html("Agent", self._facts())


def _widths(layers: Any) -> list[int]:
    """Units of each layer, first to last."""
    if isinstance(layers, Layer):
        return [layers.weight.shape[-1]]
    return [width for layer in layers if isinstance(layer, tuple) for width in _widths(layer)]


def _brief(observation: Any) -> str:
    shape = getattr(observation, "shape", None)
    return type(observation).__name__ if shape is None else f"an array of shape {shape}"
