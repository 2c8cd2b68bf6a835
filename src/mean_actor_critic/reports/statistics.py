"""Numbers for people: always with their n, and with a 95 % interval or, where there are few values, their range.

`scripts/calibrate_intervals.py` measures how often the intervals hold the truth. What is random is seeded: the same
values, in whatever order, give the same numbers. `digits` decides how they are rounded.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2
RESAMPLES = 9999
BLOCK = 10**6  # weights of resamples made at once
FEWEST = 6  # values that an interval needs: of fewer, not even the range holds the median in 95 % of samples

Array = NDArray[np.float64]
NAN = float("nan")
TINY = float(np.finfo(np.float64).tiny)


class Summary(NamedTuple):
    """Of n independent values: mean or interquartile mean, standard deviation, and the 95 % interval of the mean.

    The interval is a bootstrap's and ends where the values end. Fewer than `FEWEST` values allow none; `low` and `high`
    are then the smallest and the largest of them.
    """

    mean: float
    sd: float  # NaN for n = 1
    low: float  # NaN for n = 1
    high: float  # NaN for n = 1
    n: int

    @property
    def is_range(self) -> bool:
        """Whether `low` and `high` are the range of a few values and not an interval of their mean."""
        return 1 < self.n < FEWEST


class Estimate(NamedTuple):
    """A number and its 95 % interval, NaN where the data allow none."""

    value: float
    low: float
    high: float


class Difference(NamedTuple):
    """Ours less theirs: difference of means, its 95 % interval, p, and p corrected for the number of rivals."""

    difference: float
    low: float
    high: float
    p: float
    p_holm: float


def trial_scores(returns: ArrayLike, episodes: int | None = None) -> Array:
    """The paper's score of each trial [trials]: mean return over its first `episodes` of [trials, episodes]."""
    return np.asarray(np.mean(np.asarray(returns)[:, :episodes], axis=1, dtype=np.float64))


def final_scores(returns: ArrayLike, last: int = 100) -> Array:
    """What each trial came to [trials]: mean return over the last `last` of [trials, episodes], or all there are."""
    return np.asarray(np.mean(np.asarray(returns)[:, -last:], axis=1, dtype=np.float64))


def episodes_to_threshold(returns: ArrayLike, threshold: float, window: int = 10) -> Array:
    """First episode, from 1, whose trailing mean over `window` is at least `threshold` [trials]; inf where none is."""
    returns = np.asarray(returns, np.float64)
    trials, episodes = returns.shape
    if episodes < window:
        return np.full(trials, np.inf)
    reached = np.lib.stride_tricks.sliding_window_view(returns, window, axis=1).mean(axis=2) >= threshold
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + float(window), np.inf)


def summarise(values: ArrayLike) -> Summary:
    """Summary of independent values [n], such as a score for each trial, by their mean."""
    return _trimmed_summary(values, 0.0)


def interquartile_mean(values: ArrayLike) -> Summary:
    """Summary of independent values [n] by the mean of their middle half (Agarwal et al. 2021, scipy's trim_mean)."""
    return _trimmed_summary(values, 0.25)


def median_episodes(episodes: ArrayLike) -> Estimate:
    """Median of values [n], inf among them, and the order statistics that hold it in at least 95 % of samples.

    How many values lie below the median is binomial, whatever their distribution (Conover 1999, section 3.2); equal
    values, as whole numbers have, make it hold more often. Fewer than six values allow no interval.
    """
    ordered = np.sort(np.asarray(episodes, np.float64))
    n = len(ordered)
    if not n or np.isnan(ordered[-1]):
        return Estimate(NAN, NAN, NAN)
    from scipy.special import bdtr  # slow to import, as all of scipy

    median = float(np.median(ordered))
    rank = int(np.sum(bdtr(np.arange(n), n, 0.5) <= TAIL))  # from 1, from either end
    return Estimate(median, float(ordered[rank - 1]), float(ordered[n - rank])) if rank else Estimate(median, NAN, NAN)


