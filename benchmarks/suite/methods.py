"""Who learns, and how each of them is run: one seed on one task, evaluated on the way.

`learn` is called in a process of its own; the other packages compute with one thread.
"""

import importlib
import importlib.util
import os
import resource
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suite import zoo
from benchmarks.suite.tasks import MINIGRID, TASKS, Task, make

EVALUATION_SEED = 10_000  # and a thousand for every seed: none that training has


class Size(NamedTuple):
    """How much is measured."""

    moments: Sequence[int] = ()  # agent steps after which a method is evaluated; those of the task if none are given
    episodes: int = 20  # of an evaluation, of each kind


TOY = Size((40, 80), 2)


class Method(NamedTuple):
    """An algorithm and its settings."""

    title: str
    package: str  # that has to be installed
    algorithm: str = ""  # a class in the package; none for ours
    tuned: bool = False  # with the zoo's settings, otherwise with the package's defaults

    @property
    def installed(self) -> bool:
        """Whether it can be run here."""
        return importlib.util.find_spec(self.package) is not None

    def settings(self, task: Task) -> zoo.Settings | None:
        """Those on a task, other than the defaults; None if there should be some and are none."""
        return zoo.settings(self.algorithm, task.environment) if self.tuned else {}


METHODS: Mapping[str, Method] = {
    "mac": Method("MAC, `mac train`", "mean_actor_critic"),
    "ppo": Method("PPO, defaults", "stable_baselines3", "PPO"),
    "ppo-zoo": Method("PPO, the zoo's settings", "stable_baselines3", "PPO", tuned=True),
    "dqn": Method("DQN, defaults", "stable_baselines3", "DQN"),
    "dqn-zoo": Method("DQN, the zoo's settings", "stable_baselines3", "DQN", tuned=True),
    "qrdqn": Method("QR-DQN, defaults", "sb3_contrib", "QRDQN"),
    "qrdqn-zoo": Method("QR-DQN, the zoo's settings", "sb3_contrib", "QRDQN", tuned=True),
    "sbx-ppo": Method("PPO of sbx, defaults", "sbx", "PPO"),
    "sbx-dqn": Method("DQN of sbx, defaults", "sbx", "DQN"),
}


class Look(NamedTuple):
    """An evaluation."""

    steps: int  # agent steps of training until then
    greedy: float  # mean return by the most probable actions, or those of the highest value
    sampled: float  # by actions as in training: drawn from the policy, or at random with the present ε
    cpu_seconds: float  # of training until then, on all threads and in worker processes, compilation included


def learn(task: str, method: str, seed: int, moments: Sequence[int], episodes: int) -> list[Look]:
    """Train one agent and evaluate it on the way; the arguments are those of a job and of a size.

    The budget is the last of the moments. Where a package would go on to the end of a rollout, it is stopped.
    """
    chosen, todo = METHODS[method], TASKS[task]
    looks = partial(_theirs, chosen) if chosen.algorithm else _ours
    return list(looks(todo._replace(moments=tuple(moments or todo.moments)), seed, episodes))


