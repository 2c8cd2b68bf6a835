"""Mountain Car as a JAX program, equal step by step to Gymnasium's `MountainCar-v0`."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Float, Int

State = Float[Array, "2"]

LEFTMOST, RIGHTMOST = -1.2, 0.6
GOAL = 0.5
FASTEST = 0.07  # a step
FORCE = 0.001  # speed that the engine adds in a step
GRAVITY = 0.0025  # speed that the steepest slope adds in a step


class MountainCar(FuncEnv[State, State, Array, Array, Array, Any, Any]):
    """Drive out of a valley too steep for the engine: -1 a step until the car is at the top on the right.

    The state, also the observation: position and speed a step. Actions push left (0), not at all (1) or right (2).
    """

    observation_space = gymnasium.spaces.Box(
        np.array([LEFTMOST, -FASTEST], np.float32), np.array([RIGHTMOST, FASTEST], np.float32), (2,), np.float32
    )
    action_space = gymnasium.spaces.Discrete(3)

    def initial(self, rng: Array, params: Any = None) -> State:  # noqa: ARG002
        """At rest near the bottom."""
        return jnp.stack([jax.random.uniform(rng, (), minval=-0.6, maxval=-0.4), jnp.float32(0)])

    def transition(self, state: State, action: Int[Array, ""], rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """The slope and the engine change the speed, the speed changes the position; the left end is a wall."""
        position, speed = state
        speed = jnp.clip(speed + (action - 1) * FORCE - jnp.cos(3 * position) * GRAVITY, -FASTEST, FASTEST)
        position = jnp.clip(position + speed, LEFTMOST, RIGHTMOST)
        return jnp.stack([position, jnp.where((position <= LEFTMOST) & (speed < 0), 0.0, speed)])

    def observation(self, state: State, rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """The state itself."""
        return state

    def reward(self, state: State, action: Array, next_state: State, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """-1 for every step taken, the last one included."""
        return jnp.float32(-1)

    def terminal(self, state: State, rng: Any, params: Any = None) -> Bool[Array, ""]:  # noqa: ARG002
        """Whether the car is at the top, and not rolling back."""
        return (state[0] >= GOAL) & (state[1] >= 0)
