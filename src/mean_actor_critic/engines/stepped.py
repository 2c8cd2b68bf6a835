"""Programs for learners that are called after every step of several environments, on the compiled engine.

As in `compiled`, trials are lanes, `width` of them form a group on a device, and the low bits of a lane depend on the
width and the number of devices only. Unlike there, a trial goes on in mid-episode: what its environments are at is part
of what it carries. All lanes of a group are at the same step, so that what depends on the step is decided once for all.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.engines.compiled import Build, mask_of
from mean_actor_critic.engines.devices import AXIS
from mean_actor_critic.engines.updates import NO_SCHEDULE, Carried, initial, update
from mean_actor_critic.environments.compiled.shown import shown
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import inverse_cdf, softmax
from mean_actor_critic.learning.randomness import stepping_keys, weights_key
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.learners import Shapes

SEGMENT_CAPACITY = 256  # steps that one call can report on; how many it takes is an argument

_LANES = PartitionSpec(AXIS)
_SAME = PartitionSpec()


class Playing(NamedTuple):
    """What the environments of a trial are at."""

    state: tuple[Any, ...]  # [environment, …] the leaves of the environment's own tree
    observation: Float[Array, "environment observation"]
    length: Int[Array, " environment"]  # steps of the episode under way
    earned: Float[Array, " environment"]  # its return so far


class Ended(NamedTuple):
    """The episodes that ended with a step; elsewhere the length is 0."""

    episode_return: Any  # float32 [environment]
    length: Any  # int32 [environment]


class Segment(NamedTuple):
    """What one call did: what lanes carry now, and the episodes that ended [lane, SEGMENT_CAPACITY, environment]."""

    carried: Carried
    ended: Ended
    stuck: Any = ()  # int32 [lane, SEGMENT_CAPACITY, environment] steps of an episode without a legal action; else 0


def context_at(step: Any) -> Context:
    """For learning after a step of all environments, counted from 0."""
    return Context(jnp.int32(0), jnp.int32(NO_SCHEDULE), step)


@functools.cache
def initialiser(setup: Any, shapes: Shapes, build: Build | None) -> Callable[..., Carried]:
    """Compiled `(seed [], trial [lane]) -> Carried [lane]`; without environments where these live elsewhere."""

    def begin(seed: Array, trial: Array) -> Carried:
        carried = initial(setup, shapes, weights_key(seed, trial))
        if build is None:
            return carried
        keys = jax.random.split(stepping_keys(seed, trial, jnp.int32(-1)).environment, setup.environments)
        return carried._replace(playing=jax.vmap(functools.partial(_reset, build()))(keys))

    # One after the other: orthogonal weights come from LAPACK, which shares out a batch among XLA's own threads, and
    # where these are busy both wait for ever.
    return jax.jit(lambda seed, trial: jax.lax.map(functools.partial(begin, seed), trial))


def _shown(world: Any, state: Any, key: Array) -> Float[Array, " observation"]:
    """What an environment shows, flattened."""
    return shown(world.observation_space, world.observation(state, key))


def _reset(world: Any, key: Array) -> Playing:
    """An environment at the beginning of an episode."""
    initial_key, observation_key = jax.random.split(key)
    state = world.initial(initial_key)
    observation = _shown(world, state, observation_key)
    return Playing(tuple(jax.tree.leaves(state)), observation, jnp.int32(0), jnp.float32(0))


class _Outcome(NamedTuple):
    """What an action led to in one environment."""

    observation: Float[Array, " observation"]  # before a new episode began, if one did
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    playing: Playing  # after it
    ended: Ended
    mask: Any  # legal actions [action] in the state observed, where they are told


def _state_of(world: Any, playing: Playing) -> Any:
    """The state of an environment, as its own tree."""
    structure = jax.tree.structure(jax.eval_shape(world.initial, jax.eval_shape(jax.random.key, 0)))
    return jax.tree.unflatten(structure, playing.state)


def _interact(setup: Any, world: Any, limit: int, playing: Playing, action: Array, key: Array) -> _Outcome:
    """One step of one environment, and a new episode where one has ended."""
    transition_key, observation_key, reward_key, terminal_key, reset_key = jax.random.split(key, 5)
    before = _state_of(world, playing)
    state = world.transition(before, action, transition_key)
    observation = _shown(world, state, observation_key)
    reward = jnp.asarray(world.reward(before, action, state, reward_key), jnp.float32)
    terminated = jnp.asarray(world.terminal(state, terminal_key), bool)
    length, earned = playing.length + 1, playing.earned + reward
    truncated = ~terminated & (length >= limit)
    over = terminated | truncated
    now = Playing(tuple(jax.tree.leaves(state)), observation, length, earned)
    after = jax.tree.map(lambda new, old: jnp.where(over, new, old), _reset(world, reset_key), now)
    ended = Ended(jnp.where(over, earned, 0), jnp.where(over, length, 0))
    return _Outcome(observation, reward, terminated, truncated, after, ended, mask_of(setup, world, state))


def choose(
    setup: Any, context: Context, hyper: Any, state: Any, observation: Array, mask: Any, key: Array
) -> tuple[Array, Array]:
    """The actions [environment] of a trial in training, and the probabilities that they had."""
    learner = learner_of(setup)
    logits = learner.act(setup, learner.actor(setup, state), observation, mask).logits
    behaviour = learner.behaviour
    policy = softmax(logits) if behaviour is None else behaviour(setup, context, hyper, logits, mask)
    action = inverse_cdf(policy, jax.random.uniform(key, policy.shape[:1]), setup.masked).astype(jnp.int32)
    return action, jnp.take_along_axis(policy, action[:, None], axis=-1)[:, 0]


@functools.cache
def segment_program(setup: Any, limit: int, build: Build, mesh: Mesh) -> Callable[..., Segment]:
    """Compiled `(seed, trial [lane], hyper [lane], carried [lane], first [device], steps [device], active [lane])`.

    Takes so many `steps`, at most SEGMENT_CAPACITY, of all environments of every lane on a device, from the step
    `first` on. A lane that is not active stands still, to the bit. What is given as carried is consumed.
    """
    advance = functools.partial(_advance, setup, limit, build)
    sharded = jax.shard_map(advance, mesh=mesh, in_specs=(_SAME, *[_LANES] * 6), out_specs=_LANES, check_vma=False)
    return jax.jit(sharded, donate_argnums=3)


def _advance(
    setup: Any,
    limit: int,
    build: Build,
    seed: Int[Array, ""],
    trial: Int[Array, " lane"],
    hyper: Any,
    carried: Carried,
    first: Int[Array, "1"],
    steps: Int[Array, "1"],
    active: Bool[Array, " lane"],
) -> Segment:
    world, shape = build(), (SEGMENT_CAPACITY, trial.shape[0], setup.environments)
    ended = Ended(jnp.zeros(shape), jnp.zeros(shape, jnp.int32))
    stuck = jnp.zeros(shape, jnp.int32) if setup.masked else ()

    def one(step: Array, trial: Array, hyper: Any, carried: Carried, active: Array) -> tuple[Carried, Ended, Any]:
        keys, context, playing = stepping_keys(seed, trial, step), context_at(step), carried.playing
        mask = jax.vmap(lambda playing: mask_of(setup, world, _state_of(world, playing)))(playing)
        stuck: Any = ()
        if setup.masked:  # a trial that cannot go on stands still
            stuck = jnp.where(active & ~jnp.any(mask, axis=-1), playing.length + 1, 0)
            active &= ~jnp.any(stuck)
        action, behaviour = choose(setup, context, hyper, carried.learner, playing.observation, mask, keys.actions)
        interact = jax.vmap(functools.partial(_interact, setup, world, limit))
        outcome = interact(playing, action, jax.random.split(keys.environment, setup.environments))
        batch = Batch(
            observation=jnp.stack([playing.observation, outcome.observation]),
            action=action[None],
            reward=outcome.reward[None],
            terminated=outcome.terminated[None],
            truncated=outcome.truncated[None],
            valid=jnp.broadcast_to(active, (1, setup.environments)),
            behaviour=behaviour[None],
            mask=jnp.stack([mask, outcome.mask]) if setup.masked else (),
        )
        new, _ = update(setup, context, hyper, carried, batch, keys.minibatches)
        keep = functools.partial(jnp.where, active)
        learner = jax.tree.map(keep, new.learner, carried.learner)
        playing = jax.tree.map(keep, outcome.playing, playing)
        ended = jax.tree.map(lambda x: jnp.where(active, x, 0), outcome.ended)
        return Carried(learner, new.replay, playing), ended, stuck

    def step(number: Array, now: tuple[Carried, Ended, Any]) -> tuple[Carried, Ended, Any]:
        carried, *told = now
        lanes = jax.vmap(functools.partial(one, first[0] + number))
        carried, *new = lanes(trial, hyper, carried, active)
        return (carried, *jax.tree.map(lambda all_, row: all_.at[number].set(row), told, new))

    carried, *told = jax.lax.fori_loop(0, steps[0], step, (carried, ended, stuck))
    return Segment(carried, *jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), told))  # lanes first, as devices have them
