"""Whether memory stays flat: resident memory of a training on Lunar Lander, by the steps taken."""

import resource
from pathlib import Path

import numpy as np

from benchmarks.harness import in_new_process, log, table
from benchmarks.hosted_engine import ENVIRONMENT, RELEASED, open_study, steps_taken

STUDY = {"trials": 20, "workers": 2}
WARM_UP_STEPS = 200_000
STEPS = 1_000_000  # after the warm-up
STEPS_BETWEEN_SAMPLES = 100_000

Samples = dict[str, list[float]]


def resident_megabytes(process: int | str) -> float:
    """Resident memory of a process, shared pages included. Linux only."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def sample(trials: int, workers: int, warm_up: int, steps: int, between: int) -> Samples:
    """Train, and look at the memory after a warm-up and then every so many steps, of main and worker processes."""
    samples: Samples = {"steps": [], "main": [], "workers": []}
    study = open_study(RELEASED, trials, workers)
    try:
        for goal in range(warm_up, warm_up + steps + 1, between):
            while (taken := steps_taken(study)) < goal:
                study.advance()
            samples["steps"].append(taken)
            samples["main"].append(resident_megabytes("self"))
            samples["workers"].append(sum(map(resident_megabytes, study._troupe.fleet.process_ids)))
            study.arrays()  # as for a checkpoint, so that what that leaves behind would show
    finally:
        study.close()
    return samples


def growth(samples: Samples, processes: str) -> float:
    """Megabytes in a million steps, by a straight line through the samples."""
    return float(np.polyfit(samples["steps"], samples[processes], 1)[0] * 1e6)


def report() -> str:
    run = {**STUDY, "warm_up": WARM_UP_STEPS, "steps": STEPS, "between": STEPS_BETWEEN_SAMPLES}
    samples = in_new_process(sample, run)
    grown = {processes: growth(samples, processes) for processes in ("main", "workers")}
    log(", ".join(f"{processes} {megabytes:+.1f} MB a million steps" for processes, megabytes in grown.items()))
    rows = [
        *(
            [f"{steps:,}", f"{main:.1f}", f"{workers:.1f}"]
            for steps, main, workers in zip(*samples.values(), strict=True)
        ),
        ["growth in a million steps", *(f"{megabytes:+.1f}" for megabytes in grown.values())],
    ]
    return f"""## Memory

{ENVIRONMENT}, MAC at the authors' released settings, {STUDY["trials"]} trials, {STUDY["workers"]} worker processes.
Resident memory in MB after a warm-up, over at least {STEPS:,} environment steps, with what a checkpoint takes at every
sample; growth by a straight line through the samples.

{table(["steps", "main process", "workers"], rows)}
"""