def _cpu_seconds() -> float:
    """Of this process and those that it started and saw end: the same whatever else the machine does."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _ours(task: Task, seed: int, episodes: int) -> Iterator[Look]:
    import mean_actor_critic as mac

    environment, kwargs = task.environment, dict(task.kwargs)
    if environment.startswith(MINIGRID):
        environment, kwargs = f"{make.__module__}:{make.__name__}", {**kwargs, "environment": environment}
    with tempfile.TemporaryDirectory() as folder:
        seconds, run = 0.0, None
        for moment in task.moments:
            started = _cpu_seconds()
            if run is None:
                run = mac.train(
                    environment, steps=moment, seed=seed, env_kwargs=kwargs, out=Path(folder) / "run", progress=False
                )
            else:
                run = mac.resume(run, environment, steps=moment, progress=False)
            seconds += _cpu_seconds() - started
            greedy, sampled = (
                float(mac.evaluate(run, episodes, deterministic=way, seed=seed, environment=environment).mean())
                for way in (True, False)
            )
            yield Look(moment, greedy, sampled, seconds)


def _theirs(method: Method, task: Task, seed: int, episodes: int) -> list[Look]:
    import torch
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize, sync_envs_normalization

    torch.set_num_threads(1)
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false"  # for sbx's JAX
    settings = dict(method.settings(task) or {})
    normalised = settings.pop("normalised", False)
    scale = partial(VecNormalize, gamma=settings.get("gamma", 0.99))
    build = partial(make, task.environment, **task.kwargs)
    worlds = make_vec_env(build, n_envs=settings.pop("environments", 1), seed=seed)
    judges = make_vec_env(build, n_envs=episodes, seed=EVALUATION_SEED + 1000 * seed)
    if normalised:
        worlds, judges = scale(worlds), scale(judges, training=False, norm_reward=False)
    made = getattr(importlib.import_module(method.package), method.algorithm)
    model = made("MlpPolicy", worlds, seed=seed, **sb3_arguments(settings, task.moments[-1]))

    class Looks(BaseCallback):
        """Evaluates with what has been learned from the steps up to each moment, and ends training after the last."""

        def __init__(self) -> None:
            super().__init__()
            self.looks: list[Look] = []
            self.started, self.away = _cpu_seconds(), 0.0  # CPU seconds spent on evaluations

        def look(self, steps: int) -> None:
            """Evaluate for every moment up to so many steps."""
            while len(self.looks) < len(task.moments) and task.moments[len(self.looks)] <= steps:
                began = _cpu_seconds()
                if normalised:
                    sync_envs_normalization(worlds, judges)
                greedy, sampled = (
                    float(evaluate_policy(model, judges, episodes, deterministic=way)[0]) for way in (True, False)
                )
                moment = task.moments[len(self.looks)]
                self.looks.append(Look(moment, greedy, sampled, began - self.started - self.away))
                self.away += _cpu_seconds() - began

        def _on_rollout_start(self) -> None:
            self.look(self.num_timesteps)

        def _on_step(self) -> bool:
            self.look(self.num_timesteps - 1)  # after an update that is due at the very moment, there is a new rollout
            return len(self.looks) < len(task.moments)

        def _on_training_end(self) -> None:
            self.look(self.num_timesteps)

    callback = Looks()
    model.learn(task.moments[-1], callback)
    return callback.looks


def sb3_arguments(settings: dict[str, Any], budget: int) -> dict[str, Any]:
    """Settings as Stable-Baselines3's classes take them."""
    hidden, policy = settings.pop("hidden", None), {}
    if hidden == zoo.MINATAR_NETWORK:
        policy = {"features_extractor_class": _minatar_network(), "net_arch": []}
    elif hidden:
        policy = {"net_arch": list(hidden)}
    if "n_quantiles" in settings:
        policy["n_quantiles"] = settings.pop("n_quantiles")
    if "buffer_size" in settings:
        settings["buffer_size"] = min(settings["buffer_size"], budget)  # never full in either case
    return {**settings, "policy_kwargs": policy} if policy else settings


def _minatar_network() -> type:
    """What MinAtar's authors see their games with, for Stable-Baselines3."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

    class Network(BaseFeaturesExtractor):
        """One layer of convolutions and one of units."""

        def __init__(self, observation_space: Any, filters: int = 16, units: int = 128) -> None:
            super().__init__(observation_space, units)
            height, width, channels = observation_space.shape
            self.layers = torch.nn.Sequential(
                torch.nn.Conv2d(channels, filters, kernel_size=3),
                torch.nn.ReLU(),
                torch.nn.Flatten(),
                torch.nn.Linear(filters * (height - 2) * (width - 2), units),
                torch.nn.ReLU(),
            )

        def forward(self, observations: torch.Tensor) -> torch.Tensor:
            """Features [batch, units] of images [batch, row, column, channel]."""
            return self.layers(observations.permute(0, 3, 1, 2))

    return Network
