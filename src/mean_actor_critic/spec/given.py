"""Networks that users give from Python, and the form in which they see observations. Imports no JAX."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError

ALLOWED = (
    "an object with init(key, observation) and apply(weights, observation), such as a flax module, or the two functions"
)


class Numbers(NamedTuple):
    """An array of an observation, as its space describes it."""

    shape: tuple[int, ...]
    dtype: str
    choices: tuple[int, ...] = ()  # where it holds choices, how many there are of each
    first: int = 0  # what the first of them is called


class Fields(NamedTuple):
    """A dictionary in an observation, or a tuple, whose fields have no names."""

    names: tuple[str, ...]
    forms: tuple[Any, ...]  # of each field, Numbers or Fields


@dataclasses.dataclass(frozen=True)
class GivenNetwork:
    """A network of a user's own, from observations to features; heads for actions are put on top of it.

    A run folder remembers the name alone, because nothing that a file says is executed: without functions, it is only
    known by its name.
    """

    name: str
    init: Callable[[Any, Any], Any] | None = None  # (key, observation [1, …]) -> weights
    apply: Callable[[Any, Any], Any] | None = None  # (weights, observation [n, …]) -> features [n, …]
    form: Any = None  # of an observation: Numbers or Fields


def checked_network(given: Any) -> GivenNetwork | None:
    """The network that was given, or named; None where none was.

    Raises:
        InputError: it is none.
    """
    if given is None or isinstance(given, GivenNetwork):
        return given
    if isinstance(given, str):
        return GivenNetwork(given)
    is_pair = isinstance(given, tuple) and len(given) == 2
    init, apply = given if is_pair else (getattr(given, "init", None), getattr(given, "apply", None))
    if not callable(init) or not callable(apply):
        raise InputError("network", given, ALLOWED)
    named = apply if is_pair else type(given)
    name = f"{getattr(named, '__module__', '')}:{getattr(named, '__qualname__', type(named).__qualname__)}"
    return GivenNetwork(name, init, apply)
