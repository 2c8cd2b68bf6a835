"""A ring of transitions: of one trial (`add`, `sample`), or some of many rings in one array (`…_among`)."""

from typing import Any, NamedTuple

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
    next_mask: Any = ()  # [row, action] which actions are legal in the next state, where the environment tells


class Cursor(NamedTuple):
    """Where the next row goes, and how many rows there are."""

    next_slot: Int[Array, ""]
    filled: Int[Array, ""]


class Replay(NamedTuple):
    """The ring and its cursor."""

    rows: Transitions
    cursor: Cursor


def empty(capacity: int, observation_size: int, masked_actions: int | None = None) -> Replay:
    """A ring for `capacity` transitions, with legal actions where there are masks of so many."""
    return Replay(
        Transitions(
            observation=jnp.zeros((capacity, observation_size)),
            action=jnp.zeros(capacity, jnp.int32),
            reward=jnp.zeros(capacity),
            next_observation=jnp.zeros((capacity, observation_size)),
            bootstrap=jnp.zeros(capacity),
            next_mask=() if masked_actions is None else jnp.ones((capacity, masked_actions), bool),
        ),
        Cursor(next_slot=jnp.int32(0), filled=jnp.int32(0)),
    )


def add(replay: Replay, rows: Transitions, valid: Bool[Array, " row"]) -> Replay:
    """Write the valid rows, which come first, over the oldest ones. Of more rows than fit, the last are kept."""
    slot, cursor = _move(replay.cursor, valid, replay.rows.action.shape[0])
    return Replay(jax.tree.map(lambda ring, new: ring.at[slot].set(new, mode="drop"), replay.rows, rows), cursor)


def sample(replay: Replay, key: Array, shape: tuple[int, ...]) -> Transitions:
    """Rows drawn uniformly with replacement, with leading dimensions `shape`. At least one must have been written."""
    index = _draw(replay.cursor, key, shape)
    return jax.tree.map(lambda ring: ring[index], replay.rows)


def add_among(replays: Replay, which: Int[Array, " some"], rows: Transitions, valid: Bool[Array, "some row"]) -> Replay:
    """`add` to the rings at the places `which` of many; a place past the last is left out.

    Touches the rows in question only: taking rings out and putting them back would copy megabytes for each trial.
    """
    own = jax.tree.map(lambda all_: all_[which], replays.cursor)
    capacity = replays.rows.action.shape[1]
    slot, moved = jax.vmap(lambda cursor, valid: _move(cursor, valid, capacity))(own, valid)
    return Replay(
        jax.tree.map(lambda ring, new: ring.at[which[:, None], slot].set(new, mode="drop"), replays.rows, rows),
        jax.tree.map(lambda all_, new: all_.at[which].set(new, mode="drop"), replays.cursor, moved),
    )


def sample_among(replays: Replay, which: Int[Array, " some"], key: Array, shape: tuple[int, ...]) -> Transitions:
    """`sample` from the rings at the places `which` of many, with a key for each: leading dimensions [some, *shape]."""
    own = jax.tree.map(lambda all_: all_[which], replays.cursor)
    index = jax.vmap(lambda cursor, key: _draw(cursor, key, shape))(own, key)
    place = which.reshape(-1, *(1 for _ in shape))
    return jax.tree.map(lambda ring: ring[place, index], replays.rows)


def _move(cursor: Cursor, valid: Bool[Array, " row"], capacity: int) -> tuple[Int[Array, " row"], Cursor]:
    """The slot of each row, past the end of the ring if it is to be dropped, and the cursor after them."""
    order = jnp.arange(valid.shape[0])
    count = jnp.sum(valid, dtype=jnp.int32)
    fits = order >= count - capacity
    slot = jnp.where(valid & fits, (cursor.next_slot + order) % capacity, capacity)
    return slot, Cursor((cursor.next_slot + count) % capacity, jnp.minimum(cursor.filled + count, capacity))


def _draw(cursor: Cursor, key: Array, shape: tuple[int, ...]) -> Int[Array, "*shape"]:
    # floor(u * n) instead of randint: a quarter of the cost; u has 23 bits, so the odds of n rows are even to n / 2**23
    index = jnp.floor(jax.random.uniform(key, shape) * cursor.filled).astype(jnp.int32)
    return jnp.minimum(index, cursor.filled - 1)
