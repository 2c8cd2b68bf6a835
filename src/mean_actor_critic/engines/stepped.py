"""Programs for learners that are called after every rollout of several environments, on the compiled engine.

A rollout is so many steps of each environment as the learner's settings say, of which the first is the observation that
the environments are at; a learner that is called after every step has rollouts of one.

As in `compiled`, trials are lanes, `width` of them form a group on a device, and the low bits of a lane depend on the
width and the number of devices only. Unlike there, a trial goes on in mid-episode: what its environments are at is part
of what it carries, between two rollouts. All lanes of a group are at the same step, so that what depends on the step is
decided once for all.
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
from mean_actor_critic.engines.updates import Carried, initial, update
from mean_actor_critic.environments.compiled.shown import shown
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import inverse_cdf, softmax
from mean_actor_critic.learning.randomness import stepping_keys, weights_key
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.learners import Shapes

SEGMENT_CAPACITY = 256  # steps of each environment that one call can report on; how many it takes is an argument

_LANES = PartitionSpec(AXIS)
_SAME = PartitionSpec()


class Playing(NamedTuple):
    """What the environments of a trial are at."""

    state: tuple[Any, ...]  # [environment, …] the leaves of the environment's own tree
    observation: Float[Array, "environment observation"]
    length: Int[Array, " environment"]  # steps of the episode under way
    earned: Float[Array, " environment"]  # its return so far


class Ended(NamedTuple):
    """The episodes that ended with steps; elsewhere the length is 0."""

    episode_return: Any  # float32 [*step, environment]
    length: Any  # int32 [*step, environment]


class Advanced(NamedTuple):
    """What trials have done in a segment, which a fault may have cut short: their states are after all of this."""

    ended: Ended  # [step, trial, environment], on the host
    taken: Any  # [trial] whole rollouts, which were learned from
    fault: Exception | None = None


class Segment(NamedTuple):
    """What one call did: what lanes carry now, and the episodes that ended [lane, step, environment]."""

    carried: Carried
    ended: Ended
    stuck: Any = ()  # int32 [lane, step, environment] steps of an episode without a legal action; else 0


def context_at(step: Any, updates: Any) -> Context:
    """For a step of all environments, counted from 0, in a training of so many updates."""
    return Context(jnp.int32(0), updates, step)


def segment_capacity(setup: Any) -> int:
    """Rollouts that one call can take."""
    return max(1, SEGMENT_CAPACITY // setup.rollout_steps)


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
def valuing_program(setup: Any) -> Callable[..., Array]:
    """Compiled `(state [lane], observation [lane, *n, …], mask [lane, *n, action] or ()) -> values [lane, *n]`."""
    return jax.jit(jax.vmap(functools.partial(values_of, setup)))


def values_of(setup: Any, state: Any, observation: Float[Array, "*n observation"], mask: Any) -> Float[Array, "*n"]:
    """What a learner believes that states are worth, by the weights with which it acts."""
    learner = learner_of(setup)
    assert learner.value is not None
    seen, legal = jax.tree.map(lambda x: x.reshape(-1, x.shape[-1]), (observation.astype(jnp.float32), mask))
    value: Array = learner.value(setup, learner.act(setup, learner.actor(setup, state), seen, legal))
    return value.reshape(observation.shape[:-1])


def wants_value_beyond(setup: Any) -> bool:
    """Whether a learner asks what the states are worth in which episodes are cut off."""
    return learner_of(setup).value is not None and setup.time_limit == "bootstrap"


@functools.cache
def segment_program(setup: Any, limit: int, build: Build, mesh: Mesh) -> Callable[..., Segment]:
    """Compiled `(seed, updates, trial [lane], hyper [lane], carried [lane], first, rollouts, active [lane])`.

    Takes so many `rollouts`, at most `segment_capacity`, of all environments of every lane on a device, from the one
    of the number `first` on, of a training of so many `updates`; both are [device]. A lane that is not active stands
    still, to the bit. What is given as carried is consumed.
    """
    advance = functools.partial(_advance, setup, limit, build)
    specs = (_SAME, _SAME, *[_LANES] * 6)
    sharded = jax.shard_map(advance, mesh=mesh, in_specs=specs, out_specs=_LANES, check_vma=False)
    return jax.jit(sharded, donate_argnums=4)


class _Taken(NamedTuple):
    """A step of all environments of a trial."""

    observation: Float[Array, "environment observation"]  # that was acted in
    length: Int[Array, " environment"]  # steps of the episodes under way, before it
    mask: Any  # legal actions [environment, action], where they are told
    action: Int[Array, " environment"]
    behaviour: Float[Array, " environment"]  # the probability that the action had
    outcome: _Outcome


def _advance(
    setup: Any,
    limit: int,
    build: Build,
    seed: Int[Array, ""],
    updates: Int[Array, ""],
    trial: Int[Array, " lane"],
    hyper: Any,
    carried: Carried,
    first: Int[Array, "1"],
    rollouts: Int[Array, "1"],
    active: Bool[Array, " lane"],
) -> Segment:
    world, steps = build(), setup.rollout_steps
    shape = (segment_capacity(setup), trial.shape[0], steps, setup.environments)
    ended = Ended(jnp.zeros(shape), jnp.zeros(shape, jnp.int32))
    stuck = jnp.zeros(shape, jnp.int32) if setup.masked else ()

    def take(trial: Array, hyper: Any, learner: Any, playing: Playing, step: Array) -> tuple[Playing, _Taken]:
        keys, seen = stepping_keys(seed, trial, step), playing.observation
        mask = jax.vmap(lambda playing: mask_of(setup, world, _state_of(world, playing)))(playing)
        action, behaviour = choose(setup, context_at(step, updates), hyper, learner, seen, mask, keys.actions)
        interact = jax.vmap(functools.partial(_interact, setup, world, limit))
        outcome = interact(playing, action, jax.random.split(keys.environment, setup.environments))
        return outcome.playing, _Taken(seen, playing.length, mask, action, behaviour, outcome)

    def one(number: Array, trial: Array, hyper: Any, carried: Carried, active: Array) -> tuple[Carried, Ended, Any]:
        step, learner = number * steps, carried.learner
        taking = functools.partial(take, trial, hyper, learner)
        playing, taken = jax.lax.scan(taking, carried.playing, step + jnp.arange(steps))
        outcome, mask = taken.outcome, taken.mask
        stuck: Any = ()
        if setup.masked:  # a trial that cannot go on stands still, before the rollout in which it could not
            stuck = _first(jnp.where(active & ~jnp.any(mask, axis=-1), taken.length + 1, 0))
            active &= ~jnp.any(stuck)
            mask = jnp.concatenate([mask, outcome.mask[-1:]])
        beyond = jnp.zeros_like(outcome.reward)
        if wants_value_beyond(setup):
            worth = values_of(setup, learner, outcome.observation, outcome.mask)
            beyond = jnp.where(outcome.truncated, worth, beyond)
        batch = Batch(
            observation=jnp.concatenate([taken.observation, outcome.observation[-1:]]),
            action=taken.action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            valid=jnp.broadcast_to(active, taken.action.shape),
            behaviour=taken.behaviour,
            value_beyond=beyond,
            mask=mask,
        )
        key = stepping_keys(seed, trial, step).minibatches
        new, _ = update(setup, context_at(step, updates), hyper, carried, batch, key)
        keep = functools.partial(jnp.where, active)
        learner, playing = jax.tree.map(keep, (new.learner, playing), (learner, carried.playing))
        ended = jax.tree.map(lambda x: jnp.where(active, x, 0), outcome.ended)
        return Carried(learner, new.replay, playing), ended, stuck

    def rollout(number: Array, now: tuple[Carried, Ended, Any]) -> tuple[Carried, Ended, Any]:
        carried, *told = now
        lanes = jax.vmap(functools.partial(one, first[0] + number))
        going = active & ~jnp.any(told[1], axis=(0, 2, 3)) if setup.masked else active  # who is stuck remains so
        carried, *new = lanes(trial, hyper, carried, going)
        return (carried, *jax.tree.map(lambda all_, row: all_.at[number].set(row), told, new))

    carried, *told = jax.lax.fori_loop(0, rollouts[0], rollout, (carried, ended, stuck))
    # lanes first, as devices have them
    return Segment(carried, *jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0).reshape(shape[1], -1, shape[3]), told))


def _first(marks: Int[Array, "step environment"]) -> Int[Array, "step environment"]:
    """Marks, but for those of steps after the first that has any."""
    return jnp.where(jnp.cumsum(jnp.any(marks, axis=1))[:, None] <= 1, marks, 0)
