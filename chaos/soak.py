"""Soak: one process trains, resumes, evaluates and reports over and over; its memory and its open files must not grow.

`python -m chaos.soak FOLDER SECONDS ROUNDS SEED` does so, and prints a line of JSON after each round. The first rounds
compile and fill caches. Of those after them a straight line is drawn: a soak of minutes says little about a slope in
megabytes an hour, which is why its standard error stands beside it, and only what is clearly above is found.
"""

import contextlib
import gc
import io
import json
import math
import os
import resource
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from chaos.harness import Attempt, Budget, Kind, complaints, ran, random_of
from chaos.tally import HUNG, LEFT, Finding, Tally, tally_of

NAME = "soak"
ROUNDS = 2000  # at most, of one process
WARM_UP = 0.3  # the share of the rounds that comes first
FEWEST = 10  # rounds after that, by which a slope is told
MOST = 1.0  # megabytes an hour that memory may grow by
NOISE = 8.0  # megabytes that it may be larger at the end than after the warm-up, however short the time was


class Round(NamedTuple):
    """What a process has after a round."""

    seconds: float
    megabytes: float
    files: int
    digest: str  # of what was trained, which is the same in every round


def run(budget: Budget, seed: int) -> Tally:
    """One soak, as long as there is time."""
    this = Attempt(NAME, seed, budget.first, budget.folder / NAME, random_of(NAME, seed, budget.first))
    shutil.rmtree(this.folder, ignore_errors=True)
    this.folder.mkdir(parents=True)
    seconds = max(1.0, budget.until - time.monotonic())
    words = [sys.executable, "-m", "chaos.soak", this.folder, seconds, min(budget.count, ROUNDS), seed]
    path = os.pathsep.join(filter(None, [str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH")]))
    ended = ran(this, words, seconds + 60, {"PYTHONPATH": path})
    if budget.stop.is_set():
        return Tally(next_number=budget.first)
    rounds = [Round(*json.loads(line)) for line in ended.out.splitlines()]
    findings = [*complaints(this, ended, (0,), "a soak"), *of_rounds(this, rounds)]
    return tally_of(max(1, len(rounds)), findings, this.number)._replace(notes=(in_words(rounds),))


KIND = Kind(
    NAME, "a round of train, resume, evaluate and report in one process, whose growth is measured", 200, 0.15, run
)


def of_rounds(this: Attempt, rounds: Sequence[Round]) -> list[Finding]:
    """What has grown, and what was another than before."""
    findings = []
    if len({measured.digest for measured in rounds}) > 1:
        findings.append(this.found("digest mismatches", "a later round is another", rounds))
    warm = after_warm_up(rounds)
    if len(warm) >= FEWEST:
        slope, error = slope_of([(r.seconds / 3600, r.megabytes) for r in warm])
        grown = warm[-1].megabytes - warm[0].megabytes
        if slope - 2 * error > MOST and grown > NOISE:
            findings.append(this.found(HUNG, "memory grows", in_words(rounds)))
        if min(r.files for r in warm[len(warm) // 2 :]) > max(r.files for r in warm[: len(warm) // 2]):
            findings.append(this.found(LEFT, "open files grow", in_words(rounds)))
    return findings


def after_warm_up(rounds: Sequence[Round]) -> Sequence[Round]:
    """Those that count."""
    return rounds[math.ceil(WARM_UP * len(rounds)) :]


def in_words(rounds: Sequence[Round]) -> str:
    """A line for people."""
    warm = after_warm_up(rounds)
    if len(warm) < FEWEST:
        return f"soak: {len(rounds)} rounds, too few to tell a slope"
    slope, error = slope_of([(r.seconds / 3600, r.megabytes) for r in warm])
    files, _ = slope_of([(r.seconds / 3600, r.files) for r in warm])
    minutes = (warm[-1].seconds - warm[0].seconds) / 60
    return (
        f"soak: {len(warm)} rounds in {minutes:.1f} minutes after the warm-up: memory {slope:+.2f} MB/h "
        f"(standard error {error:.2f}), from {warm[0].megabytes:.1f} to {warm[-1].megabytes:.1f} MB; "
        f"open files {files:+.2f}/h, {warm[-1].files} in the end"
    )


def slope_of(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Of the straight line through points (x, y) by least squares, and its standard error."""
    n = len(points)
    x0, y0 = (sum(values) / n for values in zip(*points, strict=True))
    spread = sum((x - x0) ** 2 for x, _ in points) or 1e-12
    slope = sum((x - x0) * (y - y0) for x, y in points) / spread
    rest = sum((y - y0 - slope * (x - x0)) ** 2 for x, y in points)
    return slope, math.sqrt(rest / max(1, n - 2) / spread)


# --- in the process --------------------------------------------------------------------------------------------------


def soak(folder: Path, seconds: float, most: int, seed: int) -> None:
    """Round after round."""
    begun = time.monotonic()
    for number in range(most):
        if time.monotonic() - begun > seconds:
            break
        place = folder / "round"
        digest = one_round(place, seed, with_report=number % 10 == 0)
        shutil.rmtree(place)
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        megabytes = pages * resource.getpagesize() / 1e6
        measured = Round(time.monotonic() - begun, megabytes, len(os.listdir("/proc/self/fd")), digest)
        print(json.dumps(measured), flush=True)


def one_round(place: Path, seed: int, with_report: bool) -> str:
    """All that a user does with a run; its digest."""
    import mean_actor_critic as mac

    sizes = {"hidden": (8,), "minibatches": 2, "batch_size": 8, "replay_capacity": 100, "max_episode_steps": 20}
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        mac.train("CartPole-v0", trials=2, episodes=10, seed=seed, out=place / "run", progress=False, **sizes)
        run = mac.resume(place / "run", episodes=20, progress=False)
        mac.evaluate(run, 5)
        agent = run.agent(1)
        agent.save(place / "agent.safetensors")
        mac.evaluate(mac.Agent.load(place / "agent.safetensors"), 5)
        if with_report:
            mac.report(place / "run", place / "page", video=False)
    return run.digest


if __name__ == "__main__":
    soak(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
