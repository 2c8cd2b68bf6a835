"""The straightforward JAX program for the same study: one trial as a pure function, then `jit(vmap(trial))`.

Same environment, networks and updates as the engine at its reference settings; none of its kernels, groups or devices.
"""

import functools
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.engine import REFERENCE, return_statistics
from benchmarks.harness import Measurement
from mean_actor_critic.environments.compiled.cart_pole import CartPole

OBSERVATION, ACTIONS = 4, 2


class Replay(NamedTuple):
    """A ring of transitions and the number ever written."""

    observation: Any
    action: Any
    reward: Any
    next_observation: Any
    terminated: Any
    written: Any


class Episode(NamedTuple):
    """One episode, padded to the time limit; `observation` has one row more."""

    observation: Any
    action: Any
    reward: Any
    terminated: Any
    length: Any


def initial_network(key: Any, sizes: list[int]) -> list[tuple[Any, Any]]:
    glorot = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(key, len(sizes) - 1)
    return [(glorot(k, (i, o)), jnp.zeros(o)) for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)]


def apply(network: list[tuple[Any, Any]], x: Any) -> Any:
    for weight, bias in network[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = network[-1]
    return x @ weight + bias


def play_while(policy: Any, key: Any, limit: int) -> Episode:
    """Step until the end; under vmap, until the last trial's end."""
    world = CartPole()
    reset_key, actions_key = jax.random.split(key)
    state = world.initial(reset_key)
    episode = Episode(
        observation=jnp.zeros((limit + 1, OBSERVATION)).at[0].set(state),
        action=jnp.zeros(limit, jnp.int32),
        reward=jnp.zeros(limit),
        terminated=jnp.zeros(limit, bool),
        length=jnp.int32(0),
    )

    def step(carry: Any) -> Any:
        state, episode, _ = carry
        time = episode.length
        action = jax.random.categorical(jax.random.fold_in(actions_key, time), apply(policy, state))
        next_state = world.transition(state, action, None)
        terminated = world.terminal(next_state, None)
        episode = Episode(
            observation=episode.observation.at[time + 1].set(next_state),
            action=episode.action.at[time].set(action),
            reward=episode.reward.at[time].set(world.reward(state, action, next_state, None)),
            terminated=episode.terminated.at[time].set(terminated),
            length=time + 1,
        )
        return next_state, episode, terminated

    def going(carry: Any) -> Any:
        _, episode, terminated = carry
        return (episode.length < limit) & ~terminated

    return jax.lax.while_loop(going, step, (state, episode, jnp.bool(False)))[1]


def play_scan(policy: Any, key: Any, limit: int) -> Episode:
    """Always step to the time limit, and mask what comes after the end."""
    world = CartPole()
    reset_key, actions_key = jax.random.split(key)

    def step(carry: Any, key: Any) -> Any:
        state, over = carry
        action = jax.random.categorical(key, apply(policy, state))
        next_state = jnp.where(over, state, world.transition(state, action, None))
        terminated = ~over & world.terminal(next_state, None)
        return (next_state, over | terminated), (next_state, action, jnp.where(over, 0.0, 1.0), terminated, ~over)

    start = world.initial(reset_key)
    keys = jax.random.split(actions_key, limit)
    _, (states, action, reward, terminated, valid) = jax.lax.scan(step, (start, jnp.bool(False)), keys)
    return Episode(jnp.concatenate([start[None], states]), action, reward, terminated, jnp.sum(valid, dtype=jnp.int32))


PLAY = {"while": play_while, "scan": play_scan}


def add(replay: Replay, episode: Episode) -> Replay:
    capacity, steps = len(replay.action), jnp.arange(len(episode.action))
    slot = jnp.where(steps < episode.length, (replay.written + steps) % capacity, capacity)
    new = (episode.observation[:-1], episode.action, episode.reward, episode.observation[1:], episode.terminated)
    rows = [ring.at[slot].set(x, mode="drop") for ring, x in zip(replay[:-1], new, strict=True)]
    return Replay(*rows, replay.written + episode.length)


def train_one_trial(key: Any, settings: dict[str, Any], episodes: int, loop: str) -> tuple[Any, Any]:
    """Returns and lengths of every episode."""
    limit, capacity, batch_size = (settings[name] for name in ("max_episode_steps", "replay_capacity", "batch_size"))
    discount = settings["discount"]
    sizes = [OBSERVATION, *settings["hidden"], ACTIONS]
    policy_optimizer, critic_optimizer = optax.adam(settings["actor_lr"]), optax.adam(settings["critic_lr"])

    def critic_loss(critic: Any, policy: Any, target_critic: Any, batch: Replay) -> Any:
        next_policy = jax.nn.softmax(apply(policy, batch.next_observation))
        next_value = jnp.sum(next_policy * apply(target_critic, batch.next_observation), axis=-1)
        target = batch.reward + discount * jnp.where(batch.terminated, 0.0, next_value)
        q = jnp.take_along_axis(apply(critic, batch.observation), batch.action[:, None], axis=-1)[:, 0]
        return jnp.mean((q - target) ** 2)

    def policy_loss(policy: Any, critic: Any, episode: Episode) -> Any:
        observation = episode.observation[:-1]
        probabilities = jax.nn.softmax(apply(policy, observation))
        value = jnp.sum(probabilities * jax.lax.stop_gradient(apply(critic, observation)), axis=-1)
        return -jnp.sum(jnp.where(jnp.arange(limit) < episode.length, value, 0.0)) / episode.length

    def train_episode(carry: Any, key: Any) -> tuple[Any, Any]:
        policy, critic, policy_state, critic_state, replay = carry
        play_key, replay_key = jax.random.split(key)
        episode = PLAY[loop](policy, play_key, limit)
        replay = add(replay, episode)
        target_critic = critic

        def critic_step(carry: Any, key: Any) -> tuple[Any, None]:
            critic, critic_state = carry
            index = jax.random.randint(key, (batch_size,), 0, jnp.minimum(replay.written, capacity))
            batch = Replay(*(ring[index] for ring in replay[:-1]), replay.written)
            gradient = jax.grad(critic_loss)(critic, policy, target_critic, batch)
            updates, critic_state = critic_optimizer.update(gradient, critic_state)
            return (optax.apply_updates(critic, updates), critic_state), None

        keys = jax.random.split(replay_key, settings["minibatches"])
        (critic, critic_state), _ = jax.lax.scan(critic_step, (critic, critic_state), keys)
        gradient = jax.grad(policy_loss)(policy, critic, episode)
        updates, policy_state = policy_optimizer.update(gradient, policy_state)
        policy = optax.apply_updates(policy, updates)
        return (policy, critic, policy_state, critic_state, replay), (jnp.sum(episode.reward), episode.length)

    policy_key, critic_key, episodes_key = jax.random.split(key, 3)
    policy, critic = initial_network(policy_key, sizes), initial_network(critic_key, sizes)
    replay = Replay(
        observation=jnp.zeros((capacity, OBSERVATION)),
        action=jnp.zeros(capacity, jnp.int32),
        reward=jnp.zeros(capacity),
        next_observation=jnp.zeros((capacity, OBSERVATION)),
        terminated=jnp.zeros(capacity, bool),
        written=jnp.int32(0),
    )
    carry = (policy, critic, policy_optimizer.init(policy), critic_optimizer.init(critic), replay)
    return jax.lax.scan(train_episode, carry, jax.random.split(episodes_key, episodes))[1]


def train(trials: int, episodes: int, loop: str) -> Measurement:
    """Train `trials` trials at once on JAX's default device; `loop` is how an episode is played, a name in `PLAY`."""
    program = jax.jit(jax.vmap(functools.partial(train_one_trial, settings=REFERENCE, episodes=episodes, loop=loop)))
    keys = jax.random.split(jax.random.key(0), trials)
    compiled = program.lower(keys).compile()
    started = time.perf_counter()
    returns, lengths = jax.tree.map(np.asarray, compiled(keys))
    seconds = time.perf_counter() - started
    return {"steps": int(lengths.sum()), "seconds": seconds, **return_statistics(returns)}
