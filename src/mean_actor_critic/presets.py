"""Settings that were found to work, by environment and algorithm."""

from typing import Any

from mean_actor_critic.environments.catalogue import EnvironmentSpec

# Seeds that searches for settings use. Reported results never do, so that no setting is reported on what chose it.
SEARCH_SEEDS = range(2**30, 2**31)

CART_POLE: dict[str, dict[str, Any]] = {}

_PRESETS = {"CartPole-v0": CART_POLE, "CartPole-v1": CART_POLE}


def settings_for(environment: EnvironmentSpec, algorithm: str) -> dict[str, Any]:
    """The settings to start from: the environment's own time limit, and what a search found, if there was one."""
    return {"max_episode_steps": environment.max_episode_steps, **_PRESETS.get(environment.name, {}).get(algorithm, {})}
