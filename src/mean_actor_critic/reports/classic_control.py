"""A classic-control study: what it says, and the files of its own beside the report."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from mean_actor_critic.reports.content import Content, read
from mean_actor_critic.reports.files import curve_rows, curves_title
from mean_actor_critic.reports.plots import learning_curves
from mean_actor_critic.reports.sources import RunSource, Sources, SweepSource
from mean_actor_critic.reports.tables import results_rows, write_csv
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.paper import Task
from mean_actor_critic.studies.sweep import Sweep
from mean_actor_critic.terminal import printable


def study(task: Task, runs: Sequence[Run], sweeps: Sequence[Sweep], origins: Mapping[Path, str]) -> Content:
    """What the runs of a study, and the search before them, say."""
    return read(
        Sources(
            task.environment,
            task,
            [RunSource(printable(run.path), run) for run in runs],
            [SweepSource(printable(sweep.path), sweep) for sweep in sweeps],
            origins,
        )
    )


def write(content: Content, folder: Path) -> list[Path]:
    """Write table.csv, curves.csv and learning-curves.png below `folder`; returns the files."""
    table, curves, figure = (folder / name for name in ("table.csv", "curves.csv", "learning-curves.png"))
    write_csv(table, results_rows(content))
    write_csv(curves, curve_rows(content.entries))
    learning_curves(content.entries, curves_title(content), figure)
    return [table, curves, figure]
