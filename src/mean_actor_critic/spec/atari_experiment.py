"""What to run on Atari games: the settings of emulators, learner and evaluation, with the paper's values as defaults.

*Steps* are agent decisions, counted over all of a trial's environments; *frames* are the emulator's, `frame_skip` to a
step. Nothing here is a bare count.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.experiment import (
    FIRST_TRIALS,
    SEEDS,
    Algorithm,
    Experiment,
    experiment_from_json,
    plain,
    require_whole,
    unknown_name,
)
from mean_actor_critic.spec.settings import choice, number, settings_of, switch, whole

ENGINE = "atari"
GAME = "ALE/"  # what the ids of games begin with

# In the order of the paper's Table 2, and Baselines' own for comparison.
ATARI_ALGORITHMS = {
    "a2c": Algorithm("A2C (Baselines)", "the n-step return above the state's value", frozenset({"state values"})),
    "advantage_actor_critic": Algorithm("A2C", "the critic's value of the action above the state's", frozenset()),
    "mac": Algorithm("MAC", "the critic's values averaged over all actions", frozenset()),
}
TRIALS = (1, 100)
MOST_UPDATES = 2**31 - 1
STEPS = (1, 10**10)
PAPERS_STEPS = 50_000_000  # agent steps of a trial, four frames each


@dataclasses.dataclass(frozen=True)
class AtariSetup:
    """Everything that shapes the emulators and the compiled programs."""

    environment: str
    algorithm: str = "mac"
    # emulators
    environments: int = whole(16, "emulators of a trial, stepped together", high=1024)
    frame_skip: int = whole(4, "frames of a step: each action is held for so many", high=60)
    max_pool: bool = switch(True, "show the pixelwise maximum of a step's last two frames")
    sticky_actions: float = number(
        0.0, 0.0, 1.0, "probability that a frame repeats the action of the frame before", by_trial=False
    )
    noop_max: int = whole(30, "a game begins with fewer than so many idle frames, drawn at random", low=0, high=1000)
    fire_reset: bool = switch(True, "press FIRE, where there is one, when a game or, in training, a life begins")
    episodic_life: bool = switch(True, "in training, a lost life ends the episode, though not the game")
    screen_size: int = whole(84, "height and width in pixels that the screen is shrunk to", low=36, high=210)
    grey: bool = switch(True, "screens in shades of grey, not in colour")
    stack: int = whole(4, "screens of an observation, the last so many steps", high=16)
    all_actions: bool = switch(False, "all 18 actions instead of those that the game uses")
    max_episode_frames: int = whole(108_000, "frames after which a game is cut off", high=10**9)
    # learner
    rollout_steps: int = whole(1, "steps of each environment between updates: the n of n-step returns", high=1000)
    clip_rewards: bool = switch(True, "learn from the signs of rewards; scores are never clipped")
    time_limit: str = choice(
        "terminal", ("bootstrap", "terminal"), "what a cut-off means: an unfinished game, or an end"
    )
    schedule: str = choice("constant", ("constant", "linear"), "of the learning rate; linear falls to 0 at the end")
    pipelined: bool = switch(
        False, "emulators play while the learner learns: faster, and actions come from weights one update old"
    )
    # evaluation
    evaluation_interval: int = whole(200_000, "steps between evaluations", high=10**9)
    evaluation_fire: bool = switch(
        False, "press FIRE when a life begins in evaluations too; else an agent that never had to may wait for ever"
    )
    evaluation_games: int = whole(50, "games of an evaluation: batches are begun until there are so many", high=10_000)
    evaluation_steps: int = whole(4500, "steps of each environment: of a batch, and until none is begun", high=10**7)
    evaluation_environments: int = whole(16, "games of a batch, played at once", high=1024)

    @property
    def has_state_values(self) -> bool:
        """Whether the critic values states, not actions."""
        return "state values" in ATARI_ALGORITHMS[self.algorithm].parts

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Of one environment, uint8: [stack, height, width], in colour with three values for each pixel."""
        shape = (self.stack, self.screen_size, self.screen_size)
        return shape if self.grey else (*shape, 3)

    @property
    def steps_per_update(self) -> int:
        """Steps of a trial between updates."""
        return self.environments * self.rollout_steps


