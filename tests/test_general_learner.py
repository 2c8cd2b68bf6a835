"""What `mac train` takes for an environment that nothing was tuned for, and what it says of how that went."""

import functools

import gymnasium
import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import message_of
from mean_actor_critic.engines import stepped_study
from mean_actor_critic.learning import novelty
from mean_actor_critic.runs import advice
from mean_actor_critic.spec.experiment import Budget, learner_to_train, make_experiment

TINY = {"hidden": (4,), "sequences": 2, "sequence_length": 2, "updates_per_step": 1, "environments": 2, "warm_up": 8,
        "replay_capacity": 100}  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "learner"),
    [
        ({}, "replayed"),
        ({"settings": ["discount", "hidden"]}, "replayed"),
        ({"settings": ["warm_up"]}, "replayed"),
        ({"episodes": 200}, "episodic"),
        ({"preset": "tuned"}, "episodic"),
        ({"settings": ["actor_lr"]}, "episodic"),
    ],
)
@pytest.mark.parametrize("engine", ["compiled", "hosted"])
def test_the_general_learner_is_taken_unless_something_asks_for_the_paper_s(asked, learner, engine):
    assert learner_to_train("mac", engine, **asked) == learner


def test_so_is_it_for_algorithms():
    assert learner_to_train("reinforce", "compiled") == "episodic"
    assert learner_to_train(lambda evidence: evidence.q, "compiled") == "episodic"
    assert learner_to_train("q_learning", "compiled") == "replayed"
    assert learner_to_train("mac", "atari") == "rollout"


@pytest.mark.slow
def test_training_without_a_word_takes_it_and_says_where_its_settings_come_from(tmp_path):
    run = mac.train("CartPole-v1", steps=40, out=tmp_path / "run", progress=False, **TINY)
    assert run.experiment.learner == "replayed"
    assert run.manifest.origin.startswith("general: one setting for every environment; given: ")
    assert run.steps_done.tolist() == [40]
    assert mac.train("CartPole-v1", episodes=2, out=tmp_path / "paper", progress=False).experiment.learner == "episodic"


def test_a_budget_in_episodes_is_refused_where_it_is_asked_for(tmp_path):
    refused = functools.partial(mac.train, "CartPole-v1", learner="replayed", episodes=3, out=tmp_path / "run")
    allowed = "steps instead, which the learner replayed counts; or the learner episodic"
    assert message_of(refused) == f"episodes: 3 cannot be used; allowed: {allowed}"
    only_steps = functools.partial(mac.train, "CartPole-v1", algorithm="a2c", episodes=3, out=tmp_path / "run")
    assert message_of(only_steps).endswith("allowed: steps instead, which the learner rollout counts")
    assert not (tmp_path / "run").exists()


# --- curves ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_episodes_are_in_the_curves_at_the_step_at_which_they_ended(tmp_path):
    """Of environments that play side by side, lengths do not add up to where a trial was."""
    run = mac.train("CartPole-v1", steps=400, trials=2, out=tmp_path / "run", progress=False, **TINY)
    for trial in range(2):
        played = run.lengths[trial] > 0
        ends = run.curves.ended_at[trial][played]
        assert played.sum() > 4
        assert (np.diff(ends) >= 0).all()
        assert ends[-1] <= 400
        assert (ends % 2 == 0).all()
        # two environments: the steps of each, up to its last end, are half of the trial's
        assert run.lengths[trial].sum() <= ends[-1]
        np.testing.assert_array_equal(run.returns[trial][played], run.lengths[trial][played])
    curve = run.curve("steps")
    assert curve.values.shape == (2, len(curve.x))
    assert curve.x.max() <= 400


# --- resuming hosted environments in mid-episode ---------------------------------------------------------------------


