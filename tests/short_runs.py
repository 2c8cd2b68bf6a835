"""Short runs on Cart Pole and on a game, for tests of what becomes of runs; some are trained once for all of them."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import TINY

BOTH = pytest.mark.parametrize("engine", ["compiled", "hosted"])
GAME = {
    "environments": 2, "screen_size": 36, "stack": 1, "evaluation_steps": 12, "evaluation_environments": 2,
    "evaluation_episodes": 2, "seed": 3, "workers": 1,
}  # fmt: skip
TRIALS = 3
STEPS = 120  # of a run whose budget is in steps
EVALUATED = {"episodes": 7, "evaluate_every": 3, "evaluation_episodes": 4}  # after 3, 6 and 7 episodes


def train(folder, engine="compiled", **more):
    """A short run: presets of Cart Pole that are not among the settings are general ones."""
    limits = {"workers": 1} if engine == "hosted" else {}
    arguments = {**TINY, "trials": TRIALS, "seed": 5, "critic_target": "expected_sarsa", **limits, **more}
    return mac.train("CartPole-v0", "mac", engine=engine, out=folder, progress=False, **arguments)


def train_on_game(folder, **more):
    return mac.train("ALE/Pong-v5", out=folder, progress=False, **{**GAME, **more})


def resume(run, **more):
    return mac.resume(run, progress=False, **more)


def stop_after(segments):
    """A callback that ends the training after some segments."""
    left = [segments]

    def show(progress):
        left[0] -= 1
        return mac.STOP if left[0] <= 0 else None

    return show


def assert_same_arrays(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def weights_of(agent):
    return [array for layer in (*agent.policy, *agent.critic) for array in layer]


def assert_same_agents(one, other):
    for mine, theirs in zip(weights_of(one), weights_of(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


# --- trained once ----------------------------------------------------------------------------------------------------


@functools.cache
def run_by_steps(engine):
    """A run with a budget in steps: to look at, or to copy."""
    return train(_folder() / "run", engine, steps=STEPS)


@functools.cache
def evaluated_run(engine):
    """A run with evaluations: to look at, or to copy."""
    return train(_folder() / "run", engine, **EVALUATED)


def copy_of(run, folder):
    """The same run in a folder of its own, to go on with."""
    return mac.Run.load(shutil.copytree(run.path, folder))


def _folder():
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
