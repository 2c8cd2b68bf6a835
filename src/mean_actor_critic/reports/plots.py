"""Figures, with matplotlib."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.errors import MacError
from mean_actor_critic.experiment import ALGORITHMS
from mean_actor_critic.store import disk_faults

# Okabe & Ito's colours: told apart by colour-blind readers
COLOURS = {
    "mac": "#D55E00",
    "advantage_actor_critic": "#0072B2",
    "actor_critic": "#009E73",
    "advantage_reinforce": "#CC79A7",
    "reinforce": "#7F7F7F",
}

MOST_POINTS = 300  # of a line; longer curves are shown as means of neighbouring episodes


def require_matplotlib() -> None:
    """Raise a MacError that names the extra, unless figures can be drawn. Ask before long work, not after it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise MacError("figures need matplotlib: pip install 'mean-actor-critic[plots]'")


def learning_curves(returns: Mapping[str, np.ndarray[Any, Any]], title: str, file: Path) -> None:
    """Mean return by episode with a 95 % band, a line for each algorithm's returns [trials, episodes]; PNG or SVG."""
    require_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(7.5, 4.5), dpi=150, layout="constrained")
        axes = figure.subplots()
        ends = []
        for algorithm, curves in returns.items():
            trials, episodes = curves.shape
            together = -(-episodes // MOST_POINTS)  # episodes in a point
            points = episodes // together
            averaged = curves[:, : points * together].reshape(trials, points, together).mean(axis=2)
            mean = np.mean(averaged, axis=0)
            half_width = 1.96 * np.std(averaged, axis=0, ddof=1) / np.sqrt(trials) if trials > 1 else np.zeros(points)
            episode = np.arange(points) * together + (together + 1) / 2
            colour = COLOURS.get(algorithm)
            width = 2.2 if algorithm == "mac" else 1.4
            axes.plot(episode, mean, color=colour, linewidth=width, label=ALGORITHMS[algorithm].title)
            axes.fill_between(episode, mean - half_width, mean + half_width, color=colour, alpha=0.2, linewidth=0)
            ends.append(mean[-1])
        handles, labels = axes.get_legend_handles_labels()
        order = np.argsort(ends)[::-1]  # the legend reads in the order of the lines' ends
        axes.legend([handles[i] for i in order], [labels[i] for i in order], frameon=False, loc="center left",
                    bbox_to_anchor=(1.0, 0.5))  # fmt: skip
        longest = max(curves.shape[1] for curves in returns.values())
        together = -(-longest // MOST_POINTS)
        label = "Episode" if together == 1 else f"Episode (means of {together})"
        axes.set(xlabel=label, ylabel="Return", title=title)
        axes.set_xlim(1, longest)
        axes.grid(alpha=0.25)
        with disk_faults(file, "write the figure"):
            figure.savefig(file)
