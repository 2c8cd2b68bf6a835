"""Frozen Lake as a JAX program, with the probabilities of Gymnasium's `FrozenLake-v1` and `FrozenLake8x8-v1`."""

from typing import Any

import gymnasium
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Int

from mean_actor_critic.environments.compiled.grid import Cell, slip, walk

# Gymnasium's two maps: the start, frozen ice, holes and the goal.
MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
MOVES = np.array([(0, -1), (1, 0), (0, 1), (-1, 0)], np.int32)  # (row, column): left, down, right, up


class FrozenLake(FuncEnv[Cell, Cell, Array, Array, Array, Any, Any]):
    """Cross the ice to the goal, for a reward of 1, without falling into a hole.

    The state, also the observation, is the number of the cell, row by row.

    Args:
        map_name: which of the MAPS.
        is_slippery: a step goes where it is meant to, or to either side of that, with a third each.
    """

    action_space = gymnasium.spaces.Discrete(4)

    def __init__(self, map_name: str = "4x4", is_slippery: bool = True) -> None:
        super().__init__()
        tiles = np.array([list(row) for row in MAPS[map_name]])
        self.is_slippery = is_slippery
        self.shape: tuple[int, int] = (tiles.shape[0], tiles.shape[1])
        self.is_goal = (tiles == "G").ravel()
        self.is_end = np.isin(tiles, ["G", "H"]).ravel()
        self.observation_space = gymnasium.spaces.Discrete(tiles.size)

    def initial(self, rng: Array, params: Any = None) -> Cell:  # noqa: ARG002
        """In the first corner."""
        return jnp.int32(0)

    def transition(self, state: Cell, action: Int[Array, ""], rng: Any, params: Any = None) -> Cell:  # noqa: ARG002
        """One step, where the ice lets it go."""
        return self.turned(state, action, slip(rng) if self.is_slippery else jnp.int32(0))

    def turned(self, state: Cell, action: Int[Array, ""], turn: Int[Array, ""]) -> Cell:
        """One step that goes so many quarter turns from where it was meant to; from a hole or the goal, none."""
        there = walk(state, jnp.asarray(MOVES)[(action + turn) % 4], self.shape)
        return jnp.where(jnp.asarray(self.is_end)[state], state, there)

    def observation(self, state: Cell, rng: Any, params: Any = None) -> Cell:  # noqa: ARG002
        """The state itself."""
        return state

    def reward(self, state: Cell, action: Array, next_state: Cell, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """1 for the step that reaches the goal."""
        is_goal = jnp.asarray(self.is_goal)
        return jnp.where(is_goal[next_state] & ~is_goal[state], 1.0, 0.0)

    def terminal(self, state: Cell, rng: Any, params: Any = None) -> Bool[Array, ""]:  # noqa: ARG002
        """Whether this is the goal or a hole."""
        return jnp.asarray(self.is_end)[state]
