"""Learning curves, and the names of arrays in a checkpoint: what engines write and runs read. Imports no JAX."""

from typing import NamedTuple, Self

import numpy as np

from mean_actor_critic.spec.experiment import SOLVED_EVERY, SOLVED_OVER, Experiment
from mean_actor_critic.spec.learners import EPISODES
from mean_actor_critic.trees import Array, Arrays, named

STATE = "state/"  # prefix of the learner state's arrays in a checkpoint, [trials, …]
REPLAY = STATE + "replay/"  # prefix of its ring's
LOOK_EVERY = 1000  # agent steps between two looks at whether a trial is solved, where environments play side by side
PLAYING = STATE + "playing/"  # prefix of what its environments are at, where a trial goes on in mid-episode
KEPT = "agent/"  # prefix of what agents keep of the states, where it is not a part of them, [trials, …]
SNAPSHOTS = "snapshots/"  # prefix of networks as they were, with the episode: snapshots/50/policy/0/weight
NETWORKS = ("policy/", "critic/", "normalizer/mean", "normalizer/variance", "network/")  # what an agent is made of


class Curves(NamedTuple):
    """Episodes of training so far. Where the budget is in steps, the number of columns grows with them."""

    returns: Array  # float32 [trials, episodes] undiscounted; NaN where not played
    lengths: Array  # int32 [trials, episodes] agent steps; 0 where not played
    # int64 [trials, episodes] agent steps of the trial when an episode ended, where its environments play side by side;
    # None where one episode follows the other
    ends: Array | None = None

    @classmethod
    def empty(cls, trials: int, episodes: int, side_by_side: bool = False) -> Self:
        """Before the first episode."""
        shape = (trials, episodes)
        ends = np.zeros(shape, np.int64) if side_by_side else None
        return cls(np.full(shape, np.nan, np.float32), np.zeros(shape, np.int32), ends)

    @classmethod
    def blank(cls, trials: int, episodes: int, side_by_side: bool = False) -> Self:
        """The same to look at only: it takes no memory."""
        kinds = ((np.nan, np.float32), (0, np.int32), (0, np.int64))[: 3 if side_by_side else 2]
        return cls(*(np.broadcast_to(np.array(x, kind), (trials, episodes)) for x, kind in kinds))

    def arrays(self) -> Arrays:
        """By the names that they have in a checkpoint."""
        return named(self)

    def with_columns(self, episodes: int) -> Self:
        """The same with room for so many episodes: more, or none of those played fewer."""
        blank = self.empty(len(self.returns), episodes, self.ends is not None)
        columns = min(episodes, self.returns.shape[1])
        for new, old in zip(blank, self, strict=True):
            if new is not None and old is not None:
                new[:, :columns] = old[:, :columns]
        return blank

    @property
    def played(self) -> Array:
        """Episodes of each trial [trials]."""
        return np.asarray(np.sum(self.lengths > 0, axis=1))

    @property
    def ended_at(self) -> Array:
        """Agent steps of its trial when each episode ended, int64 [trials, episodes]."""
        return np.cumsum(self.lengths, axis=1, dtype=np.int64) if self.ends is None else self.ends

    @property
    def steps(self) -> Array:
        """Agent steps of each trial [trials], in the episodes that have ended."""
        return np.asarray(np.sum(self.lengths, axis=1, dtype=np.int64))


