"""Walking on a grid of cells, numbered row by row, with ice on it or not."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

Cell = Int[Array, ""]


def slip(rng: Array) -> Int[Array, ""]:
    """Quarter turns from the direction that was meant, on ice: -1, 0 or 1, with equal chances."""
    return jax.random.randint(rng, (), -1, 2)


def walk(cell: Cell, move: Int[Array, "2"], shape: tuple[int, int]) -> Cell:
    """The cell that a move of so many rows and columns leads to; nobody leaves the grid."""
    place = jnp.stack(jnp.divmod(cell, shape[1])) + move
    row, column = jnp.clip(place, 0, np.array(shape) - 1)
    return row * shape[1] + column
