"""How often reported intervals hold the truth: `python scripts/calibrate_intervals.py [--studies N] [--trials N]`.

Makes studies from distributions whose truth is known, and prints in how many of them a nominal 95 % interval holds it,
with the standard error of that share, and what lies outside 94–96 %. About four minutes on one core.
"""

import argparse
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: more only wait for each other

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri
from scipy.stats import gamma

from mean_actor_critic.reports.statistics import (
    Difference,
    Estimate,
    Summary,
    differences,
    interquartile_mean,
    median_episodes,
    probability_of_improvement,
    summarise,
)

SEED = 0
FAILURES = 0.05


def normal(u: np.ndarray) -> np.ndarray:
    return 180 + 10 * ndtri(u)


def near_a_ceiling(u: np.ndarray) -> np.ndarray:
    """Of returns that cannot exceed 200."""
    return 200 - gamma.isf(u, 2, scale=10)


def with_failures(u: np.ndarray) -> np.ndarray:
    """Of trials some of which never learn."""
    failed = u < FAILURES
    return np.where(failed, 20, 185) + 5 * ndtri(np.where(failed, u / FAILURES, (u - FAILURES) / (1 - FAILURES)))


KINDS = {"normal": normal, "near a ceiling": near_a_ceiling, "with failures": with_failures}  # quantile functions
POPULATION = (np.arange(10**6) + 0.5) / 10**6


class Question(NamedTuple):
    """What is asked of a sample of ours and one of theirs, and the true answer."""

    name: str
    truth: float
    answer: Callable[[np.ndarray, np.ndarray], Summary | Estimate | Difference]
    common: float = 0.0  # what a trial of ours and its pair of theirs share: the correlation of their normal quantiles


def episodes(values: np.ndarray) -> np.ndarray:
    """Values taken for episodes to a threshold: whole numbers, and never for trials that failed."""
    return np.where(values < 100, np.inf, np.rint(values))


def improvement(population: np.ndarray, behind: float) -> float:
    """Probability that one of a population exceeds another of it that is `behind`."""
    return float(np.mean(np.searchsorted(population, population + behind)) / len(population))


def questions(population: np.ndarray) -> Iterator[Question]:
    quarter = len(population) // 4
    yield Question("mean", population.mean(), lambda ours, _: summarise(ours))
    yield Question("interquartile mean", population[quarter:-quarter].mean(), lambda ours, _: interquartile_mean(ours))
    shifts = [(p, brentq(lambda by, p=p: improvement(population, by) - p, -1, 400)) for p in (0.5, 0.75, 0.95, 0.99)]
    for common in (0.0, 0.3, 0.6, 0.9):
        paired, words = common > 0, f", pairs with {common} in common" if common else ""
        for probability, behind in shifts:
            yield Question(
                f"probability of improvement {probability}{words}",
                improvement(population, behind),
                lambda ours, theirs, by=behind, paired=paired: probability_of_improvement(ours, theirs - by, paired),
                common,
            )
        yield Question(
            f"difference{words}",
            0.0,
            lambda ours, theirs, paired=paired: differences(ours, [theirs], [paired])[0],
            common,
        )
    yield Question("median", np.median(population), lambda ours, _: median_episodes(ours))
    yield Question("median episodes", np.median(episodes(population)), lambda ours, _: median_episodes(episodes(ours)))


def coverage(question: Question, quantiles: Callable[[np.ndarray], np.ndarray], studies: int, trials: int) -> float:
    random = np.random.default_rng(SEED)
    held = 0
    for _ in range(studies):
        u = random.random((3, trials))
        if question.common:
            u = ndtr(np.sqrt(question.common) * ndtri(u[2]) + np.sqrt(1 - question.common) * ndtri(u))
        found = question.answer(*quantiles(u[:2]))
        held += found.low <= question.truth <= found.high
    return held / studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000)
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    print(f"Coverage of nominal 95 % intervals, in %, {options.studies} studies of {options.trials} trials\n")
    print("| | " + " | ".join(KINDS) + " |")
    print("|---|" + "---:|" * len(KINDS))
    outside = []
    for same_question in zip(*(questions(quantiles(POPULATION)) for quantiles in KINDS.values()), strict=True):
        cells = []
        for question, (kind, quantiles) in zip(same_question, KINDS.items(), strict=True):
            share = coverage(question, quantiles, options.studies, options.trials)
            error = np.sqrt(share * (1 - share) / options.studies)
            cells.append(f"{100 * share:.2f} ± {100 * error:.2f}")
            if not 0.94 <= share <= 0.96:
                side = "above: conservative" if share > 0.96 else "BELOW: too narrow"
                outside.append(f"{question.name}, {kind}: {cells[-1]} ({side})")
        print(f"| {same_question[0].name} | " + " | ".join(cells) + " |", flush=True)
    print("\nOutside 94–96 %:", *(outside or ["none"]), sep="\n  ")


if __name__ == "__main__":
    main()
