"""How many digits numbers are shown with. Numbers that are shown together have the same number of decimals.

Tables, sentences, pages and figures for people round by these functions; files for programs use `exact`.
"""

import math
from collections.abc import Iterable
from typing import TypeGuard

import numpy as np

from mean_actor_critic.reports.statistics import Estimate, Summary

OF_LARGEST, OF_SPREAD = 300, 30  # the last digit is worth at most one part in so many
FLOAT32 = 7  # significant digits that returns are stored with: further ones mean nothing


def decimals(values: Iterable[float]) -> int:
    """How many decimals to show numbers with that stand together, from what they are.

    The last digit is worth at most a 300th of the largest number, so that returns between -1 and 1.4 get three
    decimals, returns of Cart Pole one and returns around 100,000 none. It is also worth at most a 30th of the
    difference between the largest and the smallest, so that numbers which are close to each other are told apart, as
    far as the digits go that are stored.
    """
    finite = [value for value in values if math.isfinite(value)]
    largest, spread = max(map(abs, finite), default=0.0), max(finite, default=0.0) - min(finite, default=0.0)
    if largest == 0:
        return 1
    enough = math.ceil(math.log10(OF_LARGEST / largest))
    apart = math.ceil(math.log10(OF_SPREAD / spread)) if spread > 0 else 0
    stored = FLOAT32 - 1 - math.floor(math.log10(largest))
    return max(0, enough, min(apart, stored))


def decimals_of(summaries: Iterable[Summary | None]) -> int:
    """How many decimals to show summaries with that stand together; None, where there is none, does not count."""
    return decimals(value for s in summaries if s is not None for value in (s.mean, s.low, s.high))


def rounded(value: float, digits: int) -> str:
    """A number with so many decimals; a dash for what is not a number. What rounds to zero has no sign."""
    return "–" if math.isnan(value) else f"{value:z.{digits}f}"


def interval(found: Summary | Estimate, digits: int) -> str:
    """The interval of a mean or an estimate as text: a range says that it is one; a dash where there is neither."""
    if np.isnan(found.low):
        return "–"
    low, high = rounded(found.low, digits), rounded(found.high, digits)
    return f"{low} to {high} (range of {found.n})" if is_range(found) else f"[{low}, {high}]"


def is_range(found: Summary | Estimate) -> TypeGuard[Summary]:
    """Whether the ends are the smallest and the largest value seen, because there are too few for an interval."""
    return isinstance(found, Summary) and found.is_range


def with_interval(found: Summary | Estimate | None, digits: int) -> str:
    """A number and its 95 % interval if it has one; no text where there is no number."""
    if found is None:
        return ""
    value = rounded(found[0], digits)
    return value if np.isnan(found.low) or is_range(found) else f"{value} {interval(found, digits)}"


def interval_heading(summaries: Iterable[Summary]) -> str:
    """What the column of intervals of some summaries is called."""
    kinds = {summary.is_range for summary in summaries if summary.n > 1}
    return "95 % interval or range" if len(kinds) > 1 else ("range" if True in kinds else "95 % interval")


def in_millions(steps: int) -> str:
    """A number of agent steps for people: 50M, or 1200."""
    return f"{steps / 1e6:.4g}M" if steps >= 10**5 else str(steps)


def exact(value: float) -> str:
    """A number for a file, with all digits that are stored; no text for what is not a number."""
    return "" if math.isnan(value) else f"{value:.{FLOAT32}g}"
