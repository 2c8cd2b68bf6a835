"""Stable-Baselines3's A2C on Cart Pole with its default settings and 8 environments, timed."""

import importlib.util
import time

from benchmarks.harness import Measurement

ENVIRONMENTS = 8


def available() -> bool:
    """Whether the `bench` extra is installed."""
    return importlib.util.find_spec("stable_baselines3") is not None


def train(steps: int, threads: int | None = None) -> Measurement:
    """Train for about `steps` agent steps, after a short warm-up. PyTorch has a thread per core if not told."""
    import torch
    from stable_baselines3 import A2C
    from stable_baselines3.common.env_util import make_vec_env

    if threads:
        torch.set_num_threads(threads)
    model = A2C("MlpPolicy", make_vec_env("CartPole-v1", n_envs=ENVIRONMENTS, seed=0), seed=0, device="cpu")
    model.learn(2000)
    before = model.num_timesteps
    started = time.perf_counter()
    model.learn(steps, reset_num_timesteps=False)
    return {"steps": model.num_timesteps - before, "seconds": time.perf_counter() - started}
