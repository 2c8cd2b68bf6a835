"""MinAtar's Asterix."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.environments.compiled.minatar.game import (
    DOWN,
    LAST,
    LEFT,
    NOTHING,
    RIGHT,
    UP,
    Action,
    Cell,
    Flag,
    Game,
    Layer,
    beside,
    heading,
    spot,
    spots,
)

LANES = np.arange(1, 9)  # the rows of enemies and gold, one thing each at a time
SPAWN_PACE, MOVE_PACE = 10, 5  # steps, at first
RAMP = 100  # steps after which the game gets harder
GOLD = 1 / 3  # the chance that what appears is gold


class Things(NamedTuple):
    """What is in each lane."""

    columns: Int[Array, "8"]
    rightward: Bool[Array, "8"]
    gold: Bool[Array, "8"]
    present: Bool[Array, "8"]


class State(NamedTuple):
    """The player, the things, and how fast it all goes."""

    row: Cell
    column: Cell
    things: Things
    spawn_wait: Int[Array, ""]  # steps until the next thing
    spawn_pace: Int[Array, ""]  # steps between two
    move_wait: Int[Array, ""]  # steps until things move
    move_pace: Int[Array, ""]
    ramp_wait: Int[Array, ""]  # steps until it gets harder
    ramps: Int[Array, ""]  # times that it has
    last: Action
    reward: Float[Array, ""]
    over: Flag


class Chance(NamedTuple):
    """What might appear."""

    rightward: Flag  # it comes from the left
    gold: Flag
    order: Float[Array, "8"]  # of the empty lanes, it takes that with the most


class Asterix(Game):
    """Collect gold, 1 each, and avoid enemies; both come from the sides, ever faster."""

    channels: ClassVar[int] = 4
    uses: ClassVar[tuple[int, ...]] = (NOTHING, LEFT, UP, RIGHT, DOWN)

    def begin(self, rng: Array) -> State:  # noqa: ARG002
        """The player alone, in the middle."""
        no, zero, middle = jnp.zeros(LANES.shape, bool), jnp.int32(0), jnp.int32(5)
        things = Things(jnp.zeros(LANES.shape, jnp.int32), no, no, no)
        spawn, move = jnp.int32(SPAWN_PACE), jnp.int32(MOVE_PACE)
        return State(
            middle, middle, things, spawn, spawn, move, move, jnp.int32(RAMP), zero, zero, jnp.float32(0),
            jnp.bool_(False),
        )  # fmt: skip

    def chance(self, rng: Array) -> Chance:
        """What might appear, and where."""
        side_key, gold_key, order_key = jax.random.split(rng, 3)
        order = jax.random.uniform(order_key, LANES.shape)
        return Chance(jax.random.bernoulli(side_key), jax.random.bernoulli(gold_key, GOLD), order)

    def play(self, state: State, action: Action, chance: Chance) -> State:
        """Something may appear, the player moves, things may move."""
        spawns = state.spawn_wait == 0
        things = _joined(state.things, chance, spawns)
        row = beside(state.row, action, UP, DOWN, LANES[0], LANES[-1])
        column = beside(state.column, action, LEFT, RIGHT)
        things, found, caught = _met(things, row, column)
        moves = state.move_wait == 0
        columns = things.columns + moves * heading(things.rightward)
        inside = (columns >= 0) & (columns <= LAST)
        moved = things._replace(columns=columns, present=things.present & inside)
        things, found_later, caught_later = _met(moved, row, column)
        return _harder(
            state._replace(
                row=row,
                column=column,
                things=things,
                spawn_wait=jnp.where(spawns, state.spawn_pace, state.spawn_wait) - 1,
                move_wait=jnp.where(moves, state.move_pace, state.move_wait) - 1,
                last=action,
                reward=(found + found_later).astype(jnp.float32),
                over=state.over | caught | caught_later,
            )
        )

    def layers(self, state: State) -> list[Layer]:
        """The player, enemies, trails behind enemies and gold, gold."""
        columns, rightward, gold, present = state.things
        lanes = jnp.asarray(LANES)
        trail = spots(lanes, columns - heading(rightward), present)
        return [
            spot(state.row, state.column),
            spots(lanes, columns, present & ~gold),
            trail,
            spots(lanes, columns, present & gold),
        ]


def _joined(things: Things, chance: Chance, spawns: Flag) -> Things:
    """With one more thing, if there is a lane without."""
    lane = jnp.argmax(jnp.where(things.present, -1.0, chance.order))
    new = (jnp.arange(len(LANES)) == lane) & ~things.present & spawns
    return Things(
        jnp.where(new, jnp.where(chance.rightward, 0, LAST), things.columns),
        jnp.where(new, chance.rightward, things.rightward),
        jnp.where(new, chance.gold, things.gold),
        things.present | new,
    )


def _met(things: Things, row: Cell, column: Cell) -> tuple[Things, Int[Array, ""], Flag]:
    """What is left when the player takes the gold there, how much that was, and whether there was an enemy."""
    here = things.present & (row == LANES) & (things.columns == column)
    gold = here & things.gold
    return things._replace(present=things.present & ~gold), jnp.sum(gold), jnp.any(here & ~things.gold)


def _harder(state: State) -> State:
    """Every so often, things appear a step sooner, and every other time they move a step sooner too."""
    can = (state.spawn_pace > 1) | (state.move_pace > 1)
    ramps = can & (state.ramp_wait < 0)
    quicker = ramps & (state.move_pace > 1) & (state.ramps % 2 == 1)
    return state._replace(
        spawn_pace=state.spawn_pace - (ramps & (state.spawn_pace > 1)),
        move_pace=state.move_pace - quicker,
        ramp_wait=jnp.where(ramps, RAMP, state.ramp_wait - can),
        ramps=state.ramps + ramps,
    )
