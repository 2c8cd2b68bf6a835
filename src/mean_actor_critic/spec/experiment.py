"""What to run: trials of one algorithm, by one learner, on one environment, for a budget."""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec import paper
from mean_actor_critic.spec.algorithms import PARTS, algorithm_of, checked_algorithm
from mean_actor_critic.spec.checks import (
    as_kwargs,
    checked_kwargs,
    checked_name,
    plain,
    require_number,
    require_whole,
    unknown_name,
)
from mean_actor_critic.spec.given import GivenNetwork, checked_network
from mean_actor_critic.spec.learners import ENGINES, EPISODES, GENERAL, LEARNERS, STEPS, Hyper, Setup, learners_on
from mean_actor_critic.spec.rules import EVALUATIONS, GAME, RULES, EvaluationRules, GameRules, Rules
from mean_actor_critic.spec.settings import Setting, is_whole, settings_of

TRIALS = (1, 100_000)
AMOUNTS = {EPISODES: (1, 10_000_000), STEPS: (1, 2**32 - 1)}  # draws of actions are numbered by 32 bits
EPISODES_IN_ALL = 10**8  # 800 MB of curves
FIRST_TRIALS = (0, 10**9)
SEEDS = (0, 2**31 - 1)
MOST_SNAPSHOTS = 100  # moments of training at which networks are kept
MOST_UPDATES = 2**31 - 1
MOST_EVALUATIONS = 1_000_000
EVALUATED_IN_ALL = 10**8  # episodes of evaluations, over all trials
GAME_TRIALS = (1, 100)
SOLVED_OVER = 100  # episodes whose mean return `until` is about
SOLVED_EVERY = 10  # episodes between two looks at it
# Where usual values are not those of the settings: games are evaluated as in the paper,
_USUAL_ON_GAMES: dict[str, Any] = {"evaluation_interval": 200_000, "evaluation_episodes": 50}
_USUAL_BY_STEPS: dict[str, Any] = {"evaluation_greedy": True}  # other learners than the paper's in both ways,
_USUAL_BY_ROLLOUTS: dict[str, Any] = {  # and what the paper's Atari learner has on games does not do elsewhere
    "rollout_steps": 5, "clip_rewards": False, "time_limit": "bootstrap", "learning_rate": 1e-3, "policy_weight": 1.0,
    "entropy_weight": 0.01, "value_weight": 1.0, "gradient_norm": 2.0,
}  # fmt: skip
_RENAMED = {"evaluation_games": "evaluation_episodes"}  # settings in files of format 2


class Clock(NamedTuple):
    """When the learner of a trial is called: after so many of a unit."""

    unit: str  # EPISODES or STEPS
    every: int


class Budget(NamedTuple):
    """How long each trial trains. A trial that counts steps ends with the episode, or update, that reaches them."""

    unit: str  # EPISODES or STEPS
    amount: int

    def __str__(self) -> str:
        return f"{self.amount:_} {self.unit if self.amount != 1 else self.unit.removesuffix('s')}"


USUAL_STEPS = 100_000  # of a learner that counts steps, other than on games
# Of each trial, by engine, unless said otherwise.
USUAL_BUDGETS = {
    "compiled": Budget(EPISODES, 200),
    "hosted": Budget(EPISODES, 200),
    "atari": Budget(STEPS, paper.ATARI_STEPS),
}


def usual_budget(engine: str, learner: str) -> Budget:
    """Of each trial, unless said otherwise."""
    counts_steps = learner in LEARNERS and LEARNERS[learner].unit == STEPS
    return Budget(STEPS, USUAL_STEPS) if counts_steps and engine != "atari" else USUAL_BUDGETS[engine]


def _usual_values(engine: str, learner: str) -> dict[str, Any]:
    """Of settings where they are not the settings' own, by name."""
    if engine == "atari":
        return _USUAL_ON_GAMES
    if learner == "rollout":
        return {**_USUAL_BY_STEPS, **_USUAL_BY_ROLLOUTS}
    return _USUAL_BY_STEPS if LEARNERS[learner].unit == STEPS else {}