def probability_of_improvement(ours: ArrayLike, theirs: ArrayLike, paired: bool = False) -> Estimate:
    """P(X > Y) + ½ P(X = Y) for X one of ours [n], Y one of theirs [m]: Mann and Whitney's U over n·m.

    With `paired`, the i-th of ours and the i-th of theirs depend on each other, as trials that share their random
    numbers do, and the variance allows for it.

    The n·m pairs depend on each other; DeLong's (1988) variance says how many independent ones they are worth, and the
    interval is Wilson's (1927) for these. Where hardly a pair goes the other way, no variance can be trusted. But
    min(n, m) pairs are independent in any case, and when these all come out alike, the probability of that outcome is
    97.5 % surely at least `alike` (Clopper and Pearson 1934). No other data may have a limit closer to 0 or 1.
    """
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    n, m = len(ours), len(theirs)
    if not n or not m or np.isnan(ours).any() or np.isnan(theirs).any():
        return Estimate(NAN, NAN, NAN)
    won, lost = _placements(ours, theirs), _placements(theirs, ours)
    if not paired:
        won, lost = np.sort(won), np.sort(lost)  # so that their order changes no bit
    share = float(np.mean(won))
    if min(n, m) < 2:
        return Estimate(share, NAN, NAN)
    alike = TAIL ** (1 / min(n, m))
    if np.ptp(won) == 0 and np.ptp(lost) == 0:  # all pairs won, all lost, or all even
        return Estimate(share, alike * share, 1 - alike * (1 - share))
    variance = np.var(won - lost, ddof=1) / n if paired else np.var(won, ddof=1) / n + np.var(lost, ddof=1) / m
    low, high = _wilson(share, min(share * (1 - share) / max(float(variance), TINY), n * m))
    return Estimate(share, min(low, alike), max(high, 1 - alike))


def differences(ours: ArrayLike, rivals: Sequence[ArrayLike], paired: Sequence[bool]) -> list[Difference]:
    """The mean of ours [n] against each rival's [m], corrected for their number by Holm's method.

    By Welch's (1947) t-test; by the paired one against rivals of whom each depends on ours in the same place.
    """
    tests = [
        _paired(ours, theirs) if pair else _welch(ours, theirs) for theirs, pair in zip(rivals, paired, strict=True)
    ]
    corrected = holm([p for *_, p in tests])
    return [Difference(*test, float(p)) for test, p in zip(tests, corrected, strict=True)]


def holm(p: ArrayLike) -> Array:
    """P-values [k] corrected by Holm's (1979) step-down; NaN, where no test could be made, stays and does not count."""
    p = np.asarray(p, np.float64)
    order = np.argsort(p)  # NaN last
    left = np.sum(~np.isnan(p)) - np.arange(len(p))
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(np.minimum(1, left * p[order]))
    return corrected


