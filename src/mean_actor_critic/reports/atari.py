"""What runs on Atari games came to: the paper's Table 2 with ours beside it, and curves by agent steps.

The unit is a trial: where there are several, intervals are over trials; where there is one, over its games, and the
table says so.
"""

import html
import io
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.markup import escape
from rich.table import Table

from mean_actor_critic.errors import InputError
from mean_actor_critic.files import write_whole
from mean_actor_critic.reports.files import latex_table
from mean_actor_critic.reports.plots import figure_of
from mean_actor_critic.reports.statistics import Summary, summarise
from mean_actor_critic.reports.tables import Sheet, in_millions, plain_table, summary_cells, terminal_table, write_csv
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.store import make_folder
from mean_actor_critic.spec import paper
from mean_actor_critic.spec.algorithms import ALGORITHMS, algorithm_of
from mean_actor_critic.spec.checks import settings_as_words
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.paper import ATARI, ATARI_TRIALS, Game
from mean_actor_critic.spec.presets import SEARCH_SEEDS, start_from
from mean_actor_critic.spec.rules import PROTOCOLS

PAPERS_STEPS = 50_000_000  # agent steps of a trial, four frames each
_LINE = "#444444"
_DASHES = ("--", "-.", ":")
MOST_NAMED = 2  # settings that a line's name has room for
_BASELINES = {"mac": "", "a2c": "Baselines' settings"}  # algorithms whose settings have a name
PAPERS_NUMBERS = f"paper: the mean of {ATARI_TRIALS} trials after {in_millions(PAPERS_STEPS)} steps"
PAPER = f"paper ({in_millions(PAPERS_STEPS)}, {ATARI_TRIALS} trials)"
OTHERS = ("random", "TRPO", "ES")  # of the paper's table
WIDE = 125  # columns of a terminal that all of the table fits into


class Score(NamedTuple):
    """What a run came to at an evaluation."""

    summary: Summary
    unit: str  # what the summary is over: "trials" or "games"
    games: int  # of all trials
    unfinished: int  # of these, cut off by the evaluation's steps
    steps: int  # agent steps of a trial


def score_at(run: Run, evaluation: int) -> Score:
    """What all of a run's trials came to at an evaluation, counted from 0."""
    scores = run.evaluations.scores[:, evaluation]
    several = len(scores) > 1
    values = run.evaluations.means[:, evaluation] if several else scores[0][np.isfinite(scores[0])]
    return Score(
        summarise(values),
        "trials" if several else "games",
        int(np.isfinite(scores).sum()),
        int(run.evaluations.unfinished[:, evaluation].sum()),
        run.experiment.moment_of_evaluation(evaluation),
    )


def last_score(run: Run) -> Score | None:
    """What all of a run's trials came to at the last evaluation that they have all had; None before the first."""
    evaluated = int(run.evaluations.evaluated.min())
    return score_at(run, evaluated - 1) if evaluated else None


# --- tables ----------------------------------------------------------------------------------------------------------


def run_table(run: Run) -> Table:
    """What came out of one run."""
    experiment = run.experiment
    setup = experiment.setup
    last = last_score(run)
    title = f"{setup.environment}, {ATARI_ALGORITHMS[setup.algorithm].title}, seed {experiment.seed}"
    unit = last.unit if last else "trials"
    table = plain_table(
        f"{title}; steps are agent steps of a trial, {setup.frame_skip} frames each",
        ["Mean score of", "step", "mean", f"SD over {unit}", "95 % interval", "trials", "games", "cut off"],
    )
    if last is None:
        return table
    places = {"the last evaluation": int(run.evaluations.evaluated.min()) - 1}
    means = run.evaluations.means[:, : places["the last evaluation"] + 1].mean(axis=0)
    places["the best evaluation (chosen by its score)"] = int(means.argmax())
    for name, place in places.items():
        score = score_at(run, place)
        cells = [in_millions(score.steps), *summary_cells(score.summary)[:3]]
        table.add_row(name, *cells, str(experiment.trials), str(score.games), str(score.unfinished))
    return table


