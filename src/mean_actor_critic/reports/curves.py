"""Learning curves as data: what each trial returned, by episodes or by agent steps, and bands over trials."""

import dataclasses
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.reports.statistics import FEWEST, TAIL

MOST_POINTS = 300  # of a line; longer curves are shown as means of neighbouring episodes
EPISODES, STEPS = "episodes", "steps"  # units of a curve

Array = np.ndarray[Any, Any]


class Bands(NamedTuple):
    """What a curve shows of its trials, point by point; each is [points].

    The ends of 95 % intervals lie within the values of the trials. Where there are fewer than `FEWEST` trials, the ends
    are the smallest and the largest of these values.
    """

    mean: Array
    sd: Array  # over trials; NaN for one
    mean_low: Array  # NaN for one trial, as all ends
    mean_high: Array
    iqm: Array  # mean of the middle half of the trials
    iqm_low: Array
    iqm_high: Array
    smallest: Array  # value of any trial
    largest: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """The returns of each trial as training goes on."""

    unit: str  # EPISODES or STEPS
    x: Array  # [points] the middle of each point, in units
    together: int  # units in a point
    values: Array  # [trials, points] mean return of the episodes of a point
    end: int  # the unit up to which all trials have been trained

    @property
    def n(self) -> int:
        """Trials."""
        return len(self.values)

    @property
    def is_range(self) -> bool:
        """Whether there are too few trials for an interval, so that bands are ranges."""
        return 1 < self.n < FEWEST

    @cached_property
    def bands(self) -> Bands:
        """Means, deviations and intervals over trials.

        Intervals are Student's: of the mean, and of a trimmed mean with the winsorised variance (Tukey & McLaughlin,
        1963). They are cut off at the smallest and the largest value, for the reason that `statistics.summarise` has.
        """
        ordered = np.sort(self.values, axis=0)
        cut = self.n // 4
        kept = self.n - 2 * cut
        mean, iqm = self.values.mean(axis=0), ordered[cut : self.n - cut].mean(axis=0)
        smallest, largest = ordered[0], ordered[-1]
        if self.n == 1:
            none = np.full_like(mean, np.nan)
            return Bands(mean, none, none, none, iqm, none, none, smallest, largest)
        sd = np.std(self.values, axis=0, ddof=1)
        if self.is_range:
            return Bands(mean, sd, smallest, largest, iqm, smallest, largest, smallest, largest)
        winsorised = np.std(np.clip(self.values, ordered[cut], ordered[self.n - cut - 1]), axis=0, ddof=1)
        half_mean = _quantile(self.n - 1) * sd / np.sqrt(self.n)
        half_iqm = _quantile(kept - 1) * winsorised * np.sqrt((self.n - 1) / (kept * (kept - 1)))
        ends = (
            np.clip(middle + half, smallest, largest)
            for middle, half in ((mean, -half_mean), (mean, half_mean), (iqm, -half_iqm), (iqm, half_iqm))
        )
        mean_low, mean_high, iqm_low, iqm_high = ends
        return Bands(mean, sd, mean_low, mean_high, iqm, iqm_low, iqm_high, smallest, largest)


def _quantile(freedom: int) -> float:
    """How many standard errors an interval of 95 % reaches to each side."""
    from scipy.special import stdtrit  # slow to import

    return float(stdtrit(freedom, 1 - TAIL))


def by_episodes(returns: Array) -> Curve:
    """The curve of returns [trials, episodes], all of them played: a point for an episode, or for a few neighbours."""
    episodes = returns.shape[1]
    together = -(-episodes // MOST_POINTS)
    starts = np.arange(0, episodes, together)
    sizes = np.diff(np.append(starts, episodes))
    values = np.add.reduceat(np.asarray(returns, np.float64), starts, axis=1) / sizes
    return Curve(EPISODES, starts + (sizes + 1) / 2, together, values, episodes)


def by_steps(returns: Array, lengths: Array) -> Curve | None:
    """The curve by agent steps, up to the steps that all trials have played in whole episodes.

    A point is a bin of steps; bins are equally wide, and as many as the trial with the fewest episodes has episodes. A
    trial's value in a bin is the mean return of its episodes that ended there. Where none did, the value before it
    stays. The curve begins with the first bin by which every trial has ended an episode; None if there is no such bin.

    Args:
        returns: [trials, episodes]; NaN where an episode was not played.
        lengths: agent steps [trials, episodes]; 0 where an episode was not played. Trials may have played different
            numbers of episodes.
    """
    ends = np.cumsum(lengths, axis=1, dtype=np.int64)
    played = lengths > 0
    end = int(ends[:, -1].min())
    fewest = int(np.sum(played & (ends <= end), axis=1).min())
    if not fewest:
        return None
    width = -(-end // min(fewest, MOST_POINTS))
    bins = end // width
    values = np.array([
        _binned(of_trial[mask], (steps[mask] - 1) // width, bins)
        for of_trial, steps, mask in zip(returns, ends, played, strict=True)
    ])  # fmt: skip
    first = int(np.isfinite(values).all(axis=0).argmax())
    if not np.isfinite(values[:, first]).all():
        return None
    return Curve(STEPS, (np.arange(first, bins) + 0.5) * width, width, values[:, first:], end)


def _binned(returns: Array, places: Array, bins: int) -> Array:
    """Mean return in each bin [bins], carried forward where there is none; NaN before the first.

    `places` [episodes], ascending, says into which bin each of the `returns` falls; those beyond the last do not count.
    """
    inside = places < bins
    sums = np.bincount(places[inside], np.asarray(returns[inside], np.float64), bins)
    counts = np.bincount(places[inside], minlength=bins)
    means = sums / np.where(counts, counts, np.nan)
    latest = np.maximum.accumulate(np.where(counts, np.arange(bins), -1))
    return np.where(latest >= 0, means[latest], np.nan)
