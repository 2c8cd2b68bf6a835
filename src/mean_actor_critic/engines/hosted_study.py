"""A study whose environments live in worker processes: plays, learns and keeps the curves, a moment at a time."""

import concurrent.futures
import time
from collections.abc import Sequence

import jax
import numpy as np

from mean_actor_critic.engines import hosted
from mean_actor_critic.engines.curves import Curves, Ends
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.play import episodes_of_evaluation
from mean_actor_critic.engines.records import FIRST_COLUMNS, Snapshots, checkpoint_arrays, starting_point, trimmed
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import MOST_PROBABLE, Networks
from mean_actor_critic.learning.randomness import evaluation_keys
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.learners import EPISODES
from mean_actor_critic.trees import Array, Arrays

SEGMENT_SECONDS = 0.5


class HostedStudy:
    """All trials of an experiment on hosted environments, and their curves so far.

    The states are those at the end of each trial's last whole episode: what was played of an unfinished one is not
    kept, because a resumed trial plays it again from the same seed. So it is with an unfinished evaluation.
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
        start = starting_point(experiment, experiment.setup, environment.spaces, saved)
        self.curves, self.evaluations = start.curves, start.evaluations
        state = start.carried.learner
        self._snapshots = Snapshots(snapshots, experiment.setup, state, saved)
        if saved is None:
            self._snapshots.take(0, np.arange(experiment.trials), state)
        self._played, self._steps = self.curves.played, self.curves.steps
        self._ended = np.zeros(experiment.trials, bool)  # trials that have been trained and evaluated
        self._trial = experiment.trial_numbers()
        limit = experiment.rules.max_episode_steps
        self._learn = hosted.learning_program(experiment.setup, limit)
        self._draw_evaluation = hosted.drawing_program(limit, evaluation_keys)
        # not where the actors are: one device does one thing at a time, and nobody should wait for a lesson to act
        self._hyper, self._carried = jax.device_put((experiment.hyper_of_trials(), start.carried), jax.devices()[-1])
        self._waiting: list[int] = []  # trials that have ended an episode and not learned from it
        self._evaluating: dict[int, list[float]] = {}  # trials that are evaluated, and their returns so far
        # in a thread of its own, so that the others play on: who learns, and what comes of it
        self._teacher = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mac-learning")
        self._lesson: tuple[Array, concurrent.futures.Future[hosted.Lesson]] | None = None
        self._teaching_fails = False
        self._recent: list[float] = []  # returns since the last report, or the last before it
        self._diverged = int(np.sum(state.diverged_at > 0))
        self.newly_evaluated: list[int] = []  # trials, in the last segment
        seed = np.uint32(experiment.seed)
        self._draws = np.array(hosted.drawing_program(limit)(seed, self._trial, state.episode))  # [trials, time]
        actors = learner_of(experiment.setup).actor(experiment.setup, state)
        self._players = hosted.Players(experiment.setup, limit, environment, actors, experiment.trials, limits)
        for trial in range(experiment.trials):
            self._go_on(trial)

    # --- how far it is -----------------------------------------------------------------------------------------------

    @property
    def position(self) -> int:
        """Episodes and evaluations so far, over all trials."""
        return self.episodes_done + int(self.evaluations.evaluated.sum())

    @property
    def finished(self) -> bool:
        """Whether every trial has been trained and evaluated as it should be."""
        return bool(self._ended.all())

    @property
    def episodes_done(self) -> int:
        """Episodes of training so far, over all trials."""
        return int(self._played.sum())

    @property
    def steps_taken(self) -> int:
        """Agent steps of training so far, over all trials, those of unfinished episodes included."""
        # an episode is in the curves from when it has been learned from, and then its lane is begun anew
        return int(self._steps.sum()) + self._players.steps_on_board(without=self._evaluating)

    @property
    def process_ids(self) -> list[int]:
        """Those of the workers."""
        return self._players.fleet.process_ids

    def _done(self) -> Array:
        """What each trial has done [trials], in the budget's unit."""
        return self._played if self.experiment.budget.unit == EPISODES else self._steps

    def _is_due(self, trial: int) -> bool:
        """Whether an evaluation is due before the trial is trained further."""
        number = int(self.evaluations.evaluated[trial])
        if number >= self.experiment.evaluations or self._is_solved(trial):
            return False
        return bool(self._done()[trial] >= self.experiment.moment_of_evaluation(number))

    def _is_solved(self, trial: int) -> bool:
        if self.experiment.until is None:
            return False
        played = int(self._played[trial])
        curves = Curves(self.curves.returns[[trial], :played], self.curves.lengths[[trial], :played])
        evaluations = self.evaluations.of_trials(np.array([trial]))
        return bool(Ends(self.experiment).solved_at(curves, evaluations).any())

    # --- advancing ---------------------------------------------------------------------------------------------------

    def _go_on(self, trial: int) -> None:
        """Begin the next episode of a trial whose lane is free, of an evaluation or of training, if there is one."""
        number, seed = int(self._trial[trial]), self.experiment.seed
        if self._is_due(trial):
            played = self._evaluating.setdefault(trial, [])
            count = self.experiment.evaluation.evaluation_episodes
            way, place = divmod(len(played), count)
            episode = episodes_of_evaluation(int(self.evaluations.evaluated[trial]), count)[place]
            draws = self._draw_evaluation(np.uint32(seed), self._trial[[trial]], np.array([episode], np.int32))
            own = np.full(draws.shape[1], MOST_PROBABLE) if self.experiment.evaluation_ways[way] else on_host(draws)[0]
            self._players.begin(trial, number, episode, reset_seed(seed, number, episode, evaluation=True), own)
        elif self._done()[trial] >= self.experiment.budget.amount or self._is_solved(trial):
            self._ended[trial] = True
        else:
            episode = int(self._played[trial])
            self._players.begin(trial, number, episode, reset_seed(seed, number, episode), self._draws[trial])

    def advance(self) -> Progress:
        """Play and learn for about half a second.

        Raises:
            EnvironmentFault: an environment failed; all that was learned until then is kept.
        """
        until = time.monotonic() + SEGMENT_SECONDS
        self._recent, self.newly_evaluated = self._recent[-1:], []
        while not self.finished and not self.newly_evaluated and time.monotonic() < until:
            if self._lesson is not None and (not self._players.at_play or self._lesson[1].done()):
                self._end_lesson()
            if self._lesson is None and (len(self._waiting) >= self._width or not self._players.at_play):
                self._begin_lesson()
            if self._players.at_play:
                for lane in self._players.turn().tolist():
                    self._end_episode(lane)
        amount = self.experiment.budget.amount
        done = np.where(self._ended, amount, np.minimum(self._done(), amount))
        recent = float(np.mean(self._recent or [np.nan]))
        total = amount * self.experiment.trials
        return Progress(int(done.sum()), total, recent, self._diverged, steps=self.steps_taken)

    def _end_episode(self, trial: int) -> None:
        """Note an episode that has ended: of training, to learn from, or of an evaluation."""
        if trial not in self._evaluating:
            self._waiting.append(trial)
            return
        played = self._evaluating[trial]
        played.append(float(np.sum(self._players.episodes(np.array([trial])).reward, dtype=np.float64)))
        ways = len(self.experiment.evaluation_ways)
        if len(played) == self.experiment.evaluation.evaluation_episodes * ways:
            number = int(self.evaluations.evaluated[trial])
            self.evaluations.record(np.array([trial]), number, np.array(played, np.float32).reshape(ways, 1, -1))
            self.newly_evaluated.append(trial)
            del self._evaluating[trial]
        self._go_on(trial)

    def _begin_lesson(self) -> None:
        """Let the trials that have waited longest learn; where there are fewer than the width, padding does."""
        if not self._waiting:
            return
        learners, self._waiting = self._waiting[: self._width], self._waiting[self._width :]
        which = np.full(self._width, self.experiment.trials, np.int32)
        which[: len(learners)] = learners
        lanes = np.minimum(which, self.experiment.trials - 1)
        self._lesson = (which, self._teacher.submit(self._teach, which, self._players.episodes(lanes)))

    def _teach(self, which: Array, batch: Batch) -> hosted.Lesson:
        """The learning program's results, all but what trials carry on the host."""
        lesson = self._learn(np.uint32(self.experiment.seed), self._trial, self._hyper, self._carried, which, batch)
        return hosted.Lesson(lesson.carried, *on_host(tuple(lesson[1:])))

    def _end_lesson(self) -> None:
        """Take in what was learned: curves, actors, and the next episodes."""
        assert self._lesson is not None
        which, future = self._lesson
        self._lesson = None
        try:
            lesson = future.result()
        except Exception:
            self._teaching_fails = True
            raise
        self._carried = lesson.carried
        learners = which[which < self.experiment.trials].tolist()
        for i, trial in enumerate(learners):  # first: whatever goes wrong after it, states and curves fit each other
            self._record(trial, float(lesson.metrics.episode_return[i]), int(lesson.metrics.length[i]))
        self._diverged += int(np.sum(lesson.newly_diverged[: len(learners)]))
        self._players.replace(which, lesson.actor)
        for i, trial in enumerate(learners):
            self._draws[trial] = lesson.draws[i]
            self._go_on(trial)

    def _record(self, trial: int, episode_return: float, length: int) -> None:
        """Put an episode that has been learned from into the curves, and keep the networks if it is their moment."""
        episode = self._played[trial]
        if episode == self.curves.returns.shape[1]:  # the budget is in steps: room for as many again
            self.curves = self.curves.with_columns(max(FIRST_COLUMNS, 2 * episode))
        self.curves.returns[trial, episode] = episode_return
        self.curves.lengths[trial, episode] = length
        self._recent.append(episode_return)
        self._played[trial] += 1
        self._steps[trial] += length
        if self._played[trial] in self._snapshots.moments:
            own = jax.tree.map(lambda x: np.asarray(x[trial : trial + 1]), self._carried.learner)
            self._snapshots.take(int(self._played[trial]), np.array([trial]), own)

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        # episodes that were played are not to be lost, unless nothing can be learned from them
        while not self._teaching_fails and (self._lesson is not None or self._waiting):
            if self._lesson is None:
                self._begin_lesson()
            self._end_lesson()
        curves = trimmed(self.experiment, self.curves)
        return checkpoint_arrays(on_host(self._carried), curves, self.evaluations, self._snapshots)

    def networks(self, trial: int) -> Networks:
        """What an agent of one trial, by its place, keeps, on the host."""
        if self._lesson is not None:  # it has consumed what trials carried before
            self._end_lesson()
        kept = learner_of(self.experiment.setup).keep(self.experiment.setup, self._carried.learner)
        return on_host(jax.tree.map(lambda x: x[trial], kept))

    def close(self) -> None:
        """End the worker processes."""
        self._players.close()
        self._teacher.shutdown(wait=False)