def table_2(runs: Sequence[Run]) -> Sheet:
    """The paper's Table 2 and what came of each run so far beside it."""
    rows = []
    for game, run, words in _by_game(runs):
        algorithm = run.experiment.algorithm
        last = last_score(run)
        paper = game.scores.get(algorithm) if game else None
        cells = summary_cells(last.summary) if last else ["–"] * 4
        rows.append(
            [
                game.title if game else run.experiment.environment,
                paper.TABLE_2.get(algorithm, algorithm_of(algorithm).title),
                f"{in_millions(last.steps)}/{in_millions(run.experiment.steps)}" if last else "0",
                cells[0],
                cells[2].partition(" (")[0],  # how many a range is of stands beside it
                f"{cells[3]} {last.unit}" if last else "–",
                "–" if paper is None else f"{paper}",
                *([f"{game.random}", f"{game.trpo}", f"{game.evolution}"] if game else ["–"] * 3),
                _notes(words, run, last),
            ]
        )
    columns = ["Game", "Algorithm", "steps", "score", "95 % interval", "n", PAPER, *OTHERS, "notes"]
    title = "Atari: last evaluation, raw scores of whole games; steps are agent steps"
    title += (
        "; a range from … to … where there are too few for an interval" if any(" to " in r[4] for r in rows) else ""
    )
    return Sheet(title, columns, rows, left=2)


def show(runs: Sequence[Run], width: int) -> Table:
    """Table 2 for a terminal of so many columns, with notes below, and less of the paper's in a narrow one."""
    sheet = table_2(runs)
    algorithm, notes = sheet.columns.index("Algorithm"), sheet.columns.index("notes")
    noted = dict.fromkeys(row[notes] for row in sheet.rows if row[notes] != "–")
    numbers = {note: place for place, note in enumerate(noted, 1)}
    rows = [list(row) for row in sheet.rows]
    for row in rows:
        row[algorithm] += f" [{numbers[row[notes]]}]" if row[notes] in numbers else ""
    shown = [column for column in sheet.columns[:notes] if width >= WIDE or column not in OTHERS]
    short = sheet._replace(rows=rows).only(*shown)
    table = terminal_table(short._replace(columns=["paper" if column == PAPER else column for column in shown]))
    below = [f"[{place}] {note}" for note, place in numbers.items()]
    table.caption = escape("\n".join([PAPERS_NUMBERS, *below]))
    table.caption_justify = "left"
    return table


def _notes(words: Sequence[str], run: Run, last: Score | None) -> str:
    """What a number beside the paper's must not be taken without."""
    diverged = int(np.sum(run.diverged_at > 0))
    notes = [
        *words,
        f"{diverged} diverged" if diverged else "",
        f"{last.unfinished} of {last.games} games cut off" if last and last.unfinished else "",
    ]
    return ", ".join(filter(None, notes)) or "–"


_NAMED = [(protocol, algorithm) for protocol in PROTOCOLS for algorithm in _BASELINES]  # settings that have a name


def _differences_from(named: tuple[str, str], run: Run) -> list[str]:
    """The name of some settings, if they are not the paper's, and each setting of a run that differs from them."""
    protocol, algorithm = named
    setup, settings = run.experiment.setup, run.experiment.settings()
    chosen = start_from(setup_environment, algorithm, engine="atari", protocol=protocol).settings
    base = make_experiment(setup_environment, run.experiment.algorithm, 1, 1, 0, chosen, engine="atari").settings()
    names = [name for name, usual in ((protocol, "paper"), (_BASELINES[algorithm], "")) if name != usual]
    return names + settings_as_words({name: value for name, value in settings.items() if value != base[name]})


def _differences(run: Run) -> list[str]:
    """How a run's settings differ from the paper's: what they are nearest to, by its name, and each that differs."""
    return min((_differences_from(named, run) for named in _NAMED), key=len)


def _in_common(runs: Sequence[Run]) -> tuple[list[str], list[list[str]]]:
    """How the settings of all of some runs differ from the paper's, and how those of each do besides.

    In as few words as possible: each run is compared with what it is nearest to, or all of them with the same.
    """

    def split(words: Sequence[list[str]]) -> tuple[list[str], list[list[str]]]:
        common = [word for word in words[0] if all(word in others for others in words)]
        return common, [[word for word in own if word not in common] for own in words]

    ways = [[_differences(run) for run in runs]]
    ways += [[_differences_from(named, run) for run in runs] for named in _NAMED]
    return min(map(split, ways), key=lambda found: len(found[0]) + sum(map(len, found[1])))


def _tell_apart(runs: Sequence[Run], words: Sequence[list[str]]) -> None:
    """Add the seed to the words of runs of one algorithm on one game that have the same, and the folder if need be."""
    for more in ("seed {run.experiment.seed}", "{run.path}"):
        names = [(run.experiment.environment, run.experiment.algorithm, *own)
                 for run, own in zip(runs, words, strict=True)]  # fmt: skip
        for run, own, name in zip(runs, words, names, strict=True):
            if names.count(name) > 1:
                own.append(more.format(run=run))