def settings_for_engine(engine: str, learner: str | None = None) -> dict[str, Setting]:
    """All settings of a learner on an engine, by name, with the values that are usual there."""
    learner = learner or learners_on(engine)[0]
    spec, usual = LEARNERS[learner], _usual_values(engine, learner)
    found = settings_of(RULES[engine], spec.setups[engine], spec.hyper, EVALUATIONS[engine])
    return {name: s._replace(default=usual.get(name, s.default)) for name, s in found.items()}


def usual_learner(algorithm: Any, engine: str) -> str:
    """The learner on an engine that learns by an algorithm, unless another is asked for; the first if none can."""
    able = algorithm_of(algorithm).learners if isinstance(algorithm, str) else ()
    there = learners_on(engine)
    return next((name for name in there if name in able), there[0])


def learner_to_train(
    algorithm: Any,
    engine: str,
    *,
    episodes: int | None = None,
    preset: str | None = None,
    settings: Collection[str] = (),
) -> str:
    """The learner to train with, unless one is named: the general one, or the paper's where something asks for it.

    Args:
        algorithm: its name, or an estimator.
        engine: that plays.
        episodes: a budget in episodes, which the paper counts.
        preset: settings of the paper's learner, by name.
        settings: names of those that are given.
    """
    usual = usual_learner(algorithm, engine)
    if GENERAL not in learners_on(engine) or usual == GENERAL:
        return usual
    able = isinstance(algorithm, str) and GENERAL in algorithm_of(algorithm).learners and ":" not in algorithm
    known = settings_for_engine(engine, GENERAL)
    theirs = settings_for_engine(engine, usual)
    asked_for = any(name in theirs and name not in known for name in settings)
    return usual if not able or episodes is not None or preset is not None or asked_for else GENERAL


