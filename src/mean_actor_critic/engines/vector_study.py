"""A study on an Atari game: its trials take turns, so that one's emulators step while another's network learns."""

import collections
import time
from typing import Any

import jax
import numpy as np

from mean_actor_critic.engines import vector
from mean_actor_critic.engines.curves import Curves, Ends, Evaluations
from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.vector_programs import initialiser
from mean_actor_critic.environments.atari import Game
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.networks import Networks
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array, Arrays, named, require_arrays, restored

SEGMENT_SECONDS = 0.5
RECENT = 100  # training games of a trial that the progress line's score is about


class VectorStudy:
    """All trials of an experiment on several environments that are stepped together, and their evaluations so far.

    Trials train in step and are evaluated one after the other. An evaluation depends on nothing but the weights and its
    number: a study that is resumed in the middle of one begins it again.
    """

    def __init__(self, experiment: Experiment, game: Game, saved: Arrays | None, threads: int = 0) -> None:
        """Start at the beginning, or where the arrays of a checkpoint left off.

        Args:
            experiment: what to run.
            game: its game.
            saved: the arrays of a checkpoint, if any.
            threads: that step each trial's emulators; 0 for one a core.

        Raises:
            DamagedFileError: the arrays are not those of this experiment.
        """
        self.experiment = experiment
        self._game, self._threads = game, threads
        # a run on a game keeps no curves of single episodes
        self.curves = Curves.empty(experiment.trials, 0)
        self.evaluations, self._interval, positions = _starting_point(experiment, game, saved)
        self.trials = [
            vector.Trial(experiment, place, game, threads, position) for place, position in enumerate(positions)
        ]
        self._evaluation: vector.Evaluation | None = None
        self.newly_evaluated: list[int] = []  # trials, in the last segment
        self._recent: list[collections.deque[float]] = [collections.deque(maxlen=RECENT) for _ in self.trials]

    @property
    def finished(self) -> bool:
        """Whether every trial has had its last evaluation."""
        return all(self._has_ended(place) for place in range(self.experiment.trials))

    def _has_ended(self, place: int) -> bool:
        """Whether a trial has had its last evaluation, or one that is as good as was asked for."""
        if self.evaluations.evaluated[place] == self.experiment.evaluations:
            return True
        return bool(Ends(self.experiment).solved_at(self.curves, self.evaluations)[place])

    @property
    def steps_taken(self) -> int:
        """Agent steps so far, over all trials."""
        return sum(trial.updates for trial in self.trials) * self.experiment.steps_per_update

    @property
    def position(self) -> int:
        """Agent steps and evaluations so far, over all trials."""
        return self.steps_taken + int(self.evaluations.evaluated.sum())

    def advance(self) -> Progress:
        """Train, or evaluate, for about half a second."""
        until = time.monotonic() + SEGMENT_SECONDS
        self.newly_evaluated = []
        while not self.finished and time.monotonic() < until:
            place = self._due()
            if place is None:
                self._train()
            elif self._evaluate(place):
                self.newly_evaluated.append(place)
                break  # while the weights are those that were evaluated
        total = self.experiment.updates * self.experiment.steps_per_update * self.experiment.trials
        return Progress(
            self.steps_taken, total, self._recent_score(), self._diverged(), self._words(), self.steps_taken
        )

    def _due(self) -> int | None:
        """The first trial that an evaluation is due for."""
        for place, trial in enumerate(self.trials):
            number = int(self.evaluations.evaluated[place])
            if not self._has_ended(place) and trial.updates >= self.experiment.update_of_evaluation(number):
                return place
        return None

    def _train(self) -> None:
        """One rollout of every trial that has not ended, taking turns."""
        playing = [place for place in range(len(self.trials)) if not self._has_ended(place)]
        for _ in range(self.experiment.steps_per_update // self.experiment.environments):
            for place in playing:
                for score in self.trials[place].turn().tolist():
                    self._interval[place] += (score, 1)
                    self._recent[place].append(score)

    def _evaluate(self, place: int) -> bool:
        """One step of an evaluation; whether it was the last."""
        experiment, number = self.experiment, int(self.evaluations.evaluated[place])
        rules: Any = experiment.rules
        if self._evaluation is None:
            trial = int(experiment.trial_numbers()[place])
            emulators = vector.evaluation_emulators(
                rules, self._game, rules.evaluation_environments, experiment.seed, trial, number, self._threads
            )
            actor = self.trials[place].actor()
            self._evaluation = vector.Evaluation(experiment, emulators, actor, experiment.seed, trial, number)
        self._evaluation.turn()
        if not self._evaluation.finished:
            return False
        scores, (total, games) = self._evaluation.scores, self._interval[place]
        self.evaluations.scores[place, number, : len(scores)] = scores
        found = {
            "unfinished": self._evaluation.unfinished,
            "entropy": self._evaluation.entropy,
            "training_score": total / games if games else np.nan,
            "training_games": games,
        }
        for name, value in found.items():
            getattr(self.evaluations, name)[place, number] = value
        # a longer run would not be evaluated where only the budget's end asked for it, and would go on counting
        if experiment.update_of_evaluation(number) * experiment.steps_per_update >= _end_of_interval(
            experiment, number
        ):
            self._interval[place] = 0
        self.evaluations.evaluated[place] += 1
        self._evaluation = None
        return True

    def _score_of(self, place: int) -> float:
        """The mean score of a trial's last evaluation; NaN before the first."""
        number = int(self.evaluations.evaluated[place]) - 1
        return float(self.evaluations.means[place, number]) if number >= 0 else np.nan

    def _recent_score(self) -> float:
        scores = [score for recent in self._recent for score in recent]
        return float(np.mean(scores)) if scores else np.nan

    def _diverged(self) -> int:
        return sum(int(trial.state.diverged_at) > 0 for trial in self.trials)

    def _words(self) -> str:
        words = []
        scores = [self._score_of(place) for place in range(len(self.trials))]
        if not np.isnan(scores).any():
            words.append(f"evaluated {np.mean(scores):.1f}")
        if self._evaluation is not None:
            words.append(f"evaluating, {self._evaluation.games_over} games")
        return ", ".join(words)

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        found: Arrays = {name: array.copy() for name, array in self.evaluations.arrays().items()}
        found["interval"] = self._interval.copy()
        for place, trial in enumerate(self.trials):
            position = trial.position()
            prefix = f"trial/{place}/"
            found |= named(position.state, f"{prefix}state/")
            if position.acting is not None:
                found |= named(position.acting, f"{prefix}acting/")
            found |= {f"{prefix}emulators/{name}": array for name, array in position.emulators.items()}
            found[f"{prefix}screen"] = position.screen
        return found

    def networks(self, trial: int) -> Networks:
        """What an agent of one trial, by its place, keeps, on the host."""
        return on_host(learner_of(self.experiment.setup).keep(self.experiment.setup, self.trials[trial].state))

    def close(self) -> None:
        """Nothing to end: emulators go with their study."""


def _end_of_interval(experiment: Experiment, evaluation: int) -> int:
    """Agent steps at which an evaluation would take place if the budget had no end."""
    return (evaluation + 1) * experiment.evaluation.evaluation_interval


def _starting_point(
    experiment: Experiment, game: Game, saved: Arrays | None
) -> tuple[Evaluations, Array, list[vector.Position | None]]:
    """Evaluations, the sum and number of training games of each trial since its last one, and positions."""
    evaluations = Evaluations.empty(experiment)
    interval = np.zeros((experiment.trials, 2), np.float64)
    if saved is None:
        return evaluations, interval, [None] * experiment.trials
    setup: Any = experiment.setup
    initial = initialiser(setup, game.spaces.whole_shapes)
    template: Any = jax.eval_shape(initial, np.uint32(0), np.int32(0))
    expected: dict[str, Any] = {**evaluations.arrays(), "interval": interval}
    for place in range(experiment.trials):
        prefix = f"trial/{place}/"
        expected |= named(template, f"{prefix}state/")
        if setup.pipelined:
            expected |= named(template.network, f"{prefix}acting/")
        counts = jax.ShapeDtypeStruct((experiment.environments,), np.int32)
        actions = saved.get(f"{prefix}emulators/actions", np.zeros(0, np.uint8))
        expected |= {
            f"{prefix}emulators/seeded": counts,
            f"{prefix}emulators/length": counts,
            f"{prefix}emulators/actions": jax.ShapeDtypeStruct((actions.size,), np.uint8),
            f"{prefix}screen": jax.ShapeDtypeStruct((32,), np.uint8),
        }
    require_arrays(saved, expected)
    evaluations = Evaluations(**{name: saved[name].copy() for name in evaluations.arrays()})
    positions = [_position(template, f"trial/{place}/", setup.pipelined, saved) for place in range(experiment.trials)]
    for place, position in enumerate(positions):
        evaluated = int(evaluations.evaluated[place])
        if not 0 <= evaluated <= experiment.evaluations or not 0 <= int(position.state.update) <= experiment.updates:
            raise DamagedFileError("checkpoint: its curves do not fit its manifest")
    return evaluations, saved["interval"].copy(), list(positions)


def _position(template: Any, prefix: str, pipelined: bool, saved: Arrays) -> vector.Position:
    return vector.Position(
        restored(template, saved, f"{prefix}state/"),
        restored(template.network, saved, f"{prefix}acting/") if pipelined else None,
        {name: saved[f"{prefix}emulators/{name}"] for name in ("seeded", "length", "actions")},
        saved[f"{prefix}screen"],
    )