def _trimmed_summary(values: ArrayLike, share: float) -> Summary:
    """By the mean of values [n] without the lowest and the highest `share` of them.

    The interval ends where the values end. Beyond them it would be owed to Student's quantile and not to anything that
    was seen: two trials of Cart Pole with 12 and 190 would have [-845, 1047]. A mean lies beyond all of n values only
    if these all fell to one side of it, which happens to one sample in 32 of six symmetric values, and to less of more.
    """
    ordered = np.sort(np.asarray(values, np.float64))
    n = len(ordered)
    cut = int(share * n)
    if not n or np.isnan(ordered[-1]):
        return Summary(NAN, NAN, NAN, NAN, n)
    if np.isinf(ordered[[0, -1]]).any():
        with np.errstate(invalid="ignore"):  # inf - inf
            return Summary(float(np.mean(ordered[cut : n - cut])), NAN, NAN, NAN, n)
    origin = float(ordered[n // 2])  # counted from here, equal values are their mean to the bit
    offsets = ordered - origin
    centre = float(np.mean(offsets[cut : n - cut]))
    if n == 1:
        return Summary(origin, NAN, NAN, NAN, n)
    mean, sd = origin + centre, float(np.std(offsets, ddof=1))
    smallest, largest = float(ordered[0]), float(ordered[-1])
    if n < FEWEST:
        return Summary(mean, sd, smallest, largest, n)
    low, high = _bootstrap_errors(offsets, cut, centre)
    return Summary(mean, sd, max(mean + low, smallest), min(mean + high, largest), n)


def _bootstrap_errors(ordered: Array, cut: int, centre: float) -> tuple[float, float]:
    """Ends of the interval less the estimate: `centre`, the mean of ordered [n] without `cut` values at either end.

    Percentiles of Rubin's (1981) Bayesian bootstrap. It has no lattice, which matters when a few trials of a hundred
    have failed, and no degenerate resamples, which matters when there are few trials. Two corrections: it is twice as
    skewed as the mean, so that a shift by 3/2 z₀ makes it second-order correct, where Efron's bootstrap needs 2 z₀ and
    an acceleration (either way to Hall's (1988) quantile, z + γ (2z² + 1) / 6√n); and it is widened to the unbiased
    variance and from the normal quantile to Student's.
    """
    from scipy.special import ndtr, ndtri, stdtrit

    n = len(ordered)
    rows = min(RESAMPLES, -(-BLOCK // n))
    blocks = [_weights(n, cut, rows, block) @ ordered for block in range(-(-RESAMPLES // rows))]
    errors = np.concatenate(blocks)[:RESAMPLES] - centre
    below = (np.mean(errors < 0) + np.mean(errors <= 0)) / 2
    z = ndtri(1 - TAIL)
    low, high = np.quantile(errors, ndtr(1.5 * ndtri(below) + np.array([-z, z])))
    wider = stdtrit(n - 1, 1 - TAIL) / z * np.sqrt((n + 1) / (n - 1))
    return float(low * wider), float(high * wider)


@lru_cache(maxsize=2)
def _weights(n: int, cut: int, rows: int, block: int) -> Array:
    """Dirichlet weights [rows, n] of ordered values, less what falls in the outer cut/n at either end."""
    upto = np.cumsum(np.random.default_rng(block).standard_exponential((rows, n)), axis=1)
    inner = np.clip(upto / upto[:, -1:], cut / n, 1 - cut / n)
    return np.diff(inner, axis=1, prepend=cut / n) / (1 - 2 * cut / n)


def _placements(values: Array, others: Array) -> Array:
    """Share of the others [m] that each of the values [n] exceeds, equal ones counted half."""
    others = np.sort(others)
    return (np.searchsorted(others, values, "left") + np.searchsorted(others, values, "right")) / (2 * len(others))


def _wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's interval for a proportion, `share` of n."""
    from scipy.special import ndtri

    z = float(ndtri(1 - TAIL))
    centre = share + z**2 / (2 * n)
    reach = z * float(np.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2))
    return (centre - reach) / (1 + z**2 / n), (centre + reach) / (1 + z**2 / n)


def _welch(ours: ArrayLike, theirs: ArrayLike) -> tuple[float, float, float, float]:
    """Difference of means, its interval, and p."""
    ours, theirs = np.sort(np.asarray(ours, np.float64)), np.sort(np.asarray(theirs, np.float64))
    n, m = len(ours), len(theirs)
    if not n or not m or not np.isfinite(ours).all() or not np.isfinite(theirs).all():
        return NAN, NAN, NAN, NAN
    # counted from one of them, equal values are their mean to the bit and have no variance
    ours_off, theirs_off = ours - ours[0], theirs - theirs[0]
    difference = float((ours[0] + np.mean(ours_off)) - (theirs[0] + np.mean(theirs_off)))
    if min(n, m) < 2:
        return difference, NAN, NAN, NAN
    variances = np.array([np.var(ours_off, ddof=1) / n, np.var(theirs_off, ddof=1) / m])
    variance = float(np.sum(variances))
    freedom = 1 / np.sum((variances / variance) ** 2 / (n - 1, m - 1)) if variance else 1.0
    return _t_test(difference, variance, float(freedom))


def _paired(ours: ArrayLike, theirs: ArrayLike) -> tuple[float, float, float, float]:
    """Difference of means, its interval, and p."""
    gains = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    n = len(gains)
    if not n or not np.isfinite(gains).all():
        return NAN, NAN, NAN, NAN
    offsets = gains - gains[0]  # of equal values, no variance, to the bit
    difference = float(gains[0] + np.mean(offsets))
    return _t_test(difference, float(np.var(offsets, ddof=1) / n), n - 1) if n > 1 else (difference, NAN, NAN, NAN)


def _t_test(difference: float, variance: float, freedom: float) -> tuple[float, float, float, float]:
    """A difference of that variance: itself, its interval, and p."""
    if variance == 0:
        return difference, difference, difference, float(difference == 0)
    from scipy.special import stdtr, stdtrit

    error = float(np.sqrt(variance))
    reach = float(stdtrit(freedom, 1 - TAIL)) * error
    return difference, difference - reach, difference + reach, float(2 * stdtr(freedom, -abs(difference) / error))
