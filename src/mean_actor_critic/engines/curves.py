"""Learning curves, and the names of arrays in a checkpoint: what engines write and runs read. Imports no JAX."""

from typing import Any, NamedTuple, Self

import numpy as np

from mean_actor_critic.spec.atari_experiment import AtariExperiment

STATE = "state/"  # prefix of the learner state's arrays in a checkpoint; the rest are curves
SNAPSHOTS = "snapshots/"  # prefix of networks as they were, with the episode: snapshots/50/policy/0/weight
NETWORKS = ("policy/", "critic/", "normalizer/mean", "normalizer/variance")  # what an agent is made of


class Curves(NamedTuple):
    """Learning curves so far."""

    returns: np.ndarray[Any, Any]  # [trials, episodes], NaN where not played yet
    lengths: np.ndarray[Any, Any]  # [trials, episodes] agent steps, 0 where not played yet

    @property
    def played(self) -> np.ndarray[Any, Any]:
        """Episodes of each trial [trials]."""
        return np.sum(self.lengths > 0, axis=1)

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""
        return int(np.sum(self.lengths > 0))

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""
        return self.episodes_done == self.lengths.size


class AtariCurves(NamedTuple):
    """What the trials of a run have come to so far. Evaluations are at multiples of the interval, and at the end."""

    scores: np.ndarray[Any, Any]  # float32 [trials, evaluations, games] raw; NaN where there is no game
    unfinished: np.ndarray[Any, Any]  # int32 [trials, evaluations] games of these that were cut off by the steps
    entropy: np.ndarray[Any, Any]  # float32 [trials, evaluations] mean of the policy's, in nats, over the states seen
    training_score: np.ndarray[Any, Any]  # float32 [trials, evaluations] mean of the games that ended in training since
    training_games: np.ndarray[Any, Any]  # int32 [trials, evaluations] how many
    evaluated: np.ndarray[Any, Any]  # int32 [trials] evaluations so far

    @classmethod
    def empty(cls, experiment: AtariExperiment) -> Self:
        """Before the first evaluation."""
        shape = (experiment.trials, experiment.evaluations)
        return cls(
            np.full((*shape, experiment.most_games), np.nan, np.float32),
            np.zeros(shape, np.int32),
            np.full(shape, np.nan, np.float32),
            np.full(shape, np.nan, np.float32),
            np.zeros(shape, np.int32),
            np.zeros(shape[0], np.int32),
        )


def mean_scores(curves: AtariCurves) -> np.ndarray[Any, Any]:
    """The mean score of each evaluation [trials, evaluations]; NaN for those to come."""
    played = np.isfinite(curves.scores)
    total = np.where(played, curves.scores, 0).sum(axis=-1, dtype=np.float64)
    return np.where(played.any(-1), total / np.maximum(played.sum(-1), 1), np.nan)
