"""What is learned, for how long, and when it is looked at."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium

from mean_actor_critic.environments.programs import MINATAR, PROGRAMS

MINIGRID = "MiniGrid-"  # what the ids of MiniGrid's environments begin with
TENTHS = 10


class Task(NamedTuple):
    """An environment and a budget."""

    environment: str  # a Gymnasium id
    moments: tuple[int, ...]  # agent steps after which it is evaluated; the last of them is the budget
    kwargs: Mapping[str, Any] = {}  # for the environment


def _moments(budget: int, *others: int) -> tuple[int, ...]:
    """Every tenth of a budget of agent steps, and others, at which somebody has said what to expect."""
    return tuple(sorted({budget * tenth // TENTHS for tenth in range(1, TENTHS + 1)} | set(others)))


TASKS: Mapping[str, Task] = {
    "CartPole-v1": Task("CartPole-v1", _moments(50_000, 3_000, 12_000)),
    "Acrobot-v1": Task("Acrobot-v1", _moments(50_000, 8_000)),
    "MountainCar-v0": Task("MountainCar-v0", _moments(50_000, 8_000, 12_000)),
    "FrozenLake-v1": Task("FrozenLake-v1", _moments(50_000)),
    "FrozenLake-v1-not-slippery": Task("FrozenLake-v1", _moments(50_000, 8_000), {"is_slippery": False}),
    "CliffWalking-v1": Task("CliffWalking-v1", _moments(50_000)),
    "MiniGrid-Empty-5x5-v0": Task("MiniGrid-Empty-5x5-v0", _moments(10_000)),
    "MiniGrid-Empty-8x8-v0": Task("MiniGrid-Empty-8x8-v0", _moments(40_000)),
    "LunarLander-v3": Task("LunarLander-v3", _moments(100_000)),
    "Taxi-v4": Task("Taxi-v4", _moments(100_000)),  # v3, which Gymnasium no longer makes, is the same
    **{
        f"{MINATAR}{game}-v1": Task(f"{MINATAR}{game}-v1", _moments(300_000))
        for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
    },
    "LunarLander-v3-300k": Task("LunarLander-v3", _moments(300_000, 100_000)),
}


def make(environment: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """The original environment, of Gymnasium's or of the package that brings it; of MiniGrid's, its image only.

    Where Gymnasium sets no limit to an episode's steps, ours is set, so that all play by the same rules.
    """
    limit = PROGRAMS[environment].max_episode_steps if environment in PROGRAMS else None
    if environment.startswith(MINATAR) and environment not in gymnasium.registry:
        from minatar.gym import register_envs

        register_envs()
    if environment.startswith(MINIGRID):
        from minigrid.wrappers import ImgObsWrapper  # which also tells Gymnasium of the environments

        return ImgObsWrapper(gymnasium.make(environment, **kwargs))
    return gymnasium.make(environment, max_episode_steps=limit, **kwargs)
