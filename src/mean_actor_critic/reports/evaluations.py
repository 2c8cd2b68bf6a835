"""What a run came to at its evaluations.

The unit of statistics is a trial: where there are several, intervals are over trials. Where there is one, they are over
its episodes, and whoever shows them says so.
"""

from typing import NamedTuple

import numpy as np

from mean_actor_critic.reports.statistics import Summary, summarise
from mean_actor_critic.runs.run import Run


class Score(NamedTuple):
    """What the trials of a run came to at an evaluation."""

    summary: Summary
    over: str  # what the summary is over: "trials", or the "episodes" or "games" of one trial
    played: int  # episodes, of all trials together
    cut_off: int  # of these, ended by the evaluation's steps; 0 where this is not counted
    moment: int  # when it took place, in the unit of the budget

    @property
    def n_in_words(self) -> str:
        """How many values the summary is of, and what they are."""
        return f"{self.summary.n} {self.over if self.summary.n > 1 else self.over.removesuffix('s')}"


def evaluated(run: Run) -> int:
    """How many evaluations all trials of a run have had."""
    return int(run.evaluations.evaluated.min())


def score_at(run: Run, evaluation: int) -> Score:
    """What the trials of a run came to at an evaluation, counted from 0, that all of them have had."""
    scores, cut_off = run.evaluations.scores[:, evaluation], run.evaluations.unfinished
    several = len(scores) > 1
    return Score(
        summarise(run.evaluations.means[:, evaluation] if several else scores[0][np.isfinite(scores[0])]),
        "trials" if several else ("games" if run.experiment.is_game else "episodes"),
        int(np.isfinite(scores).sum()),
        0 if cut_off is None else int(cut_off[:, evaluation].sum()),
        run.experiment.moment_of_evaluation(evaluation),
    )


def last_score(run: Run) -> Score | None:
    """What a run came to at the last evaluation that all trials have had; None before the first."""
    return score_at(run, evaluated(run) - 1) if evaluated(run) else None


def best_score(run: Run) -> Score | None:
    """The same for the evaluation with the highest mean."""
    if not evaluated(run):
        return None
    return score_at(run, int(run.evaluations.means[:, : evaluated(run)].mean(axis=0).argmax()))