class Evaluations(NamedTuple):
    """What trials came to when they were evaluated: at multiples of the interval, and at the end of the budget.

    On games there is more beside the scores.
    """

    # float32 [trials, evaluations, episodes] undiscounted returns of sampled actions; NaN where there is none
    scores: Array
    evaluated: Array  # int32 [trials] evaluations so far
    unfinished: Array | None = None  # int32 [trials, evaluations] games of these that were cut off by the steps
    entropy: Array | None = None  # float32 [trials, evaluations] mean of the policy's over the states seen, in nats
    training_score: Array | None = None  # float32 [trials, evaluations] mean of the games that ended in training since
    training_games: Array | None = None  # int32 [trials, evaluations] how many
    greedy_scores: Array | None = None  # as `scores`, of the most probable actions in the same episodes

    @classmethod
    def empty(cls, experiment: Experiment) -> Self:
        """Before the first evaluation."""
        return cls(**{name: array.copy() for name, array in named(cls.blank(experiment)).items()})

    @classmethod
    def blank(cls, experiment: Experiment) -> Self:
        """The same to look at only: it takes no memory."""
        shape = (experiment.trials, experiment.evaluations)
        scores = np.broadcast_to(np.float32(np.nan), (*shape, experiment.most_evaluation_episodes))
        evaluated = np.broadcast_to(np.int32(0), shape[:1])
        if not experiment.is_game:
            return cls(scores, evaluated, greedy_scores=scores if any(experiment.evaluation_ways) else None)
        nothing, no_games = np.broadcast_to(np.float32(np.nan), shape), np.broadcast_to(np.int32(0), shape)
        return cls(scores, evaluated, no_games, nothing, nothing, no_games)

    @property
    def means(self) -> Array:
        """The mean score of each evaluation [trials, evaluations] by sampled actions; NaN for those to come."""
        return _means(self.scores)

    @property
    def greedy_means(self) -> Array | None:
        """The same by the most probable actions, where these were played."""
        return None if self.greedy_scores is None else _means(self.greedy_scores)

    @property
    def deciding_means(self) -> Array:
        """Those that say which agent is the best and when a trial is solved: the greedy ones where there are any."""
        return self.means if self.greedy_scores is None else _means(self.greedy_scores)

    def record(self, trials: Array, number: int, returns: Array) -> None:
        """Put down an evaluation of trials, by their places [n]: returns [way, n, episodes] as they were played."""
        for scores, played in zip((self.scores, self.greedy_scores), returns, strict=False):
            assert scores is not None
            scores[trials, number, : played.shape[1]] = played
        self.evaluated[trials] += 1

    def of_trials(self, trials: Array) -> Self:
        """Those of some trials, by their places."""
        return self._replace(**{name: array[trials] for name, array in named(self).items()})

    def arrays(self) -> Arrays:
        """By the names that they have in a checkpoint; none where there are no evaluations."""
        return named(self) if self.scores.shape[1] else {}

    def for_longer(self, before: Experiment, experiment: Experiment) -> Self:
        """The same with room for the evaluations of a longer budget; one that was only due to the end is dropped."""
        longer = self.empty(experiment)
        pairs = zip(before.evaluation_moments(), experiment.evaluation_moments(), strict=False)
        kept = sum(one == other for one, other in pairs)
        evaluated = np.minimum(self.evaluated, kept)
        for name, array in longer._asdict().items():
            if array is not None and array.ndim > 1:
                array[:, :kept] = getattr(self, name)[:, :kept]
        longer.evaluated[:] = evaluated
        return longer


def _means(scores: Array) -> Array:
    """Means over the episodes that were played [...]; NaN where there are none."""
    played = np.isfinite(scores)
    total = np.where(played, scores, 0).sum(axis=-1, dtype=np.float64)
    return np.where(played.any(-1), total / np.maximum(played.sum(-1), 1), np.nan)


class ByTime(NamedTuple):
    """Returns of trials in bins of time that are equally wide."""

    x: Array  # [points] the middle of each bin
    width: int  # of a bin
    values: Array  # [trials, points] mean return of the episodes that ended in a bin; where none did, the one before
    end: int  # up to which all trials have played whole episodes


