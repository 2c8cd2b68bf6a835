"""What runs in a worker process: `main`, with file descriptors as arguments, those of its pipes and of its job.

It reads the job and does it: describe an environment, or step a share of the lanes until the command pipe closes.
Answers go through a `Channel`. Imports NumPy and Gymnasium, not JAX.
"""

import contextlib
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted import masks
from mean_actor_critic.environments.hosted.channel import TURN, Channel
from mean_actor_critic.environments.hosted.factory import FactoryError
from mean_actor_critic.environments.spaces import FormError, Spaces, check_spaces, flatten
from mean_actor_critic.errors import NO_LEGAL_ACTION, InputError

SECONDS_BETWEEN_MEMORY_CHECKS = 0.2
LONGEST_MESSAGE = 1000  # characters of an environment's own exception


MakeEnvironment = Callable[..., "gymnasium.Env[Any, Any]"]  # may raise a FactoryError


class Fault(Exception):  # noqa: N818
    """What is wrong with an environment: the field, and the words that follow it."""

    def __init__(self, field: str, words: str, lane: int | None = None) -> None:
        super().__init__(f"{field} {words}")
        self.field, self.words, self.lane = field, words, lane  # None: the lane in hand


# --- jobs ------------------------------------------------------------------------------------------------------------


def describe(channel: Channel, name: str, factory: MakeEnvironment) -> None:
    """Say which spaces and time limit an environment has, and whether it tells which actions are legal."""
    try:
        environment = factory()
        spaces = check_spaces(name, environment.observation_space, environment.action_space)
    except (FactoryError, InputError) as fault:
        return channel.tell(refused=str(fault), input=isinstance(fault, InputError))
    limit = environment.spec.max_episode_steps if environment.spec is not None else None
    spaces = spaces._replace(masked=_tells_masks(environment))
    channel.tell(spaces=spaces.to_json(), max_episode_steps=limit)
    channel.finish()  # nobody need wait for what follows
    return _close(environment)


def _tells_masks(environment: "gymnasium.Env[Any, Any]") -> bool:
    """Whether a reset comes with a mask. Whatever else it comes with is looked at when an episode is played."""
    try:
        _, info = environment.reset(seed=0)
        return masks.told(info, masks.method_of(environment)) is not None
    except Exception:  # an environment's own code may raise anything
        return False


def _close(environment: "gymnasium.Env[Any, Any]") -> None:
    """Whether it likes it or not: nothing is wanted of it any more."""
    with contextlib.suppress(Exception):
        environment.close()


class Share(NamedTuple):
    """What one worker of a fleet is told."""

    worker: int
    lanes: list[int]
    size: boards.Size
    memory: int  # descriptor of the board
    largest_memory: int  # bytes that this process may hold


def serve(channel: Channel, factory: MakeEnvironment, spaces: Spaces, share: Share) -> None:
    """Take turns: reset or step the lanes as the board says, until the command pipe closes.

    Python's own numbers in the inner loop: a NumPy scalar costs as much as a tenth of a step of a simple environment.
    """
    board = boards.board_on(share.memory, share.size)
    lanes = [_Lane(lane, factory, spaces, board, share.size.time) for lane in share.lanes]
    beat, in_hand = board.beat.data, board.lane_in_hand.data
    worker, beats, turns, next_check = share.worker, 0, 0, 0.0
    board.process[worker] = os.getpid()
    while os.read(channel.commands, len(TURN)):
        now = np.minimum(board.time[share.lanes], share.size.time - 1)
        commands = board.command[share.lanes].tolist()
        actions = board.action[share.lanes, now].tolist()
        try:
            for lane, command, action in zip(lanes, commands, actions, strict=True):
                if command == boards.IDLE:
                    continue
                in_hand[worker] = lane.number
                beats += 1
                beat[worker] = beats
                if command == boards.STEP:
                    lane.step(action)
                else:
                    lane.reset()
            _check_finite(
                board, [lane for lane, command in zip(lanes, commands, strict=True) if command != boards.IDLE]
            )
            if time.monotonic() >= next_check:
                _check_memory(share.largest_memory)
                next_check = time.monotonic() + SECONDS_BETWEEN_MEMORY_CHECKS
        except Fault as fault:
            lane_number = in_hand[worker] if fault.lane is None else fault.lane
            channel.tell(lane=lane_number, field=fault.field, words=fault.words)
            break
        in_hand[worker] = -1
        turns += 1
        channel.turn_done(turns)
    for lane in lanes:
        if lane.environment is not None:
            _close(lane.environment)