@dataclasses.dataclass(frozen=True)
class AtariHyper:
    """Numbers that flow through the compiled program: changing them never recompiles. Each may differ by trial."""

    learning_rate: Any = number(1.5e-3, 0.0, 1e9, "of RMSProp, for the whole network")
    discount: Any = number(0.99, 0.0, 1.0, "discount factor per step")
    policy_weight: Any = number(0.1, 0.0, 1e9, "of the policy's loss in the sum")
    entropy_weight: Any = number(0.001, 0.0, 1e9, "of the policy's entropy, which is to stay high")
    value_weight: Any = number(0.5, 0.0, 1e9, "of the critic's loss, half a squared error")
    gradient_norm: Any = number(0.5, 1e-9, 1e9, "a longer gradient is shortened to this")
    rms_decay: Any = number(0.99, 0.0, 1.0, "weight of the past in the mean of squared gradients")
    rms_epsilon: Any = number(1e-5, 1e-30, 1e9, "added to that mean before the root is taken")


ATARI_SETTINGS = settings_of(AtariSetup, AtariHyper)
HYPER_NAMES = tuple(field.name for field in dataclasses.fields(AtariHyper))

PROTOCOLS: dict[str, dict[str, Any]] = {
    "paper": {},  # the defaults
    # Machado et al. (2018): randomness from sticky actions alone, and the agent plays whole games by itself
    "machado": {
        "sticky_actions": 0.25,
        "noop_max": 0,
        "fire_reset": False,
        "episodic_life": False,
        "time_limit": "bootstrap",
    },
}
# Baselines' A2C as it was published; the paper's algorithms have the defaults.
_PRESETS: dict[str, dict[str, Any]] = {
    "a2c": {
        "rollout_steps": 5, "learning_rate": 7e-4, "schedule": "linear", "policy_weight": 1.0, "entropy_weight": 0.01,
    },
}  # fmt: skip


def preset(algorithm: str, protocol: str) -> dict[str, Any]:
    """The settings that an algorithm and a protocol begin with, where they are not the defaults.

    Raises:
        InputError: there is no such algorithm or protocol.
    """
    if not isinstance(algorithm, str) or algorithm not in ATARI_ALGORITHMS:
        raise unknown_name("algorithm", algorithm, ATARI_ALGORITHMS)
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    return {**_PRESETS.get(algorithm, {}), **PROTOCOLS[protocol]}


