"""How a setting is declared: a field of a frozen dataclass with a default, limits and help, for every way to run."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeGuard


class Limits(NamedTuple):
    """How a setting is read and what it may be."""

    parse: Callable[[str], Any]  # from the command line
    valid: Callable[[Any], bool]
    allowed: str  # in words
    help: str
    role: str  # where `--help` lists it; settings of a part of algorithms, such as "critic", apply only with the part


def setting(default: Any, limits: Limits) -> Any:
    """A field with limits of its own."""
    return dataclasses.field(default=default, metadata={"limits": limits})


def is_whole(value: object, low: int, high: int) -> TypeGuard[int]:
    """Whether a value is an int from `low` to `high`; true and false are not numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def whole(default: int, text: str, role: str = "any", low: int = 1, high: int = 1_000_000) -> Any:
    """A field for whole numbers."""
    valid = lambda value: is_whole(value, low, high)  # noqa: E731
    return setting(default, Limits(int, valid, f"a whole number from {low} to {high}", text, role))


def choice(default: str, options: Iterable[str], text: str, role: str = "any") -> Any:
    """A field for one of some names."""
    names = tuple(options)
    return setting(
        default, Limits(str, lambda value: isinstance(value, str) and value in names, ", ".join(names), text, role)
    )


def _parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError
    return text == "true"


def switch(default: bool, text: str, role: str = "any") -> Any:
    """A field that is true or false."""
    return setting(default, Limits(_parse_switch, lambda value: isinstance(value, bool), "true or false", text, role))


def _is_number(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def number(default: float, low: float, high: float, text: str, role: str = "any", by_trial: bool = True) -> Any:
    """A field for a number, or one for each trial."""

    def valid(value: Any) -> bool:
        values = value if isinstance(value, tuple) and by_trial else (value,)
        return len(values) > 0 and all(_is_number(v, low, high) for v in values)

    def parse(text: str) -> float | tuple[float, ...]:
        numbers = tuple(float(part) for part in text.split(","))
        return numbers if len(numbers) > 1 else numbers[0]

    allowed = f"a number from {low:g} to {high:g}" + (", or one for each trial" if by_trial else "")
    return setting(default, Limits(parse, valid, allowed, text, role))


class Setting(NamedTuple):
    """A setting as users meet it."""

    default: Any
    limits: Limits


def settings_of(*kinds: type) -> dict[str, Setting]:
    """All settings that some dataclasses declare, by name."""
    return {
        field.name: Setting(field.default, field.metadata["limits"])
        for kind in kinds
        for field in dataclasses.fields(kind)
        if "limits" in field.metadata
    }
