"""Grids of settings to search: some lists of values, all of their combinations."""

import itertools
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.files import LARGEST_JSON, parsed_json, read_whole
from mean_actor_critic.spec.checks import unknown_name
from mean_actor_critic.spec.experiment import applicable_settings, settings_for_engine

TIED_RATES = "lr"  # in a grid: one value for both learning rates
RATES = ("actor_lr", "critic_lr")
MOST_POINTS = 50_000  # some fifty times the paper's
FORM = '{"choices": {"hidden": [[64], [128]], "lr": [0.001, 0.01]}, "fixed": {"minibatches": 20}}'

Settings = dict[str, Any]


class Grid(NamedTuple):
    """What a search tries.

    Attributes:
        choices: setting name, or `lr` for both learning rates, to the values to try.
        fixed: settings that all points share.
        start: by algorithm, the settings that training would start from, where neither of these says otherwise.
    """

    choices: Mapping[str, tuple[Any, ...]]
    fixed: Mapping[str, Any]
    start: Mapping[str, Mapping[str, Any]] = {}

    def points(self, algorithm: str) -> list[Settings]:
        """All combinations, of the settings that `algorithm` reads and each once, in the order of the lists."""
        applicable = set(applicable_settings(algorithm))
        lists = {
            name: _distinct(values)
            for name, values in self.choices.items()
            if not applicable.isdisjoint(RATES if name == TIED_RATES else (name,))
        }
        named = [*(name for name in lists if name != TIED_RATES), *(RATES if TIED_RATES in lists else ())]
        every = {**self.start.get(algorithm, {}), **self.fixed, **dict.fromkeys(named)}
        same = {name: value for name, value in every.items() if name in applicable}
        found = []
        for values in itertools.product(*lists.values()):
            point = dict(same)
            for name, value in zip(lists, values, strict=True):
                point.update(
                    dict.fromkeys(applicable.intersection(RATES), value) if name == TIED_RATES else {name: value}
                )
            if not point.get("hidden", "some"):  # there is nothing to activate
                activation = point.pop("activation", None)
                if "activation" in lists and activation != lists["activation"][0]:
                    continue
            found.append(point)
        return found

    def as_given(self, settings: Mapping[str, Any]) -> Settings:
        """What a point tries, by the names that the grid gives: one `lr` where it has one."""
        if TIED_RATES not in self.choices:
            return {name: value for name, value in settings.items() if name in self.choices}
        rate = {TIED_RATES: settings[RATES[0]]} if RATES[0] in settings else {}
        return {**{name: value for name, value in settings.items() if name in self.choices}, **rate}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `grid_from_json` is the inverse."""
        start = {"start": {name: dict(settings) for name, settings in self.start.items()}} if self.start else {}
        return json.loads(json.dumps({"choices": dict(self.choices), "fixed": dict(self.fixed), **start}))


def _distinct(values: Sequence[Any]) -> list[Any]:
    """Values, each once, as JSON tells them apart."""
    found: dict[str, Any] = {}
    for value in values:
        found.setdefault(json.dumps(value), value)
    return list(found.values())


def grid_from_json(document: Any) -> Grid:
    """The grid that `to_json` described, or a user wrote: {"choices": {name: [values]}, "fixed": {name: value}}.

    Raises:
        InputError: it has another form, or a value is outside of its setting's limits.
    """
    known = {"choices", "fixed", "start"}
    if not isinstance(document, dict) or not set(document) <= known or "choices" not in document:
        raise InputError("grid", "what was given", f"JSON of the form {FORM}")
    choices, fixed, start = document["choices"], document.get("fixed", {}), document.get("start", {})
    parts = (choices, fixed, start, *(start.values() if isinstance(start, dict) else ()))
    if not all(isinstance(part, dict) for part in parts) or not choices:
        raise InputError("grid", "what was given", f"JSON of the form {FORM}")
    lists: dict[str, tuple[Any, ...]] = {}
    points = 1
    for name, values in choices.items():
        if not isinstance(values, list) or not values:
            raise InputError(f"grid: {name}", values, "a list of values to try")
        lists[name] = tuple(_checked(name, value) for value in values)
        points *= len(values)
    if points > MOST_POINTS:
        raise InputError("grid", f"{points} combinations", f"up to {MOST_POINTS}")
    settled = {name: _checked(name, value) for name, value in fixed.items()}
    if "max_episode_steps" in lists:
        raise InputError("grid: max_episode_steps", "a list", "one value, fixed: returns of other tasks do not compare")
    named = [*lists, *settled]
    if TIED_RATES in named:  # is both of them
        named += RATES
    for name in named:
        if named.count(name) > 1:
            raise InputError("grid", name, "each setting once")
    started = {a: {name: _checked(name, value) for name, value in own.items()} for a, own in start.items()}
    return Grid(lists, settled, started)


def read_grid(path: str | Path) -> Grid:
    """The grid in a JSON file.

    Raises:
        InputError: there is none, or it cannot be used; names the line.
    """
    if not os.path.lexists(path):
        raise InputError("grid", str(path), "paper, or a JSON file")
    text = read_whole(Path(path), LARGEST_JSON).decode(errors="replace")
    try:
        return grid_from_json(parsed_json(text))
    except json.JSONDecodeError as fault:
        allowed = f"a file of JSON; line {fault.lineno}, column {fault.colno}: {fault.msg}"
        raise InputError("grid", str(path), allowed) from None
    except InputError as fault:
        line = _line_of(text, str(fault))
        raise fault.within(f"{path}, line {line}" if line else str(path)) from None
    except ValueError as fault:
        raise InputError("grid", str(path), f"a file of JSON; {fault}") from None


def _line_of(text: str, message: str) -> int | None:
    """The first line that names the setting which a message is about."""
    for number, line in enumerate(text.splitlines(), 1):
        names = [name for name in (*settings_for_engine("compiled"), TIED_RATES) if f'"{name}"' in line]
        if any(f"grid: {name}:" in message for name in names):
            return number
        if "setting" in message and any(f"'{word}'" in message for word in line.split('"')[1::2]):
            return number
    return None


def _checked(name: str, value: Any) -> Any:
    settings = settings_for_engine("compiled")
    setting = RATES[0] if name == TIED_RATES else name
    if setting not in settings:
        raise unknown_name("grid: setting", name, [*settings, TIED_RATES])
    plain = tuple(value) if isinstance(value, list) else value
    limits = settings[setting].limits
    if (isinstance(plain, tuple) and setting != "hidden") or not limits.valid(plain):
        allowed = "a list of widths, such as [64, 64]" if setting == "hidden" else limits.allowed
        raise InputError(f"grid: {name}", value, allowed.replace(", or one for each trial", ""))
    return plain