def _check_finite(board: boards.Board, lanes: "list[_Lane]") -> None:
    """The observations that a turn brought, all at once."""
    numbers = [lane.number for lane in lanes]
    rows = board.shown(numbers, np.array([lane.time for lane in lanes]))
    if np.isfinite(rows).all():
        return
    bad = int(np.flatnonzero(~np.isfinite(rows).all(axis=1))[0])
    where = int(np.flatnonzero(~np.isfinite(rows[bad]))[0])
    words = f"is {rows[bad, where]} at index {where} of {rows.shape[1]}"
    raise Fault("observation", words, lanes[bad].number)


class _Lane:
    """One trial's environment, and where its episode goes on the board."""

    def __init__(self, number: int, factory: MakeEnvironment, spaces: Spaces, board: boards.Board, limit: int) -> None:
        self.number, self.factory, self.spaces, self.limit = number, factory, spaces, limit
        self.described = spaces._replace(masked=False).to_json()
        self.first_action = spaces.first_action
        space = spaces.observation
        self.is_flat = type(space) is gymnasium.spaces.Box and space.dtype.kind == "f" and len(space.shape) == 1
        self.row_shape = (spaces.observation_size,)
        self.observation, self.reward, self.seed = board.observation[number], board.reward[number], board.seed
        self.board_time, self.status = board.time.data, board.status.data
        self.environment: gymnasium.Env[Any, Any] | None = None
        self.mask = board.mask[number] if spaces.masked else None
        self.mask_method: Callable[[], Any] | None = None
        self.time = 0
        self.seen_spaces: tuple[Any, Any] = (None, None)

    def reset(self) -> None:
        """Begin the episode whose seed is on the board."""
        if self.environment is None:
            try:
                self.environment = self.factory()
            except FactoryError as fault:
                raise Fault("environment", f"cannot be made: {fault}") from None
            if self.mask is not None:
                self.mask_method = masks.method_of(self.environment)
        try:
            answer = self.environment.reset(seed=int(self.seed[self.number]))
        except Exception as fault:  # an environment's own code may raise anything
            raise _raised("reset()", fault) from None
        try:
            observation, info = answer
        except (TypeError, ValueError):
            raise Fault("reset()", f"returned {_brief(answer)}, not (observation, info)") from None
        self._check_spaces()
        self.board_time[self.number] = self.time = 0
        self.reward[:] = 0
        self._write(observation)
        if self.mask is not None:
            self._write_mask(info, goes_on=True)
        self.status[self.number] = boards.RUNNING

    def step(self, action: int) -> None:
        """Take one action, counted from 0."""
        self.time += 1  # first, so that whoever looks at the board knows which step is in hand
        self.board_time[self.number] = self.time
        assert self.environment is not None
        try:
            answer = self.environment.step(self.first_action + action)
        except Exception as fault:  # an environment's own code may raise anything
            raise _raised("step()", fault) from None
        try:
            observation, reward, terminated, truncated, info = answer
        except (TypeError, ValueError):
            words = f"returned {_brief(answer)}, not (observation, reward, terminated, truncated, info)"
            raise Fault("step()", words) from None
        try:
            number = float(reward)
            if isinstance(reward, _TEXT):
                raise TypeError
        except Exception:  # of an object's own
            raise Fault("reward", f"is {_brief(reward)}, not a number") from None
        if not -_LARGEST <= number <= _LARGEST:
            raise Fault("reward", f"is {_brief(reward)}, not a finite number in float32")
        runs_on = terminated is False and truncated is False  # nearly always; what follows costs more than this
        if not runs_on:
            try:
                if not (terminated in _TRUTHS and truncated in _TRUTHS):
                    raise ValueError
                runs_on = not (terminated or truncated)
            except Exception:  # of an object's own
                raise Fault(*_untrue(terminated, truncated)) from None
        self.reward[self.time - 1] = number
        self._write(observation)
        runs_on = runs_on and self.time < self.limit
        if self.mask is not None:
            self._write_mask(info, runs_on)
        if not runs_on:
            self.status[self.number] = boards.TERMINATED if terminated else boards.TRUNCATED
            self._check_spaces()

    def _write(self, value: Any) -> None:
        """Put an observation on the board. Whether it is finite is seen when the turn is over."""
        observation = value
        if not (
            self.is_flat
            and type(observation) is np.ndarray
            and observation.dtype == np.float32
            and observation.shape == self.row_shape
        ):  # else there is nothing to flatten
            try:
                observation = flatten(self.spaces.observation, value)
            except FormError as fault:
                raise Fault("observation", str(fault)) from None
            except Exception as fault:  # NumPy's, or an object's own
                raise Fault("observation", f"is {_brief(value)}, not of the space: {_in_words(fault)}") from None
            if observation.shape != self.row_shape:  # a batch flattens too
                raise Fault("observation", f"has shape {np.shape(value)}, not {self.spaces.observation.shape}")
        self.observation[self.time % len(self.observation)] = observation

    def _write_mask(self, info: Any, goes_on: bool) -> None:
        """Put a state's legal actions on the board. Of a state that an episode ends in, there need be no mask."""
        assert self.mask is not None
        try:
            mask = masks.told(info, self.mask_method)
        except Exception as fault:  # an environment's own code may raise anything
            raise _raised("action_masks()", fault) from None
        if mask is None and goes_on:
            raise Fault(masks.KEY, "is missing, which there was when the environment was looked at")
        try:
            legal = None if mask is None else masks.checked(mask, self.spaces.actions)
        except FormError as fault:
            raise Fault(masks.KEY, str(fault)) from None
        if legal is not None and not legal.any():
            if goes_on:
                raise Fault(masks.KEY, NO_LEGAL_ACTION)
            legal = None
        self.mask[self.time % len(self.mask)] = True if legal is None else legal

    def _check_spaces(self) -> None:
        environment = self.environment
        assert environment is not None
        spaces = (environment.observation_space, environment.action_space)
        if spaces[0] is self.seen_spaces[0] and spaces[1] is self.seen_spaces[1]:
            return
        try:
            found = check_spaces("environment", *spaces).to_json()
        except (InputError, AttributeError):  # the latter if it is no space at all
            is_action = not isinstance(spaces[1], gymnasium.spaces.Discrete)
            name, space = ("action_space", spaces[1]) if is_action else ("observation_space", spaces[0])
            raise Fault(name, f"has changed to {_brief(space)}, which cannot be used") from None
        for part, described in self.described.items():
            if found[part] != described:
                raise Fault(f"{part}_space", f"has changed from {described} to {found[part]}")
        self.seen_spaces = spaces