def _by_game(runs: Sequence[Run]) -> list[tuple[Game | None, Run, list[str]]]:
    """In the paper's order of games and algorithms, with words that tell each run from the paper's and the others."""
    games = {game.environment: game for game in ATARI.values()}
    order = [*games]

    def place(run: Run) -> tuple[int, str, int]:
        setup = run.experiment.setup
        first = order.index(setup.environment) if setup.environment in order else len(order)
        return first, setup.environment, list(ALGORITHMS).index(setup.algorithm)

    found = [(games.get(run.experiment.environment), run, _differences(run)) for run in sorted(runs, key=place)]
    _tell_apart([run for _, run, _ in found], [words for _, _, words in found])
    return found


def curve_rows(runs: Sequence[Run]) -> list[list[Any]]:
    """Every evaluation of every trial with all digits, for a file."""
    rows: list[list[Any]] = [
        ["environment", "algorithm", "seed", "trial", "steps", "frames", "mean_score", "sd_over_games", "games",
         "low", "high", "unfinished", "entropy", "training_score", "training_games", "notes"]
    ]  # fmt: skip
    for _, run, words in _by_game(runs):
        experiment, curves = run.experiment, run.curves
        setup = experiment.setup
        for place, trial in enumerate(experiment.trial_numbers()):
            for evaluation in range(int(curves.evaluated[place])):
                scores = curves.scores[place, evaluation]
                scores = scores[np.isfinite(scores)]
                steps = experiment.moment_of_evaluation(evaluation)
                over_games = summarise(scores)
                spread = (over_games.sd, over_games.low, over_games.high)
                sd, low, high = (f"{value:.3f}" if np.isfinite(value) else "" for value in spread)
                training = curves.training_score[place, evaluation]
                rows.append(
                    [
                        *(setup.environment, setup.algorithm, experiment.seed, int(trial)),
                        *(steps, steps * setup.frame_skip, f"{scores.mean():.3f}", sd, len(scores)),
                        *(low, high),
                        int(curves.unfinished[place, evaluation]),
                        f"{curves.entropy[place, evaluation]:.4f}",
                        f"{training:.3f}" if np.isfinite(training) else "",
                        int(curves.training_games[place, evaluation]),
                        ", ".join(words),
                    ]
                )
    return rows


# --- figures ---------------------------------------------------------------------------------------------------------


def learning_curves(runs: Sequence[Run], *files: Path) -> None:
    """Evaluation scores by agent steps, a panel for each game, a line for each run; PNG or SVG.

    Algorithms differ in colour, settings in dashes; what all runs on a game have is said below its name. Bands are 95 %
    intervals over trials, or their range where there are few; over games where there is one trial.
    """
    by_game: dict[str, list[tuple[Game | None, Run]]] = {}
    for game, run, _ in _by_game(runs):
        if run.evaluations.evaluated.min():
            by_game.setdefault(run.experiment.environment, []).append((game, run))
    columns = min(3, len(by_game))
    rows = -(-len(by_game) // columns)
    with figure_of(files, (1.0 + 4.2 * columns, 0.6 + 3.2 * rows)) as figure:
        panels: Any = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in panels[len(by_game) :]:
            axes.set_visible(False)
        for axes, (environment, of_game) in zip(panels, by_game.items(), strict=False):
            dashes_of: dict[tuple[str, ...], str] = {(): "-"}
            labels: set[str] = set()
            on_game = [run for _, run in of_game]
            common, apart = _in_common(on_game)
            _tell_apart(on_game, apart)
            for (game, run), words in zip(of_game, apart, strict=True):
                algorithm = run.experiment.algorithm
                scores = [score_at(run, place) for place in range(int(run.evaluations.evaluated.min()))]
                steps = [score.steps / 1e6 for score in scores]
                colour = COLOURS.get(algorithm, _LINE)
                titles = [paper.TABLE_2.get(algorithm, algorithm_of(algorithm).title)]
                short = ", ".join(titles + (words if len(words) <= MOST_NAMED else ["other settings"]))
                title = ", ".join(titles + words) if short in labels else short
                labels.add(title)
                trials = run.experiment.trials
                label = f"{title}, {trials} trials" if trials > 1 else f"{title}, 1 trial (band: its games)"
                dashes = dashes_of.setdefault(tuple(words), _DASHES[(len(dashes_of) - 1) % len(_DASHES)])
                axes.plot(steps, [score.summary.mean for score in scores], dashes, color=colour, label=label)
                low, high = ([getattr(score.summary, side) for score in scores] for side in ("low", "high"))
                axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
                if game and algorithm in game.scores and run.experiment.steps >= PAPERS_STEPS:
                    label = f"{paper.TABLE_2.get(algorithm, algorithm_of(algorithm).title)} in the paper, {in_millions(PAPERS_STEPS)} steps"
                    axes.axhline(game.scores[algorithm], color=colour, linewidth=0.8, linestyle=":", label=label)
            if (first := of_game[0][0]) is not None:
                axes.axhline(first.random, color=_LINE, linewidth=0.8, linestyle="--", label="random (paper)")
            axes.set(xlabel="million agent steps", ylabel="score")
            lines = textwrap.wrap(", ".join(common), 60)
            place = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "center", "va": "bottom"}
            axes.annotate("\n".join(lines), (0.5, 1), xytext=(0, 4), fontsize=8, **place)
            axes.set_title(environment if first is None else first.title, pad=6 + 11 * len(lines))
            axes.legend(frameon=False, fontsize=8)
            axes.grid(alpha=0.25)


