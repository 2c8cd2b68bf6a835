"""A study on an Atari game: its trials take turns, so that one's emulators step while another's network learns."""

import collections
import time
from typing import Any

import jax
import numpy as np

from mean_actor_critic.engines import vector as atari
from mean_actor_critic.engines.curves import AtariCurves, mean_scores
from mean_actor_critic.engines.vector_programs import initialiser
from mean_actor_critic.environments.atari import Game
from mean_actor_critic.errors import DamagedFileError
from mean_actor_critic.learning.rollout import GameLearnerState
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.atari_experiment import AtariExperiment
from mean_actor_critic.trees import Arrays, named, require_arrays, restored

SEGMENT_SECONDS = 0.5
RECENT = 100  # training games of a trial that the progress line's score is about


class AtariStudy:
    """All trials of an experiment on a game, and their evaluations so far.

    Trials train in step and are evaluated one after the other. An evaluation depends on nothing but the weights and its
    number: a study that is resumed in the middle of one begins it again.
    """

    def __init__(self, experiment: AtariExperiment, game: Game, saved: Arrays | None, threads: int = 0) -> None:
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
        self.curves, self._interval, positions = _starting_point(experiment, game, saved)
        self.trials = [
            atari.Trial(experiment, place, game, threads, position) for place, position in enumerate(positions)
        ]
        self._evaluation: atari.Evaluation | None = None
        self.newly_evaluated: list[int] = []  # trials, in the last segment
        self._recent: list[collections.deque[float]] = [collections.deque(maxlen=RECENT) for _ in self.trials]
        self._speed = _Speed()

    @property
    def finished(self) -> bool:
        """Whether every trial has had its last evaluation."""
        return bool(np.all(self.curves.evaluated == self.experiment.evaluations))

    @property
    def steps_done(self) -> int:
        """Agent steps so far, over all trials."""
        return sum(trial.updates for trial in self.trials) * self.experiment.setup.steps_per_update

    @property
    def position(self) -> int:
        """Agent steps and evaluations so far, over all trials."""
        return self.steps_done + int(self.curves.evaluated.sum())

    def advance(self) -> Progress:
        """Train, or evaluate, for about half a second."""
        until = time.monotonic() + SEGMENT_SECONDS
        before, started = self.steps_done, time.monotonic()
        self.newly_evaluated = []
        while not self.finished and time.monotonic() < until:
            place = self._due()
            if place is None:
                self._train()
            elif self._evaluate(place):
                self.newly_evaluated.append(place)
                break  # while the weights are those that were evaluated
        if self.steps_done > before:
            self._speed.note(self.steps_done - before, time.monotonic() - started)
        total = self.experiment.updates * self.experiment.setup.steps_per_update * self.experiment.trials
        return Progress(self.steps_done, total, self._recent_score(), self._diverged(), self._words())

    def _due(self) -> int | None:
        """The first trial that an evaluation is due for."""
        for place, trial in enumerate(self.trials):
            number = int(self.curves.evaluated[place])
            if number < self.experiment.evaluations and trial.updates >= self.experiment.update_of_evaluation(number):
                return place
        return None

    def _train(self) -> None:
        """One rollout of every trial, taking turns."""
        for _ in range(self.experiment.setup.rollout_steps):
            for place, trial in enumerate(self.trials):
                for score in trial.turn().tolist():
                    self._interval[place] += (score, 1)
                    self._recent[place].append(score)

    def _evaluate(self, place: int) -> bool:
        """One step of an evaluation; whether it was the last."""
        setup, number = self.experiment.setup, int(self.curves.evaluated[place])
        if self._evaluation is None:
            trial = int(self.experiment.trial_numbers()[place])
            emulators = atari.evaluation_emulators(
                setup, self._game, setup.evaluation_environments, self.experiment.seed, trial, number, self._threads
            )
            network = self.trials[place].state.network
            self._evaluation = atari.Evaluation(setup, emulators, network, self.experiment.seed, trial, number)
        self._evaluation.turn()
        if not self._evaluation.finished:
            return False
        scores = self._evaluation.scores
        self.curves.scores[place, number, : len(scores)] = scores
        self.curves.unfinished[place, number] = self._evaluation.unfinished
        self.curves.entropy[place, number] = self._evaluation.entropy
        total, games = self._interval[place]
        self.curves.training_score[place, number] = total / games if games else np.nan
        self.curves.training_games[place, number] = games
        self._interval[place] = 0
        self.curves.evaluated[place] += 1
        self._evaluation = None
        return True

    def score_of(self, place: int) -> float:
        """The mean score of a trial's last evaluation; NaN before the first."""
        number = int(self.curves.evaluated[place]) - 1
        return float(mean_scores(self.curves)[place, number]) if number >= 0 else np.nan

    def _recent_score(self) -> float:
        scores = [score for recent in self._recent for score in recent]
        return float(np.mean(scores)) if scores else np.nan

    def _diverged(self) -> int:
        return sum(int(trial.state.diverged_at) > 0 for trial in self.trials)

    def _words(self) -> str:
        words = [f"{self._speed.per_second:.0f} steps/s"] if self._speed.per_second else []
        scores = [self.score_of(place) for place in range(len(self.trials))]
        if not np.isnan(scores).any():
            words.append(f"evaluated {np.mean(scores):.1f}")
        if self._evaluation is not None:
            words.append(f"evaluating, {self._evaluation.games_over} games")
        return ", ".join(words)

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""
        found: Arrays = {name: array.copy() for name, array in self.curves._asdict().items()}
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

    def close(self) -> None:
        """Nothing to end: emulators go with their study."""


