"""A search over settings as tables."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from mean_actor_critic.reports.digits import decimals_of, exact, interval_heading, rounded
from mean_actor_critic.reports.entries import trials_in_words
from mean_actor_critic.reports.sheets import Sheet
from mean_actor_critic.reports.statistics import summarise
from mean_actor_critic.reports.tables import summary_cells, terminal_table, write_csv
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.grid import grid_from_json
from mean_actor_critic.spec.paper import papers_grid
from mean_actor_critic.studies.sweep import RULES, Outcome, Plan, Sweep, scores


def settings_in_words(sweep: Sweep, settings: dict[str, Any]) -> str:
    """What a point of the grid chose, by the names that the grid gives, without what all points share."""
    chosen = sweep.plan.grid.as_given(settings)
    return " ".join(f"{name}={json.dumps(value).replace(' ', '')}" for name, value in chosen.items())


def extent(sweep: Sweep) -> str:
    """How much was searched, and what stopping early has saved."""
    plan = sweep.plan
    points = sum(len(sweep.points(algorithm)) for algorithm in plan.algorithms)
    played, all_of_them = (
        sum(plan.episodes(len(sweep.points(algorithm)), exhaustive) for algorithm in plan.algorithms)
        for exhaustive in (False, True)
    )
    saved = f", {1 - played / all_of_them:.0%} of the episodes saved by stopping early" if played < all_of_them else ""
    of = f"{len(plan.algorithms)} algorithms" if len(plan.algorithms) > 1 else algorithm_of(plan.algorithms[0]).title
    grid = "the paper’s grid: " if is_papers_grid(plan) else ""
    return f"{grid}{points} settings of {of}, seed {plan.seed}{saved}; its cells took {_duration(sweep.seconds)}"


def _duration(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 600
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )


def is_papers_grid(plan: Plan) -> bool:
    """Whether the paper's settings were searched."""
    return plan.grid == grid_from_json(papers_grid(plan.environment))


def winners_sheet(sweep: Sweep) -> Sheet:
    """The best setting of each algorithm by the plan's rule, with its scores by both."""
    winners = sweep.winners()
    found = {name: {rule: summarise(scores(won.returns, rule)) for rule in RULES} for name, won in winners.items()}
    digits = decimals_of(summary for by_rule in found.values() for summary in by_rule.values())
    chosen = {algorithm: by_rule[sweep.plan.rule] for algorithm, by_rule in found.items()}
    rows = []
    for algorithm, won in winners.items():
        by_rule = [rounded(summary.mean, digits) for summary in found[algorithm].values()]
        spread = summary_cells(chosen[algorithm], digits)[1:3]
        trials, episodes = won.returns.shape
        trained = [trials_in_words(trials, int(np.sum(won.diverged_at > 0))), str(episodes)]
        rows.append(
            [algorithm_of(algorithm).title, settings_in_words(sweep, won.settings), *by_rule, *spread, *trained]
        )
    heading = interval_heading(chosen.values())
    columns = ["Algorithm", "settings", *RULES, "SD over trials", heading, "trials", "episodes"]
    return Sheet(f"Best by {sweep.plan.rule} ({RULES[sweep.plan.rule]})", columns, rows, left=2)


def winners_table(sweep: Sweep) -> Table:
    """The best settings, for the terminal."""
    return terminal_table(winners_sheet(sweep))


def write_summary(sweep: Sweep, file: Path) -> None:
    """A line for every setting: what it was, and what came of it."""
    outcomes = sweep.outcomes()
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.settings))
    header = ["algorithm", *names, "rung", "trials", "episodes", "diverged", *RULES, *(f"{rule}_sd" for rule in RULES)]
    rows: list[list[object]] = [[*header], *(_row(outcome, names) for outcome in outcomes)]
    write_csv(file, rows)


def _row(outcome: Outcome, names: list[str]) -> list[object]:
    def cell(value: Any) -> Any:
        return "x".join(map(str, value)) if isinstance(value, tuple) else value

    trials, episodes = outcome.returns.shape
    of_trials = [scores(outcome.returns, rule) for rule in RULES]
    return [
        outcome.algorithm,
        *(cell(outcome.settings.get(name, "")) for name in names),
        outcome.rung,
        trials,
        episodes,
        int(np.sum(outcome.diverged_at > 0)),
        *(exact(float(np.mean(values))) for values in of_trials),
        *(exact(float(np.std(values, ddof=1))) if trials > 1 else "" for values in of_trials),
    ]
