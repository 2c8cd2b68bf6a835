"""One call of a learner: its ring of transitions is written and sampled, and it learns."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from mean_actor_critic.learning import packing, sequences
from mean_actor_critic.learning import replay as ring
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.sequences import Rows
from mean_actor_critic.learning.types import Batch, Context, Memory, Metrics, SequenceMemory
from mean_actor_critic.spec.learners import Shapes

NO_SCHEDULE = 0  # updates of the whole training, for learners without a schedule


class Carried(NamedTuple):
    """Everything that a trial carries from one call of its learner to the next, and so all that a resume needs."""

    learner: Any  # the learner's state
    replay: Any  # its ring, of no rows where it has none
    playing: Any = ()  # what its environments are at, where a trial goes on in mid-episode


def initial(setup: Any, shapes: Shapes, key: Array) -> Carried:
    """A trial before its first episode."""
    learner = learner_of(setup)
    memory = learner.memory(setup)
    if isinstance(memory, SequenceMemory):
        seen = jax.ShapeDtypeStruct((packing.packed_size(setup.parts),), setup.observation_dtype)
        rows = sequences.empty(memory.capacity, memory.environments, seen, shapes.actions, setup.masked)
        return Carried(learner.init(setup, shapes, key), rows)
    capacity = memory.capacity if memory else 0
    masked_actions = shapes.actions if setup.masked else None
    return Carried(learner.init(setup, shapes, key), ring.empty(capacity, shapes.observation[0], masked_actions))


def longest_of(batches: Batch) -> Int[Array, ""]:
    """Steps of the longest of some episodes [lane]."""
    return jnp.max(jnp.sum(batches.valid, axis=-1, dtype=jnp.int32))


def context_of(batches: Batch) -> Context:
    """For learning from some episodes [lane] together."""
    return Context(longest_of(batches), jnp.int32(NO_SCHEDULE))


def update(
    setup: Any, context: Context, hyper: Any, carried: Carried, batch: Batch, key: Array
) -> tuple[Carried, Metrics]:
    """Remember one episode, or one step of all environments, and learn from it."""
    learner = learner_of(setup)
    memory = learner.memory(setup)
    replay: Any = carried.replay
    sampled: Any = None
    if isinstance(memory, SequenceMemory):
        row, ended, beyond, mask_beyond = _row(setup, batch)
        replay = sequences.add(replay, row, ended, beyond, batch.valid[0], mask_beyond)
        rows = sequences.sample(replay, key, memory.sampled, memory.length)
        sampled = rows._replace(observation=packing.unpacked(setup.parts, rows.observation))
    elif memory:
        replay = ring.add(replay, memory.rows(hyper, batch), batch.valid)
        sampled = ring.sample(replay, key, memory.sampled)
    state, metrics = learner.learn(setup, context, hyper, carried.learner, batch, sampled)
    return Carried(state, replay), metrics  # what its environments are at is the engine's


def _row(setup: Any, batch: Batch) -> tuple[Rows, Array, Any, Any]:
    """The row that a step of all environments [1, environment] adds, where an episode ended, and what it ended with."""
    ended = (batch.terminated | batch.truncated)[0]
    mask, mask_beyond = ((), ()) if isinstance(batch.mask, tuple) else batch.mask
    row = Rows(
        observation=packing.packed(setup.parts, batch.observation[0]),
        action=batch.action[0],
        reward=batch.reward[0],
        terminated=batch.terminated[0],
        last=jnp.zeros_like(ended),
        behaviour=batch.behaviour[0],
        mask=mask,
    )
    return row, ended, packing.packed(setup.parts, batch.observation[1]), mask_beyond


def update_among(
    setup: Any, hyper: Any, carried: Carried, which: Int[Array, " some"], batch: Batch, key: Array
) -> tuple[Carried, Any, Metrics]:
    """`update` for the trials at the places `which` of many; a place past the last is left out.

    Args:
        setup: of all.
        hyper: [all].
        carried: [all].
        which: the trials that learn, each at most once.
        batch: [some] an episode of each.
        key: [some].

    Returns:
        What all carry, and the learners' states and metrics of those that learned [some].
    """
    learner = learner_of(setup)
    memory = learner.memory(setup)
    own_hyper, own = jax.tree.map(lambda all_: all_[which], (hyper, carried.learner))
    replay, sampled = carried.replay, None
    if isinstance(memory, Memory):
        rows = jax.vmap(memory.rows)(own_hyper, batch)
        replay = ring.add_among(replay, which, rows, batch.valid)
        sampled = ring.sample_among(replay, which, key, memory.sampled)
    learn = functools.partial(learner.learn, setup, context_of(batch))
    new, metrics = jax.vmap(learn)(own_hyper, own, batch, sampled)
    written = jax.tree.map(lambda all_, one: all_.at[which].set(one, mode="drop"), carried.learner, new)
    return Carried(written, replay), new, metrics
