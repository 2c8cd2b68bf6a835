"""The runs of a report, each with a label that tells it from the others, and with its curves."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mean_actor_critic.reports.curves import Curve, curves_of
from mean_actor_critic.reports.digits import in_millions
from mean_actor_critic.reports.sources import RunSource
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import algorithm_of
from mean_actor_critic.spec.experiment import SOLVED_OVER
from mean_actor_critic.spec.learners import EPISODES


class Entry(NamedTuple):
    """A run in a report."""

    label: str
    source: RunSource
    curves: Mapping[tuple[str, str], Curve]  # by what they are of and their unit; at least one
    shade: str = ""  # the name of a colour, where that of the algorithm is another run's

    @property
    def run(self) -> Run:
        """The run itself."""
        return self.source.run

    @property
    def curve(self) -> Curve:
        """What the run is judged by: returns of training by episodes or, on games, evaluations by steps."""
        return next(iter(self.curves.values()))

    @property
    def algorithm(self) -> str:
        """The name of its algorithm."""
        return self.source.algorithm

    @property
    def colour(self) -> str:
        """The name of its colour: its own, or its algorithm's."""
        return self.shade or self.algorithm

    @property
    def unfinished(self) -> str:
        """What to say about a run that is not finished; no text about one that is."""
        if self.run.finished:
            return ""
        return f"its trials have {extent(self.run)} so far"


def make_entries(sources: Sequence[RunSource]) -> list[Entry]:
    """Runs with the label of their algorithm, their engine if there are several, and the path if it is needed."""
    engines = {source.run.experiment.engine for source in sources}
    names = [
        algorithm_of(source.algorithm).title + (f" ({source.run.experiment.engine})" if len(engines) > 1 else "")
        for source in sources
    ]
    labels = [
        name + (f" ({source.name})" if names.count(name) > 1 else "") + ("" if source.run.finished else ", unfinished")
        for name, source in zip(names, sources, strict=True)
    ]
    return [
        # paths that cannot be printed may look alike
        Entry(
            label + (f" no. {labels[:place].count(label) + 1}" if labels.count(label) > 1 else ""),
            source,
            curves_of(source.run),
        )
        for place, (label, source) in enumerate(zip(labels, sources, strict=True))
    ]


def share_random_numbers(one: Entry, other: Entry) -> bool:
    """Whether the trials of two runs are the same by engine, seed and number: these begin alike, and are dependent."""
    names = [(e.engine, e.seed, e.first_trial, e.trials) for e in (one.run.experiment, other.run.experiment)]
    return names[0] == names[1]


def trials_in_words(trials: int, diverged: int) -> str:
    """How many, and if some diverged, how many did not: 97/100."""
    return f"{trials - diverged}/{trials}" if diverged else str(trials)


def extent(run: Run) -> str:
    """How much of its budget every trial of a run has used up, such as "12 of 30 episodes"."""
    unit, amount = run.experiment.budget
    if unit == EPISODES:
        return f"{int(run.episodes_done.min())} of {amount} {unit}"
    return f"{in_millions(int(run.steps_done.min()))} of {in_millions(amount)} {unit}"


def solved_words(run: Run) -> str:
    """What to say about trials that ended early because they were good enough; no text if there are none."""
    solved = int(np.sum(run.solved_at > 0))
    if not solved:
        return ""
    over = "of an evaluation" if run.experiment.evaluations else f"over {SOLVED_OVER} episodes"
    reached = f"reached a mean return of {run.experiment.until:g} {over}"
    return f"{solved} of {run.experiment.trials} trials {reached} and ended there"
