"""A study whose environments live in worker processes: plays, learns and keeps the curves, a moment at a time."""

import concurrent.futures
import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from mean_actor_critic.engines import hosted
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.records import Snapshots, checkpoint_arrays, starting_point
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.learning.types import Trajectory
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Arrays

SEGMENT_SECONDS = 0.5

HostArray = np.ndarray[Any, Any]


class HostedStudy:
    """All trials of an experiment on hosted environments, and their curves so far.

    The states are those at the end of each trial's last whole episode: what was played of an unfinished one is not
    kept, because a resumed trial plays it again from the same seed.
    """

    def __init__(
        self,
        experiment: Experiment,
        environment: EnvironmentSpec,
        width: int,
        saved: Arrays | None,
        limits: WorkerLimits,
        snapshots: Sequence[int] = (),
    ) -> None:
        """Start at the beginning, or where the arrays of a checkpoint left off; `snapshots` as for `CompiledStudy`.

        Raises:
            DamagedFileError: the arrays are not those of this experiment.
        """
        self.experiment = experiment
        self._width = width
        state, self.curves = starting_point(experiment, experiment.setup, environment.spaces, saved)
        self._snapshots = Snapshots(snapshots, state, saved)
        if saved is None:
            self._snapshots.take(0, np.arange(experiment.trials), state)
        self._played = self.curves.played
        self._trial = experiment.trial_numbers()
        self._learn = hosted.learning_program(experiment.setup)
        # not where the actors are: one device does one thing at a time, and nobody should wait for a lesson to act
        self._hyper, self._state = jax.device_put((experiment.hyper_of_trials(), state), jax.devices()[-1])
        self._waiting: list[int] = []  # trials that have ended an episode and not learned from it
        # in a thread of its own, so that the others play on: who learns, and what comes of it
        self._teacher = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mac-learning")
        self._lesson: tuple[HostArray, concurrent.futures.Future[hosted.Lesson]] | None = None
        self._recent: list[float] = []  # returns since the last report, or the last before it
        self._diverged = int(np.sum(state.diverged_at > 0))
        draws = np.asarray(
            hosted.drawing_program(experiment.setup.max_episode_steps)(
                np.uint32(experiment.seed), self._trial, state.episode
            )
        )
        self._troupe = hosted.Troupe(experiment.setup, environment, state.actor, limits)
        for trial in range(experiment.trials):
            self._begin(trial, draws[trial])

    @property
    def position(self) -> int:
        """Episodes played so far, over all trials."""
        return self.episodes_done

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""
        return self.episodes_done == self.curves.lengths.size

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""
        return int(self._played.sum())

    @property
    def steps_taken(self) -> int:
        """Agent steps so far, over all trials, those of unfinished episodes included."""
        # an episode is in the curves from when it has been learned from, and then its lane is begun anew
        return int(self.curves.lengths.sum()) + self._troupe.steps_on_board

    @property
    def process_ids(self) -> list[int]:
        """Of the workers."""
        return self._troupe.fleet.process_ids

    def _begin(self, trial: int, draws: HostArray) -> None:
        episode = int(self._played[trial])
        if episode < self.experiment.episodes:
            number = int(self._trial[trial])
            self._troupe.begin(trial, number, episode, reset_seed(self.experiment.seed, number, episode), draws)

    def advance(self) -> Progress:
        """Play and learn for about half a second.

        Raises:
            EnvironmentFault: an environment failed; all that was learned until then is kept.
        """
        until = time.monotonic() + SEGMENT_SECONDS
        self._recent = self._recent[-1:]
        while not self.finished and time.monotonic() < until:
            if self._lesson is not None and (not self._troupe.at_play or self._lesson[1].done()):
                self._end_lesson()
            if self._lesson is None and (len(self._waiting) >= self._width or not self._troupe.at_play):
                self._begin_lesson()
            if self._troupe.at_play:
                self._waiting += self._troupe.turn().tolist()
        return Progress(
            self.episodes_done, self.curves.lengths.size, float(np.mean(self._recent or [np.nan])), self._diverged
        )

    def _begin_lesson(self) -> None:
        """Let the trials that have waited longest learn; where there are fewer than the width, padding does."""
        learners, self._waiting = self._waiting[: self._width], self._waiting[self._width :]
        which = np.full(self._width, self.experiment.trials, np.int32)
        which[: len(learners)] = learners
        lanes = np.minimum(which, self.experiment.trials - 1)
        self._lesson = (which, self._teacher.submit(self._teach, which, self._troupe.trajectories(lanes)))

    def _teach(self, which: HostArray, trajectories: Trajectory) -> hosted.Lesson:
        """The learning program's results, all but the states on the host."""
        lesson = self._learn(
            np.uint32(self.experiment.seed), self._trial, self._hyper, self._state, which, trajectories
        )
        return hosted.Lesson(lesson.state, *on_host(lesson[1:]))

    def _end_lesson(self) -> None:
        """Take in what was learned: curves, actors, and the next episodes."""
        assert self._lesson is not None
        which, future = self._lesson
        lesson = future.result()
        self._lesson = None
        self._state = lesson.state
        self._diverged += int(np.sum(lesson.newly_diverged[which < self.experiment.trials]))
        self._troupe.replace(which, lesson.actor)
        for i, trial in enumerate(which[which < self.experiment.trials]):
            episode = self._played[trial]
            self.curves.returns[trial, episode] = lesson.metrics.episode_return[i]
            self.curves.lengths[trial, episode] = lesson.metrics.length[i]
            self._recent.append(float(lesson.metrics.episode_return[i]))
            self._played[trial] += 1
            if self._played[trial] in self._snapshots.moments:
                own = jax.tree.map(lambda x, i=trial: np.asarray(x[i : i + 1]), self._state._replace(replay=()))
                self._snapshots.take(int(self._played[trial]), np.array([trial]), own)
            self._begin(int(trial), np.asarray(lesson.draws[i]))

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        while self._lesson is not None or self._waiting:  # episodes that were played are not to be lost
            if self._lesson is None:
                self._begin_lesson()
            self._end_lesson()
        state = on_host(self._state)
        return checkpoint_arrays(state, self.curves, self._snapshots)

    def close(self) -> None:
        """End the worker processes."""
        self._troupe.close()
        self._teacher.shutdown(wait=False)
