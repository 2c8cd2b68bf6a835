"""The Atari engine: ALE's emulators in threads, the network in compiled programs, and one trial that joins them.

The order is the paper's: act with the weights θ, let the emulators step, bootstrap with θ, update θ, act again. With
`pipelined` the next actions are decided before the update instead, by the forward pass that also bootstraps, and the
emulators step while the learner learns; the actions then come from weights one update old.
"""

import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from mean_actor_critic.engines.memory import on_host
from mean_actor_critic.engines.vector_programs import (
    Draws,
    choosing_program,
    drawing_program,
    evaluation_drawing_program,
    forward_program,
    initialiser,
    learning_program,
    valuing_program,
)
from mean_actor_critic.environments.atari import Emulators, Game, digest_of
from mean_actor_critic.environments.seeds import emulator_seed
from mean_actor_critic.environments.stepped import Environments, Turn
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.types import Acted, Batch, Context
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.rules import GameRules
from mean_actor_critic.trees import Array as HostArray

# --- a trial ---------------------------------------------------------------------------------------------------------


class Position(NamedTuple):
    """Where a trial is between two rollouts: all that a checkpoint holds of it."""

    state: Any  # the learner's
    acting: Any  # the actor that decided the actions under way; None where it is the state's own
    emulators: dict[str, HostArray]
    screen: HostArray  # digest of the observation


class Trial:
    """One training: emulators, learner, and the actions under way between them."""

    def __init__(
        self, experiment: Experiment, place: int, game: Game, threads: int = 0, saved: Position | None = None
    ) -> None:
        """Start at the beginning, or where a position left off.

        Args:
            experiment: what to run.
            place: of the trial in it.
            game: which it plays.
            threads: that step the emulators; 0 for one a core.
            saved: a position of this trial.

        Raises:
            DamagedFileError: the position's actions do not lead to its screen.
        """
        setup: Any = experiment.setup
        rules: Any = experiment.rules
        self._setup, self._environments = setup, rules.environments
        self._learner = learner_of(setup)
        number = int(experiment.trial_numbers()[place])
        keys = (np.uint32(experiment.seed), np.int32(number))
        self._draws = Draws(drawing_program(rules.environments), *keys)
        self._hyper = experiment.hyper_of(place)
        whole: Any = (np.int32(0), np.int32(experiment.updates))
        self._context = Context(*whole)
        self._forward, self._choose = forward_program(setup), choosing_program()
        self._learn = learning_program(setup)
        self._emulators: Environments = Emulators(
            rules,
            game.rom,
            rules.environments,
            functools.partial(emulator_seed, experiment.seed, number),
            training=True,
            threads=threads,
        )
        if saved is None:
            self.state = initialiser(setup, game.spaces.whole_shapes)(*keys)
            self._acting = self._learner.actor(setup, self.state)
            observation = self._emulators.begin()
        else:
            self.state = jax.device_put(saved.state)
            own = self._learner.actor(setup, self.state)
            self._acting = own if saved.acting is None else jax.device_put(saved.acting)
            observation = self._emulators.restore(saved.emulators, saved.screen)
        self.updates = int(self.state.update)
        self._turns: list[tuple[HostArray, Any, Turn, HostArray]] = []
        self._decide(observation)

    def _decide(self, observation: HostArray) -> None:
        """Choose actions and let the emulators take them."""
        step = self.updates * self._setup.rollout_steps + len(self._turns)
        self._observation = observation
        outputs = self._forward(self._acting, observation)
        self._outputs = outputs._replace(observation=observation)
        action, _ = self._choose(outputs.logits, self._draws.of(step))
        self._action = np.asarray(action)
        self._emulators.send(self._action)

    def turn(self) -> HostArray:
        """One step of every environment, and an update if it was the last of a rollout; scores of games that ended."""
        turn = self._emulators.receive()
        beyond = np.zeros(self._environments, np.float32)
        if self._setup.time_limit == "bootstrap" and turn.truncated.any():
            values = np.asarray(valuing_program(self._setup)(self._acting, turn.observation))
            beyond = np.where(turn.truncated, values, 0)
        self._turns.append((self._action, self._outputs, turn, beyond))
        if len(self._turns) < self._setup.rollout_steps:
            self._decide(turn.next_observation)
        else:
            self._update(turn)
        return turn.score[~np.isnan(turn.score)]

    def _update(self, turn: Turn) -> None:
        actions, outputs, turns, beyond = zip(*self._turns, strict=True)
        self._turns = []
        self.updates += 1
        decided = None  # by the state's own actor
        if self._setup.pipelined:
            decided = self._acting
            self._acting = self._learner.actor(self._setup, self.state)
            self._decide(turn.next_observation)
            after: Any = self._outputs
        else:
            after = turn.observation
        steps: Any = {  # [time, environments], on the host
            "action": np.stack(actions),
            "reward": np.stack([turn.reward for turn in turns]),
            "terminated": np.stack([turn.terminated for turn in turns]),
            "truncated": np.stack([turn.truncated for turn in turns]),
            "value_beyond": np.stack(beyond),
            "valid": np.stack([turn.valid for turn in turns]),
        }
        batch = Batch(**steps, acted=Acted(outputs, after, decided))
        self.state = self._learn(self._hyper, self.state, batch, self._context)
        if not self._setup.pipelined:
            self._acting = self._learner.actor(self._setup, self.state)
            self._decide(turn.next_observation)

    def actor(self) -> Any:
        """What plays, on the host."""
        return on_host(self._learner.actor(self._setup, self.state))

    def position(self) -> Position:
        """Where the trial is; only between two rollouts."""
        assert not self._turns
        state = on_host(self.state)
        acting = on_host(self._acting) if self._setup.pipelined else None
        return Position(state, acting, self._emulators.record(), digest_of(self._observation))


