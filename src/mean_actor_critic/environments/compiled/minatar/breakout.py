"""MinAtar's Breakout."""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.environments.compiled.minatar.game import (
    LAST,
    LEFT,
    NOTHING,
    RIGHT,
    Action,
    Cell,
    Flag,
    Game,
    Layer,
    beside,
    spot,
)

WALL = np.repeat(np.isin(np.arange(10), (1, 2, 3))[:, None], 10, axis=1)  # three rows of bricks
BOTTOM = LAST  # the paddle's row


class State(NamedTuple):
    """Ball, paddle and bricks."""

    ball: Int[Array, "2"]  # row, column
    before: Int[Array, "2"]  # where the ball was a step ago: its trail
    towards: Int[Array, "2"]  # rows and columns that it moves by: 1 or -1 each
    paddle: Cell  # column
    bricks: Layer
    is_inside: Flag  # the ball met a brick in the step before: it breaks no other one at once
    last: Action
    reward: Float[Array, ""]
    over: Flag


class Breakout(Game):
    """Break bricks with a ball, 1 each, and let the paddle meet it; the wall is built anew when the last has gone."""

    channels: ClassVar[int] = 4
    uses: ClassVar[tuple[int, ...]] = (NOTHING, LEFT, RIGHT)

    def begin(self, rng: Array) -> State:
        """The ball comes down from one side or the other."""
        right = jax.random.bernoulli(rng)
        ball = jnp.array([3, 0], jnp.int32).at[1].set(jnp.where(right, LAST, 0))
        towards = jnp.array([1, 1], jnp.int32).at[1].set(jnp.where(right, -1, 1))
        no = jnp.bool_(False)
        return State(ball, ball, towards, jnp.int32(4), jnp.asarray(WALL), no, jnp.int32(0), jnp.float32(0), no)

    def play(self, state: State, action: Action, chance: tuple[()]) -> State:  # noqa: ARG002
        """The paddle moves, then the ball, which bounces off whatever it meets; the sides first."""
        paddle = beside(state.paddle, action, LEFT, RIGHT)
        row, column = state.ball + state.towards
        is_side = (column < 0) | (column > LAST)
        column = jnp.clip(column, 0, LAST)
        is_top = row < 0
        row = jnp.maximum(row, 0)
        is_brick = ~is_top & state.bricks[row, column]
        breaks = is_brick & ~state.is_inside
        is_bottom = ~is_top & ~is_brick & (row == BOTTOM)
        on_paddle = is_bottom & (state.ball[1] == paddle)
        on_corner = is_bottom & ~on_paddle & (column == paddle)  # sends it back where it came from
        turns_up_or_down = is_top | breaks | on_paddle | on_corner
        bricks = state.bricks & ~spot(row, column, breaks)
        return State(
            jnp.stack([jnp.where(breaks | on_paddle | on_corner, state.ball[0], row), column]),
            state.ball,
            state.towards * jnp.stack([_sign(turns_up_or_down), _sign(is_side ^ on_corner)]),
            paddle,
            jnp.where(is_bottom & ~jnp.any(bricks), WALL, bricks),
            is_brick,
            action,
            breaks.astype(jnp.float32),
            is_bottom & ~on_paddle & ~on_corner,
        )

    def layers(self, state: State) -> list[Layer]:
        """The paddle, the ball, its trail, the bricks."""
        return [spot(jnp.int32(BOTTOM), state.paddle), spot(*state.ball), spot(*state.before), state.bricks]


def _sign(turns: Bool[Array, ""]) -> Int[Array, ""]:
    return jnp.where(turns, -1, 1)