class Unrepeatable(gymnasium.Env):
    """Shows what no seed decides."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action):
        return self._shown(), 0.0, False, False, {}

    def _shown(self):
        return np.random.default_rng().random(2, np.float32)


@pytest.mark.slow
def test_an_environment_that_does_not_replay_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(stepped_study, "SEGMENT_SECONDS", 1e-9)
    train = functools.partial(mac.train, Unrepeatable, steps=200, max_episode_steps=50, out=tmp_path / "run", **TINY)
    run = train(on_progress=lambda _: mac.STOP)
    assert not run.finished
    assert run.steps_done[0] > 0
    message = message_of(lambda: mac.resume(run, Unrepeatable, progress=False))
    assert "observation differs when the same seed and actions are played again" in message
    assert "trial 0, episode 1" in message


# --- advice ----------------------------------------------------------------------------------------------------------


class Told:
    """As much of a run as advice looks at."""

    def __init__(self, returns, entropy, error, algorithm="mac", updates=100, **given):
        self.returns = np.array(returns, np.float32)
        self.episodes_done = np.sum(np.isfinite(self.returns), axis=1)
        self.experiment = make_experiment(
            "CartPole-v1", algorithm, len(returns), Budget("steps", 1000), 0, given, learner="replayed"
        )
        self._health = {"health/entropy/mean": np.array(entropy), "health/error/mean": np.array(error)}
        self._health["health/error/n"] = np.full(len(returns), updates)

    def state_of_trials(self, name):
        return self._health.get(name)


RISING, FLAT = np.linspace(0, 100, 40), np.tile([0.0, 1.0], 20)
LEARNED_SOON = np.append(np.tile([0.0, 1.0], 20), np.tile([99.0, 100.0], 480))  # in less than a quarter


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (Told([RISING], [0.5], [0.1]), []),
        (Told([RISING], [0.001], [0.1]), []),
        (Told([FLAT], [0.0], [0.0], updates=0), ["nothing was learned"]),
        (Told([LEARNED_SOON], [0.001], [0.1]), []),
        (Told([np.zeros(40)], [0.5], [0.1]), ["every episode of the trial returned the same: look at the rewards"]),
        (
            Told([FLAT], [0.001], [0.1], learning_rate=10.0, max_episode_steps=9),
            ["the trial settled on actions before returns rose: look at learning_rate=10.0, the rewards"],
        ),
        (Told([FLAT], [0.5], [0.1]), ["returns of the trial stayed flat"]),
        (Told([FLAT, RISING], [0.001, 0.5], [0.1, 0.1]), ["1 of 2 trials settled on actions before returns rose"]),
        (Told([FLAT], [0.001], [1e6]), ["the critics of the trial are far off"]),
        (Told([RISING], [0.5], [1e6]), ["the critics of the trial are far off (error 1000000)"]),
        (Told([FLAT[:10]], [0.001], [0.1]), []),
        (Told([FLAT], [0.0], [0.1], "q_learning"), ["returns of the trial stayed flat"]),
    ],
)
def test_a_training_that_has_not_gone_well_says_so(run, words):
    lines = advice.advice(run)
    assert len(lines) == len(words)
    for line, start in zip(lines, words, strict=True):
        assert line.startswith(start)


# --- ends ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["compiled", "hosted"])
def test_a_trial_that_is_good_enough_ends_when_that_is_looked_at_and_stands_still(engine, tmp_path):
    """Every thousand steps; its neighbour goes on, and a run that was stopped on the way comes to the same."""
    train = functools.partial(mac.train, "CartPole-v1", trials=2, engine=engine, seed=3, until=10, **TINY)
    run = train(steps=6000, out=tmp_path / "run", progress=False)
    assert run.finished
    for trial in range(2):
        solved = run.status[trial].startswith("solved at episode ")
        assert solved or run.steps_done[trial] == 6000
        assert run.steps_done[trial] % 1000 == 0
    assert (run.steps_done < 6000).any()
    left = [4]

    def stop(_):
        left[0] -= 1
        return mac.STOP if left[0] == 0 else None

    stopped = train(steps=6000, out=tmp_path / "stopped", on_progress=stop)
    assert not stopped.finished
    assert mac.resume(stopped, progress=False).digest == run.digest


@pytest.mark.slow
def test_several_devices_get_past_the_moment_at_which_the_bonus_is_made_exact_again(tmp_path):
    """LAPACK's inverse did not: its threads and XLA's waited for each other."""
    steps = 2 * (novelty.REFRESH + 8)
    run = mac.train("CartPole-v1", trials=8, steps=steps, out=tmp_path / "run", progress=False, **TINY)
    assert run.finished
