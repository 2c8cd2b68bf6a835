"""Tables for the terminal and for files."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table
from rich.text import Text

from mean_actor_critic.errors import MacError
from mean_actor_critic.files import disk_faults, write_whole
from mean_actor_critic.reports.content import LAST, Content, Result
from mean_actor_critic.reports.digits import (
    decimals,
    decimals_of,
    exact,
    interval,
    interval_heading,
    rounded,
    with_interval,
)
from mean_actor_critic.reports.sources import printable
from mean_actor_critic.reports.statistics import Estimate, Summary, final_scores, summarise, trial_scores
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.learners import STEPS
from mean_actor_critic.studies.sweep import Sweep, is_sweep, scores

OF_PROBABILITIES = 2  # decimals


class Sheet(NamedTuple):
    """A table in words, for pages, papers and the terminal."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1  # columns of words, which stand to the left; numbers stand to the right

    def only(self, *columns: str) -> "Sheet":
        """The same with fewer columns."""
        places = [self.columns.index(column) for column in columns if column in self.columns]
        rows = [[row[place] for place in places] for row in self.rows]
        return self._replace(columns=[self.columns[place] for place in places], rows=rows)


def summary_cells(summary: Summary, digits: int | None = None) -> list[str]:
    """Mean, SD, interval and n as text, with so many decimals as stand in the same column, or as fit by themselves."""
    digits = decimals_of([summary]) if digits is None else digits
    return [rounded(summary.mean, digits), rounded(summary.sd, digits), interval(summary, digits), str(summary.n)]


