"""Neighbours: many processes on one folder at once. One writes, the others are refused in one line; readers read.

What is there in the end is what a single undisturbed process would have written.
"""

import contextlib
import sys
from pathlib import Path

from chaos.environments import one_line
from chaos.harness import (
    MAC,
    Attempt,
    Budget,
    Ended,
    Kind,
    Outcome,
    complaints,
    finished,
    leftovers,
    one_by_one,
    ran,
    started,
)
from chaos.kills import OUT, TRAP, Undisturbed, Victim, digests
from chaos.tally import LOST, MISMATCH, Finding, Tally

NAME = "neighbours"
WRITERS = (3, 8)  # fewest and most
_WORDS = ("train", "CartPole-v0", "--trials", "2", "--episodes", "400", "--evaluate-every", "200",
          "--checkpoint-seconds", "0.05", "--set", "hidden=16", "minibatches=2", "batch_size=8", "replay_capacity=200",
          "--out", OUT)  # fmt: skip
VICTIM = Victim("neighbours", _WORDS, ("resume", OUT))
READERS = (
    ("runs", "."),
    ("runs", OUT),
    ("export", OUT, "--out", "agent.safetensors"),
    ("report", OUT, "--no-video", "--out", "page"),
)
REFUSALS = ("is being written by", "an empty or new folder", "only begun")  # what a process that comes second is told


def run(budget: Budget, seed: int) -> Tally:
    """Many at once."""
    undisturbed = Undisturbed(budget)
    return one_by_one(NAME, lambda this: attempt(this, undisturbed), budget._replace(jobs=1), seed)


KIND = Kind(NAME, "several processes on one folder at once, writers and readers", 20, 0.1, run)


def attempt(this: Attempt, undisturbed: Undisturbed) -> Outcome:
    """Writers that all begin a run, or all go on with it, and readers among them."""
    draw = this.random
    whole = undisturbed.of(VICTIM, this)
    if whole is None:
        return Outcome(0, [this.found(LOST, "an undisturbed run fails")])
    out = this.folder / OUT
    words = _WORDS
    if draw.random() < 0.5:  # a run that was killed, which all go on with
        event = draw.randint(whole.events // 3, max(2, whole.events // 2))
        ran(this, [sys.executable, TRAP, event, 0, this.folder / "events", "--", *_WORDS, "--quiet"], 4 * whole.seconds)
        words = ("resume", OUT) if (out / "manifest.json").exists() else _WORDS
    jobs = [(*words, "--quiet")] * draw.randint(*WRITERS) + draw.sample(READERS, draw.randint(0, 2))
    draw.shuffle(jobs)
    with contextlib.ExitStack() as stack:
        processes = [stack.enter_context(started(this, [*MAC, *job], name=str(i))) for i, job in enumerate(jobs)]
        seconds = 4 * whole.seconds * len(jobs)
        ends = [finished(this, process, seconds, str(i)) for i, process in enumerate(processes)]
    findings = []
    for job, ended in zip(jobs, ends, strict=True):
        what = f"{job[0]} among neighbours"
        findings += [*complaints(this, ended, (0, 2), what), *one_line(this, ended.code, ended.err, what)]
    writers = [ended for job, ended in zip(jobs, ends, strict=True) if job[0] == words[0]]
    findings += [*of_writers(this, writers, words[0] == "train"), *of_result(this, out, whole.digests)]
    return Outcome(len(jobs), findings)


def of_writers(this: Attempt, ends: list[Ended], new: bool) -> list[Finding]:
    """One writes a new run; one that was begun can be gone on with again when it is done, which changes nothing."""
    done = [ended for ended in ends if ended.code == 0]
    findings = []
    if not done or (new and len(done) > 1):
        errors = [ended.err[-200:] for ended in ends]
        findings.append(this.found(LOST, f"{len(done) or 'no'} writers of one folder" if new else "no writer", errors))
    others = [ended for ended in ends if ended.code == 2 and not any(words in ended.err for words in REFUSALS)]
    return [*findings, *(this.found(LOST, "refused for another reason", ended.err) for ended in others)]


def of_result(this: Attempt, out: Path, digest: dict[str, str]) -> list[Finding]:
    """What all of them together have left."""
    there = digests(out) if (out / "manifest.json").exists() else {}
    findings = [this.found(MISMATCH, "other results", there)] if there != digest else []
    findings += [this.found(LOST, "set aside as damaged", path) for path in out.rglob("*.damaged")]
    return [*findings, *leftovers(this, out)]
