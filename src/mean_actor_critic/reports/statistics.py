"""Numbers for people: always with their n and an interval."""

from typing import Any, NamedTuple

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 9999


class Summary(NamedTuple):
    """Of n independent values: mean, standard deviation, and a 95 % bootstrap interval of the mean."""

    mean: float
    sd: float  # NaN for n = 1
    low: float
    high: float
    n: int

    @property
    def interval(self) -> str:
        """As text; a dash where one value allows none."""
        return f"[{self.low:.1f}, {self.high:.1f}]" if np.isfinite(self.low) else "–"


def summarise(values: Any) -> Summary:
    """Summary of independent values [n], such as a score for each trial. Seeded: same data, same numbers."""
    values = np.asarray(values, np.float64)
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Summary(mean, float("nan"), float("nan"), float("nan"), n)
    sd = float(np.std(values, ddof=1))
    if sd == 0:
        return Summary(mean, 0.0, mean, mean, n)
    from scipy import stats  # slow to import, and not needed above

    interval = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="BCa",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return Summary(mean, sd, float(interval.low), float(interval.high), n)


def trial_scores(returns: np.ndarray[Any, Any], episodes: int | None = None) -> np.ndarray[Any, Any]:
    """The paper's score of each trial [trials]: mean return over its first `episodes` of [trials, episodes]."""
    return np.asarray(np.mean(returns[:, :episodes], axis=1, dtype=np.float64))