class _Speed:
    """Steps per second, an average that forgets."""

    def __init__(self) -> None:
        self.per_second = 0.0

    def note(self, steps: int, seconds: float) -> None:
        now = steps / max(seconds, 1e-9)
        self.per_second = 0.9 * self.per_second + 0.1 * now if self.per_second else now


def _starting_point(
    experiment: AtariExperiment, game: Game, saved: Arrays | None
) -> tuple[AtariCurves, np.ndarray[Any, Any], list[atari.Position | None]]:
    """Curves, the sum and number of training games of each trial since its last evaluation, and positions."""
    curves = AtariCurves.empty(experiment)
    interval = np.zeros((experiment.trials, 2), np.float64)
    if saved is None:
        return curves, interval, [None] * experiment.trials
    setup = experiment.setup
    template: Any = jax.eval_shape(initialiser(setup, game.spaces.actions), np.uint32(0), np.int32(0))
    expected: dict[str, Any] = {**curves._asdict(), "interval": interval}
    for place in range(experiment.trials):
        prefix = f"trial/{place}/"
        expected |= named(template, f"{prefix}state/")
        if setup.pipelined:
            expected |= named(template.network, f"{prefix}acting/")
        counts = jax.ShapeDtypeStruct((setup.environments,), np.int32)
        actions = saved.get(f"{prefix}emulators/actions", np.zeros(0, np.uint8))
        expected |= {
            f"{prefix}emulators/seeded": counts,
            f"{prefix}emulators/length": counts,
            f"{prefix}emulators/actions": jax.ShapeDtypeStruct((actions.size,), np.uint8),
            f"{prefix}screen": jax.ShapeDtypeStruct((32,), np.uint8),
        }
    require_arrays(saved, expected)
    curves = AtariCurves(*(saved[name].copy() for name in AtariCurves._fields))
    positions = [_position(template, f"trial/{place}/", setup.pipelined, saved) for place in range(experiment.trials)]
    for place, position in enumerate(positions):
        evaluated = int(curves.evaluated[place])
        if not 0 <= evaluated <= experiment.evaluations or not 0 <= int(position.state.update) <= experiment.updates:
            raise DamagedFileError("checkpoint: its curves do not fit its manifest")
    return curves, saved["interval"].copy(), list(positions)


def _position(template: GameLearnerState, prefix: str, pipelined: bool, saved: Arrays) -> atari.Position:
    return atari.Position(
        restored(template, saved, f"{prefix}state/"),
        restored(template.network, saved, f"{prefix}acting/") if pipelined else None,
        {name: saved[f"{prefix}emulators/{name}"] for name in ("seeded", "length", "actions")},
        saved[f"{prefix}screen"],
    )
