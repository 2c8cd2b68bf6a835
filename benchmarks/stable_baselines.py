"""Stable-Baselines3's A2C with its default settings and 8 environments, timed."""

import importlib.util
import itertools
import time
from typing import NamedTuple

from benchmarks.harness import Measurement, Variants, mean


class Size(NamedTuple):
    """How much is measured."""

    environments: int = 8
    warm_up: int = 2000  # steps of all environments together, as below
    steps: int = 20_000
    ways: int = 3  # to run it, of those in `variants`


TOY = Size(1, 10, 500)


def available() -> bool:
    """Whether the `bench` extra is installed."""
    return importlib.util.find_spec("stable_baselines3") is not None


def variants(environment: str, size: Size) -> Variants:
    """Rows for a table of speeds; none where it is missing."""
    if not available():
        return {}
    run = {"environment": environment, **size._asdict()}
    del run["ways"]
    ways: Variants = {
        f"Stable-Baselines3 A2C, {size.environments} environments, PyTorch's threads as they come": (train, run),
        "the same with one PyTorch thread": (train, {**run, "threads": 1}),
        "the same, and a process for each environment": (train, {**run, "threads": 1, "processes": True}),
    }
    return dict(itertools.islice(ways.items(), size.ways))


def note() -> str:
    """What a report says below its table: nothing, or that these rows are missing."""
    return "" if available() else "\nStable-Baselines3 is missing: install the extra `bench`.\n"


def train(
    environment: str, environments: int, warm_up: int, steps: int, threads: int | None = None, processes: bool = False
) -> Measurement:
    """Train one agent for about `steps` agent steps, after a short warm-up.

    Args:
        environment: a Gymnasium id.
        environments: how many of them.
        warm_up: steps before anything is timed.
        steps: of all environments together.
        threads: of PyTorch, which has one per core if not told.
        processes: one for each environment; otherwise all are stepped in the main process.
    """
    import torch
    from stable_baselines3 import A2C
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    if threads:
        torch.set_num_threads(threads)
    vector_class = SubprocVecEnv if processes else DummyVecEnv
    worlds = make_vec_env(environment, n_envs=environments, seed=0, vec_env_cls=vector_class)
    model = A2C("MlpPolicy", worlds, seed=0, device="cpu")
    model.learn(warm_up)
    before = model.num_timesteps
    started = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - started
    lengths = [episode["l"] for episode in model.ep_info_buffer]  # of the last hundred
    worlds.close()
    return {"steps": model.num_timesteps - before, "seconds": seconds, "episode_length": mean(lengths)}
