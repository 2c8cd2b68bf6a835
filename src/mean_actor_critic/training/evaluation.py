"""Playing trained agents without learning."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mean_actor_critic.agent import Agent
from mean_actor_critic.environments.catalogue import EnvironmentSpec, environment_of
from mean_actor_critic.errors import InputError
from mean_actor_critic.experiment import EPISODES, SEEDS, Setup, require_whole
from mean_actor_critic.networks import Network
from mean_actor_critic.progress import Progress, Show
from mean_actor_critic.run import Run
from mean_actor_critic.training import compiled, devices

CHUNK = 20  # episodes that one call plays, so that progress and Ctrl-C come in between
_EVALUATION = 2**32 - 2  # folded into a trial's key: these episodes are not those of training


def evaluate(
    player: Run | Agent,
    episodes: int = 100,
    *,
    deterministic: bool = False,
    seed: int = 0,
    environment: Any = None,
    on_progress: Show | None = None,
) -> np.ndarray[Any, Any]:
    """Undiscounted returns [trials, episodes] of fresh episodes; one trial for an agent, all of them for a run.

    Args:
        player: who plays.
        episodes: how many each.
        deterministic: take the most probable action instead of sampling.
        seed: of the episodes; they are never those of training.
        environment: the functional environment, if it is not known by name.
        on_progress: called now and then.
    """
    episodes = require_whole("episodes", episodes, *EPISODES)
    seed = require_whole("seed", seed, *SEEDS)
    experiment = player.experiment
    spec = environment_of(experiment.setup, environment)
    agents = [player] if isinstance(player, Agent) else [player.agent(trial) for trial in range(experiment.trials)]
    policies = jax.tree.map(lambda *layers: np.stack(layers), *(agent.policy for agent in agents))
    if policies[0].weight.shape[1] != spec.observation_size or policies[-1].bias.shape[1] != spec.actions:
        raise InputError("agent", "its networks", f"ones for {spec.name}")
    devices.prepare()
    trials = np.array([agent.trial for agent in agents], np.uint32)
    play = _player(experiment.setup, spec, deterministic)
    returns = np.zeros((len(agents), episodes), np.float32)
    for first in range(0, episodes, CHUNK):
        count = min(CHUNK, episodes - first)
        played = play(np.uint32(seed), trials, policies, np.int32(first))
        returns[:, first : first + count] = np.asarray(played)[:, :count]
        if on_progress:
            done = len(agents) * (first + count)
            on_progress(Progress(done, returns.size, float(np.mean(returns[:, : first + count])), diverged=0))
    return returns


@functools.cache
def _player(setup: Setup, environment: EnvironmentSpec, greedy: bool) -> Any:
    """Compiled `(seed [], trial [lane], policy [lane], first []) -> returns [lane, CHUNK]` of episodes from `first`."""

    def play(seed: Array, trial: Array, policy: Network, first: Array) -> Array:
        def episode(number: Array) -> Array:
            keys = jax.vmap(
                lambda trial: jax.random.split(
                    jax.random.fold_in(jax.random.fold_in(compiled.trial_key(seed, trial), _EVALUATION), number)
                )
            )(trial)
            trajectory = compiled.rollout(setup, environment, policy, keys[:, 0], keys[:, 1], greedy)
            return jnp.sum(trajectory.reward, axis=1)

        return jax.lax.map(episode, first + jnp.arange(CHUNK)).T

    return jax.jit(play)
