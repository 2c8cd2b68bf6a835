"""A ring of what the environments of one trial showed, step after step, from which runs of steps are sampled.

Each environment has a column. A row holds an observation and what was done there; its successor is the row below. The
last observation of an episode is a row of its own, without an action, so that no observation is kept twice.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Rows(NamedTuple):
    """Steps of environments, one row each; leading dimensions [row, environment] in the ring."""

    observation: Any  # [..., observation], bytes or float32
    action: Int[Array, "*n"]
    reward: Float[Array, "*n"]  # the environment's own
    terminated: Bool[Array, "*n"]  # the next row shows a terminal state
    last: Bool[Array, "*n"]  # the episode ended here: nothing was done, and the next row begins another
    behaviour: Float[Array, "*n"]  # probability with which the action was chosen
    mask: Any = ()  # [..., action] which actions are legal, where the environment tells


class Ring(NamedTuple):
    """The rows, and how many were ever written for each environment."""

    rows: Rows
    written: Int[Array, " environment"]


def empty(capacity: int, environments: int, observation: Any, actions: int, masked: bool = False) -> Ring:
    """A ring for `capacity` rows in all, evenly over the environments.

    Args:
        capacity: rows of all environments together.
        environments: how many.
        observation: shape and dtype of one.
        actions: how many there are.
        masked: whether legal actions are kept.
    """
    shape = (-(-capacity // environments), environments)
    rows = Rows(
        observation=jnp.zeros((*shape, *observation.shape), observation.dtype),
        action=jnp.zeros(shape, jnp.int32),
        reward=jnp.zeros(shape),
        terminated=jnp.zeros(shape, bool),
        last=jnp.zeros(shape, bool),
        behaviour=jnp.ones(shape),
        mask=jnp.ones((*shape, actions), bool) if masked else (),
    )
    return Ring(rows, jnp.zeros(environments, jnp.int32))


def add(
    ring: Ring,
    step: Rows,
    ended: Bool[Array, " environment"],
    beyond: Any,
    active: Any = True,
    mask_beyond: Any = (),
) -> Ring:
    """Write a step of every environment, and what was seen `beyond` it where an episode ended; if it is `active`."""
    capacity, environments = ring.rows.action.shape
    column = jnp.arange(environments)
    slot = jnp.where(active, ring.written % capacity, capacity)  # past the end: dropped
    last_slot = jnp.where(active & ended, (ring.written + 1) % capacity, capacity)
    blank = jax.tree.map(jnp.zeros_like, step)
    final = blank._replace(
        observation=beyond,
        last=jnp.ones(environments, bool),
        behaviour=jnp.ones(environments),
        mask=mask_beyond,
    )

    def write(rows: Array, now: Array, after: Array) -> Array:
        rows = rows.at[slot, column].set(now.astype(rows.dtype), mode="drop")
        return rows.at[last_slot, column].set(after.astype(rows.dtype), mode="drop")

    return Ring(jax.tree.map(write, ring.rows, step, final), jnp.where(active, ring.written + 1 + ended, ring.written))


def sample(ring: Ring, key: Array, shape: tuple[int, ...], length: int) -> Rows:
    """Runs of `length` successive rows [*shape, length], uniform over environments and beginnings.

    There must be so many rows of every environment.
    """
    capacity, environments = ring.rows.action.shape
    uniform = jax.random.uniform(key, (2, *shape))
    column = jnp.minimum((uniform[0] * environments).astype(jnp.int32), environments - 1)
    written = ring.written[column]
    held = jnp.minimum(written, capacity)
    beginnings = held - length + 1
    # floor(u * n) instead of randint: a quarter of the cost
    start = jnp.minimum((uniform[1] * beginnings).astype(jnp.int32), beginnings - 1)
    slot = (written - held + start)[..., None] + jnp.arange(length)
    return jax.tree.map(lambda rows: rows[slot % capacity, column[..., None]], ring.rows)
