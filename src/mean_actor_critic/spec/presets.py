"""Settings that were found to work, by environment and algorithm."""

from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.algorithms import is_given
from mean_actor_critic.spec.checks import unknown_name
from mean_actor_critic.spec.rules import GAME, PROTOCOLS

# Seeds that searches for settings use. Reported results never do, so that no setting is reported on what chose it.
SEARCH_SEEDS = range(2**30, 2**31)


def require_reporting_seed(seed: int) -> None:
    """Raise an InputError if searches use a seed that results are to be reported with."""
    if seed in SEARCH_SEEDS:
        raise InputError("seed", seed, f"one below {SEARCH_SEEDS.start}: the settings were searched with the others")


# From `scripts/search_cart_pole.py`: each algorithm's best finalist by its mean over 40 trials of 200 episodes.
_MONTE_CARLO = {"hidden": (64,), "activation": "tanh", "critic_target": "monte_carlo", "batch_size": 64}
CART_POLE: dict[str, dict[str, Any]] = {
    "reinforce": {"hidden": (128,), "activation": "tanh", "actor_lr": 0.005, "discount": 0.9999},
    "advantage_reinforce": {"hidden": (64, 64), "activation": "tanh", "actor_lr": 0.0025, "discount": 0.99},
    "actor_critic": {
        **_MONTE_CARLO, "minibatches": 50, "replay_capacity": 5000,
        "actor_lr": 0.005, "critic_lr": 0.005, "discount": 0.9999,
    },
    "advantage_actor_critic": {
        **_MONTE_CARLO, "minibatches": 100, "replay_capacity": 2000,
        "actor_lr": 0.04, "critic_lr": 0.04, "discount": 0.98,
    },
    "mac": {
        **_MONTE_CARLO, "minibatches": 100, "replay_capacity": 2000,
        "actor_lr": 0.02, "critic_lr": 0.02, "discount": 0.99,
    },
}  # fmt: skip

# From `scripts/search_lunar_lander.py`: each algorithm's best point so far; see decision 9 for what that is worth.
_EXPECTED_SARSA = {
    "hidden": (64,), "activation": "tanh", "critic_target": "expected_sarsa",
    "minibatches": 100, "batch_size": 64, "replay_capacity": 20_000,
}  # fmt: skip
LUNAR_LANDER: dict[str, dict[str, Any]] = {
    "reinforce": {"hidden": (64,), "activation": "tanh", "actor_lr": 0.005, "discount": 0.99},
    "advantage_reinforce": {"hidden": (64,), "activation": "tanh", "actor_lr": 0.008, "discount": 0.97},
    "actor_critic": {
        **_EXPECTED_SARSA, "critic_target": "monte_carlo", "actor_lr": 0.005, "critic_lr": 0.005, "discount": 0.99,
    },
    "advantage_actor_critic": {
        **_EXPECTED_SARSA, "activation": "relu", "actor_lr": 0.005, "critic_lr": 0.005, "discount": 0.99,
    },
    "mac": {**_EXPECTED_SARSA, "actor_lr": 0.002, "critic_lr": 0.005, "discount": 0.99},
}  # fmt: skip

# From `mac sweep cart-pole`: each algorithm's best of the paper's 1036 settings by the paper's rule, the mean return of
# the last quarter of the episodes; and below, by that of all episodes, which is what the paper's table reports.
_PAPERS = {"discount": 0.99}
_PAPERS_CRITIC = {**_PAPERS, "critic_target": "monte_carlo", "minibatches": 10, "batch_size": 32}
_PAPERS_ACTOR_CRITIC = {
    **_PAPERS_CRITIC, "hidden": (300, 300, 300), "activation": "leaky_relu", "optimizer": "rmsprop",
    "actor_lr": 0.001, "critic_lr": 0.001,
}  # fmt: skip
PAPERS_CART_POLE: dict[str, dict[str, Any]] = {
    "reinforce": {**_PAPERS, "hidden": (300, 300), "activation": "tanh", "actor_lr": 0.00025},
    "advantage_reinforce": {**_PAPERS, "hidden": (75,), "activation": "relu", "actor_lr": 0.01},
    "actor_critic": _PAPERS_ACTOR_CRITIC,
    "advantage_actor_critic": {**_PAPERS_ACTOR_CRITIC, "optimizer": "adam"},
    "mac": {
        **_PAPERS_CRITIC, "hidden": (75,), "activation": "relu", "optimizer": "rmsprop",
        "actor_lr": 0.01, "critic_lr": 0.01,
    },
}  # fmt: skip
PAPERS_CART_POLE_BY_AREA: dict[str, dict[str, Any]] = {
    "reinforce": {
        **_PAPERS, "hidden": (300, 300), "activation": "tanh", "optimizer": "rmsprop", "actor_lr": 0.0005,
    },
    "advantage_reinforce": {**_PAPERS, "hidden": (100, 100, 100), "activation": "tanh", "actor_lr": 0.001},
    "actor_critic": _PAPERS_ACTOR_CRITIC,
    "advantage_actor_critic": {
        **_PAPERS_CRITIC, "hidden": (100, 100, 100), "activation": "tanh", "optimizer": "rmsprop",
        "actor_lr": 0.005, "critic_lr": 0.005,
    },
    "mac": {
        **_PAPERS_CRITIC, "hidden": (75, 75, 75), "activation": "leaky_relu", "optimizer": "rmsprop",
        "actor_lr": 0.005, "critic_lr": 0.005,
    },
}  # fmt: skip

