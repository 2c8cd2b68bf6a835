"""Acrobot as a JAX program, equal step by step to Gymnasium's `Acrobot-v1`."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Float, Int

State = Float[Array, "4"]
Observation = Float[Array, "6"]

GRAVITY = 9.8  # m/s²
TIME_STEP = 0.2  # s
# The two links are alike.
MASS = 1.0  # kg
LENGTH = 1.0  # m
CENTRE = 0.5  # m from a link's joint to its centre of mass
INERTIA = 1.0  # kg m²
FASTEST = (4 * np.pi, 9 * np.pi)  # rad/s, of the first and the second joint
TURN = 2 * np.pi  # rad


class Acrobot(FuncEnv[State, Observation, Array, Array, Array, Any, Any]):
    """Swing two links up by turning the joint between them: -1 a step until the tip is a link above the upper joint.

    The state: angle of the first link to straight down, angle of the second to the first [rad], and how fast they
    change [rad/s]. Actions are torques of -1, 0 and 1 N m.
    """

    observation_space = gymnasium.spaces.Box(
        -np.array([1, 1, 1, 1, *FASTEST], np.float32), np.array([1, 1, 1, 1, *FASTEST], np.float32), (6,), np.float32
    )
    action_space = gymnasium.spaces.Discrete(3)

    def initial(self, rng: Array, params: Any = None) -> State:  # noqa: ARG002
        """Hanging down, nearly at rest."""
        return jax.random.uniform(rng, (4,), minval=-0.1, maxval=0.1)

    def transition(self, state: State, action: Int[Array, ""], rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """One step of the classical Runge-Kutta method; angles stay within half a turn, speeds within their limits."""
        torque = action - 1.0
        first = _change(state, torque)
        second = _change(state + TIME_STEP / 2 * first, torque)
        third = _change(state + TIME_STEP / 2 * second, torque)
        fourth = _change(state + TIME_STEP * third, torque)
        moved = state + TIME_STEP / 6 * (first + 2 * second + 2 * third + fourth)
        angles, speeds = moved[:2], moved[2:]
        angles = angles - TURN * jnp.round(angles / TURN)
        fastest = jnp.asarray(FASTEST, state.dtype)
        return jnp.concatenate([angles, jnp.clip(speeds, -fastest, fastest)])

    def observation(self, state: State, rng: Any, params: Any = None) -> Observation:  # noqa: ARG002
        """Cosine and sine of each angle, then the speeds [rad/s]."""
        first, second, *speeds = state
        return jnp.stack([jnp.cos(first), jnp.sin(first), jnp.cos(second), jnp.sin(second), *speeds])

    def reward(self, state: State, action: Array, next_state: State, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """-1 for every step but the last."""
        return jnp.where(self.terminal(next_state, rng), 0.0, -1.0)

    def terminal(self, state: State, rng: Any, params: Any = None) -> Bool[Array, ""]:  # noqa: ARG002
        """Whether the tip is above the line, a link's length over the upper joint."""
        return -jnp.cos(state[0]) - jnp.cos(state[0] + state[1]) > 1.0


def _change(state: State, torque: Float[Array, ""]) -> State:
    """The equations of motion (Sutton & Barto 1998, without friction): how angles and speeds change in a second."""
    first, second, first_speed, second_speed = state
    cosine, sine = jnp.cos(second), jnp.sin(second)
    lever = MASS * LENGTH * CENTRE
    both = 2 * (MASS * CENTRE**2 + INERTIA) + MASS * LENGTH**2 + 2 * lever * cosine
    outer = MASS * CENTRE**2 + INERTIA
    shared = outer + lever * cosine
    weight_outer = MASS * CENTRE * GRAVITY * jnp.sin(first + second)
    weight = MASS * (CENTRE + LENGTH) * GRAVITY * jnp.sin(first) + weight_outer
    load = weight - lever * sine * second_speed * (second_speed + 2 * first_speed)
    pull = torque + shared / both * load - lever * jnp.square(first_speed) * sine - weight_outer
    second_acceleration = pull / (outer - jnp.square(shared) / both)
    first_acceleration = -(shared * second_acceleration + load) / both
    return jnp.stack([first_speed, second_speed, first_acceleration, second_acceleration])
