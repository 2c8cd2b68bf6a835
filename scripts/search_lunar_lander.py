"""The small search behind the Lunar Lander presets: `python scripts/search_lunar_lander.py [row …]`, rows from 0.

Every point below is trained with 4 trials, all points of a row in one run; seeds come from SEARCH_SEEDS, which reported
results may not use. Prints JSON lines; some hours on two cores for all rows.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path

import mean_actor_critic as mac
from mean_actor_critic.spec.presets import SEARCH_SEEDS

TRIALS = 4
CRITIC = {
    "hidden": (64,), "activation": "tanh", "critic_target": "expected_sarsa",
    "minibatches": 100, "batch_size": 64, "replay_capacity": 20_000,
}  # fmt: skip
RELU, MONTE_CARLO = {**CRITIC, "activation": "relu"}, {**CRITIC, "critic_target": "monte_carlo"}
NO_CRITIC = {"hidden": (64,), "activation": "tanh"}


def points(actor_lr: tuple, discount: tuple, critic_lr: tuple = ()) -> list[dict]:
    """All combinations."""
    names = ("actor_lr", "discount", *(["critic_lr"] if critic_lr else []))
    values = itertools.product(actor_lr, discount, *([critic_lr] if critic_lr else []))
    return [dict(zip(names, value, strict=True)) for value in values]


# algorithm, structure, episodes, points
ROWS = [
    ("mac", MONTE_CARLO, 700, points((0.002, 0.005), (0.99,), (0.005,)) + points((0.005,), (0.99,), (0.01,))
     + points((0.002,), (0.999,), (0.005,))),
    ("mac", RELU, 700, points((0.002, 0.005), (0.99,), (0.005,)) + points((0.002,), (0.99,), (0.002,))
     + points((0.002,), (0.995,), (0.005,))),
    ("mac", CRITIC, 700, points((0.002, 0.005, 0.01), (0.99,), (0.005,)) + points((0.005,), (0.99,), (0.002,))),
    ("mac", {**RELU, "hidden": (128,), "minibatches": 200}, 500,
     points((0.002, 0.004, 0.008), (0.99,), (0.003,)) + points((0.002,), (0.995,), (0.005,))),
    ("mac", {**CRITIC, "hidden": (128,)}, 700, points((0.001, 0.002), (0.99,), (0.005,))
     + points((0.003,), (0.99,), (0.01,)) + points((0.003,), (0.98,), (0.005,))),
    ("advantage_actor_critic", RELU, 500, points((0.002, 0.005, 0.01), (0.99,), (0.005,))
     + points((0.005,), (0.98,), (0.005,))),
    ("advantage_actor_critic", CRITIC, 500, points((0.002, 0.005, 0.01), (0.99,), (0.005,))
     + points((0.005,), (0.99,), (0.01,))),
    ("actor_critic", CRITIC, 500, points((0.0005, 0.001, 0.002, 0.005), (0.99,), (0.005,))),
    ("actor_critic", RELU, 500, points((0.001, 0.002, 0.005), (0.99,), (0.005,)) + points((0.002,), (0.98,), (0.005,))),
    ("actor_critic", MONTE_CARLO, 500, points((0.001, 0.002, 0.005), (0.99,), (0.005,))
     + points((0.002,), (0.999,), (0.005,))),
    ("reinforce", NO_CRITIC, 600, points((0.001, 0.002, 0.005, 0.01), (0.99, 0.999))),
    ("advantage_reinforce", NO_CRITIC, 600, points((0.001, 0.002, 0.005, 0.01), (0.99, 0.999))),
    # A second round, beyond the edges at which the best of the first lay
    ("advantage_reinforce", NO_CRITIC, 1000, points((0.004, 0.008, 0.016), (0.97, 0.98, 0.99))),
    ("reinforce", NO_CRITIC, 1000, points((0.005, 0.01, 0.02), (0.98, 0.99, 0.999))),
    ("actor_critic", MONTE_CARLO, 700, points((0.005, 0.01, 0.02), (0.98, 0.99), (0.01,))
     + points((0.01,), (0.97,), (0.01,)) + points((0.01,), (0.99,), (0.005, 0.02))),
]  # fmt: skip


def search(algorithm: str, structure: dict, episodes: int, tried: list[dict]) -> None:
    lanes = {name: [point[name] for point in tried for _ in range(TRIALS)] for name in tried[0]}
    with tempfile.TemporaryDirectory() as folder:
        run = mac.train(
            "LunarLander-v3", algorithm, trials=len(tried) * TRIALS, episodes=episodes, seed=SEARCH_SEEDS.start,
            out=Path(folder) / "run", **structure, **lanes,
        )  # fmt: skip
    for point, returns in zip(tried, run.returns.reshape(len(tried), TRIALS, episodes), strict=True):
        found = {
            "algorithm": algorithm, **structure, **point, "trials": TRIALS, "episodes": episodes,
            "mean": float(returns.mean()), "last100": float(returns[:, -100:].mean()),
            "by_trial": returns.mean(axis=1).tolist(),
        }  # fmt: skip
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    for number in [int(argument) for argument in sys.argv[1:]] or range(len(ROWS)):
        search(*ROWS[number])
