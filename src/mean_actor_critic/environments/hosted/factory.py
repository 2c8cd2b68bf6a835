"""Making an environment from what a user named: a Gymnasium id, `module:callable`, or a callable. Runs in workers."""

import dataclasses
import importlib
import importlib.machinery
import importlib.util
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv


class FactoryError(Exception):
    """An environment that cannot be made; one line says why."""


@dataclasses.dataclass(frozen=True)
class Factory:
    """Makes environments: all that a worker process needs to know.

    Attributes:
        target: a Gymnasium id, `module:callable`, or a callable.
        kwargs: keyword arguments of the environment or callable.
        max_episode_steps: replaces the registered time limit of an id; None keeps it.
    """

    target: str | Callable[..., Any]
    kwargs: dict[str, Any] = dataclasses.field(default_factory=dict)
    max_episode_steps: int | None = None

    def __call__(self, **more: Any) -> "gymnasium.Env[Any, Any]":
        """A new environment; `more` are further keyword arguments.

        Raises:
            FactoryError: it cannot be made.
        """
        make = self.target if callable(self.target) else _named_callable(self.target)
        arguments = {**self.kwargs, **more}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that there is a newer version, for one
                if make is not None:
                    made = make(**arguments)
                else:
                    made = gymnasium.make(
                        str(self.target),
                        max_episode_steps=self.max_episode_steps,
                        disable_env_checker=True,  # workers check what matters, at a tenth of the cost
                        **arguments,
                    )
        except gymnasium.error.Error as fault:
            raise FactoryError(str(fault)) from None
        except Exception as fault:  # an environment's own code may raise anything
            raise FactoryError(f"{type(fault).__name__}: {fault}") from fault
        return _single(made)


INSTALLED, HERE = "installed", "here"  # places of a module


def place_of(module_name: str) -> str | None:
    """Where a module that a user named would be imported from; None if it is nowhere. Runs nothing of it.

    The working folder is asked only for a module that is not on the path. It is on the path of no process but the
    worker that imports such a module: anywhere else, whatever lies beside a stranger's agent would be run as soon as
    some library looks for a module that it can do without.
    """
    top = module_name.partition(".")[0]
    if top in sys.modules or importlib.util.find_spec(top) is not None:
        return INSTALLED
    here = importlib.machinery.PathFinder.find_spec(top, [""])
    return None if here is None else HERE


def _named_callable(name: str) -> Callable[..., Any] | None:
    """The callable that `module:callable` names; None if `name` is a Gymnasium id, with or without its module."""
    module_name, colon, attribute = name.partition(":")
    if not colon:
        return None
    try:
        if place_of(module_name) == HERE:  # and it may import its neighbours, now or while it plays
            sys.path.append(os.getcwd())
        found: Any = importlib.import_module(module_name)
    except Exception as fault:  # a user's module may raise anything
        raise FactoryError(f"module {module_name!r} cannot be imported: {type(fault).__name__}: {fault}") from None
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if callable(found):
        return found
    if name.partition(":")[2] in gymnasium.registry:
        return None
    raise FactoryError(f"module {module_name!r} has no callable {attribute!r}, and registers no environment of that id")


def _single(made: Any) -> "gymnasium.Env[Any, Any]":
    if isinstance(made, VectorEnv):
        if made.num_envs != 1:
            raise FactoryError(f"a vector environment of {made.num_envs}; a trial needs one environment of its own")
        return OneOfVector(made)
    if not isinstance(made, gymnasium.Env):
        raise FactoryError(f"what was made is a {type(made).__name__}, not a gymnasium.Env")
    return made


class OneOfVector(gymnasium.Env[Any, Any]):
    """A vector environment of one, as the environment that it holds, whatever its autoreset mode.

    Autoreset never comes to pass: an ended episode is reset by its seed, not by stepping on. Only in same-step mode has
    the end already been reset away, and the last observation is found in `info`.
    """

    def __init__(self, vector: "VectorEnv[Any, Any, Any]") -> None:
        self.vector = vector
        self.observation_space = vector.single_observation_space
        self.action_space = vector.single_action_space
        self.spec = vector.spec
        self.render_mode = vector.render_mode
        self._same_step = vector.metadata.get("autoreset_mode") == AutoresetMode.SAME_STEP

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        observation, info = self.vector.reset(seed=seed, options=options)  # of one: the first gets the seed itself
        return _first(self.vector.single_observation_space, observation), _first_info(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminated, truncated, info = self.vector.step(np.array([action]))
        ended = bool(terminated[0] or truncated[0])
        if ended and self._same_step:
            last, info = info["final_obs"][0], info.get("final_info", {})
        else:
            last = _first(self.vector.single_observation_space, observation)
        return last, reward[0], bool(terminated[0]), bool(truncated[0]), _first_info(info)

    def render(self) -> Any:
        """The only picture."""
        pictures: Any = self.vector.render()
        return None if pictures is None else pictures[0]

    def close(self) -> None:
        """Close the vector environment."""
        self.vector.close()


def _first_info(info: dict[str, Any]) -> dict[str, Any]:
    """The same of what is told besides."""
    return {key: value[0] if isinstance(value, np.ndarray) else value for key, value in info.items()}


def _first(space: Any, batch: Any) -> Any:
    """The only value of a batch of one."""
    return next(iter(gymnasium.vector.utils.iterate(gymnasium.vector.utils.batch_space(space, 1), batch)))
