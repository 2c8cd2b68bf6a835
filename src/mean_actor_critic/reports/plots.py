"""Figures, with matplotlib."""

import contextlib
import importlib.util
import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mean_actor_critic.errors import MacError
from mean_actor_critic.files import write_whole
from mean_actor_critic.gradients.theory import Theory, Trial
from mean_actor_critic.reports.content import Result, Search
from mean_actor_critic.reports.digits import interval_heading
from mean_actor_critic.reports.entries import Entry
from mean_actor_critic.reports.games import OnGame
from mean_actor_critic.reports.tasks import OnTask
from mean_actor_critic.reports.theory import (
    SOURCES,
    batch_in_words,
    entropy_points,
    estimators_of,
    rivals_of,
    sources_of,
)
from mean_actor_critic.spec.algorithms import algorithm_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, of the parts of a variance
PARTS = {"actions": "#E69F00", "states": "#56B4E9", "returns": "#999999", "trajectories": "#882255"}
DARK_PARTS = {"actions": "#F0B833", "states": "#7CC7F0", "returns": "#8A9199", "trajectories": "#D46A9F"}
_LINE = "#444444"
DASHES = ("solid", "dash", "dot", "dashdot")  # tell runs of one algorithm apart; names as Plotly has them
_STYLES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}


# Paul Tol's muted colours, of changes of settings, which their names number; and the same for dark pages
_CHANGES = ("#332288", "#44AA99", "#882255", "#117733", "#CC6677", "#88CCEE", "#999933", "#AA4499", "#DDCC77")
_DARK_CHANGES = ("#8F80E8", "#62D0BE", "#D2689E", "#4FB873", "#EB8F9B", "#A6DDF5", "#C6C65C", "#D681CF", "#EBDD94")


def colour_of(name: str, dark: bool = False) -> str:
    """The colour of an algorithm's, or a change's, lines and points, on a light or a dark ground."""
    kind, _, number = name.partition("-")
    if kind == "change":
        colours = _DARK_CHANGES if dark else _CHANGES
        return colours[int(number) % len(colours)]
    known = algorithm_of(name)
    return known.dark_colour if dark else known.colour


