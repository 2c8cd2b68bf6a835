"""`python -m benchmarks suite` compares `mac train` with other packages' algorithms on the tasks of its table.

It is no part of `python -m benchmarks`, because all of it takes days. Every seed of a method on a task is a job, in a
process of its own; those that are done are not done again.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import ROOT, hardware, log, versions
from benchmarks.suite import jobs, summary
from benchmarks.suite.methods import METHODS, TOY, Size
from benchmarks.suite.tasks import TASKS
from mean_actor_critic.reports.statistics import FEWEST

PACKAGES = (
    "jax", "numpy", "gymnasium", "box2d", "minigrid", "minatar",
    "torch", "stable-baselines3", "sb3-contrib", "sbx-rl", "flax",
)  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser("python -m benchmarks suite", description=__doc__)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS), metavar="TASK", help=", ".join(TASKS))
    parser.add_argument(
        "--methods",
        nargs="*",
        choices=METHODS,
        default=list(METHODS),
        metavar="METHOD",
        help=f"{', '.join(METHODS)}; none to write only what is done",
    )
    parser.add_argument("--seeds", type=int, default=FEWEST, help="how many, from 0 (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once (default: %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "runs" / "suite", help="working folder (default: %(default)s)"
    )
    parser.add_argument(
        "--commit-to", type=Path, metavar="DIR", help="write there what is done, and do not do again what stands there"
    )
    parser.add_argument("--toy", action="store_true", help="too little to mean anything; tries it out, keeps nothing")
    chosen = parser.parse_args(arguments)
    if chosen.toy:
        with tempfile.TemporaryDirectory() as folder:
            failed = compare(chosen.tasks, chosen.methods, 1, chosen.jobs, Path(folder), None, TOY)
    else:
        failed = compare(chosen.tasks, chosen.methods, chosen.seeds, chosen.jobs, chosen.out, chosen.commit_to, Size())
    if failed:
        sys.exit(f"failed: {', '.join(map(str, failed))}")


def compare(
    tasks: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    at_once: int,
    out: Path,
    commit_to: Path | None,
    size: Size,
) -> list[jobs.Job]:
    """Run what is not done, and show all that is; returns the jobs that failed.

    Args:
        tasks: names from `TASKS`.
        methods: names from `METHODS`; those whose package is missing are left out.
        seeds: how many.
        at_once: how many jobs run at once.
        out: the working folder.
        commit_to: where the results are written for good, if at all.
        size: of a job.
    """
    for name in methods:
        if not METHODS[name].installed:
            log(f"{METHODS[name].title} is left out: {METHODS[name].package} is not installed")
    if commit_to:
        jobs.take_up(commit_to / summary.EVALUATIONS, out)
    there = [name for name in methods if METHODS[name].installed]
    failed = jobs.run(jobs.planned(tasks, there, seeds), out, at_once, size)
    finished = list(jobs.done(out))
    print("\n".join(summary.sections(finished)))
    if commit_to:
        summary.write(finished, commit_to, f"{hardware()}.  \n{versions(PACKAGES)}.")
    return failed
