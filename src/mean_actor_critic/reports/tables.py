"""Tables for the terminal and for files."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.markup import escape
from rich.table import Table

from mean_actor_critic.errors import MacError
from mean_actor_critic.files import write_whole
from mean_actor_critic.reports.content import LAST, Content, Result
from mean_actor_critic.reports.statistics import Estimate, Summary, final_scores, interval_text, summarise, trial_scores
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.paper import Task


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


def summary_cells(summary: Summary) -> list[str]:
    """Mean, SD, interval and n as text."""
    sd = f"{summary.sd:.1f}" if np.isfinite(summary.sd) else "–"
    return [f"{summary.mean:.1f}", sd, summary.interval, str(summary.n)]


def plain_table(title: str, columns: Sequence[str], left: int = 1) -> Table:
    """An empty table: the first `left` columns to the left, numbers to the right."""
    table = Table(title=escape(title), title_justify="left", title_style="bold", header_style="bold")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < left else "right", no_wrap=i >= left, overflow="fold")
    return table


def terminal_table(sheet: Sheet) -> Table:
    """For the terminal."""
    table = plain_table(sheet.title, sheet.columns, sheet.left)
    for row in sheet.rows:
        table.add_row(*map(escape, row))
    return table


def results_sheet(title: str, task: Task | None, episodes: int, results: Sequence[Result]) -> Sheet:
    """What runs reached within some episodes, beside the paper's numbers. Columns without anything are left out."""
    columns = {
        "Algorithm": [result.entry.label for result in results],
        "mean": [f"{result.mean.mean:.1f}" for result in results],
        "SD over trials": [summary_cells(result.mean)[1] for result in results],
        "95 % interval": [result.mean.interval for result in results],
        "paper": [f"{result.paper.mean} ± {result.paper.spread}" if result.paper else "" for result in results],
        "IQM": [_with_interval(result.iqm) for result in results],
        f"last {LAST}": [_with_interval(result.final) for result in results],
        f"episodes to {task.solved:g}" if task else "": [_to_threshold(result) for result in results],
        "trials": [result.trials_in_words for result in results],
        "P(MAC better)": [probability_in_words(result.better) for result in results],
        "p (Holm)": [_p_value(result) for result in results],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [[cell or "–" for cell in row] for row in zip(*shown.values(), strict=True)]
    return Sheet(f"{title}: mean return over {episodes} episodes", list(shown), rows)


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
    return [f"{value:.3f}" if np.isfinite(value) else "" for value in values]


def _estimate(estimate: Estimate | None) -> list[str]:
    if estimate is None:
        return ["", "", ""]
    return [f"{value:.3f}" if not np.isnan(value) else "" for value in (estimate.value, estimate.low, estimate.high)]


def _with_interval(summary: Summary | None) -> str:
    return "" if summary is None else f"{summary.mean:.1f} {summary.interval}".removesuffix(" –")


def probability_in_words(estimate: Estimate | None) -> str:
    """With its interval; nothing of nothing."""
    if estimate is None:
        return ""
    return f"{estimate.value:.2f} {interval_text(estimate.low, estimate.high, 2)}".removesuffix(" –")


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
    interval = interval_text(median.low, median.high, 0).replace("inf", "never")
    return f"{median.value:.0f} {interval}".removesuffix(" –")


def run_table(run: Run) -> Table:
    """What came out of one run."""
    experiment = run.experiment
    table = plain_table(
        f"{experiment.environment}, {ALGORITHMS[experiment.algorithm].title}, seed {experiment.seed}",
        ["Mean return of", "mean", "SD over trials", "95 % interval", "trials"],
    )
    table.add_row(f"all {experiment.episodes} episodes", *summary_cells(summarise(trial_scores(run.returns))))
    if experiment.episodes > LAST:
        table.add_row(f"the last {LAST}", *summary_cells(summarise(final_scores(run.returns, LAST))))
    return table


def diverged_line(run: Run | AtariRun) -> str | None:
    """A line about trials that diverged, if any."""
    count = int(np.sum(run.diverged_at > 0))
    if not count:
        return None
    unit = "update" if isinstance(run, AtariRun) else "episode"
    shown = [f"{trial} ({unit} {run.diverged_at[trial]})" for trial in np.flatnonzero(run.diverged_at)]
    listed = ", ".join(shown[:10]) + (", …" if count > 10 else "")
    return f"{count} of {run.experiment.trials} trials diverged and were frozen, and count in the table: {listed}"


def runs_table(folder: Path) -> tuple[Table, int]:
    """All runs below a folder, and how many there are. Damaged ones are listed with what is wrong."""
    table = plain_table(
        f"Runs in {folder}; latest mean: of the last {LAST} episodes, or of the last evaluation",
        ["run", "environment", "algorithm", "status", "trials", "so far", "latest mean", "diverged"],
        left=4,
    )
    found = sorted({file.parent for file in folder.rglob("manifest.json")})
    for path in found:
        name = escape(str(path.relative_to(folder)))
        try:
            run = load_run(path)
        except MacError as fault:
            table.add_row(name, "", "", escape(f"damaged: {fault}"), "", "", "", "")
            continue
        extent, mean = extent_and_mean(run)
        table.add_row(
            name,
            run.experiment.environment,
            run.experiment.algorithm,
            "finished" if run.finished else "unfinished",
            str(run.experiment.trials),
            extent,
            mean,
            str(int(np.sum(run.diverged_at > 0))),
        )
    return table, len(found)


def in_millions(steps: int) -> str:
    """Agent steps for people."""
    return f"{steps / 1e6:.4g}M" if steps >= 10**5 else str(steps)


def extent_and_mean(run: Run | AtariRun) -> tuple[str, str]:
    """How far a run is, in episodes or agent steps, and what it came to lately."""
    if isinstance(run, AtariRun):
        done, total = (in_millions(steps) for steps in (int(run.steps_done.min()), run.experiment.steps))
        mean = float(np.mean(run.final_scores))
        return f"{done}/{total} steps", "–" if np.isnan(mean) else f"{mean:.1f}"
    episodes = int(run.episodes_done.min())
    mean_of = run.returns[:, max(0, episodes - LAST) : episodes]
    return f"{episodes}/{run.experiment.episodes} episodes", f"{np.mean(mean_of):.1f}" if episodes else "–"


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
