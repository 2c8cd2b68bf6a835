"""What to run: `Setup` shapes the compiled program, `Hyper` flows through it, `Experiment` is both and how often.

The fields below are the only place where a setting's default, meaning and limits are written.
"""

import dataclasses
import difflib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.settings import (
    Limits,
    Setting,
    choice,
    is_whole,
    number,
    setting,
    settings_of,
    switch,
    whole,
)


class Algorithm(NamedTuple):
    """What the world outside `estimators` needs to know of an algorithm."""

    title: str
    help: str
    parts: frozenset[str]  # "critic", "baseline": settings with such a role apply only where the part exists


_CRITIC = frozenset({"critic"})

# In the paper's order.
ALGORITHMS = {
    "reinforce": Algorithm("REINFORCE", "the return", frozenset()),
    "advantage_reinforce": Algorithm("Adv. REINFORCE", "the return above a running average", frozenset({"baseline"})),
    "actor_critic": Algorithm("Actor-Critic", "the critic's value of the action taken", _CRITIC),
    "advantage_actor_critic": Algorithm("Adv. Actor-Critic", "that value above the state's", _CRITIC),
    "mac": Algorithm("MAC", "the critic's values averaged over all actions", _CRITIC),
}
ENGINES = ("compiled", "hosted")
ACTIVATIONS = ("relu", "leaky_relu", "tanh")
OPTIMIZERS = ("adam", "rmsprop", "sgd", "adadelta")
ANY = "any"  # an activation or optimiser that is not fixed when a program is compiled, but told when it runs
TRIALS = (1, 100_000)
EPISODES = (1, 10_000_000)
EPISODES_IN_ALL = 10**8  # 800 MB of curves
DEEPEST_KWARGS = 20  # lists and dictionaries within each other
MAX_EPISODE_STEPS = (1, 1_000_000)
FIRST_TRIALS = (0, 10**9)
SEEDS = (0, 2**31 - 1)
MOST_SNAPSHOTS = 100  # moments of training at which networks are kept


def _parse_widths(text: str) -> tuple[int, ...]:
    return () if text in ("", "none") else tuple(int(part) for part in text.split(","))


_WIDTHS = Limits(
    _parse_widths,
    lambda value: isinstance(value, tuple) and len(value) <= 3 and all(is_whole(v, 1, 65536) for v in value),
    "up to three widths separated by commas, such as 100,100; none for a linear network",
    "units of each hidden layer, the same for policy and critic",
    "any",
)


@dataclasses.dataclass(frozen=True)
class Setup:
    """Everything that shapes the compiled program. Equal setups share one compilation."""

    environment: str
    algorithm: str = "mac"
    max_episode_steps: int = whole(200, "agent steps after which an episode is cut off", high=MAX_EPISODE_STEPS[1])
    hidden: tuple[int, ...] = setting((64,), _WIDTHS)
    activation: str = choice("relu", ACTIVATIONS, "of the hidden layers; the leak is 0.3")
    optimizer: str = choice("adam", OPTIMIZERS, "of both networks")
    normalize_observations: bool = switch(False, "scale observations by their running mean and deviation")
    critic_target: str = choice(
        "expected_sarsa", ("expected_sarsa", "monte_carlo"), "what the critic learns towards", "critic"
    )
    time_limit: str = choice(
        "bootstrap", ("bootstrap", "terminal"), "what a cut-off means: an unfinished episode, or an end", "critic"
    )
    replay_capacity: int = whole(2000, "transitions that the critic's replay holds", "critic")
    minibatches: int = whole(10, "critic steps after each episode", "critic")
    batch_size: int = whole(32, "transitions in each critic step", "critic")

    @property
    def has_critic(self) -> bool:
        """Whether the algorithm learns action values."""
        return "critic" in ALGORITHMS[self.algorithm].parts

    def generalised(self) -> "Setup":
        """The same with ANY activation and optimiser: what settings have in common that can share one program."""
        return dataclasses.replace(self, activation=ANY, optimizer=ANY)


@dataclasses.dataclass(frozen=True)
class Hyper:
    """Numbers that flow through the compiled program: changing them never recompiles. Each may differ by trial."""

    actor_lr: Any = number(0.005, 0.0, 1e9, "learning rate of the policy")
    critic_lr: Any = number(0.01, 0.0, 1e9, "learning rate of the critic", "critic")
    discount: Any = number(0.9999, 0.0, 1.0, "discount factor per step")
    baseline_decay: Any = number(0.9, 0.0, 0.999999, "weight of the past in the running-average return", "baseline")


