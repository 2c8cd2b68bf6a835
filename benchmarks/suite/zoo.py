"""The settings that RL Baselines3 Zoo publishes for these tasks: numbers only, none of its code.

From hyperparams/{ppo,dqn,qrdqn}.yml of DLR-RM/rl-baselines3-zoo at commit 22e3ff2 (April 2026). What differs from what
stands there:

- Budgets are the suite's and not the zoo's, which are up to 20 times as long. Schedules run over the budget.
- MiniGrid-Empty-5x5 and -8x8 have those of MiniGrid-Empty-Random-5x5, and see the image, as everybody here does.
- MinAtar's games have those of Atari's, with one frame instead of four, and the steps before learning scaled from the
  zoo's budget of 10 million to the suite's 300,000. Their 10 × 10 images are too small for the zoo's network; it is
  that of MinAtar's authors instead (Young and Tian 2019): 16 filters of 3 × 3, and 128 units.

The zoo has nothing on Frozen Lake, Cliff Walking and Taxi but its default, which is Stable-Baselines3's; nothing on
MiniGrid for DQN and QR-DQN.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.suite.tasks import MINATAR, MINIGRID

Settings = Mapping[str, Any]
MINATAR_NETWORK = "MinAtar's network"  # instead of one that only Stable-Baselines3's policy has


class Linear(NamedTuple):
    """A setting that falls to 0 at the end of training."""

    start: float

    def __call__(self, left: float) -> float:
        """By what is left of training, from 1 to 0."""
        return self.start * left


_ATARI_SCALE = 300_000 / 10_000_000

# Names are those of Stable-Baselines3's arguments, and besides: environments, how many are stepped together;
# normalised, whether observations and rewards are divided by running scales; hidden, widths of the network's layers.
_PPO: Mapping[str, Settings] = {
    "CartPole-v1": {
        "environments": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98, "n_epochs": 20,
        "ent_coef": 0.0, "learning_rate": Linear(0.001), "clip_range": Linear(0.2),
    },
    "MountainCar-v0": {
        "environments": 16, "normalised": True, "n_steps": 16, "gae_lambda": 0.98, "gamma": 0.99, "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "Acrobot-v1": {
        "environments": 16, "normalised": True, "n_steps": 256, "gae_lambda": 0.94, "gamma": 0.99, "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "LunarLander-v3": {
        "environments": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98, "gamma": 0.999, "n_epochs": 4,
        "ent_coef": 0.01,
    },
    MINIGRID: {
        "environments": 8, "normalised": True, "n_steps": 128, "batch_size": 64, "gae_lambda": 0.95, "gamma": 0.99,
        "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 2.5e-4, "clip_range": 0.2,
    },
    MINATAR: {
        "environments": 8, "n_steps": 128, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01, "vf_coef": 0.5,
        "learning_rate": Linear(2.5e-4), "clip_range": Linear(0.1), "hidden": MINATAR_NETWORK,
    },
}  # fmt: skip
_CART_POLE = {
    "learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000, "learning_starts": 1000, "gamma": 0.99,
    "target_update_interval": 10, "train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16,
    "exploration_final_eps": 0.04, "hidden": (256, 256),
}  # fmt: skip
_MOUNTAIN_CAR = {
    "learning_rate": 4e-3, "batch_size": 128, "buffer_size": 10_000, "learning_starts": 1000, "gamma": 0.98,
    "target_update_interval": 600, "train_freq": 16, "gradient_steps": 8, "exploration_fraction": 0.2,
    "exploration_final_eps": 0.07, "hidden": (256, 256),
}  # fmt: skip
_ACROBOT = {
    "learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0, "gamma": 0.99,
    "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
    "exploration_final_eps": 0.1, "hidden": (256, 256),
}  # fmt: skip
_DQN: Mapping[str, Settings] = {
    "CartPole-v1": _CART_POLE,
    "MountainCar-v0": _MOUNTAIN_CAR,
    "Acrobot-v1": _ACROBOT,
    "LunarLander-v3": _ACROBOT,  # the same numbers there
    MINATAR: {
        "learning_rate": 1e-4, "batch_size": 32, "buffer_size": 100_000, "learning_starts": int(100_000 * _ATARI_SCALE),
        "target_update_interval": 1000, "train_freq": 4, "gradient_steps": 1, "exploration_fraction": 0.1,
        "exploration_final_eps": 0.01, "hidden": MINATAR_NETWORK,
    },
}  # fmt: skip
_QRDQN: Mapping[str, Settings] = {
    "CartPole-v1": {**_CART_POLE, "n_quantiles": 10},
    "MountainCar-v0": {**_MOUNTAIN_CAR, "n_quantiles": 25},
    "Acrobot-v1": {**_ACROBOT, "n_quantiles": 25},
    "LunarLander-v3": {
        "learning_rate": Linear(1.5e-3), "batch_size": 128, "buffer_size": 100_000, "learning_starts": 10_000,
        "gamma": 0.995, "target_update_interval": 1, "train_freq": 256, "gradient_steps": -1,
        "exploration_fraction": 0.24, "exploration_final_eps": 0.18, "hidden": (256, 256), "n_quantiles": 170,
    },
    MINATAR: {
        "learning_starts": int(50_000 * _ATARI_SCALE), "exploration_fraction": 0.025, "hidden": MINATAR_NETWORK
    },
}  # fmt: skip
_ZOO: Mapping[str, Mapping[str, Settings]] = {"PPO": _PPO, "DQN": _DQN, "QRDQN": _QRDQN}


def settings(algorithm: str, environment: str) -> Settings | None:
    """What the zoo has for an algorithm on an environment, by its id or by what the ids of its family begin with."""
    for name, found in _ZOO[algorithm].items():
        if environment.startswith(name):
            return found
    return None