def require_matplotlib() -> None:
    """Raise a MacError that names the extra, unless figures can be drawn. Ask before long work, not after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MacError("figures need matplotlib: pip install 'mean-actor-critic[plots]'")


def dashes(entries: Sequence[Entry]) -> list[str]:
    """How the line of each is drawn: the first of each colour solid."""
    colours = [colour_of(entry.colour) for entry in entries]
    return [DASHES[colours[:i].count(colour) % len(DASHES)] for i, colour in enumerate(colours)]


def _draw_curves(axes: "Axes", entries: Sequence[Entry], labels: Sequence[str], unit: float = 1) -> None:
    """The line and the band of each run; x is counted in multiples of `unit`."""
    for entry, label, dash in zip(entries, labels, dashes(entries), strict=True):
        x, bands, colour = entry.curve.x / unit, entry.curve.bands, colour_of(entry.colour)
        width = 2.2 if entry.colour == "mac" else 1.4
        axes.plot(x, bands.mean, _STYLES[dash], color=colour, linewidth=width, label=_literal(label))
        axes.fill_between(x, bands.mean_low, bands.mean_high, color=colour, alpha=0.2, linewidth=0)
    axes.grid(alpha=0.25)


def learning_curves(entries: Sequence[Entry], title: str, *files: Path) -> None:
    """Mean return by episode with a band over trials, a line for each run; PNG or SVG."""
    with figure_of(files, (7.5, 4.5)) as figure:
        axes: Axes = figure.subplots()
        _draw_curves(axes, entries, [entry.label for entry in entries])
        handles, labels = axes.get_legend_handles_labels()
        order = np.argsort([entry.curve.bands.mean[-1] for entry in entries])[::-1]  # as the lines end
        axes.legend([handles[i] for i in order], [labels[i] for i in order], frameon=False, loc="center left",
                    bbox_to_anchor=(1.0, 0.5))  # fmt: skip
        together = max(entry.curve.together for entry in entries)
        label = "Episode" if together == 1 else f"Episode (means of {together})"
        axes.set(xlabel=label, ylabel="Return", title=_literal(title))
        axes.set_xlim(1, max(2, *(entry.source.done for entry in entries)))


def curves_on_games(games: Sequence[OnGame], *files: Path) -> None:
    """Scores of evaluations by agent steps, a panel for each game, a line for each run; PNG or SVG.

    What the settings of all runs on a game have in common is said below its name. Bands are 95 % intervals over trials,
    or their range where there are few; of one trial, they are over its games.
    """
    most = max(len(on.results) + len(on.references) for on in games)  # lines of a legend
    with _panels(files, len(games), 3.4 + 0.2 * most) as panels:
        for axes, on in zip(panels, games, strict=True):
            entries = [result.entry for result in on.results]
            trials = [entry.run.experiment.trials for entry in entries]
            labels = [
                f"{entry.label}, {n} trials" if n > 1 else f"{entry.label}, 1 trial (band: its games)"
                for entry, n in zip(entries, trials, strict=True)
            ]
            _draw_curves(axes, entries, labels, unit=1e6)
            for words, algorithm, score in on.references:
                style, colour = (":", colour_of(algorithm)) if algorithm else ("--", _LINE)
                axes.axhline(score, color=colour, linewidth=0.8, linestyle=style, label=words)
            axes.set(xlabel="million agent steps", ylabel="score")
            lines = textwrap.wrap(", ".join(on.in_common), 60)
            place: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "ha": "center", "va": "bottom"}
            axes.annotate("\n".join(lines), (0.5, 1), xytext=(0, 4), fontsize=8, **place)
            axes.set_title(_literal(on.title), pad=6 + 11 * len(lines))
            axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16))


@contextlib.contextmanager
def _panels(files: Sequence[Path], count: int, height: float) -> "Iterator[Sequence[Axes]]":
    """Panels of one figure, three in a row."""
    columns = min(3, count)
    rows = -(-count // columns)
    with figure_of(files, (1.0 + 4.2 * columns, rows * height)) as figure:
        panels: Any = figure.subplots(rows, columns, squeeze=False).ravel()
        for axes in panels[count:]:
            axes.set_visible(False)
        yield panels[:count]


def curves_on_tasks(tasks: Sequence[OnTask], group: str, *files: Path) -> None:
    """Evaluations by agent steps, a panel for each task, a line for each run of a group; PNG or SVG.

    Bands are 95 % intervals over trials, or their range where there are few. One legend serves all panels.
    """
    with _panels(files, len(tasks), 3.0) as panels:
        labelled: dict[str, Any] = {}
        for axes, on in zip(panels, tasks, strict=True):
            entries = [result.entry for result in on.results if group in result.groups]
            _draw_curves(axes, entries, [entry.label for entry in entries], unit=1000)
            labelled |= {label: line for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
            for _, _, goal in on.references:
                axes.axhline(goal, color=_LINE, linewidth=0.8, linestyle="--")
            axes.set(xlabel="thousand agent steps", ylabel=f"return, {entries[0].curve.of}" if entries else "")
            axes.set_title(_literal(on.title))
        figure: Any = panels[0].figure
        figure.legend(
            labelled.values(), labelled.keys(), frameon=False, loc="outside lower center", ncols=min(3, len(labelled))
        )


def scores(results: Sequence[Result], title: str, *files: Path) -> None:
    """Each run's mean with its 95 % interval, best on top, and the paper's; PNG or SVG."""
    with figure_of(files, (7.5, 1.5 + 0.45 * len(results))) as figure:
        axes: Axes = figure.subplots()
        for place, result in enumerate(results):
            mean, low, high = result.mean.mean, result.mean.low, result.mean.high
            error = [[mean - low], [high - mean]] if np.isfinite(low) else None
            colour = colour_of(result.entry.algorithm)
            axes.errorbar([mean], [place - 0.12], xerr=error, fmt="o", color=colour, capsize=4)
            if result.paper:
                label = "paper ± as it gives it" if place == 0 else None
                axes.errorbar([result.paper.mean], [place + 0.2], xerr=[result.paper.spread], fmt="D", color="#888888",
                              markerfacecolor="white", capsize=3, linewidth=1, label=label)  # fmt: skip
        axes.set_yticks(range(len(results)), [_literal(result.entry.label) for result in results])
        axes.set_ylim(len(results) - 0.5, -0.5)
        heading = interval_heading(result.mean for result in results)
        axes.set(xlabel=f"Mean return, {heading}", title=_literal(title))
        axes.grid(alpha=0.25, axis="x")
        if any(result.paper for result in results):
            axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))


def heat_maps(search: Search, title: str, *files: Path) -> None:
    """The score of every setting, a map for each algorithm; PNG or SVG."""
    rows = max(len(heat.rows) for heat in search.maps.values())
    columns = max(len(heat.columns) for heat in search.maps.values())
    width = 1.5 + len(search.maps) * max(1.8, 0.6 + 0.13 * columns)  # a panel has room for its title
    size = (max(7.5, width), 2.2 + 0.15 * rows)
    with figure_of(files, size) as figure:
        low, high = score_range(search)
        panels: Any = figure.subplots(1, len(search.maps), squeeze=False)
        labelled: list[str] = []
        for panel, (algorithm, heat) in zip(panels[0], search.maps.items(), strict=True):
            values = [[point.score if point else np.nan for point in line] for line in heat.points]
            image = panel.imshow(values, vmin=low, vmax=high, cmap="viridis", aspect="auto", interpolation="nearest")
            panel.set_title(algorithm_of(algorithm).title)
            words = [f"{optimizer} {rate}".strip() for optimizer, rate in heat.columns]
            panel.set_xticks(range(len(words)), map(_literal, words), rotation=90, fontsize=6)
            if heat.rows != labelled:  # the same rows as the panel before need no names again
                panel.set_yticks(range(len(heat.rows)), map(_literal, heat.rows), fontsize=6)
            else:
                panel.set_yticks([])
            labelled = heat.rows
            panel.spines[:].set_visible(False)
            panel.tick_params(length=0)
        figure.colorbar(image, ax=panels[0], label="Score", fraction=0.02)
        figure.suptitle(_literal(title))


def sensitivity(search: Search, title: str, *files: Path) -> None:
    """The share of an algorithm's settings that reach a score, a line for each algorithm; PNG or SVG."""
    with figure_of(files, (7.5, 4.5)) as figure:
        axes: Axes = figure.subplots()
        for algorithm, (values, share) in search.shares.items():
            width = 2.2 if algorithm == "mac" else 1.4
            label = algorithm_of(algorithm).title
            axes.step(values, share, where="pre", color=colour_of(algorithm), linewidth=width, label=label)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        axes.set(xlabel="Score", ylabel="Share of settings that reach it", title=_literal(title))
        axes.set_ylim(0, 1.02)
        axes.grid(alpha=0.25)


