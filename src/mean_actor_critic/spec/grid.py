"""Grids of settings to search: some lists of values, all of their combinations."""

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.files import LARGEST_JSON, read_whole
from mean_actor_critic.spec.experiment import SETTINGS, applicable_settings, unknown_name

TIED_RATES = "lr"  # in a grid: one value for both learning rates
MOST_POINTS = 1_000_000

Settings = dict[str, Any]


class Grid(NamedTuple):
    """What a search tries.

    Attributes:
        choices: setting name, or `lr` for both learning rates, to the values to try.
        fixed: settings that all points share.
    """

    choices: Mapping[str, tuple[Any, ...]]
    fixed: Mapping[str, Any]

    def points(self, algorithm: str) -> list[Settings]:
        """All combinations, of the settings that `algorithm` reads and each once, in the order of the lists."""
        applicable = set(applicable_settings(algorithm))
        found: dict[str, Settings] = {}
        for values in itertools.product(*self.choices.values()):
            point = {**self.fixed, **dict(zip(self.choices, values, strict=True))}
            if TIED_RATES in point:
                rate = point.pop(TIED_RATES)
                point |= {"actor_lr": rate, "critic_lr": rate}
            point = {name: value for name, value in point.items() if name in applicable}
            if not point.get("hidden", "some"):
                point.pop("activation", None)  # there is nothing to activate
            found.setdefault(json.dumps(point, sort_keys=True), point)
        return list(found.values())

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `grid_from_json` is the inverse."""
        return json.loads(json.dumps({"choices": dict(self.choices), "fixed": dict(self.fixed)}))


def grid_from_json(document: Any) -> Grid:
    """The grid that `to_json` described, or a user wrote: {"choices": {name: [values]}, "fixed": {name: value}}.

    Raises:
        InputError: it has another form, or a value is outside of its setting's limits.
    """
    form = '{"choices": {"hidden": [[64], [128]], "lr": [0.001, 0.01]}, "fixed": {"minibatches": 20}}'
    if not isinstance(document, dict) or not set(document) <= {"choices", "fixed"} or "choices" not in document:
        raise InputError("grid", "what was given", f"JSON of the form {form}")
    choices, fixed = document["choices"], document.get("fixed", {})
    if not isinstance(choices, dict) or not isinstance(fixed, dict) or not choices:
        raise InputError("grid", "what was given", f"JSON of the form {form}")
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
        named += ["actor_lr", "critic_lr"]
    for name in named:
        if named.count(name) > 1:
            raise InputError("grid", name, "each setting once")
    return Grid(lists, settled)


def read_grid(path: str | Path) -> Grid:
    """The grid in a JSON file.

    Raises:
        InputError: there is none, or it cannot be used.
    """
    file = Path(path)
    if not file.is_file():
        raise InputError("grid", str(path), "paper, or a JSON file")
    try:
        return grid_from_json(json.loads(read_whole(file, LARGEST_JSON)))
    except (ValueError, RecursionError):
        raise InputError("grid", str(path), "a file of JSON") from None


def _checked(name: str, value: Any) -> Any:
    setting = "actor_lr" if name == TIED_RATES else name
    if setting not in SETTINGS:
        raise unknown_name("grid: setting", name, [*SETTINGS, TIED_RATES])
    plain = tuple(value) if isinstance(value, list) else value
    limits = SETTINGS[setting].limits
    if (isinstance(plain, tuple) and setting != "hidden") or not limits.valid(plain):
        allowed = "a list of widths, such as [64, 64]" if setting == "hidden" else limits.allowed
        raise InputError(f"grid: {name}", value, allowed.replace(", or one for each trial", ""))
    return plain