# Baselines' A2C as it was published; the paper's algorithms have the defaults on games.
_BASELINES: dict[str, dict[str, Any]] = {
    "a2c": {
        "rollout_steps": 5, "learning_rate": 7e-4, "schedule": "linear", "policy_weight": 1.0, "entropy_weight": 0.01,
    },
}  # fmt: skip

TUNED, PAPER, PAPER_AREA = "tuned", "paper", "paper-area"
PRESETS = {
    TUNED: {"CartPole-v0": CART_POLE, "CartPole-v1": CART_POLE, "LunarLander-v3": LUNAR_LANDER},
    PAPER: {"CartPole-v0": PAPERS_CART_POLE},
    PAPER_AREA: {"CartPole-v0": PAPERS_CART_POLE_BY_AREA},
}


class Start(NamedTuple):
    """The settings that a training starts from, and where they come from."""

    settings: dict[str, Any]
    origin: str  # in words, for people


# Of learners that presets are not for: what algorithms need beyond the defaults, by name, and where these come from.
_GENERAL = {
    # without a policy, something has to explore
    "replayed": Start({"q_learning": {"exploration": 0.05}}, "general: one setting for every environment"),
    "rollout": Start({}, "general: those that A2C usually has"),
}


def start_from(
    environment: str,
    algorithm: str,
    *,
    engine: str,
    learner: str | None = None,
    max_episode_steps: int | None = None,
    preset: str | None = None,
    protocol: str | None = None,
) -> Start:
    """The settings to start from: what was tuned for the environment, or what is general.

    Args:
        environment: its name.
        algorithm: its name.
        engine: that plays it.
        learner: that learns; None for the engine's usual one.
        max_episode_steps: the environment's own time limit, in agent steps.
        preset: a name in `PRESETS`; None for "tuned", on environments other than games.
        protocol: a name in `PROTOCOLS`; None for "paper", on games.

    Raises:
        InputError: there is no such preset or protocol, or none for the environment.
    """
    if engine == "atari":
        if preset is not None:
            raise InputError("preset", preset, "a protocol, with Atari games")
        return _start_on_game(algorithm, "paper" if protocol is None else protocol)
    if protocol is not None:
        raise InputError("protocol", protocol, f"an Atari game, {GAME}…-v5")
    limit = {} if max_episode_steps is None else {"max_episode_steps": max_episode_steps}
    if learner in _GENERAL:
        if preset is not None:
            raise InputError("preset", preset, "the learner episodic, which presets are for")
        return Start({**limit, **_GENERAL[learner].settings.get(algorithm, {})}, _GENERAL[learner].origin)
    name = TUNED if preset is None else preset
    like = "mac" if is_given(algorithm) else algorithm  # a function of a user's starts where MAC does
    found = settings_of_preset(environment, like, name)
    if not found:
        origin = f"general: no settings were tuned for {algorithm} on {environment}"
    elif name == TUNED:
        origin = f"tuned for {'CartPole-v0' if environment.startswith('CartPole') else environment}"
    else:
        origin = f"preset {name}, for {environment}"
    return Start({**limit, **found}, origin)


def _start_on_game(algorithm: str, protocol: str) -> Start:
    if not isinstance(protocol, str) or protocol not in PROTOCOLS:
        raise unknown_name("protocol", protocol, PROTOCOLS)
    origin = "Baselines' own" if algorithm in _BASELINES else "the paper's for Atari games"
    words = "" if protocol == "paper" else f", protocol {protocol}"
    return Start({**_BASELINES.get(algorithm, {}), **PROTOCOLS[protocol]}, origin + words)


def settings_of_preset(environment: str, algorithm: str, name: str = TUNED) -> dict[str, Any]:
    """What a search found for an environment: of the tuned ones nothing, where there was none.

    Raises:
        InputError: there are no presets of that name, or none for the environment.
    """
    if not isinstance(name, str) or name not in PRESETS:
        raise unknown_name("preset", name, PRESETS)
    if name != TUNED and environment not in PRESETS[name]:
        raise InputError("preset", name, f"{TUNED} for {environment}; this one is for {', '.join(PRESETS[name])}")
    return PRESETS[name].get(environment, {}).get(algorithm, {})
