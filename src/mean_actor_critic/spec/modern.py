"""The study of the replayed learner: the tasks, MAC and its twins, and MAC with each of its parts switched off.

All of them have the learner's one setting, of which nothing was tuned on any task but Cart Pole, Acrobot and Lunar
Lander, and there with seeds that no result has. The twins have MAC's critics and differ in what the policy learns from.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.experiment import Budget, Experiment, make_experiment
from mean_actor_critic.spec.learners import GENERAL, STEPS
from mean_actor_critic.spec.presets import start_from

NOTHING: Mapping[str, Any] = MappingProxyType({})


class Task(NamedTuple):
    """An environment of the study."""

    title: str
    environment: str
    steps: int  # agent steps of a trial
    every: int  # agent steps between two evaluations
    trials: int
    goal: float | None  # mean return from which it is solved; None where there is no such number
    kwargs: Mapping[str, Any] = NOTHING  # of the environment
    package: str | None = None  # that has to be there beside this one, as it is imported


def _game(title: str) -> Task:
    name = title.replace(" ", "")
    return Task(f"MinAtar {title}", f"MinAtar/{name}-v1", 300_000, 25_000, trials=5, goal=None)


def _room(size: int, steps: int) -> Task:
    name = f"Empty-{size}x{size}"
    environment = f"minigrid:MiniGrid-{name}-v0"
    return Task(f"MiniGrid {name}", environment, steps, steps // 10, trials=20, goal=0.95, package="minigrid")


TASKS: dict[str, Task] = {
    "cart-pole": Task("Cart Pole", "CartPole-v1", 50_000, 4_000, trials=30, goal=475.0),
    "acrobot": Task("Acrobot", "Acrobot-v1", 50_000, 4_000, trials=30, goal=-90.0),
    "mountain-car": Task("Mountain Car", "MountainCar-v0", 30_000, 3_000, trials=30, goal=-112.0),
    "lunar-lander": Task("Lunar Lander", "LunarLander-v3", 300_000, 20_000, trials=20, goal=200.0, package="Box2D"),
    "frozen-lake": Task("Frozen Lake", "FrozenLake-v1", 50_000, 5_000, trials=30, goal=0.7),
    "frozen-lake-not-slippery": Task(
        "Frozen Lake, not slippery", "FrozenLake-v1", 10_000, 1_000, trials=30, goal=1.0, kwargs={"is_slippery": False}
    ),
    "cliff-walking": Task("Cliff Walking", "CliffWalking-v1", 20_000, 2_000, trials=30, goal=-13.0),
    "taxi": Task("Taxi", "Taxi-v3", 100_000, 10_000, trials=30, goal=7.5),
    "minigrid-empty-5x5": _room(5, 10_000),
    "minigrid-empty-8x8": _room(8, 40_000),
    "asterix": _game("Asterix"),
    "breakout": _game("Breakout"),
    "freeway": _game("Freeway"),
    "seaquest": _game("Seaquest"),
    "space-invaders": _game("Space Invaders"),
}

TWINS = ("mac", "advantage_actor_critic", "q_learning")  # with the same critics: all actions, the one taken, no policy
# Settings that make up MAC here, each with the value that switches it off.
PARTS: dict[str, Any] = {
    "table": False,
    "layer_norm": False,
    "critics": 1,
    "critic_target": "one_step",
    "target_rate": 1.0,
    "policy_step": "gradient",
    "uniform_pull": 0.0,
    "settling_steps": 1e12,
    "release_steps": 1e12,
    "normalize_observations": False,
    "scale_rewards": False,
    "novelty": False,
}
VARIANTS = (*TWINS, *PARTS)

TUNED_FROM = 1000  # seeds from here on chose the learner's setting; those below are for results
QUICK_TRIALS, QUICK_SHARE = 6, 0.1  # of a first look: as few trials as have intervals, and so much of the steps


class Extent(NamedTuple):
    """How much of the study is carried out."""

    trials: int | None = None  # of each run; None for the task's own number
    share: float = 1.0  # of the task's steps
    seed: int = 0


def require_untuned_seed(seed: int) -> None:
    """Raise an InputError if the setting may have been chosen by results with this seed."""
    if seed >= TUNED_FROM:
        raise InputError("seed", seed, f"one below {TUNED_FROM}: the others are for finding settings")


def arguments_of(task: Task, variant: str, extent: Extent) -> dict[str, Any]:
    """What to train for a variant on a task, as keyword arguments of `train`, without the environment."""
    own = {variant: PARTS[variant]} if variant in PARTS else {}
    every = max(1, round(task.every * extent.share))
    return {
        "algorithm": "mac" if variant in PARTS else variant,
        "learner": GENERAL,
        "trials": task.trials if extent.trials is None else extent.trials,
        "steps": max(1, round(task.steps * extent.share)),
        "seed": extent.seed,
        "env_kwargs": dict(task.kwargs),
        "settings": {"evaluation_interval": every, **own},
    }


def place_of(experiment: Experiment) -> tuple[str, str, Extent] | None:
    """The task, the variant and the extent of the study that an experiment is a part of; None if it is of none."""
    name = task_of(experiment)
    if name is None or experiment.budget.unit != STEPS:
        return None
    task = TASKS[name]
    trials = None if experiment.trials == task.trials else experiment.trials
    extent = Extent(trials, experiment.budget.amount / task.steps, experiment.seed)
    settings = experiment.settings()
    for variant in VARIANTS:
        asked = arguments_of(task, variant, extent)
        if asked["algorithm"] != experiment.algorithm or (variant in PARTS and settings[variant] != PARTS[variant]):
            continue
        start = start_from(
            task.environment,
            asked["algorithm"],
            engine=experiment.engine,
            learner=GENERAL,
            max_episode_steps=experiment.rules.max_episode_steps,
        )
        made = make_experiment(
            task.environment,
            asked["algorithm"],
            asked["trials"],
            Budget(STEPS, asked["steps"]),
            asked["seed"],
            {**start.settings, **asked["settings"]},
            engine=experiment.engine,
            learner=GENERAL,
            environment_kwargs=asked["env_kwargs"],
        )
        if made.to_json() == experiment.to_json():
            return name, variant, extent
    return None


def task_of(experiment: Experiment) -> str | None:
    """The name of the study's task that an experiment is on; None if it is on none."""
    where = (experiment.environment, dict(experiment.environment_kwargs))
    return next((name for name, task in TASKS.items() if (task.environment, dict(task.kwargs)) == where), None)
