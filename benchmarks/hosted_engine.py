"""This project's hosted engine on Lunar Lander, trained and timed."""

import time
from typing import Any

import numpy as np

from benchmarks.harness import Measurement
from mean_actor_critic.engines import devices
from mean_actor_critic.engines.hosted_study import HostedStudy
from mean_actor_critic.engines.study import choose_width
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.trees import Arrays

ENVIRONMENT = "LunarLander-v3"
EPISODES = 20_000  # of each trial: more than any measurement plays

# What the paper's authors released for Lunar Lander.
RELEASED = {
    "hidden": [64],
    "activation": "relu",
    "replay_capacity": 5000,
    "minibatches": 10,
    "batch_size": 32,
    "actor_lr": 0.0005,
    "critic_lr": 0.005,
    "discount": 0.9999,
}


def open_study(settings: dict[str, Any], trials: int, workers: int, saved: Arrays | None = None) -> HostedStudy:
    """A study of MAC, in a process that is set up for it; at its beginning, or as `saved`."""
    devices.prepare("hosted")
    environment = find_environment(ENVIRONMENT)
    settings = {"max_episode_steps": environment.max_episode_steps, **settings}
    experiment = make_experiment(ENVIRONMENT, "mac", trials, EPISODES, seed=0, settings=settings, engine="hosted")
    width = choose_width(experiment)
    return HostedStudy(experiment, environment, width, saved, WorkerLimits(workers))


def play_on(study: HostedStudy, episodes: int) -> None:
    """Train until every trial has played so many more episodes."""
    goal = study.curves.played + episodes
    while np.any(study.curves.played < goal):
        study.advance()


def prepare(settings: dict[str, Any], trials: int, workers: int, episodes: int, file: str) -> Measurement:
    """Train until every trial has played so many episodes, and save that."""
    study = open_study(settings, trials, workers)
    started = time.perf_counter()
    try:
        play_on(study, episodes)
        seconds = time.perf_counter() - started
        np.savez(file, **study.arrays())
        return {"steps": study.steps_taken, "seconds": seconds, "episodes": study.episodes_done}
    finally:
        study.close()


def train(settings: dict[str, Any], trials: int, workers: int, file: str, episodes: int, seconds: float) -> Measurement:
    """Train on from what `prepare` saved: so many episodes of each trial for a start, then for so many seconds timed.

    The start is for the trials to fall out of step: all begin an episode at once.
    """
    with np.load(file) as arrays:
        saved = dict(arrays)
    study = open_study(settings, trials, workers, saved)
    try:
        play_on(study, episodes)
        steps, played, finished = study.steps_taken, study.episodes_done, int(study.curves.lengths.sum())
        started = time.perf_counter()
        while time.perf_counter() < started + seconds:
            study.advance()
        elapsed = time.perf_counter() - started
        length = (int(study.curves.lengths.sum()) - finished) / max(1, study.episodes_done - played)
        return {"steps": study.steps_taken - steps, "seconds": elapsed, "episode_length": length}
    finally:
        study.close()
