"""Which environments are JAX programs of this package: what they look like and what builds them. Imports no JAX."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete

from mean_actor_critic.environments.spaces import Spaces

UNLIMITED = 1000  # agent steps, where Gymnasium sets no limit
MINATAR = "MinAtar/"  # what the ids of MinAtar's games begin with
YES_OR_NO = (True, False)


@dataclasses.dataclass(frozen=True)
class Build:
    """Makes a functional environment, whose module is imported then and not before.

    Equal for the same environment, so that compiled programs are found again.
    """

    place: str  # a module in `compiled`, and its class
    kwargs: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Any:
        """The environment."""
        module, _, name = self.place.partition(":")
        return getattr(importlib.import_module(f"{__package__}.compiled.{module}"), name)(**dict(self.kwargs))


class Program(NamedTuple):
    """A JAX program, under one of its ids."""

    place: str  # a module in `compiled`, and its class
    max_episode_steps: int
    spaces: Callable[..., Spaces]  # by keyword arguments
    kwargs: Mapping[str, Any] = {}  # that the id stands for
    takes: Mapping[str, tuple[Any, ...]] = {}  # keyword arguments that may be given instead, and their values

    def can_be(self, kwargs: Mapping[str, Any]) -> bool:
        """Whether it takes these keyword arguments."""
        return all(
            any(type(value) is type(known) and value == known for known in self.takes.get(name, ()))
            for name, value in kwargs.items()
        )

    def spaces_with(self, kwargs: Mapping[str, Any]) -> Spaces:
        """Its spaces, with these keyword arguments besides its own."""
        return self.spaces(**{**self.kwargs, **kwargs})

    def build_with(self, kwargs: Mapping[str, Any]) -> Build:
        """What builds it, with these keyword arguments besides its own."""
        return Build(self.place, tuple(sorted({**self.kwargs, **kwargs}.items())))


def _box(high: list[float], actions: int, low: list[float] | None = None) -> Callable[..., Spaces]:
    top = np.array(high, np.float32)
    bottom = -top if low is None else np.array(low, np.float32)
    return lambda: Spaces(Box(bottom, top, top.shape, np.float32), Discrete(actions))


def _numbers(states: int, actions: int, masked: bool = False) -> Callable[..., Spaces]:
    return lambda **_: Spaces(Discrete(states), Discrete(actions), masked)


def _lake(map_name: str = "4x4", **_: Any) -> Spaces:
    return Spaces(Discrete({"4x4": 16, "8x8": 64}[map_name]), Discrete(4))


def _game(name: str, channels: int, minimal: int, limit: int = UNLIMITED) -> dict[str, Program]:
    """A game of MinAtar's: with all six actions as -v0, with those that it has a use for as -v1."""

    def spaces(minimal_actions: bool) -> Spaces:
        return Spaces(Box(0, 1, (10, 10, channels), bool), Discrete(minimal if minimal_actions else 6))

    module = "".join("_" + letter.lower() if letter.isupper() else letter for letter in name).removeprefix("_")
    return {
        f"{MINATAR}{name}-v{int(few)}": Program(
            f"minatar.{module}:{name}", limit, spaces, kwargs={"minimal_actions": few}
        )
        for few in (False, True)
    }


_INFINITE = [np.inf] * 4
_CART_POLE = _box(_INFINITE, 2)
_ON_ICE = {"is_slippery": YES_OR_NO, "map_name": ("4x4", "8x8")}
_LEDGE = {"is_slippery": YES_OR_NO}
PROGRAMS: dict[str, Program] = {
    "Acrobot-v1": Program("acrobot:Acrobot", 500, _box([1, 1, 1, 1, 4 * np.pi, 9 * np.pi], 3)),
    "CartPole-v0": Program("cart_pole:CartPole", 200, _CART_POLE),
    "CartPole-v1": Program("cart_pole:CartPole", 500, _CART_POLE),
    "CliffWalking-v1": Program("cliff_walking:CliffWalking", UNLIMITED, _numbers(48, 4), takes=_LEDGE),
    "CliffWalkingSlippery-v1": Program(
        "cliff_walking:CliffWalking", UNLIMITED, _numbers(48, 4), {"is_slippery": True}, _LEDGE
    ),
    "FrozenLake-v1": Program("frozen_lake:FrozenLake", 100, _lake, takes=_ON_ICE),
    "FrozenLake8x8-v1": Program("frozen_lake:FrozenLake", 200, _lake, {"map_name": "8x8"}, _ON_ICE),
    "MountainCar-v0": Program("mountain_car:MountainCar", 200, _box([0.6, 0.07], 3, low=[-1.2, -0.07])),
    "Taxi-v3": Program("taxi:Taxi", 200, _numbers(500, 6, masked=True)),
    "Taxi-v4": Program("taxi:Taxi", 200, _numbers(500, 6, masked=True)),
    **_game("Asterix", 4, 5),
    **_game("Breakout", 4, 3),
    **_game("Freeway", 7, 3, limit=2501),
    **_game("Seaquest", 10, 6),
    **_game("SpaceInvaders", 6, 4),
}
