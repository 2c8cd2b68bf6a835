"""Whether memory stays flat: resident memory of a training on Lunar Lander, by the steps taken."""

import resource
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks import stepping
from benchmarks.harness import in_new_process, log, table
from benchmarks.hosted_engine import ENVIRONMENT, RELEASED, open_study

ALONE_SHARE = 5  # the environments alone take a fifth of the steps: enough to see what they leak

Samples = dict[str, list[float]]  # columns: steps and episodes so far, megabytes of processes


class Size(NamedTuple):
    """How much is measured."""

    trials: int = 20
    workers: int = 2
    warm_up: int = 200_000  # steps of all trials together, as below
    steps: int = 1_000_000  # after the warm-up
    between: int = 100_000  # samples


TOY = Size(2, 1, 1000, 2000, 1000)


def resident_megabytes(process: int | str) -> float:
    """Resident memory of a process, shared pages included. Linux only."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def sample_training(trials: int, workers: int, warm_up: int, steps: int, between: int) -> Samples:
    """Train, and look at the memory after a warm-up and then every so many steps, of main and worker processes."""
    samples: Samples = {"steps": [], "episodes": [], "main": [], "workers": []}
    study = open_study(RELEASED, trials, workers)
    try:
        taken = 0
        for moment in range(between, warm_up + steps + 1, between):
            goal = max(moment, taken + between)  # a segment may have gone far past the moment, and past several
            while (taken := study.steps_taken) < goal:
                study.advance()
            study.arrays()  # as for a checkpoint, so that what that leaves behind shows
            if goal >= warm_up:
                of_workers = sum(map(resident_megabytes, study.process_ids))
                _append(samples, taken, study.episodes_done, resident_megabytes("self"), of_workers)
    finally:
        study.close()
    return samples


def sample_environments(trials: int, warm_up: int, steps: int, between: int) -> Samples:
    """The same of a process that only steps as many environments with random actions."""
    samples: Samples = {"steps": [], "episodes": [], "main": []}
    turns = stepping.round_robin(ENVIRONMENT, trials, seed=0)
    taken = episodes = 0
    for goal in range(warm_up, warm_up + steps + 1, between):
        while taken < goal:
            stepped, ended = next(turns)
            taken += stepped
            episodes += ended
        _append(samples, taken, episodes, resident_megabytes("self"))
    return samples


def _append(samples: Samples, *row: float) -> None:
    for column, value in zip(samples.values(), row, strict=True):
        column.append(value)


def growth(samples: Samples, processes: str, over: str) -> float:
    """Megabytes of the processes for each step or episode, by a straight line through the samples."""
    return float(np.polyfit(samples[over], samples[processes], 1)[0])


def measure(size: Size) -> str:
    samples = in_new_process(sample_training, size._asdict())
    fewer = {name: getattr(size, name) // ALONE_SHARE for name in ("warm_up", "steps", "between")}
    alone = in_new_process(sample_environments, {"trials": size.trials, **fewer})
    both = ("main", "workers")
    rows = [
        *([f"{s:,}", f"{e:,}", f"{m:.1f}", f"{w:.1f}"] for s, e, m, w in zip(*samples.values(), strict=True)),
        ["growth in a million steps", "", *(f"{1e6 * growth(samples, name, 'steps'):+.1f}" for name in both)],
        ["growth in a thousand episodes", "", *(f"{1e3 * growth(samples, name, 'episodes'):+.2f}" for name in both)],
    ]
    log(", ".join(" ".join(row) for row in rows[-2:]))
    return f"""## Memory

{ENVIRONMENT}, MAC at the authors' released settings, {size.trials} trials, {size.workers} worker processes.
Resident memory in MB after a warm-up, over at least {size.steps:,} environment steps, with what a checkpoint takes at
every sample; growth by a straight line through the samples.

{table(["steps", "episodes", "main process", "workers"], rows)}

As many of these environments alone, stepped in a plain loop with random actions, grow by
{1e3 * growth(alone, "main", "episodes"):+.2f} MB in a thousand episodes: so much of the workers' growth is Gymnasium's
and Box2D's own.
"""
