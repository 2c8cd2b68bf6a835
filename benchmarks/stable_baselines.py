"""Stable-Baselines3's A2C with its default settings and 8 environments, timed."""

import importlib.util
import time

from benchmarks.harness import Measurement, Variants, mean

ENVIRONMENTS = 8
WARM_UP_STEPS = 2000


def available() -> bool:
    """Whether the `bench` extra is installed."""
    return importlib.util.find_spec("stable_baselines3") is not None


def variants(environment: str, steps: int) -> Variants:
    """Rows for a table of speeds; none where it is missing."""
    if not available():
        return {}
    run = {"environment": environment, "steps": steps}
    return {
        f"Stable-Baselines3 A2C, {ENVIRONMENTS} environments, PyTorch's threads as they come": (train, run),
        "the same with one PyTorch thread": (train, {**run, "threads": 1}),
        "the same, and a process for each environment": (train, {**run, "threads": 1, "processes": True}),
    }


def note() -> str:
    """What a report says below its table: nothing, or that these rows are missing."""
    return "" if available() else "\nStable-Baselines3 is missing: install the extra `bench`.\n"


def train(environment: str, steps: int, threads: int | None = None, processes: bool = False) -> Measurement:
    """Train one agent for about `steps` agent steps, after a short warm-up.

    Args:
        environment: a Gymnasium id.
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
    environments = make_vec_env(environment, n_envs=ENVIRONMENTS, seed=0, vec_env_cls=vector_class)
    model = A2C("MlpPolicy", environments, seed=0, device="cpu")
    model.learn(WARM_UP_STEPS)
    before = model.num_timesteps
    started = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    seconds = time.perf_counter() - started
    lengths = [episode["l"] for episode in model.ep_info_buffer]  # of the last hundred
    environments.close()
    return {"steps": model.num_timesteps - before, "seconds": seconds, "episode_length": mean(lengths)}
