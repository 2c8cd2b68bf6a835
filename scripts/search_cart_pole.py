"""The small search behind the Cart Pole presets: `python scripts/search_cart_pole.py [algorithm …]`.

The same for each algorithm: a coarse grid of learning rates and discounts in every structure below, then a finer grid
around the best point of the two best structures, a few trials for each point; all points of a structure are lanes of
one compiled run. The best settings are then played again with more trials and another seed, and the best of those is
the preset. Scores are means over 200 episodes. Seeds come from SEARCH_SEEDS, which reported results may not use. Prints
JSON lines; about a quarter of an hour on two cores.
"""

import itertools
import json
import sys
import tempfile
from pathlib import Path

import numpy as np

import mean_actor_critic as mac
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.paper import COMPARED
from mean_actor_critic.spec.presets import SEARCH_SEEDS

COARSE = {"actor_lr": (0.0025, 0.005, 0.01, 0.02, 0.04), "critic_lr": (0.005, 0.01, 0.02), "discount": (0.99, 0.9999)}
FINE = {"actor_lr": (0.5, 1, 2, 4), "critic_lr": (0.5, 1, 2), "discount": (0.98, 0.99, 0.995)}  # rates: times the best
TRIALS = 4  # of each point of a grid
FINALISTS, FINAL_TRIALS = 12, 40

WITH_CRITIC = [
    {
        "hidden": hidden,
        "activation": activation,
        "critic_target": target,
        "minibatches": minibatches,
        "batch_size": 64,
        "replay_capacity": replay,
    }
    for hidden, activation, target, minibatches, replay in (
        ((64,), "tanh", "monte_carlo", 100, 2000),
        ((64,), "tanh", "monte_carlo", 50, 5000),
        ((64,), "tanh", "expected_sarsa", 100, 5000),
        ((64,), "relu", "monte_carlo", 100, 2000),
    )
]
WITHOUT_CRITIC = [
    {"hidden": hidden, "activation": activation}
    for hidden in ((), (32,), (64,), (128,), (64, 64))
    for activation in (("relu", "tanh") if hidden else ("relu",))
]


def scores(algorithm: str, structure: dict, points: list[dict], trials: int, seed: int) -> np.ndarray:
    """Mean return over 200 episodes [points, trials]."""
    lanes = {name: [point[name] for point in points for _ in range(trials)] for name in points[0]}
    with tempfile.TemporaryDirectory() as folder:
        run = mac.train(
            "CartPole-v0", algorithm, trials=len(points) * trials, episodes=200, seed=seed, out=Path(folder) / "run",
            **structure, **lanes,
        )  # fmt: skip
    return run.returns.mean(axis=1).reshape(len(points), trials)


def tried(algorithm: str, structure: dict, grid: dict) -> list[tuple[float, dict, dict]]:
    """(score, structure, point) for every point of a grid."""
    names = list(grid) if "critic" in ALGORITHMS[algorithm].parts else [name for name in grid if name != "critic_lr"]
    points = [dict(zip(names, values, strict=True)) for values in itertools.product(*(grid[name] for name in names))]
    means = scores(algorithm, structure, points, TRIALS, SEARCH_SEEDS.start).mean(axis=1)
    return [(float(mean), structure, point) for mean, point in zip(means, points, strict=True)]


def around(best: dict) -> dict:
    """The fine grid around a point."""
    return {
        name: values if name == "discount" else tuple(best[name] * factor for factor in values)
        for name, values in FINE.items()
        if name in best
    }


def search(algorithm: str) -> None:
    structures = WITH_CRITIC if "critic" in ALGORITHMS[algorithm].parts else WITHOUT_CRITIC
    by_structure = [sorted(tried(algorithm, structure, COARSE), key=lambda t: -t[0]) for structure in structures]
    for ranked in by_structure:
        print(json.dumps({"algorithm": algorithm, "round": "coarse", "best_of_structure": ranked[0]}), flush=True)
    by_structure.sort(key=lambda ranked: -ranked[0][0])
    everything = [t for ranked in by_structure for t in ranked]
    for ranked in by_structure[:2]:
        _, structure, point = ranked[0]
        everything += tried(algorithm, structure, around(point))
    everything.sort(key=lambda t: -t[0])
    for mean, structure, point in everything[:FINALISTS]:
        final = scores(algorithm, structure, [point], FINAL_TRIALS, SEARCH_SEEDS.start + 1)[0]
        found = {
            "algorithm": algorithm, "round": "final", "mean": float(final.mean()), "sd": float(final.std(ddof=1)),
            "trials": FINAL_TRIALS, "first_score": mean, "settings_tried": len(everything), **structure, **point,
        }  # fmt: skip
        print(json.dumps(found), flush=True)


for name in sys.argv[1:] or COMPARED:
    search(name)
