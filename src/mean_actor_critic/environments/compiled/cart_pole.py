"""Cart Pole as a JAX program, equal step by step to Gymnasium's `CartPole-v0` and `-v1`."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Float, Int

State = Float[Array, "4"]

GRAVITY = 9.8  # m/s²
CART_MASS = 1.0  # kg
POLE_MASS = 0.1
POLE_HALF_LENGTH = 0.5  # m
FORCE = 10.0  # N
TIME_STEP = 0.02  # s
POSITION_LIMIT = 2.4  # m
ANGLE_LIMIT = 12 * 2 * np.pi / 360  # rad


class CartPole(FuncEnv[State, State, Array, Array, Array, Any, Any]):
    """Keep a pole upright by pushing its cart left (0) or right (1): reward 1 a step until it falls.

    The state, also the observation: position [m], velocity [m/s], pole angle [rad], angular velocity [rad/s].
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def initial(self, rng: Array, params: Any = None) -> State:  # noqa: ARG002
        """Near upright and at rest."""
        return jax.random.uniform(rng, (4,), minval=-0.05, maxval=0.05)

    def transition(self, state: State, action: Int[Array, ""], rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """One Euler step of the equations of motion (Barto, Sutton & Anderson 1983, frictionless)."""
        position, velocity, angle, angular_velocity = state
        force = jnp.where(action == 1, FORCE, -FORCE)
        cosine, sine = jnp.cos(angle), jnp.sin(angle)
        total_mass = CART_MASS + POLE_MASS
        pole_moment = POLE_MASS * POLE_HALF_LENGTH  # a product; a sum here is a known bug of other versions
        push = (force + pole_moment * jnp.square(angular_velocity) * sine) / total_mass
        angular_acceleration = (GRAVITY * sine - cosine * push) / (
            POLE_HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * jnp.square(cosine) / total_mass)
        )
        acceleration = push - pole_moment * angular_acceleration * cosine / total_mass
        return jnp.stack(
            [
                position + TIME_STEP * velocity,
                velocity + TIME_STEP * acceleration,
                angle + TIME_STEP * angular_velocity,
                angular_velocity + TIME_STEP * angular_acceleration,
            ]
        )

    def observation(self, state: State, rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """The state itself."""
        return state

    def reward(self, state: State, action: Array, next_state: State, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """1 for every step taken, the last one included."""
        return jnp.float32(1)

    def terminal(self, state: State, rng: Any, params: Any = None) -> Bool[Array, ""]:  # noqa: ARG002
        """Whether the cart has left the track or the pole has fallen."""
        return (jnp.abs(state[0]) > POSITION_LIMIT) | (jnp.abs(state[2]) > ANGLE_LIMIT)
