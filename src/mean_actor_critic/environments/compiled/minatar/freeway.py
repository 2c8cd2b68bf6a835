"""MinAtar's Freeway."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from mean_actor_critic.environments.compiled.minatar.game import (
    DOWN,
    LAST,
    NOTHING,
    SIZE,
    UP,
    Action,
    Cell,
    Flag,
    Game,
    Layer,
    beside,
    countdown,
    spot,
    spots,
)

LANES = np.arange(1, 9)  # the rows of the cars, one each
COLUMN = 4  # the chicken's
PAUSE = 3  # steps between two of the chicken's
SLOWEST = 5  # steps between two of a car's
STEPS = 2500  # of a game

PerLane = Int[Array, "8"]


class State(NamedTuple):
    """The chicken and the cars."""

    chicken: Cell  # row
    wait: Int[Array, ""]  # steps until the chicken can move
    columns: PerLane  # of the cars
    waits: PerLane  # steps until each car moves
    paces: PerLane  # steps between two moves of each car, negative for those that go left
    left: Int[Array, ""]  # steps
    last: Action
    reward: Float[Array, ""]
    over: Flag


class Freeway(Game):
    """Bring a chicken across a road again and again, 1 each time; a car that it meets sends it back. 2500 steps."""

    channels: ClassVar[int] = 7
    uses: ClassVar[tuple[int, ...]] = (NOTHING, UP, DOWN)

    def begin(self, rng: Array) -> State:
        """All cars in the first column."""
        paces = self.chance(rng)
        zero = jnp.int32(0)
        columns = jnp.zeros_like(paces)
        return State(
            jnp.int32(LAST), jnp.int32(PAUSE), columns, jnp.abs(paces), paces, jnp.int32(STEPS), zero, jnp.float32(0),
            jnp.bool_(False),
        )  # fmt: skip

    def chance(self, rng: Array) -> PerLane:
        """The paces that cars will have when the chicken has crossed."""
        pace_key, side_key = jax.random.split(rng)
        paces = jax.random.randint(pace_key, LANES.shape, 1, SLOWEST + 1)
        return paces * jax.random.rademacher(side_key, LANES.shape, dtype=jnp.int32)

    def play(self, state: State, action: Action, chance: PerLane) -> State:
        """The chicken moves, then the cars."""
        moves = (state.wait == 0) & ((action == UP) | (action == DOWN))
        chicken = jnp.where(moves, beside(state.chicken, action, UP, DOWN), state.chicken)
        wait = jnp.where(moves, PAUSE, state.wait)
        is_across = chicken == 0
        chicken = jnp.where(is_across, LAST, chicken)
        paces = jnp.where(is_across, chance, state.paces)
        waits = jnp.where(is_across, jnp.abs(chance), state.waits)
        is_due = waits == 0
        columns = jnp.where(is_due, (state.columns + jnp.sign(paces)) % SIZE, state.columns)
        is_hit = (chicken == LANES) & ((state.columns == COLUMN) | (columns == COLUMN))
        left = state.left - 1
        return State(
            jnp.where(jnp.any(is_hit), LAST, chicken),
            countdown(wait),
            columns,
            jnp.where(is_due, jnp.abs(paces), waits - 1),
            paces,
            left,
            action,
            is_across.astype(jnp.float32),
            left < 0,
        )

    def layers(self, state: State) -> list[Layer]:
        """The chicken, the cars, and behind each car a mark in the layer of its pace."""
        lanes = jnp.asarray(LANES)
        behind = (state.columns - jnp.sign(state.paces)) % SIZE
        marks = [spots(lanes, behind, jnp.abs(state.paces) == pace) for pace in range(1, SLOWEST + 1)]
        there = jnp.ones(lanes.shape, bool)
        return [spot(state.chicken, jnp.int32(COLUMN)), spots(lanes, state.columns, there), *marks]
