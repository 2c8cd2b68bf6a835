"""Tables for the terminal and for files."""

import csv
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

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
    in_millions,
    interval,
    interval_heading,
    rounded,
    with_interval,
)
from mean_actor_critic.reports.entries import extent, solved_words
from mean_actor_critic.reports.evaluations import Score, scores_in_words
from mean_actor_critic.reports.games import PAPERS_STEPS, OnGame, title_on_games
from mean_actor_critic.reports.sheets import OF_PROBABILITIES, Sheet, filled_sheet, to_threshold
from mean_actor_critic.reports.statistics import Array, Estimate, Summary, final_scores, summarise, trial_scores
from mean_actor_critic.reports.variants import counts_sheet, twins_sheet
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.learners import STEPS
from mean_actor_critic.spec.paper import ATARI_TRIALS
from mean_actor_critic.spec.rules import GameRules
from mean_actor_critic.studies.sweep import Sweep, is_sweep, scores
from mean_actor_critic.terminal import printable

# columns of the results that a terminal has room for
TERMINAL = (
    "Algorithm", "mean", "SD over trials", "95 % interval", "range", "95 % interval or range", "trials",
    "P(MAC better)", "paper",
)  # fmt: skip
TERMINAL_OF_TASKS = ("Task", "Algorithm", "greedy, over training", "trials", "P(MAC better)", "MAC is")
AT_THE_END = ("greedy, at the end", "sampled, at the end")


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
        f"episodes to {task.solved:g}" if task else "": [
            to_threshold(result.to_threshold, result.solved, result.mean.n) for result in results
        ],
        "trials": [result.trials_in_words for result in results],
        "P(MAC better)": [with_interval(result.better, OF_PROBABILITIES) for result in results],
        "p (Holm)": [_p_value(result) for result in results],
    }
    return filled_sheet(f"{content.title}: mean return over {episodes} episodes", columns)


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


# --- games -----------------------------------------------------------------------------------------------------------

PAPER = f"paper ({in_millions(PAPERS_STEPS)}, {ATARI_TRIALS} trials)"
PAPERS_NUMBERS = f"paper: the mean of {ATARI_TRIALS} trials after {in_millions(PAPERS_STEPS)} steps"
OTHERS = {"random": "random", "TRPO": "trpo", "ES": "evolution"}  # further columns of the paper's table
WIDE = 125  # columns of a terminal that has room for all of the table


def table_2(games: Sequence[OnGame]) -> Sheet:
    """The paper's Table 2 with the last evaluation of each run beside it."""
    rows = [
        [
            on.title,
            title_on_games(result.entry.algorithm),
            result.extent,
            rounded(result.score.summary.mean, on.digits),
            interval(result.score.summary, on.digits).partition(" (")[0],  # how many a range is of stands beside it
            result.score.n_in_words,
            "–" if result.paper is None else f"{result.paper}",
            *(f"{getattr(on.game, name)}" if on.game else "–" for name in OTHERS.values()),
            result.notes or "–",
        ]
        for on in games
        for result in on.results
    ]
    heading = interval_heading(result.score.summary for on in games for result in on.results)
    columns = ["Game", "Algorithm", "steps", "score", heading, "n", PAPER, *OTHERS, "notes"]
    title = "Atari: last evaluation, raw scores of whole games; steps are agent steps"
    return Sheet(title, columns, rows, left=2, wide=("notes",))


def evaluation_rows(games: Sequence[OnGame]) -> list[list[Any]]:
    """Every evaluation of every trial with all digits, for a file."""
    rows: list[list[Any]] = [
        ["environment", "algorithm", "seed", "trial", "steps", "frames", "mean_score", "sd_over_games", "games",
         "low", "high", "unfinished", "entropy", "training_score", "training_games", "notes"]
    ]  # fmt: skip
    for result in (result for on in games for result in on.results):
        experiment, done = result.entry.run.experiment, result.entry.run.evaluations
        rules = experiment.rules
        for place, trial in enumerate(experiment.trial_numbers()):
            for number in range(int(done.evaluated[place])):
                scores_of_games = done.scores[place, number]
                over_games = summarise(scores_of_games[np.isfinite(scores_of_games)])
                steps = experiment.moment_of_evaluation(number)
                more = [array[place, number] for array in done[2:] if array is not None]
                rows.append(
                    [
                        *(experiment.environment, experiment.algorithm, experiment.seed, int(trial), steps),
                        steps * rules.frame_skip if isinstance(rules, GameRules) else "",
                        *(exact(over_games.mean), exact(over_games.sd), over_games.n),
                        *(exact(over_games.low), exact(over_games.high)),
                        *(int(x) if np.issubdtype(x.dtype, np.integer) else exact(float(x)) for x in more),
                        ", ".join(result.differences),
                    ]
                )
    return rows


