"""Watching an agent play: a video, recorded without a display."""

import functools
import importlib.util
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.environments.catalogue import environment_of, watchable
from mean_actor_critic.environments.hosted import fleet, recorder
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.errors import InputError, MacError
from mean_actor_critic.files import as_path
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.players import Player, load_player
from mean_actor_critic.spec.checks import require_whole
from mean_actor_critic.spec.experiment import SEEDS

EPISODES = (1, 1000)
SECONDS = 600.0  # between signs of life: rendering can be slow


class Video(NamedTuple):
    """A recorded video."""

    file: Path
    returns: list[float]  # undiscounted, of each episode
    frames: int  # one before the first step of an episode and one after each step
    fps: float


def watch(
    player: Player,
    out: str | Path,
    episodes: int = 1,
    *,
    trial: int = 0,
    deterministic: bool = False,
    seed: int = 0,
    environment: Any = None,
) -> Video:
    """Record an agent playing, one episode after the other, in one MP4 file.

    Args:
        player: who plays: an agent, a run, or the path of either.
        out: such as "video.mp4"; the mean return is added to the name: "video_return_231.4.mp4".
        episodes: how many.
        trial: which trial of a run.
        deterministic: take the most probable action instead of sampling.
        seed: of the episodes, which begin as those of `evaluate` do, but for Atari games.
        environment: what the agent was trained on, if it cannot be found by name.
    """
    episodes = require_whole("episodes", episodes, *EPISODES)
    seed = require_whole("seed", seed, *SEEDS)
    path = as_path("out", out)
    if path.suffix != ".mp4":
        raise InputError("out", str(out), "a file name that ends in .mp4")
    if not os.path.isdir(path.parent) or not os.access(path.parent, os.W_OK | os.X_OK):
        raise InputError("out", str(out), "a file in a folder that is there and can be written")
    if importlib.util.find_spec("imageio_ffmpeg") is None:
        raise MacError("videos need imageio-ffmpeg: pip install 'mean-actor-critic[watch]'")
    loaded = load_player(player)
    agent = loaded if isinstance(loaded, Agent) else loaded.agent(trial)
    experiment = agent.experiment
    factory = watchable(environment_of(experiment, agent.spaces, environment), experiment)
    steps = experiment.rules.max_episode_steps
    number = int(experiment.trial_numbers()[agent.trial])
    seeds = [reset_seed(seed, number, episode, evaluation=True) for episode in range(episodes)]
    unfinished = path.with_name(f".{path.stem}.{os.getpid()}.mp4")
    agent.seed(seed)
    try:
        answers = fleet.ask(
            recorder.record,
            experiment.environment,
            factory,
            functools.partial(_action, agent, deterministic),
            seeds,
            steps,
            str(unfinished),
            seconds=SECONDS,
        )
        answer = answers[-1]
        if "refused" in answer:
            raise MacError(answer["refused"])
        if "returns" not in answer:
            raise MacError(f"{experiment.environment}: its process ended while {answer['trying']}")
        file = path.with_name(f"{path.stem}_return_{np.mean(answer['returns']):.1f}{path.suffix}")
        unfinished.rename(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return Video(file, answer["returns"], answer["frames"], answer["fps"])


def _action(agent: Agent, deterministic: bool, observation: Any, mask: Any) -> int:
    own = mask if agent.spaces.masked else None  # as it was trained
    return int(agent.predict(observation, deterministic=deterministic, action_masks=own)[0])
