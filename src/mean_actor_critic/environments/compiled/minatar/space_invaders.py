"""MinAtar's Space Invaders."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mean_actor_critic.environments.compiled.minatar.game import (
    CELLS,
    FIRE,
    LAST,
    LEFT,
    NOTHING,
    RIGHT,
    SIZE,
    Action,
    Cell,
    Flag,
    Game,
    Layer,
    beside,
    countdown,
    spot,
)

FLEET = (CELLS[:, None] < 4) & (CELLS >= 2) & (CELLS < 8)  # [row, column] four rows of six aliens
RELOAD = 5  # steps between two shots of the cannon
ALIENS_RELOAD = 10  # steps between two shots of theirs
SLOWEST, FASTEST = 12, 6  # steps between two moves of a whole fleet: of the first, and of the last to come


class State(NamedTuple):
    """The cannon, the aliens, and the bullets of both."""

    cannon: Cell  # column
    aliens: Layer
    rightward: Flag  # which way they go
    bullets: Layer
    bombs: Layer  # the aliens' bullets
    shot_wait: Int[Array, ""]  # steps until the cannon can fire
    bomb_wait: Int[Array, ""]  # steps until an alien fires
    move_wait: Int[Array, ""]  # steps until the aliens move
    move_pace: Int[Array, ""]  # steps between two moves, when aliens are many
    last: Action
    reward: Float[Array, ""]
    over: Flag


class SpaceInvaders(Game):
    """Shoot aliens, 1 each, before they arrive, and evade what they shoot; few are quicker, the next fleet too."""

    channels: ClassVar[int] = 6
    uses: ClassVar[tuple[int, ...]] = (NOTHING, LEFT, RIGHT, FIRE)

    def begin(self, rng: Array) -> State:  # noqa: ARG002
        """A whole fleet, going left."""
        no, none, zero, pace = jnp.bool_(False), jnp.zeros((SIZE, SIZE), bool), jnp.int32(0), jnp.int32(SLOWEST)
        return State(
            jnp.int32(5), jnp.asarray(FLEET), no, none, none, zero, jnp.int32(ALIENS_RELOAD), pace, pace, zero,
            jnp.float32(0), no,
        )  # fmt: skip

    def play(self, state: State, action: Action, chance: tuple[()]) -> State:  # noqa: ARG002
        """The cannon fires or moves, then bullets and bombs move, then aliens move and fire; who was hit is gone."""
        fires = (action == FIRE) & (state.shot_wait == 0)
        cannon = beside(state.cannon, action, LEFT, RIGHT)
        bullets = _shifted(state.bullets | spot(jnp.int32(LAST), cannon, fires), -1)
        bombs = _shifted(state.bombs, 1)
        here = spot(jnp.int32(LAST), cannon)
        over = jnp.any(here & (bombs | state.aliens))

        moves = state.move_wait == 0
        aliens, rightward, landed = _moved(state.aliens, state.rightward)
        aliens, rightward = jnp.where(moves, aliens, state.aliens), jnp.where(moves, rightward, state.rightward)
        over |= (moves & landed) | jnp.any(here & aliens)
        pace = jnp.minimum(jnp.sum(state.aliens), state.move_pace)

        bombs_away = state.bomb_wait == 0
        bombs |= _nearest(aliens, cannon) & bombs_away
        hit = aliens & bullets
        aliens &= ~hit
        is_won = ~jnp.any(aliens)
        return State(
            cannon,
            jnp.where(is_won, FLEET, aliens),
            rightward,
            bullets & ~hit,
            bombs,
            countdown(jnp.where(fires, RELOAD, state.shot_wait)),
            jnp.where(bombs_away, ALIENS_RELOAD, state.bomb_wait) - 1,
            jnp.where(moves, pace, state.move_wait) - 1,
            state.move_pace - (is_won & (state.move_pace > FASTEST)),
            action,
            jnp.sum(hit).astype(jnp.float32),
            over,
        )

    def layers(self, state: State) -> list[Layer]:
        """The cannon, aliens, aliens that go left, aliens that go right, bullets, bombs."""
        return [
            spot(jnp.int32(LAST), state.cannon),
            state.aliens,
            state.aliens & ~state.rightward,
            state.aliens & state.rightward,
            state.bullets,
            state.bombs,
        ]


def _shifted(layer: Layer, rows: int) -> Layer:
    """All things so many rows further down; those that leave are gone."""
    kept = CELLS[:, None] != (0 if rows > 0 else LAST)
    return jnp.roll(layer, rows, axis=0) & kept


def _moved(aliens: Layer, rightward: Flag) -> tuple[Layer, Flag, Flag]:
    """Aliens a column further, or, where one would leave, a row down and turned round; whether they have landed."""
    turns = jnp.where(rightward, jnp.any(aliens[:, LAST]), jnp.any(aliens[:, 0]))
    sideways = jnp.where(rightward, jnp.roll(aliens, 1, axis=1), jnp.roll(aliens, -1, axis=1))
    down = jnp.roll(aliens, 1, axis=0)
    return jnp.where(turns, down, sideways), rightward ^ turns, turns & jnp.any(aliens[LAST])


def _nearest(aliens: Layer, cannon: Cell) -> Layer:
    """The lowest alien of the column that is nearest to the cannon, the left one of two."""
    distance = jnp.where(jnp.any(aliens, axis=0), jnp.abs(CELLS - cannon), SIZE)
    column = jnp.argmin(distance)
    row = jnp.max(jnp.where(aliens[:, column], CELLS, -1))
    return spot(row, column)
