"""Playing without learning: episodes of actors on the compiled and the hosted engine."""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.engines import compiled, devices, hosted
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.errors import EnvironmentFault
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import MOST_PROBABLE, chosen_action, softmax
from mean_actor_critic.learning.randomness import action_draws, evaluation_keys
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array as HostArray

MOST_LANES = 1024  # compiled episodes at once on a device
MOST_DRAWS = 2**24  # of their actions
LANES = 64  # hosted environments at once
IN_TRAINING = 2**30  # the number of the first episode of evaluations in training: `evaluate` plays those from 0


def episodes_of_evaluation(number: int, count: int) -> range:
    """The numbers of the episodes of an evaluation in training, counted from 0: no other evaluation has them."""
    first = IN_TRAINING + number * count
    return range(first, first + count)


class Playing(NamedTuple):
    """Who plays: actors [agent] with the numbers of their trials [agent], by sampled or the most probable actions."""

    actors: Any
    trials: HostArray
    ways: Sequence[bool] = (False,)  # whether the most probable actions are taken; each way plays all episodes


def compiled_returns(
    experiment: Experiment,
    environment: EnvironmentSpec,
    playing: Playing,
    episodes: range,
    *,
    seed: int | None = None,
    on_chunk: Callable[[HostArray], None] | None = None,
) -> HostArray:
    """Undiscounted returns [way, agent, episode] of fresh episodes on a compiled environment.

    Args:
        experiment: that the actors were trained by.
        environment: a compiled one.
        playing: who plays.
        episodes: their numbers, which their randomness comes from.
        seed: of the episodes; None for the experiment's.
        on_chunk: called now and then with the returns so far, NaN for those to come.

    Raises:
        EnvironmentFault: a state has no legal action.
    """
    limit, agents, ways = experiment.rules.max_episode_steps, len(playing.trials), len(playing.ways)
    count = min(compiled.device_count(), agents * ways)
    width = -(-agents * ways // count)  # pairs of an agent and a way on a device
    most = max(1, min(MOST_LANES, MOST_DRAWS // limit) // width)
    chunk = -(-len(episodes) // -(-len(episodes) // most))  # episodes of each pair at once: as even as possible
    # the last pair is repeated to fill the devices
    way, agent = np.divmod(np.minimum(np.arange(count * width), agents * ways - 1), agents)
    greedy = np.array(playing.ways)[way]
    mesh = devices.mesh(count)
    own = jax.tree.map(lambda x: np.asarray(x)[agent], (playing.trials, playing.actors))
    trial, actor, greedy = jax.device_put((*own, greedy), NamedSharding(mesh, PartitionSpec(devices.AXIS)))
    play = _returns_program(experiment.setup, limit, environment.build, mesh, chunk)
    seed = experiment.seed if seed is None else seed
    returns = np.full((ways, agents, len(episodes)), np.nan, np.float32)
    for first in range(0, len(episodes), chunk):
        played, stuck = on_host(play(np.uint32(seed), np.int32(episodes[first]), trial, actor, greedy))
        if experiment.setup.masked and stuck.any():
            place, episode = np.argwhere(stuck)[0].tolist()
            when, step = f"episode {first + episode + 1} of an evaluation", int(stuck[place, episode])
            raise EnvironmentFault.no_legal_action(environment.name, int(playing.trials[agent[place]]), when, step)
        some = returns[:, :, first : first + chunk]
        some[:] = played[: agents * ways].reshape(ways, agents, chunk)[:, :, : some.shape[2]]
        if on_chunk:
            on_chunk(returns)
    return returns


def _each(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of one episode, for all [agent, episode]."""
    return jax.vmap(jax.vmap(function))


class _Lanes(NamedTuple):
    """The moving part of episodes at play, all of them at the same time."""

    time: Int[Array, ""]
    state: Any  # [agent, episode] of their environments
    observation: Float[Array, "agent episode observation"]
    alive: Bool[Array, "agent episode"]
    earned: Float[Array, "agent episode"]
    stuck: Any = ()  # [agent, episode] the step, from 1, in which no action was legal, where masks tell; else 0


@functools.cache
def _returns_program(setup: Any, limit: int, build: compiled.Build, mesh: Mesh, episodes: int) -> Callable[..., Any]:
    """Compiled `(seed [], first [], trial [agent], actor [agent], greedy [agent]) -> returns [agent, episodes], stuck`.

    Of the episodes from number `first` on, each of which is cut off after `limit` steps. Agents are spread over the
    devices of the mesh; nothing but the returns is kept, and where an episode was `stuck` (see `_Lanes`).
    """

    def play(seed: Array, first: Array, trial: Array, actor: Any, greedy: Array) -> tuple[Array, Any]:
        world = build()
        numbers = first + jnp.arange(episodes)
        keys = jax.vmap(lambda trial: jax.vmap(lambda number: evaluation_keys(seed, trial, number))(numbers))(trial)
        draws = jnp.where(greedy[:, None, None], MOST_PROBABLE, _each(lambda keys: action_draws(keys, limit))(keys))
        act = compiled.over_lanes(
            lambda actor, *seen: softmax(learner_of(setup).act(setup, actor, *seen).logits), len(trial)
        )
        masks = _each(functools.partial(compiled.mask_of, setup, world))
        take = _each(functools.partial(compiled.interact, world))
        state, observation, step_key = _each(functools.partial(compiled.first_state, world))(keys.environment)

        def step(now: _Lanes) -> _Lanes:
            mask, stuck = masks(now.state), now.stuck
            if setup.masked:
                stuck = jnp.where(now.alive & ~jnp.any(mask, axis=-1), now.time + 1, stuck)
            policy = act(actor, now.observation, mask)
            action = chosen_action(policy, draws[:, :, now.time], setup.masked).astype(jnp.int32)
            key = _each(lambda key: jax.random.fold_in(key, now.time))(step_key)
            state, observation, reward, over = take(now.state, action, key)
            # an ended lane stands still: whatever its environment does past the end counts for nothing
            state = jax.tree.map(functools.partial(compiled.keep_rows, now.alive), state, now.state)
            observation = compiled.keep_rows(now.alive, observation, now.observation)
            earned = now.earned + jnp.where(now.alive, reward, 0)
            alive = now.alive & ~over & (stuck == 0) if setup.masked else now.alive & ~over
            return _Lanes(now.time + 1, state, observation, alive, earned, stuck)

        shape = (len(trial), episodes)
        stuck = jnp.zeros(shape, jnp.int32) if setup.masked else ()
        start = _Lanes(jnp.int32(0), state, observation, jnp.ones(shape, bool), jnp.zeros(shape), stuck)
        end = jax.lax.while_loop(lambda now: (now.time < limit) & jnp.any(now.alive), step, start)
        return end.earned, end.stuck

    same, lanes = PartitionSpec(), PartitionSpec(devices.AXIS)
    specs = (same, same, lanes, lanes, lanes)
    return jax.jit(jax.shard_map(play, mesh=mesh, in_specs=specs, out_specs=lanes, check_vma=False))


class Turn(NamedTuple):
    """An episode to be played."""

    agent: int  # by its place
    episode: int  # its number
    greedy: bool = False  # by the most probable actions


class HostedPlayers:
    """Agents on a hosted environment, on lanes whose workers stay for those who play next."""

    def __init__(
        self,
        experiment: Experiment,
        spec: EnvironmentSpec,
        actors: Any,
        turns: int,
        limits: WorkerLimits,
        whole: bool = False,
    ) -> None:
        """Lanes for so many turns of actors [agent] at a time, or for as many as there can be.

        What environments show is kept if `whole` episodes are wanted.
        """
        self._experiment, self._lanes = experiment, min(LANES, turns)
        limit = experiment.rules.max_episode_steps
        self._draw = hosted.drawing_program(limit, evaluation_keys)
        on_lanes = jax.tree.map(lambda x: np.asarray(x)[np.arange(self._lanes) % len(x)], actors)
        self._players = hosted.Players(experiment.setup, limit, spec, on_lanes, self._lanes, limits, whole)

    def play(self, actors: Any, trials: HostArray, turns: Sequence[Turn], seed: int) -> Iterator[tuple[Turn, Batch]]:
        """Let actors [agent] with the numbers of their trials [agent] take turns; yield each as it ends [1, time, …].

        Lanes take the next turn that nobody has taken, until none is left. `seed` is that of the episodes.
        """
        waiting, playing = list(turns)[::-1], {}

        def begin(lane: int) -> None:
            turn = playing[lane] = waiting.pop()
            number = int(trials[turn.agent])
            self._players.replace(np.array([lane]), jax.tree.map(lambda x: x[[turn.agent]], actors))
            episode = np.array([number], np.int32), np.array([turn.episode], np.int32)
            draws = np.asarray(self._draw(np.uint32(seed), *episode))[0]
            draws = np.full_like(draws, MOST_PROBABLE) if turn.greedy else draws
            start = reset_seed(seed, number, turn.episode, evaluation=True)
            self._players.begin(lane, number, turn.episode, start, draws)

        for lane in range(min(self._lanes, len(turns))):
            begin(lane)
        while playing:
            for lane in self._players.turn().tolist():
                turn, episode = playing.pop(lane), self._players.episodes(np.array([lane]))
                if waiting:
                    begin(lane)
                yield turn, episode

    def returns(self, playing: Playing, episodes: range) -> HostArray:
        """Undiscounted returns [way, agent, episode] of fresh episodes; as `compiled_returns`."""
        agents = len(playing.trials)
        returns = np.full((len(playing.ways), agents, len(episodes)), np.nan, np.float32)
        turns = [Turn(agent, number, way) for number in episodes for agent in range(agents) for way in playing.ways]
        for turn, batch in self.play(playing.actors, playing.trials, turns, self._experiment.seed):
            place = playing.ways.index(turn.greedy), turn.agent, turn.episode - episodes.start
            returns[place] = np.sum(batch.reward, dtype=np.float64)
        return returns

    def close(self) -> None:
        """End the workers."""
        self._players.close()


def hosted_episodes(
    experiment: Experiment,
    spec: EnvironmentSpec,
    actors: Any,
    trials: HostArray,
    turns: Sequence[Turn],
    seed: int,
    limits: WorkerLimits,
    whole: bool = False,
) -> Iterator[tuple[Turn, Batch]]:
    """Let actors [agent] take turns once, as `HostedPlayers.play` does; `limits` are those of the workers."""
    players = HostedPlayers(experiment, spec, actors, len(turns), limits, whole)
    try:
        yield from players.play(actors, trials, turns, seed)
    finally:
        players.close()
