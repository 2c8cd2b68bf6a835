"""Learning curves as data: what each trial came to, in training or evaluations, and bands over trials."""

import dataclasses
import functools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.engines.curves import Curves, returns_by_steps
from mean_actor_critic.reports.statistics import FEWEST, TAIL
from mean_actor_critic.runs.run import EVALUATIONS, GREEDY, TRAINING, Run
from mean_actor_critic.spec.learners import EPISODES, STEPS

MOST_POINTS = 300  # of a line; longer curves are shown as means of neighbouring episodes

Array = np.ndarray[Any, Any]


class Bands(NamedTuple):
    """What a curve shows of its n values, point by point; each is [points].

    The ends of 95 % intervals lie within the values. Where there are fewer than `FEWEST` values, the ends are the
    smallest and the largest of them.
    """

    mean: Array
    sd: Array  # NaN for one value
    mean_low: Array  # NaN for one value, as all ends
    mean_high: Array
    iqm: Array  # mean of the middle half of the values
    iqm_low: Array
    iqm_high: Array
    smallest: Array
    largest: Array


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """What each trial came to as training goes on."""

    of: str  # TRAINING, EVALUATIONS or GREEDY
    unit: str  # EPISODES or STEPS
    x: Array  # [points] the middle of each point, in units
    together: int  # units in a point; 1 for evaluations, which take no time of the training
    values: Array  # [n, points] mean returns; NaN where an evaluation had fewer than n episodes
    end: int  # the unit up to which all trials have been trained
    over: str = "trials"  # what the n values are of: of evaluations of one trial, its "episodes"

    @property
    def n(self) -> int:
        """How many values every point has at least."""
        return int(np.isfinite(self.values).sum(axis=0).min(initial=len(self.values)))

    @property
    def is_range(self) -> bool:
        """Whether there are too few values for an interval, so that bands are ranges."""
        return 1 < self.n < FEWEST

    @cached_property
    def bands(self) -> Bands:
        """Means, deviations and intervals."""
        points = [_band(np.sort(column[np.isfinite(column)]), self.is_range) for column in self.values.T]
        return Bands(*np.array(points).T)


def _band(ordered: Array, as_range: bool) -> tuple[Any, ...]:
    """The fields of `Bands` at one point, from its values [n] in ascending order.

    Intervals are Student's: of the mean, and of a trimmed mean with the winsorised variance (Tukey & McLaughlin, 1963).
    They are cut off at the smallest and the largest value, for the reason that `statistics.summarise` has.
    """
    n, cut = len(ordered), len(ordered) // 4
    kept = n - 2 * cut
    mean, iqm = ordered.mean(), ordered[cut : n - cut].mean()
    smallest, largest = ordered[0], ordered[-1]
    if n == 1:
        return mean, np.nan, np.nan, np.nan, iqm, np.nan, np.nan, smallest, largest
    sd = np.std(ordered, ddof=1)
    if as_range:
        return mean, sd, smallest, largest, iqm, smallest, largest, smallest, largest
    winsorised = np.std(np.clip(ordered, ordered[cut], ordered[n - cut - 1]), ddof=1)
    half_mean = _quantile(n - 1) * sd / np.sqrt(n)
    half_iqm = _quantile(kept - 1) * winsorised * np.sqrt((n - 1) / (kept * (kept - 1)))
    ends = np.clip([mean - half_mean, mean + half_mean, iqm - half_iqm, iqm + half_iqm], smallest, largest)
    return mean, sd, *ends[:2], iqm, *ends[2:], smallest, largest


@functools.lru_cache
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
    return Curve(TRAINING, EPISODES, starts + (sizes + 1) / 2, together, values, episodes)


def by_steps(curves: Curves) -> Curve | None:
    """The curve of returns by agent steps; None before every trial has ended an episode."""
    found = returns_by_steps(curves, MOST_POINTS)
    return Curve(TRAINING, STEPS, found.x, found.width, found.values, found.end) if found else None


def of_evaluations(run: Run, of: str = EVALUATIONS) -> Curve | None:
    """The curve of the evaluations that all trials of a run have had, in the unit of its budget; None before the first.

    Of one trial, the values are the returns of each evaluation's episodes. `of` is EVALUATIONS or GREEDY.
    """
    evaluated, done = int(run.evaluations.evaluated.min()), run.evaluations
    scores, means = (done.greedy_scores, done.greedy_means) if of == GREEDY else (done.scores, done.means)
    if not evaluated or scores is None or means is None:
        return None
    moments = run.experiment.evaluation_moments()[:evaluated]
    alone = run.experiment.trials == 1
    values = np.asarray(scores[0, :evaluated].T if alone else means[:, :evaluated], np.float64)
    over = "episodes" if alone else "trials"
    return Curve(of, run.experiment.budget.unit, moments, 1, values, int(moments[-1]), over)


def curves_of(run: Run) -> dict[tuple[str, str], Curve]:
    """All curves that a run has, by what they are of and their unit; what it is judged by comes first."""
    played = int(run.episodes_done.min())
    training = [by_episodes(run.returns[:, :played]), by_steps(run.curves)] if played else []
    evaluations = (of_evaluations(run, of) for of in (EVALUATIONS, GREEDY))
    return {(curve.of, curve.unit): curve for curve in (*training, *evaluations) if curve is not None}
