"""Cliff Walking as a JAX program, with the probabilities of Gymnasium's `CliffWalking-v1`."""

from typing import Any, NamedTuple

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.environments.compiled.grid import Cell, slip, walk

SHAPE = (4, 12)  # rows, columns
START, GOAL = 36, 47  # the corners of the last row; between them is the cliff
MOVES = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)], np.int32)  # (row, column): up, right, down, left


class State(NamedTuple):
    """Where the walker is, and what the step there was worth: a fall leads to the start, and so may a step."""

    cell: Cell
    reward: Float[Array, ""]


class CliffWalking(FuncEnv[State, Cell, Array, Array, Array, Any, Any]):
    """Walk to the other end of a cliff's edge: -1 a step, and -100 for a fall, which leads back to the start.

    The observation is the number of the cell, row by row (Sutton & Barto, Example 6.6).

    Args:
        is_slippery: a step goes where it is meant to, or to either side of that, with a third each.
    """

    observation_space = gymnasium.spaces.Discrete(SHAPE[0] * SHAPE[1])
    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, is_slippery: bool = False) -> None:
        super().__init__()
        self.is_slippery = is_slippery

    def initial(self, rng: Array, params: Any = None) -> State:  # noqa: ARG002
        """At the start."""
        return State(jnp.int32(START), jnp.float32(0))

    def transition(self, state: State, action: Int[Array, ""], rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """One step, where the ground lets it go."""
        return self.turned(state, action, slip(rng) if self.is_slippery else jnp.int32(0))

    def turned(self, state: State, action: Int[Array, ""], turn: Int[Array, ""]) -> State:
        """One step that goes so many quarter turns from where it was meant to."""
        cell = walk(state.cell, jnp.asarray(MOVES)[(action + turn) % 4], SHAPE)
        fell = (cell > START) & (cell < GOAL)
        return State(jnp.where(fell, START, cell), jnp.where(fell, -100.0, -1.0))

    def observation(self, state: State, rng: Any, params: Any = None) -> Cell:  # noqa: ARG002
        """The cell."""
        return state.cell

    def reward(self, state: State, action: Array, next_state: State, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """-1, or -100 for a fall."""
        return next_state.reward

    def terminal(self, state: State, rng: Any, params: Any = None) -> Bool[Array, ""]:  # noqa: ARG002
        """Whether this is the goal."""
        return state.cell == GOAL
