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


def score_at(run: Run, evaluation: int, greedy: bool = False) -> Score:
    """What the trials of a run came to at an evaluation, counted from 0, that all of them have had.

    By sampled actions, or by the most probable ones where these were played.
    """
    done, cut_off = run.evaluations, run.evaluations.unfinished
    every, means = (done.greedy_scores, done.greedy_means) if greedy else (done.scores, done.means)
    assert every is not None
    assert means is not None
    scores = every[:, evaluation]
    several = len(scores) > 1
    return Score(
        summarise(means[:, evaluation] if several else scores[0][np.isfinite(scores[0])]),
        "trials" if several else ("games" if run.experiment.is_game else "episodes"),
        int(np.isfinite(scores).sum()),
        0 if cut_off is None else int(cut_off[:, evaluation].sum()),
        run.experiment.moment_of_evaluation(evaluation),
    )


def last_score(run: Run) -> Score | None:
    """What a run came to at the last evaluation that all trials have had; None before the first."""
    return score_at(run, evaluated(run) - 1) if evaluated(run) else None


def scores_in_words(run: Run) -> list[tuple[str, Score]]:
    """What a run came to at the last evaluation that all trials have had, and at the best; nothing before the first.

    The best is that with the highest mean, of the most probable actions where these were played.
    """
    done, count = run.evaluations, evaluated(run)
    if not count:
        return []
    best = int(done.deciding_means[:, :count].mean(axis=0).argmax())
    by_score = "the best evaluation (chosen by its score)"
    if done.greedy_scores is None:
        return [("the last evaluation", score_at(run, count - 1)), (by_score, score_at(run, best))]
    return [
        ("the last evaluation, most probable actions", score_at(run, count - 1, greedy=True)),
        ("the last evaluation, sampled actions", score_at(run, count - 1)),
        (f"{by_score}, most probable actions", score_at(run, best, greedy=True)),
    ]
