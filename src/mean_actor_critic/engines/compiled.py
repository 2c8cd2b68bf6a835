"""The compiled engine: environment, policy and learner of many trials in one program.

Trials are lanes. `width` lanes form a group, which one device runs; a block is a group for every device, dispatched
together, but no device waits for a word from another. A lane's low bits depend on the width and the number of devices
(XLA picks its loops by them), not on neighbours or blocks. So the width is chosen once and recorded, the number of
devices is recorded, and the last group is padded with copies.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.engines.devices import AXIS
from mean_actor_critic.learning import episodic
from mean_actor_critic.learning.networks import inverse_cdf
from mean_actor_critic.learning.randomness import EpisodeKeys, action_draws, training_keys, weights_key
from mean_actor_critic.learning.types import Actor, EpisodeMetrics, LearnerState, Trajectory
from mean_actor_critic.spec.experiment import ANY, Hyper, Setup

SEGMENT_CAPACITY = 64  # episodes that one call can report on; how many it plays is an argument
WIDEST = 50  # lanes on a device beyond which more of them no longer pay
CACHE_BYTES = 2**20  # of a core, for what all its lanes work on: measured, about half of a second-level cache

Build = Callable[[], Any]  # makes the functional environment; equal for the same one, so that programs are found again

_LANES = PartitionSpec(AXIS)
_SAME = PartitionSpec()


class Choice(NamedTuple):
    """What a setup with ANY activation and optimiser is told when it runs; the same for all lanes of a device.

    Not a number for each lane: a branch that differs by lane would be no branch, but the work of all.
    """

    activation: Int[Array, " device"]  # place in ACTIVATIONS
    optimizer: Int[Array, " device"]  # place in OPTIMIZERS


class Segment(NamedTuple):
    """What one call of the compiled program did: the new states, and metrics [lane, SEGMENT_CAPACITY]."""

    state: LearnerState
    metrics: EpisodeMetrics


def choose_width(setup: Setup, trials: int, devices: int) -> int:
    """Lanes per device for a study: as few blocks as the cache allows, evenly filled."""
    widest = max(1, min(WIDEST, CACHE_BYTES // _bytes_at_work(setup)))
    per_device = -(-trials // devices)
    blocks = -(-per_device // widest)
    return -(-per_device // blocks)


def _bytes_at_work(setup: Setup) -> int:
    """What one lane's updates go over again and again, float32.

    Weights, their gradient and two moments of it, and the activations of a critic step, forward and backward. A policy
    step comes but once an episode.
    """
    activations = 2 * setup.batch_size * max(setup.hidden, default=1) if setup.has_critic else 1
    weights = sum(inputs * outputs for inputs, outputs in itertools.pairwise(setup.hidden))
    return 4 * (activations + 4 * weights)


def device_count() -> int:
    """Devices that lanes can be spread over."""
    return len(jax.devices())


@functools.cache
def initialiser(setup: Setup, observation_size: int, actions: int) -> Callable[..., LearnerState]:
    """Compiled `(seed [], trial [lane]) -> LearnerState [lane]`: trials before their first episode."""

    def initial(seed: Array, trial: Array) -> LearnerState:
        return episodic.initial_state(setup, observation_size, actions, weights_key(seed, trial))

    return jax.jit(jax.vmap(initial, in_axes=(None, 0)))


@functools.cache
def segment_program(setup: Setup, build: Build, mesh: Mesh) -> Callable[..., Segment]:
    """Compiled `(seed [], choice [device], trial [lane], hyper [lane], state [lane], episodes [device]) -> Segment`.

    Plays so many more `episodes`, at most SEGMENT_CAPACITY, of every lane on a device. The states given are consumed.
    The choice counts only where the setup leaves it open.
    """
    advance = functools.partial(_advance, setup, build)
    sharded = jax.shard_map(advance, mesh=mesh, in_specs=(_SAME, *[_LANES] * 5), out_specs=_LANES, check_vma=False)
    return jax.jit(sharded, donate_argnums=4)


def _advance(
    setup: Setup,
    build: Build,
    seed: Int[Array, ""],
    choice: Choice,
    trial: Int[Array, " lane"],
    hyper: Hyper,
    state: LearnerState,
    episodes: Int[Array, "1"],
) -> Segment:
    if setup.activation == ANY:  # traced numbers in the place of names, from here on
        chosen: Any = {"activation": choice.activation[0], "optimizer": choice.optimizer[0]}
        setup = dataclasses.replace(setup, **chosen)
    lanes = trial.shape[0]
    metrics = EpisodeMetrics(jnp.zeros((SEGMENT_CAPACITY, lanes)), jnp.zeros((SEGMENT_CAPACITY, lanes), jnp.int32))
    play = functools.partial(rollout, setup, build)

    def episode(number: Array, carry: tuple[LearnerState, EpisodeMetrics]) -> tuple[LearnerState, EpisodeMetrics]:
        state, metrics = carry
        keys = jax.vmap(functools.partial(training_keys, seed))(trial, state.episode)
        trajectory = play(state.actor, keys)
        learn = _over_lanes(functools.partial(episodic.update, setup, episodic.longest_of(trajectory)), lanes)
        state, new = learn(hyper, state, trajectory, keys.minibatches)
        return state, jax.tree.map(lambda all_, one: all_.at[number].set(one), metrics, new)

    state, metrics = jax.lax.fori_loop(0, episodes[0], episode, (state, metrics))
    return Segment(state, jax.tree.map(jnp.transpose, metrics))


def _over_lanes(function: Callable[..., Any], lanes: int) -> Callable[..., Any]:
    """A function of one lane, for all [lane].

    The only lane is no batch of one: XLA's matrix products are faster without, and a branch stays one.
    """
    if lanes > 1:
        return jax.vmap(function)

    def alone(*arguments: Any) -> Any:
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], arguments)))

    return alone


class _Step(NamedTuple):
    """The moving part of a rollout."""

    time: Int[Array, ""]
    state: Any  # of every lane's environment
    observation: Float[Array, "lane observation"]
    alive: Bool[Array, " lane"]
    record: Trajectory  # time first, then lane


def rollout(
    setup: Setup,
    build: Build,
    actor: Actor,
    keys: EpisodeKeys,
    greedy: bool = False,
) -> Trajectory:
    """One episode in every lane [lane, time, …]; ends when the last lane has ended.

    Actions are sampled, or with `greedy` the most probable ones.

    Not a vmapped loop over one lane: vmap would copy every lane's whole record at every step to mask the finished ones.
    """
    limit = setup.max_episode_steps
    lanes = keys.environment.shape[0]
    world = build()
    act = _over_lanes(functools.partial(episodic.action_probabilities, setup), lanes)
    uniform = jax.vmap(lambda keys: action_draws(keys, limit))(keys).T  # [time, lane]
    of_environment = jax.vmap(lambda key: jax.random.split(key, 3))(keys.environment)
    initial_key, first_key, step_key = of_environment[:, 0], of_environment[:, 1], of_environment[:, 2]

    def observe(state: Any, key: Array) -> Array:
        return jnp.asarray(world.observation(state, key), jnp.float32)

    def interact(state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array]:
        transition_key, observation_key, reward_key, terminal_key = jax.random.split(key, 4)
        next_state = world.transition(state, action, transition_key)
        return (
            next_state,
            observe(next_state, observation_key),
            jnp.asarray(world.reward(state, action, next_state, reward_key), jnp.float32),
            jnp.asarray(world.terminal(next_state, terminal_key), bool),
        )

    def keep(alive: Array, new: Array, old: Array) -> Array:
        return jnp.where(alive.reshape(alive.shape + (1,) * (new.ndim - 1)), new, old)

    def step(now: _Step) -> _Step:
        probabilities = act(actor, now.observation)
        chosen = jnp.argmax(probabilities, -1) if greedy else inverse_cdf(probabilities, uniform[now.time])
        action = chosen.astype(jnp.int32)
        now_key = jax.vmap(lambda key: jax.random.fold_in(key, now.time))(step_key)
        state, observation, reward, terminated = jax.vmap(interact)(now.state, action, now_key)
        # an ended lane stands still, so that whatever its environment does past the end cannot reach the record
        state = jax.tree.map(functools.partial(keep, now.alive), state, now.state)
        observation = keep(now.alive, observation, now.observation)
        terminated &= now.alive
        record = Trajectory(
            observation=now.record.observation.at[now.time + 1].set(observation),
            action=now.record.action.at[now.time].set(action),
            reward=now.record.reward.at[now.time].set(jnp.where(now.alive, reward, 0.0)),
            terminated=now.record.terminated.at[now.time].set(terminated),
            valid=now.record.valid.at[now.time].set(now.alive),
        )
        return _Step(now.time + 1, state, observation, now.alive & ~terminated, record)

    state = jax.vmap(world.initial)(initial_key)
    observation = jax.vmap(observe)(state, first_key)
    blank = Trajectory(
        observation=jnp.zeros((limit + 1, *observation.shape)).at[0].set(observation),
        action=jnp.zeros((limit, lanes), jnp.int32),
        reward=jnp.zeros((limit, lanes)),
        terminated=jnp.zeros((limit, lanes), bool),
        valid=jnp.zeros((limit, lanes), bool),
    )
    start = _Step(jnp.int32(0), state, observation, jnp.ones(lanes, bool), blank)
    end = jax.lax.while_loop(lambda now: (now.time < limit) & jnp.any(now.alive), step, start)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), end.record)
