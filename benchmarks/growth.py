"""Whether more trials cost speed: steps per second of the engine by the size of the study."""

from benchmarks import engine
from benchmarks.harness import alternating, median, rate, rates, table

REPEATS = 3
SIZES = (1, 10, 100, 1000)
EPISODES = 60  # the same for every size: longer training means longer episodes


def report() -> str:
    variants = {str(size): (engine.train, {"trials": size, "episodes": EPISODES}) for size in SIZES}
    results = alternating(variants, REPEATS)
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

The same settings, {EPISODES} episodes a trial, all devices; median of {REPEATS} turns.

{table(["trials", "steps/s", "seconds", "mean return"], rows)}
"""
