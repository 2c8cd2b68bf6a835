"""The command sweep: a search over settings, which studies begin with too."""

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.options import Command
from mean_actor_critic.errors import InputError
from mean_actor_critic.files import as_file_name
from mean_actor_critic.progress import progress_display
from mean_actor_critic.runs.store import RUNS
from mean_actor_critic.spec.experiment import USUAL_BUDGETS
from mean_actor_critic.spec.grid import FORM, grid_from_json, read_grid
from mean_actor_critic.spec.paper import CLASSIC_CONTROL, COMPARED, SEARCH_TRIALS, papers_grid
from mean_actor_critic.spec.presets import SEARCH_SEEDS
from mean_actor_critic.spec.rules import GAME
from mean_actor_critic.studies.sweep import HALVING, RULES, Sweep
from mean_actor_critic.terminal import show, tell

if TYPE_CHECKING:
    from mean_actor_critic.studies.sweep import Plan

PAPERS = "paper"  # what `--grid` calls the paper's


def _add_sweep_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help=f"{', '.join(CLASSIC_CONTROL)}, or an environment as in mac train")
    parser.add_argument(
        "--algorithm", metavar="NAME", nargs="+", default=list(COMPARED), help=f"(default: {' '.join(COMPARED)})"
    )
    parser.add_argument(
        "--grid", metavar="FILE", default=PAPERS,
        help=f'the paper\'s 1036 settings ("{PAPERS}", the default); or a file of JSON, and what it does not name '
        f"is as in mac train: {FORM}",
    )  # fmt: skip
    parser.add_argument("--trials", type=int, default=SEARCH_TRIALS, help=f"of each setting (default: {SEARCH_TRIALS})")
    usual = USUAL_BUDGETS["compiled"].amount
    parser.add_argument("--episodes", type=int, help=f"of each trial (default: those of the task, else {usual})")
    parser.add_argument(
        "--halving", choices=list(HALVING),
        help="stop hopeless settings early (default: train all). "
        + "; ".join(f"{name}: {text}" for name, text in HALVING.items()),
    )  # fmt: skip
    parser.add_argument(
        "--rule", choices=list(RULES), default="asymptotic",
        help="; ".join(f"{name}: {text}" for name, text in RULES.items()).replace("%", "%%") + " (default: asymptotic)",
    )  # fmt: skip
    text = f"from {SEARCH_SEEDS.start}, because those below are for results that are reported (default: that)"
    parser.add_argument("--seed", type=int, default=SEARCH_SEEDS.start, help=text)
    parser.add_argument("--out", metavar="DIR", help=f"the sweep folder (default: {RUNS}/sweep-TASK)")
    shared_options.add_quiet(parser)


def sweep(options: argparse.Namespace) -> None:
    """`mac sweep`."""
    if options.task.startswith(GAME):
        raise InputError("task", options.task, "one that counts episodes; Atari games take too long to search")
    task = CLASSIC_CONTROL.get(options.task)
    environment = task.environment if task else options.task
    usual = task.episodes if task else USUAL_BUDGETS["compiled"].amount
    given = None if options.grid == PAPERS else read_grid(options.grid)
    from mean_actor_critic.environments.catalogue import find_environment
    from mean_actor_critic.studies.search import make_plan, started

    if given is None:  # the paper's own search starts from nothing that was found elsewhere
        grid = grid_from_json(papers_grid(environment))
    else:
        grid = started(given, find_environment(environment), options.algorithm)
    plan = make_plan(
        environment,
        options.algorithm,
        grid,
        options.trials,
        usual if options.episodes is None else options.episodes,
        rule=options.rule,
        halving=options.halving,
        seed=options.seed,
    )
    carry_out(plan, Path(options.out or f"{RUNS}/sweep-{as_file_name(options.task)}"), options.task, options.quiet)


def carry_out(plan: "Plan", folder: Path, label: str, quiet: bool) -> tuple[Sweep, str]:
    """Train what a plan asks for and is not there yet, say what came of it, and give back how much was there."""
    from mean_actor_critic.reports import search as report
    from mean_actor_critic.studies.search import search

    begun, trained, cells, reused = time.monotonic(), 0, 0, 0
    with progress_display(quiet) as watch:
        for done in search(folder, plan, watch(f"sweep {label}")):
            trained += 0 if done.reused else len(done.cell.points) * done.cell.trials
            reused += done.reused
            cells += 1
    sweep = Sweep.load(folder).by(plan.rule)
    summary = folder / "summary.csv"
    report.write_summary(sweep, summary)
    if not quiet:
        show(report.winners_table(sweep))
        if reused:
            tell(f"{reused} of {cells} cells were already there and taken as they are")
        tell(f"{report.extent(sweep)}; {trained} trainings in {time.monotonic() - begun:.0f} s")
        tell(f"{folder}: results {sweep.results_digest[:16]}; written: {summary}")
    if not reused:
        return sweep, "finished by this command"
    whole = reused == cells
    return sweep, "finished before, taken as it is" if whole else f"{reused} of {cells} cells were there before"


COMMANDS = (
    Command(
        "sweep",
        "Search the settings of algorithms on a task; interrupted, the same command goes on.",
        _add_sweep_options,
        sweep,
    ),
)
