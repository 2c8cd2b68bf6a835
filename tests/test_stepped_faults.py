"""Learners that count steps, and environments that fail in the middle: whole rollouts are kept, resumes are exact."""

import threading
from pathlib import Path

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.experimental.functional import FuncEnv

import mean_actor_critic as mac
from helpers import LONGEST_WAIT, arrays_of
from mean_actor_critic.engines import stepped_hosted, stepped_study
from mean_actor_critic.errors import EnvironmentFault

pytestmark = pytest.mark.slow

LEARNERS = {
    "rollout": {"learner": "rollout", "hidden": (4,), "environments": 2, "rollout_steps": 5, "max_episode_steps": 9},
    "replayed": {"learner": "replayed", "hidden": (4,), "environments": 2, "sequences": 2, "sequence_length": 2,
                 "updates_per_step": 1, "warm_up": 8, "replay_capacity": 100, "max_episode_steps": 9},
}  # fmt: skip
STEPS = {"rollout": 400, "replayed": 160}
LATE = {"rollout": 60, "replayed": 40}  # calls of an environment: in the middle of the training


class Breaks(gymnasium.Env):
    """Episodes of three steps. Of all environments, whichever first takes so many steps while a file is there removes
    it and fails, in a step or in the reset after it.
    """

    observation_space = gymnasium.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, marker, fails_in="step", after=0):
        self.marker, self.fails_in, self.after, self.taken = Path(marker), fails_in, after, 0

    def fail(self):
        if self.taken >= self.after:
            try:
                self.marker.unlink()
            except FileNotFoundError:
                return
            raise RuntimeError("the file was there")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.fails_in == "reset":
            self.fail()
        self.seen, self.time = self.np_random.normal(size=2).astype(np.float32), 0
        return self.seen.clip(-9, 9), {}

    def step(self, action):
        self.time += 1
        self.taken += 1
        if self.fails_in == "step":
            self.fail()
        self.seen = self.seen + np.float32([0.1, action])
        return self.seen.clip(-9, 9), float(action), self.time == 3, False, {}


@pytest.fixture
def long_segments(monkeypatch):
    """As many rollouts as fit, so that a fault is in the middle of a segment."""
    monkeypatch.setattr(stepped_study, "SEGMENT_SECONDS", 1000.0)


def train(learner, out, marker, **more):
    return mac.train(
        Breaks, steps=STEPS[learner], workers=1, progress=False, out=out,
        env_kwargs={"marker": str(marker), "after": LATE[learner], **more.pop("env_kwargs", {})},
        **LEARNERS[learner], **more,
    )  # fmt: skip