def _table_2_for_terminal(games: Sequence[OnGame], width: int) -> Table:
    """Table 2 for a terminal of so many columns, with notes below, and less of the paper's in a narrow one."""
    sheet = table_2(games)
    algorithm, notes = sheet.columns.index("Algorithm"), sheet.columns.index("notes")
    noted = dict.fromkeys(row[notes] for row in sheet.rows if row[notes] != "–")
    numbers = {note: number for number, note in enumerate(noted, 1)}
    rows = [list(row) for row in sheet.rows]
    for row in rows:
        row[algorithm] += f" [{numbers[row[notes]]}]" if row[notes] in numbers else ""
    shown = [column for column in sheet.columns[:notes] if width >= WIDE or column not in OTHERS]
    short = sheet._replace(rows=rows).only(*shown)
    table = terminal_table(short._replace(columns=["paper" if column == PAPER else column for column in shown]))
    below = [f"[{number}] {note}" for note, number in numbers.items()]
    table.caption = Text("\n".join(map(printable, [PAPERS_NUMBERS, *below])))
    table.caption_justify = "left"
    return table


def results_tables(content: Content, width: int) -> list[Table]:
    """The results for a terminal of so many columns: Table 2, tables of tasks, or one for each number of episodes."""
    if content.games:
        return [_table_2_for_terminal(content.games, width)]
    if content.tasks:
        columns = [*TERMINAL_OF_TASKS, *(AT_THE_END if width >= WIDE else ())]
        sheets = [twins_sheet(content.tasks).only(*columns), counts_sheet(content.tasks)]
        return [terminal_table(sheet) for sheet in sheets if sheet.rows]
    return [terminal_table(results_sheet(content, episodes).only(*TERMINAL)) for episodes in content.results]


# --- single runs -----------------------------------------------------------------------------------------------------


def run_table(run: Run) -> Table:
    """What came out of one run: returns over the episodes that all of its trials have, and evaluations."""
    experiment = run.experiment
    unit = experiment.budget.unit
    returns = run.returns[:, : int(run.episodes_done.min())]
    episodes = returns.shape[1]
    found: list[tuple[str, Score]] = []
    if episodes:
        found.append(
            (f"all {episodes} episodes" if episodes > 1 else "the only episode", _of_trials(trial_scores(returns)))
        )
    if episodes > LAST:
        found.append((f"the last {LAST}", _of_trials(final_scores(returns, LAST))))
    found += scores_in_words(run)
    digits = decimals_of(score.summary for _, score in found)
    over = {score.over for _, score in found}
    cells = [summary_cells(score.summary, digits) for _, score in found]
    played = "games" if experiment.is_game else "episodes"
    columns = {
        f"Mean {'score' if experiment.is_game else 'return'} of": [name for name, _ in found],
        f"after {unit}": [_count(score.moment, unit) for _, score in found],
        "mean": [mean for mean, *_ in cells],
        f"SD over {over.pop()}" if len(over) == 1 else "SD": [sd for _, sd, *_ in cells],
        interval_heading(score.summary for _, score in found): [ends for _, _, ends, _ in cells],
        "n": [score.n_in_words for _, score in found],
        played: [str(score.played or "") for _, score in found],
        "cut off": [str(score.cut_off) if experiment.is_game else "" for _, score in found],
    }
    title = f"{experiment.environment}, {algorithm_of(experiment.algorithm).title}, seed {experiment.seed}"
    if unit == STEPS:
        title += f"; {extent(run)}, which are agent steps of a trial"
    if isinstance(experiment.rules, GameRules):
        title += f", {experiment.rules.frame_skip} frames each"
    table = terminal_table(filled_sheet(title, columns))
    table.caption = solved_words(run) or None
    table.caption_justify = "left"
    return table


def _of_trials(values: Array) -> Score:
    """Means over episodes of training [trials] as a row of the table."""
    return Score(summarise(values), "trials", 0, 0, 0)


def _count(amount: int, unit: str) -> str:
    """Episodes, or steps for people; no text for none."""
    return (in_millions(amount) if unit == STEPS else str(amount)) if amount else ""


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
    refused: list[OSError] = []
    found = sorted(_folders_of_ours(folder, refused))
    rows = []
    for path in found:
        try:
            with disk_faults(path, "read"):
                cells = _sweep_cells(Sweep.load(path)) if is_sweep(path) else _run_cells(Run.load(path))
        except MacError as fault:
            cells = ["", "", f"damaged: {fault}", "", "", "", ""]
        except Exception as fault:  # whatever no reader has thought of: one folder does not hide the others
            cells = ["", "", f"damaged: {path}: {type(fault).__name__}: {fault}", "", "", "", ""]
        rows.append([str(path.relative_to(folder)), *cells])
    for refusal in refused:
        name = str(Path(refusal.filename).relative_to(folder))
        rows.append([name, "", "", f"cannot be read: {refusal.strerror}", *[""] * 4])
    latest = f"of the last {LAST} episodes, of the last evaluation, or of a sweep’s best setting by its rule"
    title = f"Runs in {folder}; latest mean: {latest}"
    columns = ["run", "environment", "algorithm", "status", "trials", "so far", "latest mean", "diverged"]
    return terminal_table(Sheet(title, columns, rows, left=4)), len(rows)


def _folders_of_ours(folder: Path, refused: list[OSError]) -> Iterator[Path]:
    """Those below a folder that have a run or a sweep; no link is followed. What cannot be entered is added."""
    for place, _, files in os.walk(folder, onerror=refused.append):
        if not {"manifest.json", "sweep.json"}.isdisjoint(files):
            yield Path(place)


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
    write_whole(file, text.getvalue().encode(errors="replace"))


def _harmless(cell: Any) -> Any:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
