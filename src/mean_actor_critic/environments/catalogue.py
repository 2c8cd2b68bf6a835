"""Which environments can be had by name, and what they look like from outside. Imports no JAX until one is built."""

import dataclasses
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium

from mean_actor_critic.errors import InputError
from mean_actor_critic.experiment import Setup, unknown_name

if TYPE_CHECKING:
    from gymnasium.experimental.functional import FuncEnv


class EnvironmentSpec(NamedTuple):
    """An environment by its Gymnasium id, before it is built."""

    name: str
    observation_size: int
    actions: int
    max_episode_steps: int  # agent steps
    build: Callable[[], "FuncEnv[Any, Any, Any, Any, Any, Any, Any]"]


def _cart_pole() -> "FuncEnv[Any, Any, Any, Any, Any, Any, Any]":
    from mean_actor_critic.environments.cart_pole import CartPole

    return CartPole()


COMPILED = {
    "CartPole-v0": EnvironmentSpec("CartPole-v0", 4, 2, 200, _cart_pole),
    "CartPole-v1": EnvironmentSpec("CartPole-v1", 4, 2, 500, _cart_pole),
}


def find_environment(name: str) -> EnvironmentSpec:
    """The environment called `name`.

    Raises:
        InputError: unknown, or with actions that the algorithms cannot take.
    """
    if name in COMPILED:
        return COMPILED[name]
    if name not in gymnasium.registry:
        raise unknown_name("environment", name, COMPILED)
    space = _action_space(name)
    if space is not None and not isinstance(space, gymnasium.spaces.Discrete):
        raise InputError("environment", name, f"a Discrete action space; this one's is {space}")
    raise InputError("environment", name, "an environment that is a JAX program: " + ", ".join(COMPILED))


def _action_space(name: str) -> "gymnasium.Space[Any] | None":
    """Of a registered environment, if it can be made here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer version does not matter to a refusal
        try:
            environment = gymnasium.make(name)
        except Exception:  # an environment's own code may raise anything, and it is refused in any case
            return None
    space = environment.action_space
    environment.close()
    return space


def environment_of(setup: Setup, given: "FuncEnv[Any, Any, Any, Any, Any, Any, Any] | None") -> EnvironmentSpec:
    """The environment that a run or agent is about: by its name, or the one given if it has none.

    Raises:
        InputError: the one given is another, or none was given and the name is unknown.
    """
    if given is None:
        return find_environment(setup.environment)
    spec = describe(type(given).__name__, given, setup.max_episode_steps)
    if spec.name != setup.environment:
        raise InputError("environment", spec.name, f"the one that training began with, {setup.environment}")
    return spec


@dataclasses.dataclass(frozen=True)
class _Given:
    """Builds what was given. Equal for the same environment, so that compiled programs are found again."""

    environment: Any

    def __call__(self) -> Any:
        return self.environment


def describe(
    name: str, environment: "FuncEnv[Any, Any, Any, Any, Any, Any, Any]", max_episode_steps: int
) -> EnvironmentSpec:
    """The spec of a functional environment that the user built.

    Raises:
        InputError: its observations are not a vector of numbers or its actions are not Discrete from 0.
    """
    observations, actions = environment.observation_space, environment.action_space
    if not isinstance(actions, gymnasium.spaces.Discrete) or actions.start != 0:
        raise InputError("environment", name, f"a Discrete action space that starts at 0; this one's is {actions}")
    if not isinstance(observations, gymnasium.spaces.Box) or len(observations.shape) != 1:
        raise InputError("environment", name, f"a Box observation space of one dimension; this one's is {observations}")
    return EnvironmentSpec(name, observations.shape[0], int(actions.n), max_episode_steps, _Given(environment))
