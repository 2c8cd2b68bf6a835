"""Attack the installed package in every way that is known here, and count what it does not survive.

It runs `mac` in processes of their own, and readers and parsers by the thousand in watched ones. Everything follows
from the seed: each finding names the command that repeats it. The exit code is 1 if anything was found, 130 after
SIGINT, which ends the campaign with the table so far. Nothing is left behind, and only what was started here is ended.
"""

import argparse
import functools
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from chaos import (
    configurations,
    crashes,
    environments,
    executions,
    files,
    kills,
    neighbours,
    resources,
    soak,
)
from chaos.harness import LEFT, Budget, Kind, end_marked, marked
from chaos.results import Row, findings_of, next_number, record, table
from chaos.tally import Finding, Tally, tally_of

KINDS: dict[str, Kind] = {
    module.NAME: module.KIND
    for module in (kills, crashes, files, configurations, executions, environments, resources, neighbours, soak)
}
ROUND = 600.0  # seconds, of all kinds together: what was found is written down after each one
# Where files are written by the thousand: a disk would be what is tested. What is synced is tested by crash points.
IN_MEMORY = next((folder for folder in ("/dev/shm",) if os.access(folder, os.W_OK)), None)
LEAST = 5.0  # seconds that a kind gets in a round, if there are so many


def campaign(
    kinds: list[Kind], n: float, seconds: float, seed: int, jobs: int, firsts: dict[str, int], stop: threading.Event,
    to: Path | None = None,
) -> list[Row]:  # fmt: skip
    """All kinds in turn, round after round, until there were enough faults of each or the time is over."""
    ends = time.monotonic() + seconds
    totals = {kind.name: Tally(next_number=firsts[kind.name]) for kind in kinds}
    spent = dict.fromkeys(totals, 0.0)
    wanted = {kind.name: max(1, round(n * kind.usual)) for kind in kinds}
    idle: set[str] = set()  # that try nothing here
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=IN_MEMORY) as folder:
        while True:
            open_ones = [
                kind for kind in kinds if totals[kind.name].tried < wanted[kind.name] and kind.name not in idle
            ]
            if not open_ones or time.monotonic() >= ends or stop.is_set():
                break
            shares = sum(kind.share for kind in open_ones)
            length = min(ROUND, ends - time.monotonic())
            for kind in open_ones:
                before = totals[kind.name]
                begun = time.monotonic()
                until = min(ends, begun + max(LEAST, length * kind.share / shares))
                left = wanted[kind.name] - before.tried
                tell(f"{kind.name}: {kind.tries}; up to {left:,} more, {max(0.0, until - begun):.0f} s")
                budget = Budget(before.next_number, left, until, jobs, Path(folder), stop)
                tally = kind.run(budget, seed) if budget.goes_on(0) else Tally(next_number=before.next_number)
                took = time.monotonic() - begun
                spent[kind.name] += took
                totals[kind.name] = before + tally
                for line in findings_of([(kind.name, tally, took)]):
                    tell(line)
                if to is not None and tally.tried:
                    record(to, (kind.name, tally, took), seed, before.next_number, command(), versions())
                if not tally.tried:
                    idle.add(kind.name)
    return [(name, tally, spent[name]) for name, tally in totals.items()]


def repeated(kind: Kind, seed: int, number: int) -> Row:
    """A single attempt again."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=IN_MEMORY) as folder:
        budget = Budget(number, 1, begun + 3600, 1, Path(folder), threading.Event())
        return kind.name, kind.run(budget, seed), time.monotonic() - begun


def tell(line: str) -> None:
    """A line for people."""
    print(line, file=sys.stderr, flush=True)


def command() -> str:
    """What was typed, for those who want to do it again."""
    return shlex.join(["python", "-m", "chaos", *sys.argv[1:]])


@functools.cache
def versions() -> dict[str, str]:
    """Which code was attacked."""
    from mean_actor_critic import __file__, __version__

    asked = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return {"mean_actor_critic": __version__, "commit": done.stdout.strip() or "unknown"}


def arguments(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    kinds = "\n".join(f"  {kind.name:16}{kind.tries} ({kind.usual:,})" for kind in KINDS.values())
    parser = argparse.ArgumentParser(
        "python -m chaos",
        description=__doc__,
        epilog=f"kinds, and how many faults of each by default:\n{kinds}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", nargs="*", metavar="KIND", help="kinds of faults (default: all)")
    parser.add_argument("--n", type=float, default=1.0, help="times the usual number of each kind (default: 1)")
    parser.add_argument("--seconds", type=float, default=1200.0, help="at most, for all together (default: 1200)")
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument("--number", type=int, metavar="I", help="repeat this attempt of one kind, and nothing else")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="at a time (default: one per core)"
    )
    parser.add_argument(
        "--to", metavar="FILE", type=Path,
        help="a page such as results/chaos.md: what comes out is added to what is there, and numbers go on from there",
    )  # fmt: skip
    options = parser.parse_args(words)
    for name in options.kind:
        if name not in KINDS:
            parser.error(f"KIND: {name!r} is none of {', '.join(KINDS)}")
    if options.number is not None and len(options.kind) != 1:
        parser.error("--number: goes with one kind")
    if options.jobs < 1 or options.n <= 0 or options.seconds <= 0:
        parser.error("--jobs, --n and --seconds: are above 0")
    return options


def main(words: list[str] | None = None) -> int:
    """The campaign, its table, and whether all was survived."""
    options = arguments(words)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    kinds = [KINDS[name] for name in options.kind or KINDS]
    if options.number is not None:
        rows = [repeated(kinds[0], options.seed, options.number)]
    else:
        firsts = {kind.name: next_number(options.to, kind.name, options.seed) if options.to else 0 for kind in kinds}
        rows = campaign(kinds, options.n, options.seconds, options.seed, options.jobs, firsts, stop, options.to)
    if left := marked(f"{os.getpid()}/"):
        end_marked(f"{os.getpid()}/")
        found = Finding(LEFT, "processes outlived the campaign", "campaign", options.seed, 0, str(left))
        rows.append(("campaign", tally_of(0, [found], 0), 0.0))
    for line in [*table(rows), *findings_of(rows), *(f"- {note}" for _, tally, _ in rows for note in tally.notes)]:
        print(line)
    if options.number is not None:
        for finding in rows[0][1].findings:
            print(finding.details)
    if stop.is_set():
        return 130
    return 0 if all(tally.survived for _, tally, _ in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
