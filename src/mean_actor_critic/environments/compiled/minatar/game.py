"""What the games share: six actions that may stick, a grid of ten by ten, and layers of what is where."""

import abc
from typing import Any, ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium.experimental.functional import FuncEnv
from jaxtyping import Array, Bool, Int

SIZE = 10  # rows, and columns
LAST = SIZE - 1
CELLS = np.arange(SIZE)
NOTHING, LEFT, UP, RIGHT, DOWN, FIRE = range(6)
STICKY = 0.1  # the chance that an action is not taken, but the one before it again

Cell = Int[Array, ""]  # a row or a column
Flag = Bool[Array, ""]
Action = Int[Array, ""]  # one of the six
Layer = Bool[Array, "10 10"]  # [row, column]


class Game(FuncEnv[Any, Array, Array, Array, Array, Any, Any], abc.ABC):
    """A game: its rules are `begin`, `chance`, `play` and `layers`.

    A state is a NamedTuple, with these fields besides the game's own: `last`, the action before; `reward`, what the
    step was worth; `over`. The observation [row, column, channel] says of each kind of thing where it is.

    Args:
        minimal_actions: only those that the game has a use for, else all six.
    """

    channels: ClassVar[int]
    uses: ClassVar[tuple[int, ...]]  # the actions that it has a use for

    def __init__(self, minimal_actions: bool = True) -> None:
        super().__init__()
        self.actions = np.array(self.uses if minimal_actions else range(6), np.int32)
        self.observation_space = gymnasium.spaces.Box(0, 1, (SIZE, SIZE, self.channels), bool)
        self.action_space = gymnasium.spaces.Discrete(len(self.actions))

    @abc.abstractmethod
    def begin(self, rng: Array) -> Any:
        """The state before the first step."""

    def chance(self, rng: Array) -> Any:  # noqa: ARG002
        """All that is left to chance in a step, whether it will matter or not."""
        return ()

    @abc.abstractmethod
    def play(self, state: Any, action: Action, chance: Any) -> Any:
        """One step."""

    @abc.abstractmethod
    def layers(self, state: Any) -> list[Layer]:
        """What is where, a layer for each channel."""

    def initial(self, rng: Array, params: Any = None) -> Any:  # noqa: ARG002
        """The state before the first step."""
        return self.begin(rng)

    def transition(self, state: Any, action: Array, rng: Array, params: Any = None) -> Any:  # noqa: ARG002
        """One step with the action that was chosen, or that before it."""
        sticky_key, chance_key = jax.random.split(rng)
        chosen = jnp.asarray(self.actions)[action]
        taken = jnp.where(jax.random.bernoulli(sticky_key, STICKY), state.last, chosen)
        return self.play(state, taken, self.chance(chance_key))._replace(last=taken)

    def observation(self, state: Any, rng: Any, params: Any = None) -> Bool[Array, "10 10 channel"]:  # noqa: ARG002
        """The layers."""
        return jnp.stack(self.layers(state), axis=-1)

    def reward(self, state: Any, action: Any, next_state: Any, rng: Any, params: Any = None) -> Array:  # noqa: ARG002
        """What the step was worth."""
        return next_state.reward

    def terminal(self, state: Any, rng: Any, params: Any = None) -> Flag:  # noqa: ARG002
        """Whether the game is over."""
        return state.over


def beside(place: Cell, action: Action, back: int, forth: int, low: int = 0, high: int = LAST) -> Cell:
    """The next row or column, when one action leads back and another forth, and nothing beyond the ends."""
    return jnp.clip(place + (action == forth) - (action == back), low, high)


def countdown(wait: Int[Array, "..."]) -> Int[Array, "..."]:
    """Steps that are left of a wait, a step later."""
    return jnp.maximum(wait - 1, 0)


def spot(row: Cell, column: Cell, present: Flag | bool = True) -> Layer:
    """One thing; nothing if it is outside, or not there at all."""
    return (CELLS[:, None] == row) & (column == CELLS) & present


def spots(rows: Int[Array, " n"], columns: Int[Array, " n"], present: Bool[Array, " n"]) -> Layer:
    """Several things."""
    return jnp.any(jax.vmap(spot)(rows, columns, present), axis=0)


def heading(rightward: Bool[Array, "..."]) -> Int[Array, "..."]:
    """Columns that a thing moves by: 1 to the right, -1 to the left."""
    return jnp.where(rightward, 1, -1)
