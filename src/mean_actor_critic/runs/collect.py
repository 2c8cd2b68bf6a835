"""Episodes of an agent that does not learn, step by step, to look at what a policy gradient would make of them."""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mean_actor_critic.engines import compiled
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.play import Turn, hosted_episodes
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.learning.randomness import evaluation_keys
from mean_actor_critic.learning.targets import discounted_returns
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.evaluate import stacked
from mean_actor_critic.trees import Array as HostArray

LANES = 250  # episodes that one compiled call plays


class Pool(NamedTuple):
    """The steps of some whole episodes, one after the other."""

    observation: HostArray  # [step, size]
    action: HostArray  # [step]
    returns: HostArray  # [step] discounted, from that step on to the end or the time limit
    episode: HostArray  # [step] which, from 0
    lengths: HostArray  # [episode]
    scores: HostArray  # [episode] undiscounted

    @property
    def first_returns(self) -> HostArray:
        """The discounted return of each episode [episode]."""
        return self.returns[np.cumsum(self.lengths) - self.lengths]


def collect(
    agent: Agent, spec: EnvironmentSpec, episodes: int, steps: int, seed: int, limits: WorkerLimits | None = None
) -> Pool:
    """Play at least so many episodes with at least so many steps in all, by sampled actions.

    In rounds of whole episodes, as many as are thought to be enough. To stop as soon as there are enough steps would
    favour short episodes.
    """
    pools: list[Pool] = []
    played = taken = 0
    while played < episodes or taken < steps:
        wanted = episodes if not played else math.ceil(1.02 * (steps - taken) * played / taken)
        if spec.engine == "hosted":
            batches = _hosted(agent, spec, played, wanted, seed, limits or WorkerLimits())
        else:
            batches = _compiled(agent, spec, played, wanted, seed)
        pools += [_pool(agent, batch) for batch in batches]
        played += wanted
        taken = sum(len(pool.action) for pool in pools)
    counted = np.cumsum([0, *(len(pool.lengths) for pool in pools)])
    numbered = [pool._replace(episode=pool.episode + first) for pool, first in zip(pools, counted, strict=False)]
    return Pool(*map(np.concatenate, zip(*numbered, strict=True)))


def _pool(agent: Agent, batch: Batch) -> Pool:
    """Of episodes [episode, time, …], without the padding; discount and returns as training has them."""
    host: Any = on_host(batch)
    discount = agent.experiment.hyper_of_trials().discount[agent.trial]
    returns = on_host(_all_returns(host.reward, discount))
    valid = host.valid
    return Pool(
        observation=host.observation[:, :-1][valid],
        action=host.action[valid],
        returns=returns[valid],
        episode=np.broadcast_to(np.arange(len(valid))[:, None], valid.shape)[valid],
        lengths=valid.sum(axis=1),
        scores=host.reward.sum(axis=1, dtype=np.float64),
    )


_all_returns = jax.jit(jax.vmap(discounted_returns, in_axes=(0, None)))


def _compiled(agent: Agent, spec: EnvironmentSpec, first: int, count: int, seed: int) -> list[Batch]:
    play = _player(agent.experiment.setup, agent.experiment.rules.max_episode_steps, spec.build)
    actor = jax.tree.map(lambda x: x[0], stacked([agent]))
    trial = np.int32(agent.experiment.trial_numbers()[agent.trial])
    played = []
    for begin in range(first, first + count, LANES):
        some = on_host(play(np.uint32(seed), trial, actor, np.int32(begin)))
        lanes = min(LANES, first + count - begin)
        played.append(jax.tree.map(lambda x, lanes=lanes: x[:lanes], some))
    return played


@functools.cache
def _player(setup: Any, limit: int, build: compiled.Build) -> Any:
    """Compiled `(seed [], trial [], actor, first []) -> Batch [LANES, time, …]` of the episodes from `first`."""

    def play(seed: Array, trial: Array, actor: Any, first: Array) -> Batch:
        keys = jax.vmap(lambda episode: evaluation_keys(seed, trial, episode))(first + jnp.arange(LANES))
        actors = jax.tree.map(lambda x: jnp.broadcast_to(x, (LANES, *x.shape)), actor)
        return compiled.rollout(setup, limit, build, actors, keys)

    return jax.jit(play)


def _hosted(
    agent: Agent, spec: EnvironmentSpec, first: int, count: int, seed: int, limits: WorkerLimits
) -> list[Batch]:
    """In the order of their numbers, whoever ended first."""
    trial = agent.experiment.trial_numbers()[[agent.trial]]
    wanted = [Turn(0, episode) for episode in range(first, first + count)]
    played = dict(hosted_episodes(agent.experiment, spec, stacked([agent]), trial, wanted, seed, limits, whole=True))
    return [played[key] for key in wanted]
