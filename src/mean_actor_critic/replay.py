"""A ring of transitions."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Transitions(NamedTuple):
    """Rows of critic data; see `critic_targets` for what they mean."""

    observation: Float[Array, "row observation"]
    action: Int[Array, " row"]
    reward: Float[Array, " row"]
    next_observation: Float[Array, "row observation"]
    bootstrap: Float[Array, " row"]


class Replay(NamedTuple):
    """The ring, where the next row goes, and how many rows there are."""

    rows: Transitions
    next_slot: Int[Array, ""]
    filled: Int[Array, ""]


def empty(capacity: int, observation_size: int) -> Replay:
    """A ring for `capacity` transitions."""
    return Replay(
        Transitions(
            observation=jnp.zeros((capacity, observation_size)),
            action=jnp.zeros(capacity, jnp.int32),
            reward=jnp.zeros(capacity),
            next_observation=jnp.zeros((capacity, observation_size)),
            bootstrap=jnp.zeros(capacity),
        ),
        next_slot=jnp.int32(0),
        filled=jnp.int32(0),
    )


def add(replay: Replay, rows: Transitions, valid: Bool[Array, " row"]) -> Replay:
    """Write the valid rows, which come first, over the oldest ones. Of more rows than fit, the last are kept."""
    capacity = replay.rows.action.shape[0]
    order = jnp.arange(valid.shape[0])
    count = jnp.sum(valid, dtype=jnp.int32)
    fits = order >= count - capacity
    slot = jnp.where(valid & fits, (replay.next_slot + order) % capacity, capacity)  # past the end: dropped

    def write(ring: Array, new: Array) -> Array:
        return ring.at[slot].set(new, mode="drop", unique_indices=False)

    return Replay(
        jax.tree.map(write, replay.rows, rows),
        next_slot=(replay.next_slot + count) % capacity,
        filled=jnp.minimum(replay.filled + count, capacity),
    )


def sample(replay: Replay, key: Array, shape: tuple[int, ...]) -> Transitions:
    """Rows drawn uniformly with replacement, with leading dimensions `shape`. At least one must have been written."""
    # floor(u * n) instead of randint: a quarter of the cost; u has 23 bits, so the odds of n rows are even to n / 2**23
    draw = jnp.floor(jax.random.uniform(key, shape) * replay.filled).astype(jnp.int32)
    index = jnp.minimum(draw, replay.filled - 1)
    return jax.tree.map(lambda ring: ring[index], replay.rows)