SETTINGS: dict[str, Setting] = settings_of(Setup, Hyper)
HYPER_NAMES = tuple(field.name for field in dataclasses.fields(Hyper))


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Trials of one algorithm on one environment. A trial is a pure function of (seed, its number, its settings)."""

    setup: Setup
    hyper: Hyper
    trials: int
    episodes: int
    seed: int
    first_trial: int = 0  # the number of the first trial: to add trials to a study, or to run one of them alone
    engine: str = "compiled"
    environment_kwargs: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def trial_numbers(self) -> np.ndarray[Any, Any]:
        """The number of each trial [trials], which its randomness comes from."""
        return np.arange(self.first_trial, self.first_trial + self.trials, dtype=np.int32)

    def hyper_of_trials(self) -> Hyper:
        """The numbers as arrays [trials]."""
        return Hyper(
            **{
                name: np.broadcast_to(np.asarray(getattr(self.hyper, name), np.float32), (self.trials,))
                for name in HYPER_NAMES
            }
        )

    def settings(self) -> dict[str, Any]:
        """The settings that this algorithm reads, by name."""
        both = {**dataclasses.asdict(self.setup), **dataclasses.asdict(self.hyper)}
        return {name: both[name] for name in applicable_settings(self.setup.algorithm)}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `experiment_from_json` is the inverse."""
        return {
            "environment": self.setup.environment,
            "environment_kwargs": dict(self.environment_kwargs),
            "engine": self.engine,
            "algorithm": self.setup.algorithm,
            "trials": self.trials,
            "first_trial": self.first_trial,
            "episodes": self.episodes,
            "seed": self.seed,
            "settings": {
                name: list(value) if isinstance(value, tuple) else value for name, value in self.settings().items()
            },
        }


def applicable_settings(algorithm: str) -> list[str]:
    """Names of the settings that `algorithm` reads."""
    parts = ALGORITHMS[algorithm].parts
    return [name for name, setting in SETTINGS.items() if setting.limits.role in parts | {"any"}]


