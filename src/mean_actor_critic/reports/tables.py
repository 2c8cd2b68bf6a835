"""Tables for the terminal and for files."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape
from rich.table import Table

from mean_actor_critic.errors import MacError
from mean_actor_critic.experiment import ALGORITHMS
from mean_actor_critic.reports.statistics import Summary, summarise, trial_scores
from mean_actor_critic.run import Run
from mean_actor_critic.store import write_whole

LAST = 100  # episodes that "last" means in tables


def summary_cells(summary: Summary) -> list[str]:
    """Mean, SD, interval and n as text."""
    sd = f"{summary.sd:.1f}" if np.isfinite(summary.sd) else "–"
    return [f"{summary.mean:.1f}", sd, summary.interval, str(summary.n)]


def plain_table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    """An empty table: the first `left` columns to the left, numbers to the right."""
    table = Table(title=escape(title), title_justify="left", title_style="bold", header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right", no_wrap=i >= left)
    return table


def run_table(run: Run) -> Table:
    """What came out of one run."""
    experiment = run.experiment
    table = plain_table(
        f"{experiment.setup.environment}, {ALGORITHMS[experiment.setup.algorithm].title}, seed {experiment.seed}",
        ["Mean return of", "mean", "SD over trials", "95 % interval", "trials"],
    )
    table.add_row(f"all {experiment.episodes} episodes", *summary_cells(summarise(trial_scores(run.returns))))
    if experiment.episodes > LAST:
        table.add_row(f"the last {LAST}", *summary_cells(summarise(trial_scores(run.returns[:, -LAST:]))))
    return table


def diverged_line(run: Run) -> str | None:
    """A line about trials that diverged, if any."""
    count = int(np.sum(run.diverged_at > 0))
    if not count:
        return None
    shown = [f"{trial} (episode {run.diverged_at[trial]})" for trial in np.flatnonzero(run.diverged_at)]
    listed = ", ".join(shown[:10]) + (", …" if count > 10 else "")
    return f"{count} of {run.experiment.trials} trials diverged and were frozen, and count in the table: {listed}"


def runs_table(folder: Path) -> tuple[Table, int]:
    """All runs below a folder, and how many there are. Damaged ones are listed with what is wrong."""
    table = plain_table(
        f"Runs in {folder}",
        ["run", "environment", "algorithm", "status", "trials", "episodes", f"mean of last {LAST}", "diverged"],
        left=4,
    )
    found = sorted({file.parent for file in folder.rglob("manifest.json")})
    for path in found:
        name = escape(str(path.relative_to(folder)))
        try:
            run = Run.load(path)
        except MacError as fault:
            table.add_row(name, "", "", escape(f"damaged: {fault}"), "", "", "", "")
            continue
        done = int(run.episodes_done.min())
        mean = f"{np.mean(run.returns[:, max(0, done - LAST) : done]):.1f}" if done else "–"
        table.add_row(
            name,
            run.experiment.setup.environment,
            run.experiment.setup.algorithm,
            "finished" if run.finished else "unfinished",
            str(run.experiment.trials),
            f"{done}/{run.experiment.episodes}",
            mean,
            str(int(np.sum(run.diverged_at > 0))),
        )
    return table, len(found)


def write_csv(file: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows, the header first."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    write_whole(file, text.getvalue().encode())