@dataclasses.dataclass(frozen=True)
class AtariExperiment:
    """Trials of one algorithm on one game. A trial is a pure function of (seed, its number, its settings)."""

    setup: AtariSetup
    hyper: AtariHyper
    trials: int
    steps: int  # of each trial: agent decisions, not frames
    seed: int
    first_trial: int = 0

    @property
    def updates(self) -> int:
        """Updates of each trial: the last may take it a little past `steps`."""
        return -(-self.steps // self.setup.steps_per_update)

    @property
    def evaluations(self) -> int:
        """Evaluations of each trial: one an interval, and one at the end."""
        count = -(-self.steps // self.setup.evaluation_interval)
        # the last interval may be over within an update of the one before
        return count - 1 if count > 1 and self.update_of_evaluation(count - 2) == self.updates else count

    @property
    def most_games(self) -> int:
        """Games that an evaluation can have: whole batches."""
        batch = self.setup.evaluation_environments
        return -(-self.setup.evaluation_games // batch) * batch

    def update_of_evaluation(self, evaluation: int) -> int:
        """Updates after which an evaluation, counted from 0, takes place."""
        steps = min((evaluation + 1) * self.setup.evaluation_interval, self.steps)
        return -(-steps // self.setup.steps_per_update)

    def steps_of_evaluation(self, evaluation: int) -> int:
        """Steps after which an evaluation, counted from 0, takes place."""
        return self.update_of_evaluation(evaluation) * self.setup.steps_per_update

    def evaluation_steps(self) -> np.ndarray[Any, Any]:
        """Steps after which each evaluation takes place [evaluations]."""
        return np.array([self.steps_of_evaluation(number) for number in range(self.evaluations)])

    def trial_numbers(self) -> np.ndarray[Any, Any]:
        """The number of each trial [trials], which its randomness comes from."""
        return np.arange(self.first_trial, self.first_trial + self.trials, dtype=np.int32)

    def hyper_of(self, trial: int) -> AtariHyper:
        """The numbers of one trial, by its place."""
        values = {name: np.atleast_1d(np.float32(getattr(self.hyper, name))) for name in HYPER_NAMES}
        return AtariHyper(**{name: value[trial % len(value)] for name, value in values.items()})

    def settings(self) -> dict[str, Any]:
        """All settings, by name."""
        both = {**dataclasses.asdict(self.setup), **dataclasses.asdict(self.hyper)}
        return {name: both[name] for name in ATARI_SETTINGS}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `any_experiment_from_json` is the inverse."""
        settings = self.settings()
        return {
            "environment": self.setup.environment,
            "engine": ENGINE,
            "algorithm": self.setup.algorithm,
            "trials": self.trials,
            "first_trial": self.first_trial,
            "steps": self.steps,
            "seed": self.seed,
            "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in settings.items()},
        }


AnyExperiment = Experiment | AtariExperiment


def make_atari_experiment(
    environment: str,
    algorithm: str,
    trials: int,
    steps: int,
    seed: int,
    settings: Mapping[str, Any],
    first_trial: int = 0,
) -> AtariExperiment:
    """A checked experiment. `settings` override the defaults of `AtariSetup` and `AtariHyper` by name.

    Raises:
        InputError: names the first field that cannot be used, its value and what is allowed.
    """
    if not isinstance(algorithm, str) or algorithm not in ATARI_ALGORITHMS:
        raise unknown_name("algorithm", algorithm, ATARI_ALGORITHMS)
    if not isinstance(environment, str) or not environment.startswith(GAME):
        raise InputError("environment", environment, f"an Atari game, such as {GAME}Pong-v5")
    trials = require_whole("trials", trials, *TRIALS)
    checked = {name: _checked(name, given, trials) for name, given in settings.items()}
    hyper = AtariHyper(**{name: checked.pop(name) for name in HYPER_NAMES if name in checked})
    experiment = AtariExperiment(
        AtariSetup(environment, algorithm, **checked),
        hyper,
        trials,
        require_whole("steps", steps, *STEPS),
        require_whole("seed", seed, *SEEDS),
        require_whole("first_trial", first_trial, *FIRST_TRIALS),
    )
    setup = experiment.setup
    if experiment.updates > MOST_UPDATES:
        raise InputError("steps", steps, f"at most {MOST_UPDATES} updates of {setup.steps_per_update} steps")
    if setup.evaluation_interval < setup.steps_per_update:
        allowed = f"at least {setup.steps_per_update}, the steps of an update"
        raise InputError("evaluation_interval", setup.evaluation_interval, allowed)
    return experiment


def _checked(name: str, given: Any, trials: int) -> Any:
    if name not in ATARI_SETTINGS:
        raise unknown_name("setting", name, ATARI_SETTINGS)
    value, limits = plain(given), ATARI_SETTINGS[name].limits
    if not limits.valid(value):
        raise InputError(name, given, limits.allowed)
    if isinstance(value, tuple) and len(value) != trials:
        raise InputError(name, given, f"one number, or one for each of the {trials} trials")
    return value


# How games are played, whoever plays: what an agent sees and can do stays the same with any of these.
OF_PLAY = (
    "frame_skip", "max_pool", "sticky_actions", "noop_max", "fire_reset", "max_episode_frames", "evaluation_fire",
)  # fmt: skip


def played_otherwise(setup: AtariSetup, settings: Mapping[str, Any]) -> AtariSetup:
    """A setup with other rules of play, by the names in `OF_PLAY`.

    Raises:
        InputError: a setting is not one of these, or its value is not allowed.
    """
    for name in settings:
        if name not in OF_PLAY:
            raise unknown_name("setting", name, OF_PLAY)
    return dataclasses.replace(setup, **{name: _checked(name, given, 1) for name, given in settings.items()})


def of_episodes(experiment: AnyExperiment) -> Experiment:
    """An experiment, unless it is one on games: an InputError then."""
    if isinstance(experiment, AtariExperiment):
        raise InputError("RUN|AGENT", experiment.setup.environment, "one trained by episodes, not on an Atari game")
    return experiment


def any_experiment_from_json(document: Any) -> AnyExperiment:
    """The experiment, on games or not, that its `to_json` described.

    Raises:
        InputError: a field is missing, unknown or out of its limits.
    """
    if not isinstance(document, dict) or document.get("engine") != ENGINE:
        return experiment_from_json(document)
    names = ("environment", "engine", "algorithm", "trials", "first_trial", "steps", "seed", "settings")
    if set(document) != set(names) or not isinstance(document["settings"], dict):
        raise InputError("experiment", "its fields", ", ".join(names))
    given = {name: value for name, value in document.items() if name != "engine"}
    return make_atari_experiment(**given)
