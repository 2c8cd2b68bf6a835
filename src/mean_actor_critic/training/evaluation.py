"""Playing trained agents without learning."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mean_actor_critic.agent import Agent
from mean_actor_critic.environments.catalogue import EnvironmentSpec, describe, find_environment
from mean_actor_critic.errors import InputError
from mean_actor_critic.experiment import EPISODES, SEEDS, Setup, require_whole
from mean_actor_critic.networks import Network
from mean_actor_critic.run import Run
from mean_actor_critic.training import compiled, devices

_EVALUATION = 2**32 - 2  # folded into a trial's key: these episodes are not those of training


def evaluate(
    player: Run | Agent,
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    environment: Any = None,
) -> np.ndarray[Any, Any]:
    """Undiscounted returns [trials, episodes] of fresh episodes; one trial for an agent, all of them for a run.

    Args:
        player: who plays.
        episodes: how many each.
        deterministic: take the most probable action instead of sampling.
        seed: of the episodes; they are never those of training.
        environment: the functional environment, if it is not known by name.
    """
    episodes = require_whole("episodes", episodes, *EPISODES)
    seed = require_whole("seed", seed, *SEEDS)
    experiment = player.experiment
    if environment is None:
        spec = find_environment(experiment.setup.environment)
    else:
        spec = describe(type(environment).__name__, environment, experiment.setup.max_episode_steps)
    agents = [player] if isinstance(player, Agent) else [player.agent(trial) for trial in range(experiment.trials)]
    policies = jax.tree.map(lambda *layers: np.stack(layers), *(agent.policy for agent in agents))
    if policies[0].weight.shape[1] != spec.observation_size or policies[-1].bias.shape[1] != spec.actions:
        raise InputError("agent", "its networks", f"ones for {spec.name}")
    devices.prepare()
    trials = np.array([agent.trial for agent in agents], np.uint32)
    played = _player(experiment.setup, spec, episodes, deterministic)(np.uint32(seed), trials, policies)
    return np.asarray(played)


def _player(setup: Setup, environment: EnvironmentSpec, episodes: int, greedy: bool) -> Any:
    """Compiled `(seed [], trial [lane], policy [lane]) -> returns [lane, episodes]`."""

    def play(seed: Array, trial: Array, policy: Network) -> Array:
        def episode(number: Array) -> Array:
            keys = jax.vmap(
                lambda trial: jax.random.split(
                    jax.random.fold_in(jax.random.fold_in(compiled.trial_key(seed, trial), _EVALUATION), number)
                )
            )(trial)
            trajectory = compiled.rollout(setup, environment, policy, keys[:, 0], keys[:, 1], greedy)
            return jnp.sum(trajectory.reward, axis=1)

        return jax.lax.map(episode, jnp.arange(episodes)).T

    return jax.jit(play)
