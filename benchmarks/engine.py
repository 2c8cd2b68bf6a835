"""This project's compiled engine at the reference settings, timed."""

import time

import numpy as np

from benchmarks.harness import Measurement
from mean_actor_critic.engines import compiled, devices
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.spec.experiment import make_experiment

ENVIRONMENT = "CartPole-v0"

# The defaults of the episodic learner, spelled out, because presets move on as better settings are found.
REFERENCE = {
    "max_episode_steps": 200,
    "hidden": [64],
    "activation": "relu",
    "optimizer": "adam",
    "critic_target": "expected_sarsa",
    "time_limit": "bootstrap",
    "replay_capacity": 2000,
    "minibatches": 10,
    "batch_size": 32,
    "actor_lr": 0.005,
    "critic_lr": 0.01,
    "discount": 0.9999,
}


def train(trials: int, episodes: int, all_devices: bool = True, width: int | None = None) -> Measurement:
    """Train a whole study.

    Args:
        trials: how many.
        episodes: of each trial.
        all_devices: one device per core, as `mean_actor_critic.train` sets JAX up; otherwise JAX's own default, one.
        width: trials in one group; by default what `mean_actor_critic.train` chooses.
    """
    if all_devices:
        devices.prepare()
    environment = find_environment(ENVIRONMENT)
    experiment = make_experiment(ENVIRONMENT, "mac", trials, episodes, seed=0, settings=REFERENCE)
    width = width or compiled.choose_width(experiment.setup, trials, compiled.device_count())
    study = CompiledStudy(experiment, environment, width, None)
    study.advance()  # compiles, and plays the first episode of the first block
    before = int(study.curves.lengths.sum())
    started = time.perf_counter()
    while not study.finished:
        study.advance()
    seconds = time.perf_counter() - started
    return {
        "steps": int(study.curves.lengths.sum()) - before,
        "seconds": seconds,
        **return_statistics(study.curves.returns),
    }


def return_statistics(returns: np.ndarray) -> Measurement:
    """Mean over trials and episodes of returns [trial, episode], and the standard error over trials."""
    by_trial = returns.mean(axis=1)
    error = by_trial.std(ddof=1) / np.sqrt(len(by_trial)) if len(by_trial) > 1 else 0.0
    return {"mean_return": float(by_trial.mean()), "standard_error": float(error)}
