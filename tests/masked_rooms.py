"""A task that only an agent that knows which actions are legal can learn; for worker processes, which have no JAX."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

ROOMS, ACTIONS = 5, 8


def legal_in(room: int) -> Any:
    """Two doors of eight: the first leads on, the second back to the beginning. All others are traps."""
    mask = np.zeros(ACTIONS, np.int8)
    mask[[room, room + 2]] = room < ROOMS  # in the end there is nothing to do
    return mask


class Rooms(gymnasium.Env[Any, Any]):
    """A reward of 1 for who passes all rooms; a trap ends the episode, or raises if there is a `trap` to watch for.

    Which doors are legal is told by `way`: "info", "method", or "nothing".
    """

    observation_space = spaces.Discrete(ROOMS + 1, start=2)
    action_space = spaces.Discrete(ACTIONS, start=1)

    def __init__(self, way: str = "info", trap: bool = True, fault: Any = None, at: int = 2) -> None:
        """From the step `at` on, `fault` is told in the place of the mask: an array, or words for nothing at all."""
        self.way, self.trap, self.fault, self.at = way, trap, fault, at
        if way == "method":
            self.action_masks = self._mask

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.room = self.time = 0
        return self._shown()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        door, self.time = int(action) - 1, self.time + 1
        trapped = not legal_in(self.room)[door]
        assert not (trapped and self.trap), f"door {door} in room {self.room}"
        self.room = self.room + 1 if door == self.room else 0
        observation, info = self._shown()
        over = self.room == ROOMS
        return observation, float(over), over or trapped, False, info

    def _mask(self) -> Any:
        return legal_in(self.room) if self.fault is None or self.time < self.at else self.fault

    def _shown(self) -> tuple[Any, dict[str, Any]]:
        mask = self._mask()
        told = self.way == "info" and not isinstance(mask, str)
        return self.room + 2, {"action_mask": mask} if told else {}


def make(**options: Any) -> Any:
    """Rooms, within wrappers that say nothing of masks."""
    return gymnasium.wrappers.TimeLimit(gymnasium.wrappers.OrderEnforcing(Rooms(**options)), 20)


def make_vector(**options: Any) -> Any:
    """A vector environment of one."""
    return gymnasium.vector.SyncVectorEnv([lambda: make(**options)], autoreset_mode=AutoresetMode.SAME_STEP)