def plain_table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    """An empty table: the first `left` columns to the left, numbers to the right."""
    table = Table(title=Text(printable(title)), title_justify="left", title_style="bold", header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right", no_wrap=i >= left, overflow="fold")
    return table


def terminal_table(sheet: Sheet) -> Table:
    """For the terminal."""
    table = plain_table(sheet.title, sheet.columns, sheet.left)
    for row in sheet.rows:
        table.add_row(*(Text(printable(cell)) for cell in row))  # not markup: names are shown as they are
    return table


def results_sheet(content: Content, episodes: int) -> Sheet:
    """What runs reached within some episodes, beside the paper's numbers. Columns without anything are left out."""
    task, results, digits = content.sources.task, content.results[episodes], content.digits
    cells = [summary_cells(result.mean, digits) for result in results]
    columns = {
        "Algorithm": [result.entry.label for result in results],
        "mean": [mean for mean, *_ in cells],
        "SD over trials": [sd for _, sd, *_ in cells],
        interval_heading(result.mean for result in results): [found for _, _, found, _ in cells],
        "paper": [f"{result.paper.mean} ± {result.paper.spread}" if result.paper else "" for result in results],
        "IQM": [with_interval(result.iqm, digits) for result in results],
        f"last {LAST}": [with_interval(result.final, digits) for result in results],
        f"episodes to {task.solved:g}" if task else "": [_to_threshold(result) for result in results],
        "trials": [result.trials_in_words for result in results],
        "P(MAC better)": [with_interval(result.better, OF_PROBABILITIES) for result in results],
        "p (Holm)": [_p_value(result) for result in results],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [[cell or "–" for cell in row] for row in zip(*shown.values(), strict=True)]
    return Sheet(f"{content.title}: mean return over {episodes} episodes", list(shown), rows)


def results_rows(content: Content) -> list[list[Any]]:
    """The same with all digits, for files: a row for each run and number of episodes."""
    header = ["algorithm", "episodes", "mean", "sd", "low", "high", "trials", "diverged", "paper_mean"]
    header += ["iqm", "iqm_low", "iqm_high", f"last_{LAST}", f"last_{LAST}_low", f"last_{LAST}_high"]
    header += ["episodes_to_solve", "episodes_to_solve_low", "episodes_to_solve_high", "solved"]
    header += ["mac_better", "mac_better_low", "mac_better_high", "mac_ahead", "p", "p_holm", "paired", "label", "run"]
    rows: list[list[Any]] = [[*header]]
    for episodes, results in content.results.items():
        for result in results:
            entry, mean, final, ahead = result.entry, result.mean, result.final, result.ahead
            paper = result.paper.mean if result.paper else ""
            rows.append(
                [
                    *(entry.algorithm, episodes, *_digits(mean.mean, mean.sd, mean.low, mean.high)),
                    *(mean.n, result.diverged, paper),
                    *_digits(result.iqm.mean, result.iqm.low, result.iqm.high),
                    *(_digits(final.mean, final.low, final.high) if final else ("", "", "")),
                    *_estimate(result.to_threshold),
                    "" if result.to_threshold is None else result.solved,
                    *_estimate(result.better),
                    *((*_digits(ahead.difference), f"{ahead.p:.3g}", f"{ahead.p_holm:.3g}") if ahead else ("", "", "")),
                    *((int(result.paired),) if ahead else ("",)),
                    *(entry.label, entry.source.name),
                ]
            )
    return rows


def _digits(*values: float) -> list[str]:
    return [exact(value) for value in values]


def _estimate(estimate: Estimate | None) -> list[str]:
    return ["", "", ""] if estimate is None else _digits(*estimate)


def _p_value(result: Result) -> str:
    if result.ahead is None:
        return ""
    p = result.ahead.p_holm
    return "–" if np.isnan(p) else ("<0.001" if p < 0.001 else f"{p:.3f}")


def _to_threshold(result: Result) -> str:
    """The median over trials; where most never get there, how many do."""
    median = result.to_threshold
    if median is None:
        return ""
    if not np.isfinite(median.value):
        return f"never; {result.solved}/{result.mean.n} do" if result.solved else "never"
    return with_interval(median, 0).replace("inf", "never")


def run_table(run: Run) -> Table:
    """What came out of one run, over the episodes that all of its trials have."""
    experiment = run.experiment
    returns = run.returns[:, : int(run.episodes_done.min())]
    episodes = returns.shape[1]
    rows = {f"all {episodes} episodes": summarise(trial_scores(returns))} if episodes else {}
    if episodes > LAST:
        rows[f"the last {LAST}"] = summarise(final_scores(returns, LAST))
    digits = decimals_of(rows.values())
    title = f"{experiment.environment}, {algorithm_of(experiment.algorithm).title}, seed {experiment.seed}"
    columns = ["Mean return of", "mean", "SD over trials", interval_heading(rows.values()), "trials"]
    return terminal_table(Sheet(title, columns, [[name, *summary_cells(row, digits)] for name, row in rows.items()]))


def diverged_line(run: Run) -> str | None:
    """A line about trials that diverged, if any."""
    count = int(np.sum(run.diverged_at > 0))
    if not count:
        return None
    unit = "update" if run.experiment.counts_updates else "episode"
    shown = [f"{trial} ({unit} {run.diverged_at[trial]})" for trial in np.flatnonzero(run.diverged_at)]
    listed = ", ".join(shown[:10]) + (", …" if count > 10 else "")
    return f"{count} of {run.experiment.trials} trials diverged and were frozen, and count in the table: {listed}"


def runs_table(folder: Path) -> tuple[Table, int]:
    """All runs and sweeps below a folder, and how many there are. Of what cannot be read, it says why."""
    files = (file for name in ("manifest.json", "sweep.json") for file in folder.rglob(name))
    found = sorted({file.parent for file in files})
    rows = []
    for path in found:
        try:
            with disk_faults(path, "read"):
                cells = _sweep_cells(Sweep.load(path)) if is_sweep(path) else _run_cells(Run.load(path))
        except MacError as fault:
            cells = ["", "", f"damaged: {fault}", "", "", "", ""]
        rows.append([str(path.relative_to(folder)), *cells])
    latest = f"of the last {LAST} episodes, of the last evaluation, or of a sweep’s best setting by its rule"
    title = f"Runs in {folder}; latest mean: {latest}"
    columns = ["run", "environment", "algorithm", "status", "trials", "so far", "latest mean", "diverged"]
    return terminal_table(Sheet(title, columns, rows, left=4)), len(found)


def _run_cells(run: Run) -> list[str]:
    experiment = run.experiment
    status = "finished" if run.finished else "unfinished"
    lost = str(int(np.sum(run.diverged_at > 0)))
    words = [experiment.environment, experiment.algorithm, status, str(experiment.trials)]
    return [*words, *extent_and_mean(run), lost]


def _sweep_cells(sweep: Sweep) -> list[str]:
    plan = sweep.plan
    outcomes = sweep.outcomes()
    planned = sum(len(sweep.points(algorithm)) for algorithm in plan.algorithms)
    best = max(
        (float(np.mean(scores(won.returns, plan.rule))) for won in sweep.winners().values()), default=float("nan")
    )
    lost = sum(int(np.sum(outcome.diverged_at > 0)) for outcome in outcomes)
    return [
        plan.environment,
        ", ".join(plan.algorithms),
        "sweep, finished" if sweep.finished else "sweep, unfinished",
        str(plan.rungs[-1].trials),
        f"{len(outcomes)} of {planned} settings",
        rounded(best, decimals([best])),
        str(lost),
    ]


def in_millions(steps: int) -> str:
    """Agent steps for people."""
    return f"{steps / 1e6:.4g}M" if steps >= 10**5 else str(steps)


def extent_and_mean(run: Run) -> tuple[str, str]:
    """How far a run is, in the unit of its budget, and what it came to lately."""
    unit, amount = run.experiment.budget
    done = int((run.steps_done if unit == STEPS else run.episodes_done).min())
    shown = [in_millions(count) if unit == STEPS else str(count) for count in (done, amount)]
    mean = float(np.mean(run.latest))
    return f"{shown[0]}/{shown[1]} {unit}", rounded(mean, decimals([mean]))


def write_csv(file: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write rows, the header first. No cell is a formula to a spreadsheet, whatever somebody called their run."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([[_harmless(cell) for cell in row] for row in rows])
    write_whole(file, text.getvalue().encode())


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
