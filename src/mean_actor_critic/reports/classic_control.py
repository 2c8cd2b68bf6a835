"""A classic-control study as tables, files and one sentence."""

import itertools
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from rich.table import Table

from mean_actor_critic.experiment import ALGORITHMS
from mean_actor_critic.reports.plots import learning_curves
from mean_actor_critic.reports.statistics import Summary, summarise, trial_scores
from mean_actor_critic.reports.tables import plain_table, summary_cells, write_csv
from mean_actor_critic.run import Run
from mean_actor_critic.studies.paper import Task


def budgets(task: Task, runs: Mapping[str, Run]) -> list[int]:
    """The episode counts to report at: the usual ones that were reached, and the whole."""
    episodes = min(run.experiment.episodes for run in runs.values())
    return sorted({*(budget for budget in task.budgets if budget < episodes), episodes})


def scores(runs: Mapping[str, Run], episodes: int) -> dict[str, Summary]:
    """Mean over the first `episodes` and all trials, by algorithm."""
    return {name: summarise(trial_scores(run.returns, episodes)) for name, run in runs.items()}


def diverged(run: Run, episodes: int) -> int:
    """Trials that diverged within the first `episodes`."""
    return int(np.sum((run.diverged_at > 0) & (run.diverged_at <= episodes)))


def tables(task: Task, runs: Mapping[str, Run]) -> list[Table]:
    """A table for each budget, best first, beside the paper's numbers."""
    made = []
    for budget in budgets(task, runs):
        table = plain_table(
            f"{task.title}: mean return over {budget} episodes",
            ["Algorithm", "mean", "SD over trials", "95 % interval", "trials", "diverged", "paper"],
        )
        for name, summary in sorted(scores(runs, budget).items(), key=lambda item: -item[1].mean):
            published = task.scores[name]
            table.add_row(
                ALGORITHMS[name].title,
                *summary_cells(summary),
                str(diverged(runs[name], budget)),
                f"{published.mean} ± {published.spread}",
            )
        made.append(table)
    return made


def verdict(task: Task, runs: Mapping[str, Run]) -> str:
    """The answer in one sentence, whichever it is."""
    budget = budgets(task, runs)[-1]
    ranked = sorted(scores(runs, budget).items(), key=lambda item: -item[1].mean)
    order = "".join(
        f"{ALGORITHMS[name].title} {summary.mean:.1f}{' > ' if summary.low > worse.high else ' ~ '}"
        for (name, summary), (_, worse) in itertools.pairwise(ranked)
    )
    last, summary = ranked[-1]
    order += f"{ALGORITHMS[last].title} {summary.mean:.1f}"
    overlap = " (~: the intervals overlap)" if "~" in order else ""
    papers = sorted(runs, key=lambda name: -task.scores[name].mean)
    agreement = "the same" if [name for name, _ in ranked] == papers else "another"
    return f"Over {budget} episodes: {order}{overlap}. The paper reports {agreement} order."


def write(task: Task, runs: Mapping[str, Run], folder: Path) -> list[Path]:
    """Write table.csv, curves.csv and learning-curves.png below `folder`; returns the files."""
    table, curves, figure = (folder / name for name in ("table.csv", "curves.csv", "learning-curves.png"))
    write_csv(table, _table_rows(task, runs))
    write_csv(curves, _curve_rows(runs))
    trials = min(run.experiment.trials for run in runs.values())
    title = f"{task.title}, mean of {trials} trials with 95 % bands"
    learning_curves({name: run.returns for name, run in runs.items()}, title, figure)
    return [table, curves, figure]


def _table_rows(task: Task, runs: Mapping[str, Run]) -> list[list[object]]:
    header = ["algorithm", "episodes", "mean", "sd", "low", "high", "trials", "diverged", "paper_mean"]
    rows: list[list[object]] = [[*header]]
    for budget in budgets(task, runs):
        for name, summary in scores(runs, budget).items():
            numbers = [f"{x:.3f}" for x in (summary.mean, summary.sd, summary.low, summary.high)]
            paper = task.scores[name].mean
            rows.append([name, budget, *numbers, summary.n, diverged(runs[name], budget), paper])
    return rows


def _curve_rows(runs: Mapping[str, Run]) -> list[list[object]]:
    """Mean and standard deviation over trials of every episode's return."""
    rows: list[list[object]] = [["algorithm", "episode", "mean", "sd"]]
    for name, run in runs.items():
        spread = np.std(run.returns, axis=0, ddof=1) if run.experiment.trials > 1 else np.zeros(run.experiment.episodes)
        for episode, (mean, sd) in enumerate(zip(np.mean(run.returns, axis=0), spread, strict=True), start=1):
            rows.append([name, episode, f"{mean:.2f}", f"{sd:.2f}"])
    return rows
