"""A report as one page: everything inside, nothing loaded from elsewhere."""

import base64
import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.errors import MacError
from mean_actor_critic.files import write_whole
from mean_actor_critic.reports import protocol, theory
from mean_actor_critic.reports.answer import answer, notes
from mean_actor_critic.reports.content import LAST, Content, HeatMap, Result, Search
from mean_actor_critic.reports.curves import EPISODES, STEPS, Curve
from mean_actor_critic.reports.digits import interval, interval_heading, rounded
from mean_actor_critic.reports.plots import DARK_PARTS, PARTS, colour_of, dashes, score_range
from mean_actor_critic.reports.search import extent, winners_sheet
from mean_actor_critic.reports.statistics import FEWEST
from mean_actor_critic.reports.tables import results_sheet
from mean_actor_critic.spec.algorithms import ALGORITHMS
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
    html, style, script = ((templates / name).read_text() for name in ("page.html", "page.css", "page.js"))
    plotly = get_plotlyjs()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    text = environment.from_string(html).render(
        _words(content, recording, files, grids),
        policy=_policy(plotly, script),
        style=Markup(style),
        plotly=Markup(plotly),
        script=Markup(script),
        light={**_LIGHT, **{name: colour_of(name) for name in ALGORITHMS}},
        dark={**_DARK, **{name: colour_of(name, dark=True) for name in ALGORITHMS}},
        data=_data(content),
    )
    write_whole(file, text.encode(errors="replace"))  # a forged manifest can hold what is no text


def _policy(*scripts: str) -> str:
    """What the browser lets the page do: run exactly these scripts, and load nothing."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; media-src data:"


# --- data for the charts ---------------------------------------------------------------------------------------------


def _data(content: Content) -> dict[str, Any]:
    return {
        "results": {str(episodes): [_result(row) for row in rows] for episodes, rows in content.results.items()},
        "digits": content.digits,
        "lines": _lines(content),
        "searches": [_search(search) for search in content.searches],
        "theories": [theory.chart_data(source.theory) for source in content.sources.theories],
    }


def _result(row: Result) -> dict[str, Any]:
    return {
        "label": row.entry.label,
        "algorithm": row.entry.algorithm,
        "mean": _short(row.mean.mean),
        "low": _short(row.mean.low),
        "high": _short(row.mean.high),
        "n": row.mean.n,
        "range": row.mean.is_range,
        "paper": row.paper.mean if row.paper else None,
        "spread": row.paper.spread if row.paper else None,
    }


def _lines(content: Content) -> list[dict[str, Any]]:
    """Lines of the learning curves, the one that ends highest first."""
    lines = [
        {
            "label": entry.label,
            "algorithm": entry.algorithm,
            "dash": dash,
            "curves": {unit: _curve(curve) for unit, curve in entry.curves.items()},
        }
        for entry, dash in zip(content.entries, dashes(content.entries), strict=True)
    ]
    return sorted(lines, key=lambda line: -line["curves"][EPISODES]["mean"][-1])


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
                "label": ALGORITHMS[algorithm].title,
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
    task = content.sources.task
    return {
        "title": content.title,
        "lead": lead,
        "rest": rest,
        "notes": notes(content),
        "sections": _sections(content),
        "entries": content.entries,
        "paper": task is not None,
        "budgets": [(episodes, f"{episodes} episodes") for episodes in content.results],
        "answer_at": content.answer_at,
        "sheets": [results_sheet(content, episodes) for episodes in content.results],
        "interval": interval_heading(row.mean for row in content.answer),
        "units": _units(content),
        "legend_of_results": _legend_of_results(content),
        "caption_of_curves": _caption_of_curves(content),
        "longest": max((entry.source.done for entry in content.entries), default=1),
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


def _sections(content: Content) -> list[tuple[str, str]]:
    runs = [("results", "Results"), ("curves", "Learning curves")] if content.entries else []
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
    titles = {algorithm.title: name for name, algorithm in ALGORITHMS.items()}
    return {**titles, **{entry.label: entry.algorithm for entry in content.entries}}


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
    by_steps = [entry.curves[STEPS].together for entry in content.entries if STEPS in entry.curves]
    width = f"{min(by_steps)} to {max(by_steps)}" if len(set(by_steps)) > 1 else f"{max(by_steps, default=0)}"
    bins = (
        f" By steps, each point is the mean of the episodes that ended within {width} agent steps." if by_steps else ""
    )
    few = any(entry.curve.is_range for entry in content.entries)
    ranges = f" Of fewer than {FEWEST} trials, bands are the range of their values." if few else ""
    return (
        "Return over trials, with bands point by point that go no further than the trials’ values."
        f"{ranges}{points}{bins} IQM is the mean of the middle half."
    )


def _units(content: Content) -> list[tuple[str, str]]:
    """What learning curves can be drawn by."""
    return [(unit, unit) for unit in (EPISODES, STEPS) if any(unit in entry.curves for entry in content.entries)]


def _search_words(search: Search) -> dict[str, Any]:
    rule = RULES[search.plan.rule]
    left_out = sum(heat.left_out for heat in search.maps.values())
    medians = [
        f"{ALGORITHMS[name].title} {rounded(float(np.median([p.score for p in points])), search.digits)}"
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
        "algorithms": [(name, ALGORITHMS[name].title) for name in search.points],
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
