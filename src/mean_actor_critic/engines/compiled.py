"""The compiled engine: environment, policy and learner of many trials in one program.

Trials are lanes. `width` lanes form a group, which one device runs; a block is a group for every device, dispatched
together, but no device waits for a word from another. A lane's low bits depend on the width and the number of devices
(XLA picks its loops by them), not on neighbours or blocks. So the width is chosen once and recorded, the number of
devices is recorded, and the last group is padded with copies.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.engines.devices import AXIS
from mean_actor_critic.engines.updates import Carried, context_of, initial, update
from mean_actor_critic.environments.compiled.shown import legal_actions, shown
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import inverse_cdf, softmax
from mean_actor_critic.learning.randomness import EpisodeKeys, action_draws, training_keys, weights_key
from mean_actor_critic.learning.types import Batch, Metrics
from mean_actor_critic.spec.learners import ANY, Shapes

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
    """What one call of the compiled program did: what lanes carry now, and metrics [lane, SEGMENT_CAPACITY]."""

    carried: Carried
    metrics: Metrics
    stuck: Any = ()  # int32 [lane] the step, from 1, of the episode that a lane stands still at; 0: none


def choose_width(setup: Any, trials: int, devices: int) -> int:
    """Lanes per device for a study: as few blocks as the cache allows, evenly filled."""
    widest = max(1, min(WIDEST, CACHE_BYTES // learner_of(setup).work(setup)))
    per_device = -(-trials // devices)
    blocks = -(-per_device // widest)
    return -(-per_device // blocks)


def device_count() -> int:
    """Devices that lanes can be spread over."""
    return len(jax.devices())


@functools.cache
def initialiser(setup: Any, shapes: Shapes) -> Callable[..., Carried]:
    """Compiled `(seed [], trial [lane]) -> Carried [lane]`: trials before their first episode."""

    def begin(seed: Array, trial: Array) -> Carried:
        return initial(setup, shapes, weights_key(seed, trial))

    return jax.jit(jax.vmap(begin, in_axes=(None, 0)))


@functools.cache
def segment_program(setup: Any, limit: int, build: Build, mesh: Mesh, limited: bool = False) -> Callable[..., Segment]:
    """Compiled `(seed, choice [device], trial [lane], hyper [lane], carried [lane], episodes [device], left [lane])`.

    Plays so many more `episodes`, at most SEGMENT_CAPACITY, of every lane on a device. What is given as carried is
    consumed. The choice counts only where the setup leaves it open.

    Args:
        setup: of the learner.
        limit: agent steps after which an episode is cut off.
        build: makes the environment.
        mesh: the devices.
        limited: a lane stands still, to the bit, from the episode on with which it has used up the steps that it has
            `left`; of its metrics, lengths are 0 then. Without, `left` is not looked at.

    So does a lane whose next episode would come to a state without a legal action.
    """
    advance = functools.partial(_advance, setup, limit, build, limited)
    sharded = jax.shard_map(advance, mesh=mesh, in_specs=(_SAME, *[_LANES] * 6), out_specs=_LANES, check_vma=False)
    return jax.jit(sharded, donate_argnums=4)


def _advance(
    setup: Any,
    limit: int,
    build: Build,
    limited: bool,
    seed: Int[Array, ""],
    choice: Choice,
    trial: Int[Array, " lane"],
    hyper: Any,
    carried: Carried,
    episodes: Int[Array, "1"],
    left: Int[Array, " lane"],
) -> Segment:
    if getattr(setup, "activation", None) == ANY:  # traced numbers in the place of names, from here on
        chosen: Any = {"activation": choice.activation[0], "optimizer": choice.optimizer[0]}
        setup = dataclasses.replace(setup, **chosen)
    lanes = trial.shape[0]
    metrics = Metrics(jnp.zeros((SEGMENT_CAPACITY, lanes)), jnp.zeros((SEGMENT_CAPACITY, lanes), jnp.int32))
    learner = learner_of(setup)

    def episode(number: Array, now: tuple[Carried, Metrics, Array, Any]) -> tuple[Carried, Metrics, Array, Any]:
        carried, metrics, left, stuck = now
        active = left > 0 if limited else None
        keys = jax.vmap(functools.partial(training_keys, seed))(trial, carried.learner.episode)
        batch = rollout(setup, limit, build, learner.actor(setup, carried.learner), keys, active=active)
        if setup.masked:
            stuck = jnp.maximum(stuck, stuck_at(batch))
            active = stuck == 0 if active is None else active & (stuck == 0)
            batch = batch._replace(valid=batch.valid & (stuck == 0)[:, None])
        learn = over_lanes(functools.partial(update, setup, context_of(batch)), lanes)
        new, one = learn(hyper, carried, batch, keys.minibatches)
        if active is not None:  # the ring of a lane that stands still was given no valid row
            keep = functools.partial(keep_rows, active)
            new = Carried(jax.tree.map(keep, new.learner, carried.learner), new.replay)
            left = left - one.length
        return new, jax.tree.map(lambda all_, row: all_.at[number].set(row), metrics, one), left, stuck

    nowhere = jnp.zeros(lanes, jnp.int32) if setup.masked else ()
    carried, metrics, _, stuck = jax.lax.fori_loop(0, episodes[0], episode, (carried, metrics, left, nowhere))
    return Segment(carried, jax.tree.map(jnp.transpose, metrics), stuck)


def stuck_at(batch: Batch) -> Int[Array, " lane"]:
    """The step, from 1, of each episode [lane, time] in which no action was legal; 0: none."""
    nowhere = batch.valid & ~jnp.any(batch.mask[:, :-1], axis=-1)
    return jnp.where(jnp.any(nowhere, axis=1), jnp.argmax(nowhere, axis=1) + 1, 0).astype(jnp.int32)


def keep_rows(chosen: Bool[Array, " lane"], new: Array, old: Array) -> Array:
    """Rows [lane, …] of `new` where chosen, else of `old`."""
    return jnp.where(chosen.reshape(chosen.shape + (1,) * (new.ndim - chosen.ndim)), new, old)


def over_lanes(function: Callable[..., Any], lanes: int) -> Callable[..., Any]:
    """A function of one lane, for all [lane].

    The only lane is no batch of one: XLA's matrix products are faster without, and a branch stays one.
    """
    if lanes > 1:
        return jax.vmap(function)

    def alone(*arguments: Any) -> Any:
        return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], arguments)))

    return alone


def _observed(world: Any, state: Any, key: Array) -> Float[Array, " observation"]:
    return shown(world.observation_space, world.observation(state, key))


def first_state(world: Any, key: Array) -> tuple[Any, Float[Array, " observation"], Array]:
    """The beginning of an episode: state, observation, and the key that its steps are drawn from."""
    initial_key, first_key, step_key = jax.random.split(key, 3)
    state = world.initial(initial_key)
    return state, _observed(world, state, first_key), step_key


def interact(world: Any, state: Any, action: Array, key: Array) -> tuple[Any, Array, Array, Array]:
    """One step of an environment: next state, observation, reward, and whether the episode has come to an end."""
    transition_key, observation_key, reward_key, terminal_key = jax.random.split(key, 4)
    next_state = world.transition(state, action, transition_key)
    return (
        next_state,
        _observed(world, next_state, observation_key),
        jnp.asarray(world.reward(state, action, next_state, reward_key), jnp.float32),
        jnp.asarray(world.terminal(next_state, terminal_key), bool),
    )


def mask_of(setup: Any, world: Any, state: Any) -> Any:
    """The legal actions [action] in a state of an environment; () where they are not asked for."""
    return legal_actions(world, state) if setup.masked else ()


class _Step(NamedTuple):
    """The moving part of a rollout."""

    time: Int[Array, ""]
    state: Any  # of every lane's environment
    observation: Float[Array, "lane observation"]
    alive: Bool[Array, " lane"]
    record: Batch  # time first, then lane


def rollout(
    setup: Any,
    limit: int,
    build: Build,
    actor: Any,
    keys: EpisodeKeys,
    active: Bool[Array, " lane"] | None = None,
) -> Batch:
    """One episode in every lane [lane, time, …]; ends when the last lane has ended.

    Not a vmapped loop over one lane: vmap would copy every lane's whole record at every step to mask the finished ones.

    Args:
        setup: of the learner.
        limit: agent steps after which an episode is cut off.
        build: makes the environment.
        actor: [lane].
        keys: [lane].
        active: lanes that play; None for all. The others have no valid step.
    """
    lanes = keys.environment.shape[0]
    world = build()
    act = over_lanes(lambda actor, *seen: softmax(learner_of(setup).act(setup, actor, *seen).logits), lanes)
    uniform = jax.vmap(lambda keys: action_draws(keys, limit))(keys).T  # [time, lane]
    state, observation, step_key = jax.vmap(functools.partial(first_state, world))(keys.environment)
    take = jax.vmap(functools.partial(interact, world))
    masks = jax.vmap(functools.partial(mask_of, setup, world))

    def step(now: _Step) -> _Step:
        mask = now.record.mask[now.time] if setup.masked else ()
        policy = act(actor, now.observation, mask)
        action = inverse_cdf(policy, uniform[now.time], setup.masked).astype(jnp.int32)
        now_key = jax.vmap(lambda key: jax.random.fold_in(key, now.time))(step_key)
        state, observation, reward, terminated = take(now.state, action, now_key)
        # an ended lane stands still, so that whatever its environment does past the end cannot reach the record
        state = jax.tree.map(functools.partial(keep_rows, now.alive), state, now.state)
        observation = keep_rows(now.alive, observation, now.observation)
        terminated &= now.alive
        record = Batch(
            observation=now.record.observation.at[now.time + 1].set(observation),
            action=now.record.action.at[now.time].set(action),
            reward=now.record.reward.at[now.time].set(jnp.where(now.alive, reward, 0.0)),
            terminated=now.record.terminated.at[now.time].set(terminated),
            valid=now.record.valid.at[now.time].set(now.alive),
            mask=now.record.mask.at[now.time + 1].set(masks(state)) if setup.masked else (),
        )
        return _Step(now.time + 1, state, observation, now.alive & ~terminated, record)

    blank = Batch(
        observation=jnp.zeros((limit + 1, *observation.shape)).at[0].set(observation),
        action=jnp.zeros((limit, lanes), jnp.int32),
        reward=jnp.zeros((limit, lanes)),
        terminated=jnp.zeros((limit, lanes), bool),
        valid=jnp.zeros((limit, lanes), bool),
        mask=jnp.zeros((limit + 1, lanes, world.action_space.n), bool).at[0].set(masks(state)) if setup.masked else (),
    )
    start = _Step(jnp.int32(0), state, observation, jnp.ones(lanes, bool) if active is None else active, blank)
    end = jax.lax.while_loop(lambda now: (now.time < limit) & jnp.any(now.alive), step, start)
    return jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), end.record)
