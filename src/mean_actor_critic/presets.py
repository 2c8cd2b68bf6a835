"""Settings that were found to work, by environment and algorithm."""

from typing import Any

from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.errors import InputError

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

_PRESETS = {"CartPole-v0": CART_POLE, "CartPole-v1": CART_POLE, "LunarLander-v3": LUNAR_LANDER}


def settings_for(environment: EnvironmentSpec, algorithm: str) -> dict[str, Any]:
    """The settings to start from: the environment's own time limit, and what a search found, if there was one."""
    return {"max_episode_steps": environment.max_episode_steps, **preset(environment.name, algorithm)}


def preset(environment: str, algorithm: str) -> dict[str, Any]:
    """What a search found for an environment, if there was one."""
    return _PRESETS.get(environment, {}).get(algorithm, {})
