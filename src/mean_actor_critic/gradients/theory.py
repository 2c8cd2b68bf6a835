"""What was measured of the estimators, on disk: one checked JSON file. Imports no JAX.

The numbers are made by `gradients` and shown by `reports`; this is what lies between them.
"""

import dataclasses
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.files import write_whole
from mean_actor_critic.runs import store
from mean_actor_critic.spec.settings import is_whole

Part = TypeVar("Part")

THEORY_FORMAT = "mean_actor_critic theory 2"
THEORY = "theory.json"

PARTS = ("actions", "states", "returns", "trajectories")  # of a variance, which they add up to
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # over parameters
RATIOS = tuple(f"ratio_{round(100 * q):02d}" for q in QUANTILES)
TAIL = 0.025  # of a 95 % interval
EPISODE, UPDATE = "episode", "update"  # batches that are not a number of independent states
STATISTICS = (
    "variance", *PARTS, "ratio", *RATIOS, "snr", "direction", "cosine", "bias", "difference", "measured",
)  # fmt: skip


class Number(NamedTuple):
    """A number and its 95 % interval; NaN where there is none."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "–"
        interval = "" if math.isnan(self.low) else f" [{_short(self.low)}, {_short(self.high)}]"
        return _short(self.value) + interval


def _short(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 or not math.isfinite(value) else f"{value:.2e}"


@dataclasses.dataclass(frozen=True)
class Row:
    """An estimator at one moment, for one batch: numbers by the names of `STATISTICS`."""

    estimator: str
    batch: str  # a number of independent states, EPISODE or UPDATE
    numbers: Mapping[str, Number]

    def __getitem__(self, name: str) -> Number:
        return self.numbers[name]


@dataclasses.dataclass(frozen=True)
class Moment:
    """A policy and its critic as they were after so many episodes of training."""

    episode: int
    steps: int  # agent steps that were looked at
    episodes: int  # that they came from
    length: Number  # of an episode
    score: Number  # undiscounted return
    entropy: Number  # nats, of the policy over the states it visits
    reference: Number  # squared length of the reference gradient, less what its own noise adds
    noise: float  # what that is
    rows: tuple[Row, ...]

    def row(self, estimator: str, batch: str) -> Row:
        """The row of that estimator and batch."""
        return next(row for row in self.rows if (row.estimator, row.batch) == (estimator, batch))


@dataclasses.dataclass(frozen=True)
class Trial:
    """A trial of a run, or an agent, at some moments of its training."""

    environment: str
    algorithm: str
    trial: int
    actions: int
    parameters: int  # of the policy
    replicates: int
    seed: int
    moments: tuple[Moment, ...]

    @property
    def batches(self) -> list[str]:
        """In the order that they were asked for."""
        return list(dict.fromkeys(row.batch for row in self.moments[0].rows))


@dataclasses.dataclass(frozen=True)
class EntropyCurve:
    """How much of an estimator's variance MAC saves, in random problems, as their policies lose entropy."""

    estimator: str
    actions: int
    entropy: tuple[float, ...]  # mean over problems, as a share of the most that is possible
    saved: tuple[float, ...]  # mean share of the variance that is due to actions, and that MAC does without
    low: tuple[float, ...]  # its quartiles over problems
    high: tuple[float, ...]
    amount: tuple[float, ...]  # mean of that variance itself, in units of the largest in the same problem


@dataclasses.dataclass(frozen=True)
class Claim:
    """Something that the paper says, and what was found."""

    name: str
    verdict: str  # one of VERDICTS
    exact: str  # the evidence where everything was enumerated; "" if there is none
    deep: str  # the evidence in networks; "" if there is none


VERDICTS = ("holds", "fails", "depends", "not measured")
LEAST_ACTIONS = 2  # of one, there is no entropy and nothing to choose
MOST = 10_000  # of anything in a file, and characters of a word
MOST_MOMENTS, MOST_BATCHES = 101, 20  # of a trial: each has a panel in a figure
LARGEST_WHOLE = 2**53


@dataclasses.dataclass(frozen=True)
class Theory:
    """Everything that was measured of the estimators, and the command that measured it."""

    command: str
    versions: Mapping[str, str]
    trials: tuple[Trial, ...]
    curves: tuple[EntropyCurve, ...]
    problems: int  # random ones that were checked exactly
    claims: tuple[Claim, ...]


# --- files -----------------------------------------------------------------------------------------------------------