def applicable_settings(algorithm: str, engine: str = "compiled", learner: str | None = None) -> list[str]:
    """Names of the settings that `algorithm` reads."""
    foreign = PARTS - algorithm_of(algorithm).parts
    return [name for name, s in settings_for_engine(engine, learner).items() if s.limits.role not in foreign]


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Trials of one algorithm on one environment. A trial is a pure function of (seed, its number, its settings)."""

    environment: str
    setup: Setup  # of the learner: shapes the compiled program
    hyper: Hyper  # of the learner: numbers that flow through it
    rules: Rules  # how the environment is played
    evaluation: EvaluationRules
    trials: int
    budget: Budget  # of each trial
    seed: int
    first_trial: int = 0  # the number of the first trial: to add trials to a study, or to run one of them alone
    engine: str = "compiled"
    environment_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    until: float | None = None  # a trial ends early when its mean return is that high

    @property
    def algorithm(self) -> str:
        """Its name."""
        return self.setup.algorithm

    @property
    def learner(self) -> str:
        """Its name."""
        return self.setup.learner

    @property
    def network(self) -> GivenNetwork | None:
        """A user's own network, or its name; None for one of ours."""
        return getattr(self.setup, "network", None)

    def with_network(self, given: Any) -> "Experiment":
        """The same with the network itself, where only its name is known; unchanged where None is given.

        Raises:
            InputError: it is not the one that was trained with.
        """
        network, own = checked_network(given), self.network
        if network is None:
            return self
        if own is None or own.name != network.name:
            with_ours = "none: this was trained with a network of ours"
            allowed = with_ours if own is None else f"{own.name}, which this was trained with"
            raise InputError("network", network.name, allowed)
        setup: Any = self.setup
        own = dataclasses.replace(own, init=network.init, apply=network.apply)
        return dataclasses.replace(self, setup=dataclasses.replace(setup, network=own))

    def require_network(self) -> None:
        """Refuse a network that is known by its name alone."""
        if self.network is not None and self.network.init is None:
            raise InputError("network", self.network.name, "the network itself, given from Python: network=…")

    @property
    def is_game(self) -> bool:
        """Whether it is about an Atari game, of which only evaluations are recorded."""
        return self.engine == "atari"

    @property
    def counts_updates(self) -> bool:
        """Whether training is counted in updates of steps of several environments, not in episodes of one."""
        return self.clock.unit == STEPS

    @property
    def clock(self) -> Clock:
        """When its learner is called: after each episode, or after so many agent steps of all its environments."""
        unit = LEARNERS[self.learner].unit
        return Clock(unit, self.environments * self.rollout_steps if unit == STEPS else 1)

    @property
    def episodes(self) -> int | None:
        """Episodes of each trial; None where the budget is in steps."""
        return self.budget.amount if self.budget.unit == EPISODES else None

    @property
    def steps(self) -> int | None:
        """Agent steps of each trial; None where the budget is in episodes."""
        return self.budget.amount if self.budget.unit == STEPS else None

    # --- updates: of learners that learn every so many steps of several environments ---------------------------------

    @property
    def environments(self) -> int:
        """Environments of a trial, stepped together."""
        return self.rules.environments if isinstance(self.rules, GameRules) else getattr(self.setup, "environments", 1)

    @property
    def rollout_steps(self) -> int:
        """Steps of each environment between two updates."""
        return getattr(self.setup, "rollout_steps", 1)

    @property
    def steps_per_update(self) -> int:
        """Agent steps of a trial, over its environments, between two updates."""
        return self.clock.every

    @property
    def updates(self) -> int:
        """Updates of each trial: the last may take it a little past its steps."""
        return -(-self.budget.amount // self.steps_per_update)

    # --- evaluations -------------------------------------------------------------------------------------------------

    @property
    def evaluations(self) -> int:
        """Evaluations of each trial: one an interval, and one at the end."""
        interval = self.evaluation.evaluation_interval
        if not interval:
            return 0
        count = -(-self.budget.amount // interval)
        # the last interval may be over within an update of the one before
        last_alike = count > 1 and self.counts_updates and self.update_of_evaluation(count - 2) == self.updates
        return count - 1 if last_alike else count

    def moment_of_evaluation(self, evaluation: int) -> int:
        """When an evaluation, counted from 0, takes place, in the budget's unit; on games rounded up to an update."""
        moment = min((evaluation + 1) * self.evaluation.evaluation_interval, self.budget.amount)
        return self.update_of_evaluation(evaluation) * self.steps_per_update if self.counts_updates else moment

    def update_of_evaluation(self, evaluation: int) -> int:
        """Updates after which an evaluation, counted from 0, takes place."""
        steps = min((evaluation + 1) * self.evaluation.evaluation_interval, self.budget.amount)
        return -(-steps // self.steps_per_update)

    def evaluation_moments(self) -> np.ndarray[Any, Any]:
        """When each evaluation takes place [evaluations], in the budget's unit."""
        interval, every = self.evaluation.evaluation_interval, self.steps_per_update
        moments = np.minimum(np.arange(1, self.evaluations + 1, dtype=np.int64) * interval, self.budget.amount)
        return -(-moments // every) * every if self.counts_updates else moments

    @property
    def evaluation_ways(self) -> tuple[bool, ...]:
        """How the episodes of an evaluation are played: by sampled actions, and perhaps by the most probable ones."""
        return (False, True) if getattr(self.evaluation, "evaluation_greedy", False) else (False,)

    @property
    def most_evaluation_episodes(self) -> int:
        """Episodes that an evaluation can have: games are played in whole batches."""
        batch = self.rules.evaluation_environments if isinstance(self.rules, GameRules) else 1
        return -(-self.evaluation.evaluation_episodes // batch) * batch

    # --- trials ------------------------------------------------------------------------------------------------------

    def trial_numbers(self) -> np.ndarray[Any, Any]:
        """The number of each trial [trials], which its randomness comes from."""
        return np.arange(self.first_trial, self.first_trial + self.trials, dtype=np.int32)

    def hyper_of_trials(self) -> Any:
        """The numbers as arrays [trials]."""
        values = dataclasses.asdict(self.hyper)
        return type(self.hyper)(
            **{name: np.broadcast_to(np.asarray(v, np.float32), (self.trials,)) for name, v in values.items()}
        )

    def hyper_of(self, trial: int) -> Any:
        """The numbers of one trial, by its place, as float32."""
        values = dataclasses.asdict(self.hyper_of_trials())
        return type(self.hyper)(**{name: value[trial] for name, value in values.items()})

    # --- as words and JSON -------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The settings that this algorithm reads, by name."""
        every = {**vars(self.rules), **vars(self.setup), **vars(self.hyper), **vars(self.evaluation)}
        return {name: every[name] for name in applicable_settings(self.algorithm, self.engine, self.learner)}

    def learner_settings_given(self) -> dict[str, Any]:
        """The settings of the learner that do not have its usual values, by name."""
        usual, own = settings_for_engine(self.engine, self.learner), {**vars(self.setup), **vars(self.hyper)}
        return {name: x for name, x in self.settings().items() if name in own and x != usual[name].default}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `experiment_from_json` is the inverse."""
        return {
            "environment": self.environment,
            "environment_kwargs": dict(self.environment_kwargs),
            "engine": self.engine,
            "learner": self.learner,
            "algorithm": self.algorithm,
            "trials": self.trials,
            "first_trial": self.first_trial,
            "budget": self.budget._asdict(),
            "until": self.until,
            "seed": self.seed,
            "settings": {name: list(v) if isinstance(v, tuple) else v for name, v in self.settings().items()},
            **({} if self.network is None else {"network": self.network.name}),
        }

    def extended(self, amount: int) -> "Experiment":
        """The same for a longer budget.

        Raises:
            InputError: it is not longer, or the training so far depends on how long it was to be.
        """
        low, high = AMOUNTS[self.budget.unit]
        amount = require_whole(self.budget.unit, amount, low, high)
        if amount <= self.budget.amount:
            raise InputError(self.budget.unit, amount, f"more than the run has, {self.budget}")
        if getattr(self.setup, "schedule", "constant") != "constant":
            raise InputError(self.budget.unit, amount, f"{self.budget}: its learning rate has fallen to 0 there")
        longer = dataclasses.replace(self, budget=self.budget._replace(amount=amount))
        _require_extent(longer)
        return longer


def make_experiment(
    environment: str,
    algorithm: Any,
    trials: int,
    budget: "int | Budget",
    seed: int,
    settings: Mapping[str, Any],
    *,
    first_trial: int = 0,
    engine: str = "compiled",
    learner: str | None = None,
    environment_kwargs: Mapping[str, Any] | None = None,
    until: float | None = None,
    network: Any = None,
) -> Experiment:
    """A checked experiment.

    Args:
        environment: its name.
        algorithm: a name in `ALGORITHMS`, or an estimator: a function from `Evidence` to weights [time, action].
        trials: how many.
        budget: of each trial; a bare number counts what the learner's clock counts.
        seed: of all randomness.
        settings: that differ from the defaults, by name.
        first_trial: the number of the first trial.
        engine: that plays.
        learner: that learns; None for the engine's usual one.
        environment_kwargs: keyword arguments of the environment.
        until: a mean return at which a trial ends early.
        network: a network of a user's own, or its name; see `spec.given`.

    Raises:
        InputError: names the first field that cannot be used, its value and what is allowed.
    """
    checked_name("engine", engine, ENGINES)
    learner = usual_learner(algorithm, engine) if learner is None else learner
    checked_name("learner", learner, LEARNERS)
    if engine not in LEARNERS[learner].setups:
        raise InputError("learner", learner, f"{', '.join(learners_on(engine))}, on the {engine} engine")
    name, estimator = checked_algorithm(algorithm, learner)
    if engine == "atari" and (not isinstance(environment, str) or not environment.startswith(GAME)):
        raise InputError("environment", environment, f"an Atari game, such as {GAME}Pong-v5")
    trials = require_whole("trials", trials, *(GAME_TRIALS if engine == "atari" else TRIALS))
    budget = _checked_budget(budget, learner, algorithm_of(name).learners)
    spec, checked = LEARNERS[learner], _checked_settings(settings, name, engine, learner, trials)
    more = {"algorithm": name, "estimator": estimator, **_own_network(network, spec.setups[engine])}

    def own(kind: type[Any], **more: Any) -> Any:
        return kind(**more, **{key: checked[key] for key in settings_of(kind) if key in checked})

    experiment = Experiment(
        environment,
        own(spec.setups[engine], **more),
        own(spec.hyper),
        own(RULES[engine]),
        own(EVALUATIONS[engine]),
        trials,
        budget,
        require_whole("seed", seed, *SEEDS),
        require_whole("first_trial", first_trial, *FIRST_TRIALS),
        engine,
        checked_kwargs(as_kwargs(environment_kwargs)),
        None if until is None else require_number("until", until),
    )
    _require_extent(experiment)
    return experiment


def _own_network(given: Any, setup: type[Any]) -> dict[str, Any]:
    """A user's own network by the name of its field; none where there is none."""
    network = checked_network(given)
    if network is not None and not hasattr(setup, "network"):
        raise InputError("network", network.name, f"a learner for any environment, such as {GENERAL}")
    return {} if network is None else {"network": network}


def _checked_budget(given: "int | Budget", learner: str, able: Sequence[str]) -> Budget:
    unit, amount = given if isinstance(given, Budget) else (LEARNERS[learner].unit, given)
    if unit not in AMOUNTS:
        raise unknown_name("budget", unit, AMOUNTS)
    if unit == EPISODES and LEARNERS[learner].unit == STEPS:
        others = [f"; or the learner {other}" for other in able if LEARNERS[other].unit == EPISODES]
        allowed = f"steps instead, which the learner {learner} counts{''.join(others)}"
        raise InputError("episodes", amount, allowed)
    return Budget(unit, require_whole(unit, amount, *AMOUNTS[unit]))


def _require_extent(experiment: Experiment) -> None:
    """Raise an InputError if numbers that are each allowed are too many together."""
    if experiment.trials * (experiment.episodes or 0) > EPISODES_IN_ALL:
        in_all = experiment.trials * (experiment.episodes or 0)
        raise InputError("trials × episodes", in_all, f"up to {EPISODES_IN_ALL} in one run")
    interval = experiment.evaluation.evaluation_interval
    if experiment.counts_updates:
        if experiment.updates > MOST_UPDATES:
            allowed = f"at most {MOST_UPDATES} updates of {experiment.steps_per_update} steps"
            raise InputError("steps", experiment.budget.amount, allowed)
        if (interval or experiment.is_game) and interval < experiment.steps_per_update:
            allowed = f"at least {experiment.steps_per_update}, the steps of an update"
            raise InputError("evaluation_interval", interval, allowed)
    if interval and -(-experiment.budget.amount // interval) > MOST_EVALUATIONS:
        raise InputError("evaluation_interval", interval, f"one that gives up to {MOST_EVALUATIONS} evaluations")
    played = experiment.most_evaluation_episodes * len(experiment.evaluation_ways)
    if experiment.trials * experiment.evaluations * played > EVALUATED_IN_ALL:
        in_all = experiment.trials * experiment.evaluations * played
        raise InputError("trials × evaluations × evaluation_episodes", in_all, f"up to {EVALUATED_IN_ALL} in one run")


def _checked_settings(
    settings: Mapping[str, Any], algorithm: str, engine: str, learner: str, trials: int
) -> dict[str, Any]:
    known = settings_for_engine(engine, learner)
    applicable = applicable_settings(algorithm, engine, learner)
    checked = dict(_usual_values(engine, learner))
    for name, given in settings.items():
        if name not in known:
            raise unknown_name("setting", name, known)
        limits = known[name].limits
        if name not in applicable:
            raise InputError(name, given, f"nothing with {algorithm}, which has no {limits.role}")
        value = plain(given)
        if name == "hidden" and not isinstance(value, tuple):
            value = (value,)
        if not limits.valid(value):
            raise InputError(name, given, limits.allowed)
        if isinstance(value, tuple) and name != "hidden" and len(value) != trials:
            raise InputError(name, given, f"one number, or one for each of the {trials} trials")
        checked[name] = value
    return checked


def hyper_names(learner: str) -> tuple[str, ...]:
    """The settings of a learner that are numbers which flow through its program."""
    return tuple(field.name for field in dataclasses.fields(LEARNERS[learner].hyper))


_FIELDS = frozenset(
    {"environment", "environment_kwargs", "engine", "learner", "algorithm", "trials", "first_trial", "budget", "until",
     "seed", "settings"}
)  # fmt: skip


def experiment_from_json(document: Any) -> Experiment:
    """The experiment that `to_json` described, now or in files of format 2.

    Raises:
        InputError: a field is missing, unknown or out of its limits.
    """
    if not isinstance(document, dict):
        raise InputError("experiment", "its fields", ", ".join(sorted(_FIELDS)))
    given = _of_format_3(document)
    if set(given) - {"network"} != _FIELDS or not isinstance(given.get("network", ""), str):
        raise InputError("experiment", "its fields", ", ".join(sorted(_FIELDS)))
    named = isinstance(given["settings"], dict) and isinstance(given["environment_kwargs"], dict)
    if not isinstance(given["environment"], str) or not named:
        raise InputError("experiment", "environment or settings", "a name, and settings by name")
    budget = given["budget"]
    if not isinstance(budget, dict) or set(budget) != set(Budget._fields) or not isinstance(budget["unit"], str):
        raise InputError("experiment", "budget", "a unit and an amount")
    if not isinstance(given["engine"], str) or not isinstance(given["learner"], str):
        raise InputError("experiment", "engine or learner", "names")
    return make_experiment(**{**given, "budget": Budget(**budget)})


def _of_format_3(document: dict[str, Any]) -> dict[str, Any]:
    """A document of format 2, which had `episodes` or, on games, `steps`, as one of format 3; others as they are."""
    if "budget" in document:
        return document
    given = dict(document)
    for unit in (EPISODES, STEPS):
        if unit in given:
            given["budget"] = {"unit": unit, "amount": given.pop(unit)}
    engine = given.get("engine")
    usual = learners_on(engine)[0] if isinstance(engine, str) and engine in ENGINES else None
    given = {"environment_kwargs": {}, "learner": usual, "until": None, **given}
    if isinstance(given.get("settings"), dict):
        given["settings"] = {_RENAMED.get(name, name): value for name, value in given["settings"].items()}
    return given


def checked_moments(asked: Any, episodes: int | None) -> tuple[int, ...]:
    """The moments of training, after so many episodes, that `asked` names: ascending.

    A number asks for so many of them, evenly spaced from before the first episode to after the last; one is the last. A
    list names the episodes themselves.

    Args:
        asked: what was asked for.
        episodes: of each trial; None where they are not counted.

    Raises:
        InputError: there are no such moments.
    """
    asked = plain(asked)
    if episodes is None:
        if asked in (0, ()):
            return ()
        raise InputError("snapshots", asked, "runs whose budget is in episodes")
    if is_whole(asked, 0, MOST_SNAPSHOTS):
        spaced = [round(i * episodes / (asked - 1)) for i in range(asked)] if asked > 1 else [episodes] * asked
        return tuple(sorted(set(spaced)))
    named = isinstance(asked, tuple) and len(asked) <= MOST_SNAPSHOTS
    if not named or not all(is_whole(episode, 0, episodes) for episode in asked):
        allowed = f"how many, up to {MOST_SNAPSHOTS}, or a list of episodes from 0 to {episodes}"
        raise InputError("snapshots", asked, allowed)
    return tuple(sorted(set(asked)))
