"""A report as one page: everything inside, nothing loaded from elsewhere."""

import base64
import hashlib
import importlib.util
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.errors import MacError
from mean_actor_critic.files import write_whole
from mean_actor_critic.reports import protocol, theory, variants
from mean_actor_critic.reports.answer import answer, notes
from mean_actor_critic.reports.content import LAST, Content, HeatMap, Result, Search
from mean_actor_critic.reports.curves import Curve
from mean_actor_critic.reports.digits import interval, interval_heading, rounded
from mean_actor_critic.reports.entries import Entry
from mean_actor_critic.reports.games import GameResult, OnGame, title_on_games
from mean_actor_critic.reports.plots import DARK_PARTS, PARTS, colour_of, dashes, score_range
from mean_actor_critic.reports.search import extent, winners_sheet
from mean_actor_critic.reports.sheets import Sheet
from mean_actor_critic.reports.statistics import FEWEST, Summary
from mean_actor_critic.reports.tables import results_sheet, table_2
from mean_actor_critic.reports.tasks import OnTask, TaskResult, groups_of
from mean_actor_critic.runs.run import CURVES, GREEDY, TRAINING
from mean_actor_critic.spec.algorithms import ALGORITHMS, algorithm_of
from mean_actor_critic.spec.learners import EPISODES, STEPS
from mean_actor_critic.studies.sweep import RULES

MOST_VIDEO = 2 * 2**20  # bytes; a page should open at once
_LIGHT = {
    "paper": "#ffffff", "ink": "#1d2126", "soft": "#59616b", "line": "#d9dee4", "raised": "#f4f6f8",
    "accent": "#b34700", **PARTS,
}  # fmt: skip
_DARK = {
    "paper": "#14171b", "ink": "#e8ebee", "soft": "#a3acb6", "line": "#323941", "raised": "#1d2228",
    "accent": "#ff9a52", **DARK_PARTS,
}  # fmt: skip


class Recording(NamedTuple):
    """A video of the best agent, or why there is none."""

    words: str
    video: bytes | None = None


def require_page() -> None:
    """Raise a MacError that names the extra, unless pages can be made. Ask before long work, not after it."""
    if any(importlib.util.find_spec(name) is None for name in ("jinja2", "plotly")):
        raise MacError("reports need jinja2 and plotly: pip install 'mean-actor-critic[report]'")