def variances(trial: Trial, batches: Sequence[str], title: str, *files: Path) -> None:
    """The variance of every estimator through training, a panel for each batch; PNG or SVG."""
    with figure_of(files, (1.5 + 3.1 * len(batches), 4.0)) as figure:
        panels: Any = figure.subplots(1, len(batches), squeeze=False, sharey=True)
        episodes = [moment.episode for moment in trial.moments]
        for panel, batch in zip(panels[0], batches, strict=True):
            for name in estimators_of(trial, batch):
                numbers = [moment.row(name, batch)["variance"] for moment in trial.moments]
                value = np.array([number.value for number in numbers])
                error = np.abs(np.array([[n.low, n.high] for n in numbers]).T - value)
                panel.errorbar(episodes, value, yerr=error, color=colour_of(name), capsize=3, marker="o", markersize=4,
                               linewidth=2.2 if name == "mac" else 1.4, label=algorithm_of(name).title)  # fmt: skip
            panel.set(xlabel="Episode of training", title=batch_in_words(batch), yscale="log")
            panel.grid(alpha=0.25)
        panels[0][0].set_ylabel("Variance, all parameters")
        panels[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(_literal(title))


def variance_sources(trial: Trial, batch: str, title: str, *files: Path) -> None:
    """What every estimator's variance comes from, a panel for each moment; PNG or SVG."""
    with figure_of(files, (2.2 + 2.4 * len(trial.moments), 3.2)) as figure:
        panels: Any = figure.subplots(1, len(trial.moments), squeeze=False, sharey=True)
        names = estimators_of(trial, batch)
        for panel, moment in zip(panels[0], trial.moments, strict=True):
            shares = [sources_of(moment.row(name, batch)) for name in names]
            above, below = np.zeros(len(names)), np.zeros(len(names))
            for part, words in SOURCES.items():
                value = 100 * np.array([share[part] for share in shares])
                start = np.where(value >= 0, above, below)
                panel.barh(range(len(names)), value, left=start, color=PARTS[part], label=words)
                above, below = above + np.maximum(value, 0), below + np.minimum(value, 0)
            panel.axvline(0, color="#444444", linewidth=0.8)
            panel.axvline(100, color="#444444", linewidth=0.8, linestyle=":")
            panel.set_yticks(range(len(names)), [algorithm_of(name).title for name in names])
            panel.set(title=f"episode {moment.episode}", xlabel="% of the variance")
        panels[0][0].invert_yaxis()
        panels[0][-1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.suptitle(_literal(title))


def entropy_curves(theory: Theory, title: str, *files: Path) -> None:
    """What MAC saves against entropy: how much in random problems, and which share there and in networks."""
    with figure_of(files, (10.5, 4.2)) as figure:
        left, right = figure.subplots(1, 2)
        for curve in theory.curves:
            style, label = (
                "-" if curve.actions == 2 else "--",
                f"{algorithm_of(curve.estimator).title}, {curve.actions} actions",
            )
            colour = colour_of(curve.estimator)
            left.plot(curve.entropy, curve.amount, style, color=colour, marker="o", markersize=3, label=label)
            right.plot(curve.entropy, curve.saved, style, color=colour, marker="o", markersize=3)
            right.fill_between(curve.entropy, curve.low, curve.high, color=colour, alpha=0.08, linewidth=0)
        for rival in rivals_of(theory):
            x, y = entropy_points(theory, rival)
            label = f"{algorithm_of(rival).title}, networks"
            right.plot(x, y, "D", color=colour_of(rival), markeredgecolor="black", label=label if len(x) else None)
        left.set(ylabel="Variance saved, of its most", title="how much")
        right.set(ylabel="Share of the variance saved", title="which share")
        for panel in (left, right):
            panel.set(xlabel="Entropy, of the most possible", xlim=(-0.02, 1.02), ylim=(-0.02, 1.05))
            panel.grid(alpha=0.25)
            if panel.get_legend_handles_labels()[0]:
                panel.legend(frameon=False, fontsize=8)
        figure.suptitle(_literal(title))


def score_range(search: Search) -> tuple[float, float]:
    """Of all settings of all algorithms, so that colours mean the same everywhere."""
    values = [point.score for points in search.points.values() for point in points]
    return min(values), max(values)


@contextlib.contextmanager
def figure_of(files: Sequence[Path], size: tuple[float, float]) -> "Iterator[Figure]":
    """A figure to draw on, which is then written to each file: the same data give the same bytes."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    style: Any = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "mean-actor-critic",
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        yield figure
        for file in files:
            picture = io.BytesIO()
            kind = file.suffix.removeprefix(".")
            figure.savefig(picture, format=kind, metadata={"Date": None} if kind == "svg" else None)
            figure.set_layout_engine("none")  # it has found its places: the next file is laid out like the first
            write_whole(file, picture.getvalue())


def _literal(text: str) -> str:
    """As it is: a dollar sign in a name begins no formula."""
    return text.replace("$", r"\$")
