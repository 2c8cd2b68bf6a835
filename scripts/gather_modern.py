"""Gathers the general learner's study from reports made on any machine: `python scripts/gather_modern.py REPORT …`.

The study takes days. Each REPORT is a folder that `mac reproduce modern` or `mac report` wrote of several runs; its
`evaluations.csv` has every evaluation of every trial. They are put into results/modern/evaluations.csv, a task and
variant replacing what was there of the same, and the tables of results/modern/README.md are written anew from that
file alone.
"""

import csv
import io
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mean_actor_critic.files import write_whole
from mean_actor_critic.reports.digits import decimals_of, interval, rounded
from mean_actor_critic.reports.statistics import Summary, differences, summarise
from mean_actor_critic.spec import modern
from mean_actor_critic.spec.algorithms import algorithm_of

RESULTS = Path(__file__).parent.parent / "results" / "modern"
MARK = "<!-- tables: written by scripts/gather_modern.py -->\n"
MOMENTS = {  # agent steps after which somebody has said what to expect
    "cart-pole": (4_000, 8_000, 12_000, 20_000, 50_000),
    "acrobot": (4_000, 8_000, 50_000),
    "mountain-car": (8_400, 12_000, 30_000),
    "lunar-lander": (20_000, 40_000, 60_000, 100_000, 140_000, 200_000, 300_000),
    "frozen-lake": (20_000, 50_000),
    "frozen-lake-not-slippery": (8_000,),
    "cliff-walking": (10_000, 20_000),
    "taxi": (20_000, 50_000, 100_000),
}
Row = dict[str, str]
Variant = tuple[str, str, str]  # title of the task, algorithm, the setting that was changed


def variant_of(row: Row) -> Variant:
    return row["task"], row["algorithm"], row["changed"]


def place(variant: Variant) -> tuple[int, ...]:
    """Of the study's order."""
    task, algorithm, changed = variant
    part = changed.partition("=")[0]
    titles = [known.title for known in modern.TASKS.values()]
    parts = list(modern.PARTS)
    return (
        titles.index(task) if task in titles else len(titles),
        1 + parts.index(part) if part in parts else 0,
        modern.TWINS.index(algorithm),
    )


def gathered(folders: Sequence[Path]) -> dict[Variant, list[Row]]:
    """The evaluations of each variant, those of later folders in the place of earlier ones."""
    found: dict[Variant, list[Row]] = {}
    for folder in folders:
        file = folder / "evaluations.csv"
        if not file.exists():
            continue
        rows = list(csv.DictReader(file.read_text().splitlines()))
        found |= {variant: list(own) for variant, own in itertools.groupby(rows, variant_of)}
    return {variant: found[variant] for variant in sorted(found, key=place)}


def nearest(rows: Sequence[Row], moment: int) -> int | None:
    """The agent steps after which there is an evaluation nearest to a moment; None if that is more than a tenth off."""
    steps = min({int(row["steps"]) for row in rows}, key=lambda step: abs(step - moment))
    return steps if abs(steps - moment) <= moment / 10 else None


def at(rows: Sequence[Row], steps: int, kind: str) -> np.ndarray:
    """The means of a kind of evaluation [trials] after so many steps."""
    return np.array([float(row[kind]) for row in rows if int(row["steps"]) == steps])


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(header) - 1)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (header, ruler, *rows))


def mac_table(found: dict[Variant, list[Row]]) -> str:
    """What the general learner reaches on each task."""
    lines = []
    for name, task in modern.TASKS.items():
        rows = found.get((task.title, "mac", ""))
        if not rows:
            continue
        for moment in MOMENTS.get(name, (task.steps,)):
            steps = nearest(rows, moment)
            if steps is None:
                continue
            greedy, sampled = (at(rows, steps, kind) for kind in ("greedy", "sampled"))
            summaries = [summarise(greedy), summarise(sampled)]
            digits = decimals_of(summaries)
            cells = [f"{rounded(s.mean, digits)} {interval(s, digits)}" for s in summaries]
            worst = [rounded(float(values.min()), digits) for values in (greedy, sampled)]
            lines.append([task.title, f"{steps:,}", cells[0], worst[0], cells[1], worst[1], str(len(greedy))])
    return table(["task", "after steps", "greedy", "worst trial", "sampled", "worst trial", "trials"], lines)


def over_training(rows: Sequence[Row], steps: set[str], kind: str) -> np.ndarray:
    """The mean of each trial's evaluations of a kind [trials]: what decides between variants, by the greedy ones."""
    trials = sorted({int(row["trial"]) for row in rows})
    own = [
        [float(row[kind]) for row in rows if int(row["trial"]) == trial and row["steps"] in steps] for trial in trials
    ]
    return np.array([np.mean(values) for values in own])


def against(ours: Sequence[Row], rows: Sequence[Row], steps: set[str], kind: str) -> list[str]:
    """By one kind of the evaluations after some steps: MAC's mean, the other's, their difference, and a verdict."""
    values = [over_training(each, steps, kind) for each in (ours, rows)]
    n = min(map(len, values))
    both: list[Summary] = [summarise(each) for each in values]
    digits = decimals_of(both)
    (difference,) = differences(values[0][:n], [values[1][:n]], [True])
    verdict = "ahead" if difference.low > 0 else "behind" if difference.high < 0 else "no difference shows"
    gap, low, high = (rounded(x, digits) for x in (difference.difference, difference.low, difference.high))
    means = [rounded(s.mean, digits) for s in both]
    return [f"{max(map(int, steps)):,}", *means, f"{gap} [{low}, {high}]", str(n), verdict]


def against_table(found: dict[Variant, list[Row]]) -> str:
    """MAC against its twins, and against itself with a part switched off, on the tasks that have both."""
    lines = []
    for (title, algorithm, changed), rows in found.items():
        ours = found.get((title, "mac", ""))
        steps = {row["steps"] for row in ours or ()} & {row["steps"] for row in rows}  # that both were evaluated after
        if not ours or not steps or (algorithm, changed) == ("mac", ""):
            continue
        name = algorithm_of(algorithm).title + (f", {changed}" if changed else "")
        lines += [[title, name, kind, *against(ours, rows, steps, kind)] for kind in ("greedy", "sampled")]
    header = [
        "task",
        "against",
        "evaluations",
        "until step",
        "MAC, over training",
        "this",
        "difference",
        "trials",
        "MAC is",
    ]
    return table(header, lines) if lines else "No twin was trained yet.\n"


def main(arguments: Sequence[str]) -> None:
    reports = [Path(argument) for argument in arguments]
    for report in reports:
        if not (report / "evaluations.csv").exists():
            sys.exit(f"{report}: has no evaluations.csv, as reports of several runs on tasks do: mac report RUN RUN …")
    found = gathered([RESULTS, *reports])
    text = io.StringIO()
    rows = [row for own in found.values() for row in own]
    columns = [name for name in rows[0] if name != "run"]  # a folder of the machine that it was trained on
    lines = csv.DictWriter(text, columns, extrasaction="ignore", lineterminator="\n")
    lines.writeheader()
    lines.writerows(rows)
    write_whole(RESULTS / "evaluations.csv", text.getvalue().encode())
    page = RESULTS / "README.md"
    before = page.read_text().partition(MARK)[0]
    reached = f"## What the one setting reaches\n\n{mac_table(found)}"
    against = f"## MAC against its twins and its parts\n\n{against_table(found)}"
    write_whole(page, f"{before}{MARK}\n{reached}\n{against}".encode())


if __name__ == "__main__":
    main(sys.argv[1:])