def write_page(content: Content, recording: Recording, files: Sequence[str], grids: Sequence[str], file: Path) -> None:
    """Write the page.

    Args:
        content: what it says.
        recording: the best agent at play.
        files: names of what is written beside the page.
        grids: for each search, the name of the file that holds its grid.
        file: where to.
    """
    require_page()
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    templates = resources.files("mean_actor_critic.reports") / "templates"
    html, style, script = (
        (templates / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    )
    plotly = get_plotlyjs()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(html).render(
        _words(content, recording, files, grids),
        policy=_policy(plotly, script),
        style=Markup(style),
        plotly=Markup(plotly),
        script=Markup(script),
        light={**_LIGHT, **{_css_name(name): colour_of(name) for name in _coloured(content)}},
        dark={**_DARK, **{_css_name(name): colour_of(name, dark=True) for name in _coloured(content)}},
        data=_data(content),
    )
    write_whole(file, text.encode(errors="replace"))  # a forged manifest can hold what is no text


def _policy(*scripts: str) -> str:
    """What the browser lets the page do: run exactly these scripts, and load nothing."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; media-src data:"


def _algorithms(content: Content) -> list[str]:
    """All that the page may show, also those that this version does not know."""
    theories = [source.theory for source in content.sources.theories]
    names = [
        *ALGORITHMS,
        *(entry.algorithm for entry in content.entries),
        *(name for search in content.searches for name in search.points),
        *(row.estimator for theory in theories for trial in theory.trials for row in trial.moments[0].rows),
        *(curve.estimator for theory in theories for curve in theory.curves),
    ]
    return list(dict.fromkeys(names))


def _coloured(content: Content) -> list[str]:
    """Names of all colours: of the algorithms, and of changes of settings."""
    return list(dict.fromkeys([*_algorithms(content), *(entry.colour for entry in content.entries)]))


def _css_name(name: str) -> str:
    """A name as a style sheet has to spell it: `module:function` has signs that end a name there."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda sign: f"\\{ord(sign[0]):x} ", name)


# --- data for the charts ---------------------------------------------------------------------------------------------


def _data(content: Content) -> dict[str, Any]:
    return {
        "value": "score" if content.games else "return",
        "results": _results(content),
        "tasks": [_panel(on) for on in content.panels] or [_lines(content.entries, content.digits)],
        "searches": [_search(search) for search in content.searches],
        "theories": [theory.chart_data(source.theory) for source in content.sources.theories],
    }


def _results(content: Content) -> dict[str, Any]:
    """What the switches of the results choose from, by their values: games, tasks and measures, or episodes."""
    on_games = {
        str(place): {"digits": on.digits, "rows": [_game_result(row) for row in on.ranked]}
        for place, on in enumerate(content.games)
    }
    on_tasks = {
        f"{place} {number}": {"digits": on.digits, "rows": [_task_result(row, number) for row in on.ranked]}
        for place, on in enumerate(content.tasks)
        for number, _ in enumerate(on.measures)
    }
    return (
        on_games
        or on_tasks
        or {
            str(episodes): {"digits": content.digits, "rows": [_result(row) for row in rows]}
            for episodes, rows in content.results.items()
        }
    )


def _game_result(row: GameResult) -> dict[str, Any]:
    return {**_point(row.entry, row.score.summary), "n": row.score.n_in_words, "paper": row.paper, "spread": None}


def _task_result(row: TaskResult, measure: int) -> dict[str, Any]:
    return {**_point(row.entry, row.summaries[measure]), "n": row.trials_in_words, "paper": None, "spread": None}


def _result(row: Result) -> dict[str, Any]:
    mean, spread = row.paper or (None, None)
    return {**_point(row.entry, row.mean), "n": row.mean.n, "paper": mean, "spread": spread}


def _point(entry: Entry, mean: Summary) -> dict[str, Any]:
    ends = {name: _short(getattr(mean, name)) for name in ("mean", "low", "high")}
    return {"label": entry.label, "colour": entry.colour, **ends, "range": mean.is_range}


def _panel(on: OnGame | OnTask) -> dict[str, Any]:
    references = [{"label": words, "algorithm": algorithm, "score": score} for words, algorithm, score in on.references]
    found = {**_lines([result.entry for result in on.results], on.digits), "references": references}
    groups = {result.entry.label: result.groups for result in on.results if isinstance(result, TaskResult)}
    lines = [{**line, "groups": groups.get(line["label"], [])} for line in found["lines"]]
    return {**found, "title": on.title, "lines": lines}


def _lines(entries: Sequence[Entry], digits: int) -> dict[str, Any]:
    """Lines of the learning curves of one task, the one that ends highest first."""
    drawn = zip(entries, dashes(entries), strict=True)
    lines = [
        {
            "label": entry.label,
            "colour": entry.colour,
            "dash": dash,
            "curves": {f"{of} {unit}": _curve(curve) for (of, unit), curve in entry.curves.items()},
        }
        for entry, dash in sorted(drawn, key=lambda pair: -pair[0].curve.bands.mean[-1])
    ]
    return {"digits": digits, "lines": lines, "references": []}


def _curve(curve: Curve) -> dict[str, Any]:
    numbers = {"x": curve.x, **curve.bands._asdict()}
    shown = {name: [_short(value) for value in values] for name, values in numbers.items()}
    return {"end": curve.end, "range": curve.is_range, **shown}


def _search(search: Search) -> dict[str, Any]:
    return {
        "range": [_short(value) for value in score_range(search)],
        "digits": search.digits,
        "maps": {algorithm: _map(heat) for algorithm, heat in search.maps.items()},
        "shares": [
            {
                "algorithm": algorithm,
                "label": algorithm_of(algorithm).title,
                "score": [_short(value) for value in values],
                "share": [_short(value) for value in share],
            }
            for algorithm, (values, share) in search.shares.items()
        ],
    }


def _map(heat: HeatMap) -> dict[str, Any]:
    def of_points(name: str) -> list[list[Any]]:
        return [[None if point is None else _short(getattr(point, name)) for point in line] for line in heat.points]

    return {
        "rows": heat.rows,
        "optimizers": [optimizer for optimizer, _ in heat.columns],
        "rates": [rate for _, rate in heat.columns],
        **{name: of_points(name) for name in ("score", "sd", "trials", "episodes", "diverged")},
    }


def _short(value: float) -> float | None:
    """A number with the digits that a chart can show; None for what is not a number."""
    return float(f"{value:.6g}") if np.isfinite(value) else None


# --- words -----------------------------------------------------------------------------------------------------------


def _words(content: Content, recording: Recording, files: Sequence[str], grids: Sequence[str]) -> dict[str, Any]:
    lead, rest = answer(content)
    return {
        "title": content.title,
        "lead": lead,
        "rest": rest,
        "notes": notes(content),
        "sections": _sections(content),
        "entries": content.entries,
        "panel": "Game" if content.games else "Task",
        "panels": [(str(place), on.title) for place, on in enumerate(content.panels)],
        "measures": [(str(number), measure.title) for number, measure in enumerate(content.tasks[0].measures)]
        if content.tasks
        else [],
        "groups": [(group, variants.GROUPS[group]) for group in groups_of(content.tasks)],
        "budgets": [(episodes, f"{episodes} episodes") for episodes in content.results],
        "answer_at": content.answer_at,
        "sheets": _sheets(content),
        "interval": _interval(content),
        "kinds": _different(content, 0, CURVES[::-1] if content.tasks else CURVES),
        "units": _different(content, 1, (EPISODES, STEPS)),
        **_legends(content),
        "longest": max((entry.curve.end for entry in content.entries), default=1),
        "colours_of": _colours(content),
        "searches": [_search_words(search) for search in content.searches],
        "theories": [theory.words(source.theory) for source in content.sources.theories],
        "alt": _alternatives(content),
        "video": base64.b64encode(recording.video).decode() if recording.video else "",
        "video_words": recording.words,
        "method": protocol.method(content),
        "seeds": protocol.seeds(content),
        "commands": protocol.commands(content, grids),
        "settings": protocol.settings(content),
        "origins": protocol.origins(content),
        "versions": protocol.versions(content),
        "files": files,
        "found": content.sources.origins is None,
    }


def _sheets(content: Content) -> list[Sheet]:
    """The tables of results."""
    if content.games:
        return [table_2(content.games)]
    if content.tasks:
        return [
            sheet for sheet in (variants.twins_sheet(content.tasks), variants.parts_sheet(content.tasks)) if sheet.rows
        ]
    return [results_sheet(content, episodes) for episodes in content.results]


def _legends(content: Content) -> dict[str, str]:
    """What stands below the charts and tables of runs."""
    if content.tasks:
        return {
            "caption_of_results": variants.caption(),
            "legend_of_results": variants.legend(content.tasks),
            "caption_of_curves": variants.caption_of_curves(content.tasks),
        }
    return {
        "caption_of_results": _caption_of_results(content),
        "legend_of_results": _legend_of_games(content) if content.games else _legend_of_results(content),
        "caption_of_curves": _caption_of_games(content) if content.games else _caption_of_curves(content),
    }


def _sections(content: Content) -> list[tuple[str, str]]:
    runs = [("results", "Results"), ("curves", "Learning curves")] if content.entries else []
    runs += [("tasks", "All tasks")] if len(content.tasks) > 1 else []
    several = len(content.searches) > 1
    searches = [
        (f"search-{number}", f"Search {number}" if several else "Search")
        for number, _ in enumerate(content.searches, start=1)
    ]
    theories = [
        (f"theory-{number}", f"Theory {number}" if len(content.sources.theories) > 1 else "Theory")
        for number, _ in enumerate(content.sources.theories, start=1)
    ]
    agent = [("agent", "Best agent")] if content.entries else []
    return [*runs, *searches, *theories, *agent, ("protocol", "Protocol")]


def _colours(content: Content) -> dict[str, str]:
    """Which algorithm's colour a name in a table has."""
    names = _algorithms(content)
    titles = {algorithm_of(name).title: name for name in names} | {title_on_games(name): name for name in names}
    return titles | {entry.label: entry.colour for entry in content.entries}


def _interval(content: Content) -> str:
    """What the intervals of the results are called."""
    on_games = [result.score.summary for on in content.games for result in on.results]
    on_tasks = [result.summaries[0] for on in content.tasks for result in on.results]
    return interval_heading(on_games or on_tasks or [row.mean for row in content.answer])


def _caption_of_results(content: Content) -> str:
    found = _interval(content)
    spread = f"the {found} of the trials" if found == "range" else f"its {found}"
    if content.games:
        paper = any(result.paper is not None for on in content.games for result in on.results)
        below = ", and below it the paper’s mean (◇)" if paper else ""
        return f"Mean score of the last evaluation with {spread}{below}. Runs may differ in their steps and settings."
    paper = content.sources.task is not None
    below = ", and below it the paper’s number (◇) with the “±” that the paper does not explain" if paper else ""
    return f"Mean return over trials and episodes with {spread}{below}."


def _legend_of_games(content: Content) -> str:
    """What the columns of Table 2 mean."""
    few = any(result.score.summary.is_range for on in content.games for result in on.results)
    parts = [
        "Score: mean over trials of the mean score of each one’s games; n says how many trials, or games of one trial, "
        "the interval is over.",
        f"Of fewer than {FEWEST}, the smallest and the largest value are shown instead." if few else "",
        "Steps: of the last evaluation that all trials have had, and of the budget if that is more. Notes: settings "
        "that differ from the paper’s, trials that diverged, games that the evaluation’s steps cut off. Random, TRPO "
        "and ES are the paper’s numbers too.",
    ]
    return " ".join(filter(None, parts))


def _caption_of_games(content: Content) -> str:
    """What the curves of evaluations show, and what their runs have in common."""
    alone = any(result.score.over != "trials" for on in content.games for result in on.results)
    few = any(entry.curve.is_range for entry in content.entries)
    alike: dict[str, list[str]] = {}
    for on in content.games:
        alike.setdefault(", ".join(on.in_common), []).append(on.title)
    papers = any(algorithm for on in content.games for _, algorithm, _ in on.references)
    parts = [
        "Mean score of each evaluation by agent steps, over trials, with bands point by point.",
        "Of one trial, the band is over its games." if alone else "",
        f"Of fewer than {FEWEST} values, bands are their range." if few else "",
        "Dashed across: random play in the paper." if any(on.references for on in content.games) else "",
        "Dotted across: the paper’s final scores." if papers else "",
        *(
            f"All runs{'' if len(alike) == 1 else f' on {titles}'} differ from the paper’s settings by {words}."
            for words, titles in ((words, ", ".join(titles)) for words, titles in alike.items())
            if words
        ),
        "IQM is the mean of the middle half.",
    ]
    return " ".join(filter(None, parts))


def _legend_of_results(content: Content) -> str:
    parts = [
        "IQM: mean of the middle half of the trials.",
        f"Last {LAST}: mean return of the last {LAST} episodes." if any(b > LAST for b in content.results) else "",
    ]
    if content.sources.task:
        parts.append(
            f"Episodes to {content.sources.task.solved:g}: the median over trials of the first episode at which the "
            "mean of the last ten returns is that high."
        )
    if any(row.diverged for rows in content.results.values() for row in rows):
        parts.append("Trials as 97/100: three diverged, were frozen there, and count in every number.")
    if any(row.better for row in content.answer) and content.reference:
        parts.append(
            f"P(MAC better): the probability that a trial of {content.reference.label} has the higher mean than one of "
            "the row’s. p: a t-test of the difference of their means, corrected for their number as Holm does"
            + (
                "; where trials share their random numbers one by one, this and the probabilities’ intervals are those "
                "for pairs."
                if any(row.paired for row in content.answer if row.ahead)
                else ", Welch’s."
            )
        )
    summaries = [row.mean for rows in content.results.values() for row in rows]
    parts.append(
        "All intervals are of 95 %, over trials: of means and IQMs by the bootstrap and no further than the values of "
        "the trials, of medians by order statistics, of probabilities by Wilson’s with DeLong’s variance."
    )
    if any(summary.is_range for summary in summaries):
        parts.append(
            f"Fewer than {FEWEST} trials allow no interval of a mean: the range of their values is shown, and says so."
        )
    return " ".join(filter(None, parts))


def _caption_of_curves(content: Content) -> str:
    together = max((entry.curve.together for entry in content.entries), default=1)
    points = f" By episodes, each point is the mean of up to {together} neighbours." if together > 1 else ""
    curves = [curve for entry in content.entries for curve in entry.curves.values()]
    by_steps = [curve.together for curve in curves if (curve.of, curve.unit) == (TRAINING, STEPS)]
    width = f"{min(by_steps)} to {max(by_steps)}" if len(set(by_steps)) > 1 else f"{max(by_steps, default=0)}"
    bins = (
        f" By steps, each point is the mean of the episodes that ended within {width} agent steps." if by_steps else ""
    )
    few = any(entry.curve.is_range for entry in content.entries)
    ranges = f" Of fewer than {FEWEST} trials, bands are the range of their values." if few else ""
    evaluated = [curve for curve in curves if curve.of != TRAINING]
    evaluations = " Evaluations are episodes of their own, from which nothing is learned." if evaluated else ""
    if any(curve.of == GREEDY for curve in evaluated):
        evaluations += " In greedy ones the same episodes are played with the most probable actions, not sampled ones."
    if any(curve.over != "trials" for curve in evaluated):
        evaluations += " Of one trial, their band is over these episodes."
    return (
        "Return over trials, with bands point by point that go no further than the trials’ values."
        f"{ranges}{points}{bins}{evaluations} IQM is the mean of the middle half."
    )


def _different(content: Content, place: int, order: Sequence[str]) -> list[tuple[str, str]]:
    """What a switch of the learning curves offers: what they are of, or their units, as far as there are such."""
    there = {key[place] for entry in content.entries for key in entry.curves}
    return [(name, name) for name in order if name in there]


def _search_words(search: Search) -> dict[str, Any]:
    rule = RULES[search.plan.rule]
    left_out = sum(heat.left_out for heat in search.maps.values())
    medians = [
        f"{algorithm_of(name).title} {rounded(float(np.median([p.score for p in points])), search.digits)}"
        for name, points in search.points.items()
    ]
    last = search.plan.rungs[-1]
    rungs = ""
    if len(search.plan.rungs) > 1:
        steps = ", ".join(f"{rung.trials} trials of {rung.episodes} episodes" for rung in search.plan.rungs)
        rungs = (
            f" The search went in rounds ({steps}); {100 * search.plan.keep:.0f} % of the settings reached the next. A "
            "setting’s score is that of its longest training."
        )
    return {
        "name": search.source.name,
        "unfinished": search.unfinished,
        "algorithms": [(name, algorithm_of(name).title) for name in search.points],
        "winners": winners_sheet(search.sweep),
        "extent": f"{extent(search.sweep)}; {_fixed(search)}; {last.trials} trials of {last.episodes} episodes for "
        "those that went all the way. The winners were chosen by these numbers, which flatter them; results come from "
        "other seeds.",
        "caption_shares": "The share of an algorithm’s settings that reach a score. The further a line stays up and to "
        f"the right, the less its settings matter.{rungs}",
        "caption_map": f"A square is a setting; its score is its {rule}, over trials. Colours mean the same for all "
        f"algorithms.{rungs}" + (f" {left_out} settings are left out, for room." if left_out else ""),
        "alt_map": "Heat map of the scores of all settings: networks down, optimisers and learning rates across. The "
        "best of each algorithm are in the table below.",
        "alt_shares": f"Share of settings that reach a score, by algorithm. Median scores: {', '.join(medians)}.",
    }


def _fixed(search: Search) -> str:
    shared = [f"{name}={value}" for name, value in search.plan.grid.fixed.items()]
    return "all with " + (" ".join([*shared, "and"]) if shared else "") + " otherwise usual settings"


def _alternatives(content: Content) -> Mapping[str, str]:
    """What the charts of runs show, in words."""
    if content.games:
        scores = [
            f"{on.title}, {result.entry.label}, {rounded(result.score.summary.mean, on.digits)}"
            for on in content.games
            for result in on.ranked
        ]
        words = f"Mean scores of the last evaluation: {'; '.join(scores)}."
        return {"results": words, "curves": f"Mean score of evaluations as training goes on. {words}"}
    if content.tasks:
        words = variants.alternative(content.tasks)
        return {"results": words, "curves": f"Return as training goes on. {words}"}
    digits = content.digits
    means = [
        f"{row.entry.label} {rounded(row.mean.mean, digits)} {interval(row.mean, digits)}".removesuffix(" –")
        for row in content.answer
    ]
    ends = [f"{entry.label} {rounded(entry.curve.bands.mean[-1], digits)}" for entry in content.entries]
    heading = interval_heading(row.mean for row in content.answer)
    return {
        "results": f"Mean return and {heading} over {content.answer_at} episodes: {', '.join(means)}.",
        "curves": f"Mean return as training goes on. After the last episode: {', '.join(ends)}.",
    }