def returns_by_steps(curves: Curves, most: int) -> ByTime | None:
    """Returns by agent steps, in at most so many bins; None before every trial has ended an episode.

    There are as many bins as the trial with the fewest episodes has episodes. The first is the one by which every trial
    has ended an episode.
    """
    played = curves.lengths > 0
    ends = curves.ended_at
    if not played.shape[1]:
        return None
    end = int(ends.max(axis=1).min())
    fewest = int(np.sum(played & (ends <= end), axis=1).min())
    if not fewest:
        return None
    width = -(-end // min(fewest, most))
    bins = end // width
    values = np.array([
        _binned(returns[mask], (steps[mask] - 1) // width, bins)
        for returns, steps, mask in zip(curves.returns, ends, played, strict=True)
    ])  # fmt: skip
    first = int(np.isfinite(values).all(axis=0).argmax())
    if not np.isfinite(values[:, first]).all():
        return None
    return ByTime((np.arange(first, bins) + 0.5) * width, width, values[:, first:], end)


def _binned(returns: Array, places: Array, bins: int) -> Array:
    """Mean return in each bin [bins], carried forward where there is none; NaN before the first.

    `places` [episodes], ascending, says into which bin each of the `returns` falls; those beyond the last do not count.
    """
    inside = places < bins
    sums = np.bincount(places[inside], np.asarray(returns[inside], np.float64), bins)
    counts = np.bincount(places[inside], minlength=bins)
    means = sums / np.where(counts, counts, np.nan)
    latest = np.maximum.accumulate(np.where(counts, np.arange(bins), -1))
    return np.where(latest >= 0, means[latest], np.nan)


def lengthened(before: Experiment, experiment: Experiment, arrays: Arrays) -> Arrays:
    """The arrays of a checkpoint, as the same run has them with a longer budget."""
    found = dict(arrays)
    curves = [found[name] for name in Curves._fields if name in found]
    if experiment.episodes is not None and [array.ndim for array in curves] == [2, 2]:
        found |= Curves(*curves).with_columns(experiment.episodes).arrays()
    names = Evaluations.blank(before).arrays()
    if names and set(names) <= set(found):
        kept = Evaluations(**{name: found[name] for name in names})
        found |= kept.for_longer(before, experiment).arrays()
    return found


class Ends(NamedTuple):
    """Where each trial ends: by its budget, or earlier because it is solved."""

    experiment: Experiment

    @property
    def look_every(self) -> int:
        """Agent steps between two looks at whether a trial is solved, where environments play side by side."""
        per_update = self.experiment.steps_per_update
        return max(1, LOOK_EVERY // per_update) * per_update

    def looked_at(self, curves: Curves, steps: Array) -> Curves:
        """Curves without the episodes that ended after the last look at trials that have taken so many steps."""
        seen = curves.ended_at <= (steps // self.look_every * self.look_every)[:, None]
        return curves._replace(returns=np.where(seen, curves.returns, np.nan))

    def solved_at(self, curves: Curves, evaluations: Evaluations) -> Array:
        """Episodes, or evaluations, after which each trial was as good as `until` asks for [trials]; 0: not yet."""
        until, trials = self.experiment.until, len(curves.returns)  # of all trials, or of some
        if until is None:
            return np.zeros(trials, np.int64)
        if self.experiment.evaluations:
            means = evaluations.deciding_means
            return _first(means >= until, np.arange(1, means.shape[1] + 1))
        played = curves.returns.shape[1]
        looks = np.arange(SOLVED_OVER, played + 1, SOLVED_EVERY)
        if not len(looks):
            return np.zeros(trials, np.int64)
        total = np.cumsum(np.asarray(curves.returns, np.float64), axis=1)  # NaN from the first episode not played on
        before = np.concatenate([np.zeros((trials, 1)), total], axis=1)[:, looks - SOLVED_OVER]
        return _first((total[:, looks - 1] - before) / SOLVED_OVER >= until, looks)

    def trained(self, curves: Curves, evaluations: Evaluations) -> Array:
        """Whether each trial has been trained as long as it should be [trials]."""
        budget = self.experiment.budget
        done = curves.played if budget.unit == EPISODES else curves.steps
        return (done >= budget.amount) | (self.solved_at(curves, evaluations) > 0)


def _first(reached: Array, moments: Array) -> Array:
    """The moment of the first column that is true [trials]; 0 where none is."""
    return np.where(reached.any(axis=1), moments[reached.argmax(axis=1)] if len(moments) else 0, 0)
