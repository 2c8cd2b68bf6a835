"""Environments that workers import by name: of every kind of space, ending in every way, and some that are refused."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

SIZE = 6  # numbers in every flattened observation here, so that one compiled program serves all


def _dict() -> spaces.Dict:
    # as pairs, which keep an order that is not the alphabet's
    return spaces.Dict([("place", spaces.Box(-1, 1, (2, 2))), ("choice", spaces.Discrete(2, start=-1))])


KINDS = {
    "box": lambda: spaces.Box(-1, 1, (SIZE,), np.float32),
    "box of float64 in two dimensions": lambda: spaces.Box(-1, 1, (3, 2), np.float64),
    "box of bytes": lambda: spaces.Box(0, 255, (1, 2, 3), np.uint8),
    "discrete": lambda: spaces.Discrete(SIZE, start=3),
    "multi-discrete": lambda: spaces.MultiDiscrete([[2, 1], [1, 2]], start=[[0, 1], [2, 3]]),
    "multi-binary": lambda: spaces.MultiBinary((2, 3)),
    "dict": _dict,
    "tuple": lambda: spaces.Tuple([spaces.Discrete(2), spaces.Dict(inner=spaces.Box(0, 1, (4,)))]),
}


class Sampler(gymnasium.Env[Any, Any]):
    """Shows random observations of one kind and takes no action but its own."""

    def __init__(self, kind: str = "box", first_action: int = 0) -> None:
        self.observation_space = KINDS[kind]()
        self.action_space = spaces.Discrete(2, start=first_action)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), float(action), bool(self.np_random.random() < 0.2), False, {}


class Ender(gymnasium.Env[Any, Any]):
    """Episodes of 2 to 6 steps, some terminated and some truncated. The observation tells the time, the length, whether
    the end is a truncation, which episode it is, and what has been done in it.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (SIZE,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.time, self.done = 0, 0
        self.length = int(self.np_random.integers(2, 7))
        self.truncates = bool(self.np_random.random() < 0.5)
        self.episode = self.np_random.random()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        self.done += int(action)
        over = self.time == self.length
        return self._observation(), float(action), over and not self.truncates, over and self.truncates, {}

    def _observation(self) -> Any:
        return np.array([self.time, self.length, self.truncates, self.episode, self.done, 1], np.float32)


def make(what: str, **options: Any) -> Any:
    """A sampler of the kind `what`, or an ender in that form. One name for all: runs of it share compiled programs."""
    if what in KINDS:
        return Sampler(what, **options)
    if what == "plain":
        return Ender()
    if what == "wrapper":
        return gymnasium.wrappers.Autoreset(Ender())
    return SyncVectorEnv([Ender], autoreset_mode=AutoresetMode[what])


def make_two_enders() -> Any:
    return SyncVectorEnv([Ender, Ender])


class Tiny(gymnasium.Env[Any, Any]):
    """Never ends. Rewards are what it was made with."""

    observation_space = spaces.Box(-1, 1, (SIZE,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, reward: float = 1.0) -> None:
        self.reward = reward

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(SIZE, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros(SIZE, np.float32), self.reward, False, False, {}


class MakesTiny:
    """A callable object, which no name finds."""

    def __call__(self) -> Tiny:
        return Tiny()


gymnasium.register("Tiny-v0", entry_point="hosted_environments:Tiny", max_episode_steps=5)


# --- refused ---------------------------------------------------------------------------------------------------------


class Refused(Tiny):
    def __init__(self, observation: Any = Tiny.observation_space, action: Any = Tiny.action_space) -> None:
        super().__init__()
        self.observation_space, self.action_space = observation, action


def make_graph() -> Refused:
    return Refused(observation=spaces.Graph(spaces.Box(-1, 1, (3,)), None))


def make_box_action() -> Refused:
    return Refused(action=spaces.Box(-1, 1, (2,)))


def make_nothing() -> None:
    """Not an environment."""