_TRUTHS = (True, False)  # and 1 and 0, and NumPy's
_TEXT = (str, bytes)  # of which float() would make numbers
_LARGEST = float(np.finfo(np.float32).max)


def _untrue(terminated: Any, truncated: Any) -> tuple[str, str]:
    """The first that is not true or false, and the words about it."""
    with contextlib.suppress(Exception):
        if terminated in _TRUTHS:
            return "truncated", f"is {_brief(truncated)}, not true or false"
    return "terminated", f"is {_brief(terminated)}, not true or false"


def _raised(field: str, fault: Exception) -> Fault:
    """What an exception out of an environment's code means."""
    if isinstance(fault, MemoryError):
        return Fault("memory", f"ran out in {field}")
    last = traceback.extract_tb(fault.__traceback__)[-1]
    return Fault(field, f"raised {_in_words(fault)} ({last.filename}:{last.lineno})")


def _in_words(fault: Exception) -> str:
    try:
        return f"{type(fault).__name__}: {fault}"[:LONGEST_MESSAGE]
    except Exception:  # of its own
        return type(fault).__name__


def _brief(value: Any) -> str:
    try:
        text = f"{type(value).__name__} {value!r}".replace("\n", " ")
    except Exception:  # of its own
        return type(value).__name__
    return text if len(text) <= 80 else text[:80] + "…"


def _check_memory(largest: int) -> None:
    held = _resident_bytes()
    if held > largest:
        raise Fault(
            "memory", f"of its worker process has grown to {held / 1e9:.2f} GB; allowed are {largest / 1e9:.2f}"
        )


def _resident_bytes() -> int:
    """Memory that this process holds now; where the system does not say, the most it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            # the shared pages are the board, which is not the environments'
            _, resident, shared = file.read().split()[:3]
        return (int(resident) - int(shared)) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


# --- the process -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Read the job and do it."""
    channel = Channel(int(sys.argv[1]), int(sys.argv[2]))
    # what the main process of the same user hands over in memory that has no name, for this process alone
    import cloudpickle

    with open(int(sys.argv[3]), "rb") as handed_over:
        job, arguments = cloudpickle.load(handed_over)
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    job(channel, *arguments)
    channel.finish()