# --- an evaluation ---------------------------------------------------------------------------------------------------


class Evaluation:
    """Whole games with raw scores: batches are begun until there are enough games or the steps are used up.

    A batch counts as a whole, because its short games end first. It lasts until its last game is over, or as many steps
    as there are for beginning batches; games that are unfinished then count with the score that they have.
    """

    def __init__(
        self,
        experiment: Experiment,
        emulators: Environments,
        actor: Any,
        seed: int,
        trial: int,
        number: int,
        *,
        games: int | None = None,
        steps: int | None = None,
        greedy: bool = False,
    ) -> None:
        """Begin an evaluation.

        Args:
            experiment: whose rules it follows.
            emulators: those for evaluations, seeded by `evaluation_emulators`.
            actor: that plays.
            seed: of the run.
            trial: its number.
            number: of the evaluation, from 0.
            games: instead of the experiment's.
            steps: of each environment after which no batch is begun, and of a batch, instead of the rules'.
            greedy: take the most probable actions.
        """
        self._emulators, self._actor = emulators, jax.device_put(actor)
        rules: Any = experiment.rules
        keys = (np.uint32(seed), np.int32(trial), np.int32(number))
        self._draws = Draws(evaluation_drawing_program(emulators.environments), *keys)
        self._games = experiment.evaluation.evaluation_episodes if games is None else games
        self._steps = rules.evaluation_steps if steps is None else steps
        self._forward, self._choose = forward_program(experiment.setup), choosing_program(greedy)
        self.step = 0  # of each environment
        self._batch_step = 0
        self._entropy = 0.0  # summed over steps
        self.unfinished = 0  # games whose score is that of a part
        self.scores = np.zeros(0, np.float32)
        self._observation = emulators.begin()
        self._batch = np.full(emulators.environments, np.nan, np.float32)
        self._so_far = np.zeros(emulators.environments, np.float32)
        self.finished = False

    def turn(self) -> None:
        """One step of every environment."""
        logits = self._forward(self._actor, self._observation).logits
        action, entropy = self._choose(logits, self._draws.of(self.step))
        self._emulators.send(np.asarray(action))
        turn = self._emulators.receive()
        self._entropy += float(np.mean(entropy))
        self.step += 1
        self._batch_step += 1
        playing = np.isnan(self._batch)
        self._so_far[playing] += turn.reward[playing]
        self._batch = np.where(playing, turn.score, self._batch)
        self._observation = turn.next_observation
        playing = np.isnan(self._batch)
        if playing.any() and self._batch_step < self._steps:
            return
        self.unfinished += int(playing.sum())
        self.scores = np.concatenate([self.scores, np.where(playing, self._so_far, self._batch)])
        self.finished = len(self.scores) >= self._games or self.step >= self._steps
        if not self.finished:
            self._observation = self._emulators.begin_anew()
            self._batch_step = 0
            self._batch[:], self._so_far[:] = np.nan, 0

    @property
    def games_over(self) -> int:
        """Games that have ended or been cut off so far."""
        return len(self.scores) + (0 if self.finished else int(np.isfinite(self._batch).sum()))

    @property
    def entropy(self) -> float:
        """The policy's so far in nats, mean over steps and environments."""
        return self._entropy / self.step


def evaluation_emulators(
    rules: GameRules, game: Game, environments: int, seed: int, trial: int, evaluation: int, threads: int = 0
) -> Environments:
    """Emulators for one evaluation: whole games."""
    seed_of = functools.partial(emulator_seed, seed, trial, evaluation=evaluation)
    return Emulators(rules, game.rom, environments, seed_of, training=False, threads=threads)
