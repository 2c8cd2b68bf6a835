"""Whether more trials cost speed: steps per second of the engine by the size of the study."""

from typing import NamedTuple

from benchmarks import engine
from benchmarks.harness import alternating, median, rate, rates, table


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    trials: tuple[int, ...] = (1, 10, 100, 1000)
    episodes: int = 60  # the same for any number of trials: longer training means longer episodes


TOY = Size(1, (2,), 3)


def measure(size: Size) -> str:
    variants = {str(trials): (engine.train, {"trials": trials, "episodes": size.episodes}) for trials in size.trials}
    results = alternating(variants, size.repeats)
    rows = [
        [
            f"{int(trials):,}",
            rate(median(rates(measurements))),
            f"{median(m['seconds'] for m in measurements):.2f}",
            f"{measurements[0]['mean_return']:.1f}",
        ]
        for trials, measurements in results.items()
    ]
    return f"""## Growth with trials

The same settings, {size.episodes} episodes a trial, all devices; median of {size.repeats} turns.

{table(["trials", "steps/s", "seconds", "mean return"], rows)}
"""
