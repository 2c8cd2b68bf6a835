"""The memory that the main process and its workers share: every lane's episode so far, and what to do next.

Of long episodes of images all observations would be too much: where nobody wants them, only the last is kept.
"""

import math
import mmap
from typing import Any, NamedTuple

import numpy as np

IDLE, RESET, STEP = 0, 1, 2  # what a lane's environment is to do in the next turn
RUNNING, TERMINATED, TRUNCATED = 1, 2, 3  # how its episode stands; 0 before the first

Array = np.ndarray[Any, Any]


class Size(NamedTuple):
    """What decides the size of a board."""

    lanes: int
    time: int  # longest episode, agent steps
    observation: int  # numbers in a flattened observation
    workers: int
    whole: bool = True  # whether all observations of an episode are kept, not only the last
    in_bytes: bool = False  # whether observations are whole numbers from 0 to 255
    mask: int = 0  # actions, where it is told which are legal


class Board(NamedTuple):
    """Arrays over one piece of memory. Main writes commands, actions and seeds; workers write the rest."""

    observation: Array  # [lane, time + 1, observation], or [lane, 1, observation] of the last
    mask: Array  # [lane, time + 1, action] the legal actions where they are told, or [lane, 1, action] of the last
    reward: Array  # [lane, time]
    action: Array  # [lane, time], from 0
    seed: Array  # [lane] of the next reset
    time: Array  # [lane] steps taken in the episode
    command: Array  # [lane] IDLE, RESET or STEP
    status: Array  # [lane] RUNNING, TERMINATED or TRUNCATED
    lane_in_hand: Array  # [worker] the lane whose environment has control; -1: none
    process: Array  # [worker] its id, once it has begun
    beat: Array  # [worker] counts the calls into environments: a worker that stands still is stuck in one

    def shown(self, lanes: Any, times: Any) -> Array:
        """What lanes showed at times of their episodes [n, observation]; these are the last if no others are kept."""
        return np.asarray(self.observation[lanes, times % self.observation.shape[1]])

    def legal(self, lanes: Any, times: Any) -> Array:
        """The legal actions [n, action] there."""
        return np.asarray(self.mask[lanes, times % self.mask.shape[1]])


def _fields(size: Size) -> dict[str, tuple[tuple[int, ...], type]]:
    lanes, time, observation, workers, whole, in_bytes, mask = size
    shown = time + 1 if whole else 1
    return {
        "observation": ((lanes, shown, observation), np.uint8 if in_bytes else np.float32),
        "mask": ((lanes, shown, mask), np.bool_),
        "reward": ((lanes, time), np.float32),
        "action": ((lanes, time), np.int32),
        "seed": ((lanes,), np.int64),
        "time": ((lanes,), np.int32),
        "command": ((lanes,), np.uint8),
        "status": ((lanes,), np.uint8),
        "lane_in_hand": ((workers,), np.int64),
        "process": ((workers,), np.int64),
        "beat": ((workers,), np.int64),
    }


def _aligned(count: int) -> int:
    return -(-count // 64) * 64  # cache lines: no two arrays share one


def bytes_of(size: Size) -> int:
    """Bytes that a board takes."""
    return sum(_aligned(math.prod(shape) * np.dtype(dtype).itemsize) for shape, dtype in _fields(size).values())


def board_on(descriptor: int, size: Size) -> Board:
    """The board in the shared file `descriptor`, which must hold `bytes_of(size)` bytes.

    Where the system has a way, a process that is forked does not have it: what an environment forks and lets come back
    from a call would play on the same board. It ends as soon as it touches that.
    """
    memory = mmap.mmap(descriptor, bytes_of(size))
    if hasattr(mmap, "MADV_DONTFORK"):
        memory.madvise(mmap.MADV_DONTFORK)
    arrays, offset = {}, 0
    for name, (shape, dtype) in _fields(size).items():
        arrays[name] = np.ndarray(shape, dtype, memory, offset)
        offset += _aligned(arrays[name].nbytes)
    return Board(**arrays)