# --- files -----------------------------------------------------------------------------------------------------------


def require_reportable(runs: Sequence[Run]) -> None:
    """Raise an InputError if there is nothing to report, or a run has a seed of searches."""
    for run in runs:
        if run.experiment.seed in SEARCH_SEEDS:
            raise InputError("RUN", str(run.path), f"runs with seeds below {SEARCH_SEEDS.start}")
    if not any(run.evaluations.evaluated.min() for run in runs):
        raise InputError("RUN", str(runs[0].path) if runs else "nothing", "a run whose trials were all evaluated once")


def write(runs: Sequence[Run], folder: Path) -> list[Path]:
    """Table 2 as CSV, LaTeX and a page, all evaluations as CSV, and the curves as PNG and SVG; returns the files."""
    make_folder(folder)
    sheet = table_2(runs)
    files = {name: folder / name for name in ("table-2.csv", "table-2.tex", "curves.csv", "curves.png", "curves.svg",
                                              "index.html")}  # fmt: skip
    write_csv(files["table-2.csv"], [sheet.columns, *sheet.rows])
    write_whole(files["table-2.tex"], latex_table(sheet).encode())
    write_csv(files["curves.csv"], curve_rows(runs))
    if any(run.evaluations.evaluated.min() for run in runs):
        learning_curves(runs, files["curves.png"], files["curves.svg"])
    else:
        del files["curves.png"], files["curves.svg"]
    picture = files["curves.svg"].read_text() if "curves.svg" in files else ""
    write_whole(files["index.html"], _page(sheet, runs, picture).encode())
    return list(files.values())


def _page(sheet: Sheet, runs: Sequence[Run], picture: str) -> str:
    """One page without scripts: the table, the curves and what was run."""
    text = io.StringIO()
    text.write(_HEAD.format(title=html.escape(sheet.title)))
    heads = "".join(f"<th>{html.escape(column)}</th>" for column in sheet.columns)
    text.write(f"<div class='wide'><table><tr>{heads}</tr>\n")
    for row in sheet.rows:
        text.write("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>\n")
    text.write("</table></div>\n")
    text.write(picture[picture.find("<svg") :] if picture else "")
    text.write("<h2>What was run</h2>\n<ul>\n")
    for _, run, _ in _by_game(runs):
        settings = ", ".join(f"{name}={value}" for name, value in run.experiment.settings().items())
        states = ", ".join(run.status)
        words = f"{run.path}: {run.experiment.trials} trials from seed {run.experiment.seed}; {states}; {settings}"
        text.write(f"<li>{html.escape(words)}</li>\n")
    text.write("</ul>\n</body></html>\n")
    return text.getvalue()


_HEAD = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}}
.wide{{overflow-x:auto}}table{{border-collapse:collapse}}
td,th{{padding:.2rem .8rem;border-bottom:1px solid #8888;text-align:right}}
td:nth-child(-n+2),th:nth-child(-n+2){{text-align:left}}li{{overflow-wrap:anywhere}}
svg{{max-width:100%;height:auto;margin:1.5rem 0;background:#fff;border-radius:.5rem}}</style></head>
<body><h1>{title}</h1>
"""