@pytest.mark.parametrize(("learner", "fails_in"), [("rollout", "step"), ("rollout", "reset"), ("replayed", "step")])
def test_a_fault_in_the_middle_of_a_segment_loses_its_rollout_and_nothing_else(
    learner, fails_in, tmp_path, long_segments
):
    """Rollouts before it in the segment were learned from: their episodes are in the curves, or never would be."""
    marker, kwargs = tmp_path / "marker", {"fails_in": fails_in}
    whole = train(learner, tmp_path / "whole", marker, env_kwargs=kwargs)
    marker.touch()
    with pytest.raises(EnvironmentFault, match="the file was there"):
        train(learner, tmp_path / "broken", marker, env_kwargs=kwargs)
    broken = mac.Run.load(tmp_path / "broken")
    assert 2 * LATE[learner] - 20 < broken.steps_done[0] < STEPS[learner]
    played = int(broken.episodes_done[0])
    assert np.array_equal(broken.returns[0, :played], whole.returns[0, :played])
    assert played >= 2 * ((LATE[learner] - 10) // 3)
    assert mac.resume(broken, Breaks, progress=False).digest == whole.digest


@pytest.fixture
def groups_of_one(monkeypatch):
    """Each trial has workers and a thread of its own."""
    monkeypatch.setattr(stepped_study, "choose_width", lambda experiment, trials: 1)


@pytest.fixture
def three(groups_of_one, long_segments, tmp_path):
    """A training of three groups without faults."""
    run = train("rollout", tmp_path / "whole", tmp_path / "marker", trials=3)
    assert run.manifest.width == 1
    return run


def test_a_fault_in_one_group_of_trials_leaves_the_others_between_two_rollouts(three, tmp_path, monkeypatch):
    """They were still advancing while the checkpoint was made, and had got further than it said."""
    rollout, failed = stepped_hosted._Group._rollout, threading.Event()

    def late(group, number, *arguments):
        if group.first == 2 and number == 10:
            failed.wait(LONGEST_WAIT)
        try:
            return rollout(group, number, *arguments)
        except EnvironmentFault:
            failed.set()
            raise

    monkeypatch.setattr(stepped_hosted._Group, "_rollout", late)
    (tmp_path / "marker").touch()
    with pytest.raises(EnvironmentFault, match="the file was there"):
        train("rollout", tmp_path / "broken", tmp_path / "marker", trials=3)
    failed.set()
    broken = mac.Run.load(tmp_path / "broken")
    assert broken.steps_done[2] < broken.steps_done.max() < STEPS["rollout"]
    for trial, played in enumerate(broken.episodes_done.tolist()):
        assert np.array_equal(broken.returns[trial, :played], three.returns[trial, :played])
    resumed = arrays_of(mac.resume(broken, Breaks, progress=False))
    for name, array in arrays_of(three).items():
        np.testing.assert_array_equal(resumed[name], array, err_msg=name)


def test_a_learner_that_fails_does_not_cost_what_was_learned_before(three, tmp_path, monkeypatch):
    """Nor does anything else that is not an environment."""
    step, taken = stepped_hosted._Group._step, []

    def fail(group, *arguments):
        taken.append(group)
        if len(taken) == 98:
            raise ZeroDivisionError
        return step(group, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(stepped_hosted._Group, "_step", fail)
        with pytest.raises(ZeroDivisionError):
            train("rollout", tmp_path / "broken", tmp_path / "marker", trials=3)
    broken = mac.Run.load(tmp_path / "broken")
    assert 100 < broken.steps_done.sum() < 3 * STEPS["rollout"]
    assert mac.resume(broken, Breaks, progress=False).digest == three.digest


class Corridor(FuncEnv):
    """Three rooms; in the last, nothing is legal unless there is a door."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)
    door = True

    def initial(self, rng, params=None):
        return jnp.int32(0)

    def transition(self, state, action, rng, params=None):
        return jnp.minimum(state + action, 3)

    def observation(self, state, rng, params=None):
        return state

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.float32(action)

    def terminal(self, state, rng, params=None):
        return state == 3

    def action_mask(self, state, params=None):
        return jnp.array([True, True]) & (self.door | (state < 2))


class Walled(Corridor):
    door = False


Walled.__name__ = Walled.__qualname__ = "Corridor"  # which is what a run knows of it


def test_a_trial_of_a_jax_program_that_cannot_go_on_waits_where_it_is(tmp_path, long_segments):
    """And what it and others have played is in the curves."""
    settings = {**LEARNERS["rollout"], "steps": 80, "trials": 4, "max_episode_steps": 3, "progress": False}
    with pytest.raises(EnvironmentFault, match="has no legal action"):
        mac.train(Walled(), out=tmp_path / "run", **settings)
    run = mac.Run.load(tmp_path / "run")
    assert run.steps_done.min() < run.steps_done.max() <= 80
    resumed = mac.resume(run, Corridor(), progress=False)
    for now in (run, resumed):
        under_way = now.steps_done - np.sum(now.lengths, axis=1)
        assert ((under_way >= 0) & (under_way < 2 * 3)).all()
    assert resumed.steps_done.tolist() == [80] * 4