def unknown_name(field: str, value: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not among `known`, with a guess at what was meant."""
    names = sorted(known)
    close = difflib.get_close_matches(str(value), names, n=1) or difflib.get_close_matches(
        str(value).lower(), names, n=1
    )
    return InputError(field, value, ", ".join(names) + (f" (did you mean {close[0]}?)" if close else ""))


def require_whole(field: str, value: object, low: int, high: int) -> int:
    """`value`, Python's or NumPy's, as an int; an InputError unless it is a whole number from `low` to `high`."""
    number = plain(value)
    if not is_whole(number, low, high):
        raise InputError(field, value, f"a whole number from {low} to {high}")
    return number


def checked_moments(asked: Any, episodes: int) -> tuple[int, ...]:
    """The moments of training, after so many episodes, that `asked` names: ascending.

    A number asks for so many of them, evenly spaced from before the first episode to after the last; one is the last. A
    list names the episodes themselves.

    Raises:
        InputError: there are no such moments.
    """
    asked = plain(asked)
    if is_whole(asked, 0, MOST_SNAPSHOTS):
        spaced = [round(i * episodes / (asked - 1)) for i in range(asked)] if asked > 1 else [episodes] * asked
        return tuple(sorted(set(spaced)))
    named = isinstance(asked, tuple) and len(asked) <= MOST_SNAPSHOTS
    if not named or not all(is_whole(episode, 0, episodes) for episode in asked):
        allowed = f"how many, up to {MOST_SNAPSHOTS}, or a list of episodes from 0 to {episodes}"
        raise InputError("snapshots", asked, allowed)
    return tuple(sorted(set(asked)))


def parse_settings(assignments: Iterable[str], known: Mapping[str, Setting] = SETTINGS) -> dict[str, Any]:
    """Settings from `name=value` words, as the command line gives them; `known` are those that there are."""
    settings: dict[str, Any] = {}
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError("--set", word, "name=value, such as actor_lr=0.01")
        if name not in known:
            raise unknown_name("setting", name, known)
        limits = known[name].limits
        try:
            settings[name] = limits.parse(text)
        except ValueError:
            raise InputError(name, text, limits.allowed) from None
    return settings


def settings_as_words(settings: Mapping[str, Any]) -> list[str]:
    """The `name=value` words that `parse_settings` makes these settings of."""
    return [f"{name}={_as_word(value)}" for name, value in settings.items()]


def _as_word(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def make_experiment(
    environment: str,
    algorithm: str,
    trials: int,
    episodes: int,
    seed: int,
    settings: Mapping[str, Any],
    *,
    first_trial: int = 0,
    engine: str = "compiled",
    environment_kwargs: Mapping[str, Any] | None = None,
) -> Experiment:
    """A checked experiment. `settings` override the defaults of `Setup` and `Hyper` by name.

    Raises:
        InputError: names the first field that cannot be used, its value and what is allowed.
    """
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise unknown_name("algorithm", algorithm, ALGORITHMS)
    trials = require_whole("trials", trials, *TRIALS)
    episodes = require_whole("episodes", episodes, *EPISODES)
    seed = require_whole("seed", seed, *SEEDS)
    first_trial = require_whole("first_trial", first_trial, *FIRST_TRIALS)
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if trials * episodes > EPISODES_IN_ALL:
        raise InputError("trials × episodes", trials * episodes, f"up to {EPISODES_IN_ALL} in one run")
    applicable = applicable_settings(algorithm)
    checked: dict[str, Any] = {}
    for name, given in settings.items():
        if name not in SETTINGS:
            raise unknown_name("setting", name, SETTINGS)
        if name not in applicable:
            raise InputError(name, given, f"nothing with {algorithm}, which has no {SETTINGS[name].limits.role}")
        checked[name] = _checked(name, given, trials)
    hyper = Hyper(**{name: checked.pop(name) for name in HYPER_NAMES if name in checked})
    setup = Setup(environment, algorithm, **checked)
    kwargs = checked_kwargs({} if environment_kwargs is None else environment_kwargs)
    return Experiment(setup, hyper, trials, episodes, seed, first_trial, engine, kwargs)


def checked_kwargs(kwargs: Any) -> dict[str, Any]:
    """Keyword arguments of an environment, which a manifest must be able to hold.

    Raises:
        InputError: they are not plain values by name.
    """
    if not isinstance(kwargs, dict) or not _is_plain(kwargs):
        allowed = "numbers, words, true or false, null, and lists and dictionaries of these, by name"
        raise InputError("env_kwargs", "what was given", allowed)
    return kwargs


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Whether JSON gives `value` back as it is. Not deeper than anybody needs, so that nothing runs out of stack."""
    if isinstance(value, list | dict):
        parts = value.values() if isinstance(value, dict) else value
        named = isinstance(value, list) or all(isinstance(name, str) for name in value)
        return depth < DEEPEST_KWARGS and named and all(_is_plain(part, depth + 1) for part in parts)
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def parse_kwargs(assignments: Iterable[str]) -> dict[str, Any]:
    """Keyword arguments from `name=value` words; a value is JSON, or else a word."""
    kwargs: dict[str, Any] = {}
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals or not name.isidentifier():
            raise InputError("--env-kwargs", word, "name=value, such as gravity=-5.0")
        try:
            kwargs[name] = json.loads({"True": "true", "False": "false", "None": "null"}.get(text, text))
        except ValueError:
            kwargs[name] = text
    return checked_kwargs(kwargs)


def kwargs_as_words(kwargs: Mapping[str, Any]) -> list[str]:
    """The `name=value` words that `parse_kwargs` makes these keyword arguments of."""
    return [f"{name}={json.dumps(value)}" for name, value in kwargs.items()]


def plain(value: Any) -> Any:
    """NumPy's numbers as Python's, a sequence as a tuple."""
    if isinstance(value, list | tuple):
        return tuple(part.item() if isinstance(part, np.generic) else part for part in value)
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist())
    return value


def _checked(name: str, given: Any, trials: int) -> Any:
    value = plain(given)
    if name == "hidden" and not isinstance(value, tuple):
        value = (value,)
    limits = SETTINGS[name].limits
    if not limits.valid(value):
        raise InputError(name, given, limits.allowed)
    if name in HYPER_NAMES and isinstance(value, tuple) and len(value) != trials:
        raise InputError(name, given, f"one number, or one for each of the {trials} trials")
    return value


def experiment_from_json(document: Any) -> Experiment:
    """The experiment that `to_json` described.

    Raises:
        InputError: a field is missing, unknown or out of its limits.
    """
    names = (
        *("environment", "environment_kwargs", "engine", "algorithm"),
        *("trials", "first_trial", "episodes", "seed", "settings"),
    )
    if not isinstance(document, dict) or set(document) != set(names):
        raise InputError("experiment", "its fields", ", ".join(names))
    environment, settings = document["environment"], document["settings"]
    named = isinstance(settings, dict) and isinstance(document["environment_kwargs"], dict)
    if not isinstance(environment, str) or not named:
        raise InputError("experiment", "environment or settings", "a name, and settings by name")
    return make_experiment(
        environment,
        document["algorithm"],
        document["trials"],
        document["episodes"],
        document["seed"],
        settings,
        first_trial=document["first_trial"],
        engine=document["engine"],
        environment_kwargs=document["environment_kwargs"],
    )
