"""Playing without learning: episodes of actors on the compiled and the hosted engine."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from mean_actor_critic.engines import compiled, hosted
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.learning.randomness import evaluation_keys
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array as HostArray

CHUNK = 20  # episodes that one call plays, so that progress and Ctrl-C come in between
LANES = 64  # hosted environments at once
IN_TRAINING = 2**30  # the number of the first episode of evaluations in training: `evaluate` plays those from 0


def episodes_of_evaluation(number: int, count: int) -> range:
    """The numbers of the episodes of an evaluation in training, counted from 0: no other evaluation has them."""
    first = IN_TRAINING + number * count
    return range(first, first + count)


def compiled_returns(
    experiment: Experiment,
    build: compiled.Build,
    actors: Any,
    trials: HostArray,
    episodes: range,
    *,
    seed: int | None = None,
    greedy: bool = False,
    on_chunk: Callable[[HostArray], None] | None = None,
) -> HostArray:
    """Undiscounted returns [agent, episode] of fresh episodes on a compiled environment.

    Args:
        experiment: that the actors were trained by.
        build: makes the environment.
        actors: [agent].
        trials: [agent] their numbers.
        episodes: the numbers of the episodes, which their randomness comes from.
        seed: of the episodes; None for the experiment's.
        greedy: take the most probable actions.
        on_chunk: called now and then with the returns so far, NaN for those to come.
    """
    play = _returns_program(experiment.setup, experiment.rules.max_episode_steps, build, greedy)
    seed = experiment.seed if seed is None else seed
    returns = np.full((len(trials), len(episodes)), np.nan, np.float32)
    for first in range(0, len(episodes), CHUNK):
        count = min(CHUNK, len(episodes) - first)
        played = on_host(play(np.uint32(seed), trials, actors, np.int32(episodes[first])))
        returns[:, first : first + count] = played[:, :count]
        if on_chunk:
            on_chunk(returns)
    return returns


@functools.cache
def _returns_program(setup: Any, limit: int, build: compiled.Build, greedy: bool) -> Any:
    """Compiled `(seed [], trial [lane], actor [lane], first []) -> returns [lane, CHUNK]` of episodes from `first`."""

    def play(seed: Array, trial: Array, actor: Any, first: Array) -> Array:
        def episode(number: Array) -> Array:
            keys = jax.vmap(lambda trial: evaluation_keys(seed, trial, number))(trial)
            return jnp.sum(compiled.rollout(setup, limit, build, actor, keys, greedy).reward, axis=1)

        return jax.lax.map(episode, first + jnp.arange(CHUNK)).T

    return jax.jit(play)


def hosted_episodes(
    experiment: Experiment,
    spec: EnvironmentSpec,
    actors: Any,
    trials: HostArray,
    to_play: Sequence[tuple[int, int]],
    seed: int,
    limits: WorkerLimits,
    greedy: bool = False,
) -> Iterator[tuple[tuple[int, int], Batch]]:
    """Play episodes of stacked actors [agent], and yield each [1, time, …] as it ends.

    Lanes take the next (agent, episode) that nobody has played, until none is left.

    Args:
        experiment: that the actors were trained by.
        spec: its environment.
        actors: [agent].
        trials: [agent] their numbers.
        to_play: (agent, episode), which begin in this order.
        seed: of the episodes.
        limits: of the workers.
        greedy: take the most probable actions.
    """
    waiting = list(to_play)[::-1]
    agents, lanes = len(trials), min(LANES, len(waiting))
    limit = experiment.rules.max_episode_steps
    draw = hosted.drawing_program(limit, evaluation_keys)
    playing: dict[int, tuple[int, int]] = {}
    on_lanes = jax.tree.map(lambda x: x[np.arange(lanes) % agents], actors)
    players = hosted.Players(experiment.setup, limit, spec, on_lanes, lanes, limits, greedy)

    def begin(lane: int) -> None:
        agent, episode = playing[lane] = waiting.pop()
        number = int(trials[agent])
        if agents > 1:
            players.replace(np.array([lane]), jax.tree.map(lambda x: x[[agent]], actors))
        draws = np.asarray(draw(np.uint32(seed), np.array([number], np.int32), np.array([episode], np.int32)))[0]
        players.begin(lane, number, episode, reset_seed(seed, number, episode, evaluation=True), draws)

    try:
        for lane in range(lanes):
            begin(lane)
        while playing:
            for lane in players.turn().tolist():
                ended, episode = playing.pop(lane), players.episodes(np.array([lane]))
                if waiting:
                    begin(lane)
                yield ended, episode
    finally:
        players.close()


def hosted_returns(
    experiment: Experiment,
    spec: EnvironmentSpec,
    actors: Any,
    trials: HostArray,
    episodes: range,
    limits: WorkerLimits,
) -> HostArray:
    """Undiscounted returns [agent, episode] of fresh episodes on a hosted environment; as `compiled_returns`."""
    returns = np.full((len(trials), len(episodes)), np.nan, np.float32)
    to_play = [(agent, episode) for episode in episodes for agent in range(len(trials))]
    for (agent, episode), batch in hosted_episodes(experiment, spec, actors, trials, to_play, experiment.seed, limits):
        returns[agent, episode - episodes.start] = np.sum(batch.reward, dtype=np.float64)
    return returns