def write_theory(folder: Path, theory: Theory) -> Path:
    """Write what was measured into a folder that is there; returns the file."""
    document = {"format": THEORY_FORMAT, **_plain(theory)}
    checked = {**document, "sha256": store.digest_of_document(document)}
    file = folder / THEORY
    write_whole(file, json.dumps(checked, separators=(",", ":"), allow_nan=False).encode())
    return file


def is_theory(folder: Path) -> bool:
    """Whether something was measured there."""
    return os.path.lexists(folder / THEORY)


def read_theory(folder: Path) -> Theory:
    """What `write_theory` wrote into a folder.

    Raises:
        DamagedFileError: it is not that.
    """
    file = folder / THEORY
    names = {field.name for field in dataclasses.fields(Theory)}
    document, _ = store.read_document(file, THEORY_FORMAT, names)
    try:
        return _theory(document)
    except (KeyError, TypeError, ValueError, AttributeError) as fault:
        raise DamagedFileError(f"{file}: is damaged, or was not written by mac: {fault}") from None


def _plain(value: Any) -> Any:
    """As JSON has it; numbers with the digits that mean something, and null for what is not a number."""
    if isinstance(value, float):
        return float(f"{value:.7g}") if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value


def _theory(document: Mapping[str, Any]) -> Theory:
    return Theory(
        _word(document["command"]),
        {_word(name): _word(version) for name, version in document["versions"].items()},
        _each(_trial, document["trials"]),
        _each(_curve, document["curves"]),
        _whole(document["problems"]),
        _each(_claim, document["claims"]),
    )


def _each(read: Callable[[Any], Part], parts: Any, most: int = MOST) -> tuple[Part, ...]:
    """What all parts of a list are, of which there are not more than any page could show."""
    if not isinstance(parts, list) or len(parts) > most:
        raise ValueError(f"no list of at most {most}")
    return tuple(map(read, parts))


def _trial(part: Mapping[str, Any]) -> Trial:
    moments = _each(_moment, part["moments"], MOST_MOMENTS)
    if not moments or any(list(map(_key, m.rows)) != list(map(_key, moments[0].rows)) for m in moments):
        raise ValueError("moments that do not fit each other")
    if not 1 <= len({row.batch for row in moments[0].rows}) <= MOST_BATCHES:
        raise ValueError("no batches, or too many")
    return Trial(
        environment=_word(part["environment"]),
        algorithm=_word(part["algorithm"]),
        trial=_whole(part["trial"]),
        actions=_whole(part["actions"], LEAST_ACTIONS),
        parameters=_whole(part["parameters"]),
        replicates=_whole(part["replicates"]),
        seed=_whole(part["seed"]),
        moments=moments,
    )


def _key(row: Row) -> tuple[str, str]:
    return row.estimator, row.batch


def _moment(part: Mapping[str, Any]) -> Moment:
    return Moment(
        episode=_whole(part["episode"]),
        steps=_whole(part["steps"]),
        episodes=_whole(part["episodes"]),
        length=_number(part["length"]),
        score=_number(part["score"]),
        entropy=_number(part["entropy"]),
        reference=_number(part["reference"]),
        noise=_float(part["noise"]),
        rows=_each(_row, part["rows"]),
    )


def _row(part: Mapping[str, Any]) -> Row:
    batch = _word(part["batch"])
    if not (batch in (EPISODE, UPDATE) or (batch.isascii() and batch.isdecimal() and len(batch) < 10)):
        raise ValueError("an unknown batch")
    return Row(_word(part["estimator"]), batch, {name: _number(part["numbers"][name]) for name in STATISTICS})


def _curve(part: Mapping[str, Any]) -> EntropyCurve:
    lines = {name: _each(_float, part[name]) for name in ("entropy", "saved", "low", "high", "amount")}
    if len(set(map(len, lines.values()))) > 1:
        raise ValueError("lines of different lengths")
    return EntropyCurve(_word(part["estimator"]), _whole(part["actions"], LEAST_ACTIONS), **lines)


def _claim(part: Mapping[str, Any]) -> Claim:
    if part["verdict"] not in VERDICTS:
        raise ValueError("an unknown verdict")
    return Claim(_word(part["name"]), part["verdict"], _word(part["exact"]), _word(part["deep"]))


def _number(value: Any) -> Number:
    number, low, high = value
    return Number(_float(number), _float(low), _float(high))


def _float(value: Any) -> float:
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise TypeError("something that is no number")
    return float(value)


def _whole(value: Any, least: int = 0) -> int:
    if not is_whole(value, least, LARGEST_WHOLE):
        raise TypeError(f"something that is no whole number from {least}")
    return value


def _word(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST:
        raise TypeError("something that is no text, or a long one")
    return value
