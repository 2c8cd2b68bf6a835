"""Taxi as a JAX program, equal step by step to Gymnasium's `Taxi-v3` and `Taxi-v4` in fair weather."""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Int

SIZE = 5  # rows, and columns
STANDS = np.array([(0, 0), (0, 4), (4, 0), (4, 3)], np.int32)  # (row, column): red, green, yellow, blue
ABOARD = 4  # where a passenger is who is at no stand
PICK_UP, DROP_OFF = 4, 5  # the actions after south, north, east and west
MOVES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0, 0), (0, 0)], np.int32)  # (row, column) by action
# Whether there is a way from each cell [row, column] to its eastern neighbour: three walls stand in between.
EAST = np.array([(1, 0, 1, 1, 0), (1, 0, 1, 1, 0), (1, 1, 1, 1, 0), (0, 1, 0, 1, 0), (0, 1, 0, 1, 0)], bool)
WEST = np.roll(EAST, 1, axis=1)  # whose first column is the last of EAST: no way
# The same in every direction [row, column, action]; the actions that do not move have no way to go.
NORTH = np.repeat(np.arange(SIZE) > 0, SIZE).reshape(SIZE, SIZE)
WAYS = np.stack([NORTH[::-1], NORTH, EAST, WEST, np.zeros_like(EAST), np.zeros_like(EAST)], axis=-1)


class State(NamedTuple):
    """The taxi and its passenger."""

    place: Int[Array, "2"]  # row and column of the taxi
    passenger: Int[Array, ""]  # the stand where the passenger is, or ABOARD
    destination: Int[Array, ""]  # a stand
    delivered: Bool[Array, ""]


class Taxi(FuncEnv[State, Array, Array, Array, Array, Any, Any]):
    """Fetch a passenger from one stand and bring them to another: 20 for that, -1 a step, -10 for a useless stop.

    The observation is a number: of row, column, passenger and destination, the last one counting fastest.
    """

    observation_space = gymnasium.spaces.Discrete(SIZE * SIZE * (ABOARD + 1) * len(STANDS))
    action_space = gymnasium.spaces.Discrete(6)

    def initial(self, rng: Array, params: Any = None) -> State:  # noqa: ARG002
        """The taxi anywhere, the passenger at a stand that is not the destination."""
        place_key, passenger_key, destination_key = jax.random.split(rng, 3)
        passenger = jax.random.randint(passenger_key, (), 0, len(STANDS))
        further = jax.random.randint(destination_key, (), 1, len(STANDS))
        place = jax.random.randint(place_key, (2,), 0, SIZE)
        return State(place, passenger, (passenger + further) % len(STANDS), jnp.bool_(False))

    def transition(self, state: State, action: Int[Array, ""], rng: Any, params: Any = None) -> State:  # noqa: ARG002
        """Drive a cell, or let the passenger in or out."""
        is_way = jnp.asarray(WAYS)[state.place[0], state.place[1], action]
        at_stand = jnp.all(state.place == STANDS, axis=-1)
        gets_in, gets_out = self._stops(state)
        is_out = (action == DROP_OFF) & gets_out
        passenger = jnp.where((action == PICK_UP) & gets_in, ABOARD, state.passenger)
        passenger = jnp.where(is_out, jnp.argmax(at_stand), passenger)
        return State(
            jnp.where(is_way, state.place + jnp.asarray(MOVES)[action], state.place),
            passenger,
            state.destination,
            is_out & (passenger == state.destination),
        )

    def _stops(self, state: State) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        """Whether a passenger would get in here, and out."""
        at_stand = jnp.all(state.place == STANDS, axis=-1)
        is_aboard = state.passenger == ABOARD
        return ~is_aboard & at_stand[state.passenger], is_aboard & jnp.any(at_stand)

    def action_mask(self, state: State) -> Bool[Array, "6"]:
        """Which actions would change the state."""
        return jnp.asarray(WAYS)[state.place[0], state.place[1]].at[PICK_UP:].set(jnp.stack(self._stops(state)))

    def observation(self, state: State, rng: Any, params: Any = None) -> Int[Array, ""]:  # noqa: ARG002
        """The state's number."""
        cell = state.place[0] * SIZE + state.place[1]
        return (cell * (ABOARD + 1) + state.passenger) * len(STANDS) + state.destination

    def reward(self, state: State, action: Array, next_state: State, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """20 for a delivery, -10 for a stop that nobody uses, else -1."""
        is_useless = (action >= PICK_UP) & (next_state.passenger == state.passenger)
        return jnp.where(next_state.delivered, 20.0, jnp.where(is_useless, -10.0, -1.0))

    def terminal(self, state: State, rng: Any, params: Any = None) -> Bool[Array, ""]:  # noqa: ARG002
        """Whether the passenger is where they wanted to be."""
        return state.delivered
