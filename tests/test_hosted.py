"""One learner, two engines: the hosted engine does what the compiled one does."""

import functools

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import mean_actor_critic as mac
from helpers import EPISODIC
from mean_actor_critic.engines import updates
from mean_actor_critic.environments.compiled.cart_pole import CartPole
from mean_actor_critic.environments.seeds import reset_seed
from mean_actor_critic.learning.randomness import training_keys
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.runs import store
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.learners import Shapes

pytestmark = pytest.mark.slow

SEED, TRIALS, EPISODES = 3, 5, 8
# all of them, because the presets of Cart Pole are not those of an environment that nobody knows
SMALL = {"hidden": (16,), "activation": "tanh", "max_episode_steps": 60, "actor_lr": 0.01, "discount": 0.99}
CRITIC = {
    "critic_target": "expected_sarsa", "minibatches": 4, "batch_size": 8, "replay_capacity": 100, "critic_lr": 0.01,
}  # fmt: skip


class SameStart(CartPoleEnv):
    """Gymnasium's Cart Pole, beginning where the compiled one begins for the same trial and episode."""

    def __init__(self, starts):
        super().__init__()
        self.starts = starts

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = np.array(self.starts[seed], np.float64)
        return np.array(self.state, np.float32), {}


def starts():
    """The compiled engine's first states, by the seed that the hosted engine resets with."""

    @jax.jit
    def initial(trial, episode):
        initial_key = jax.random.split(training_keys(SEED, trial, episode).environment, 3)[0]
        return CartPole().initial(initial_key)

    return {
        reset_seed(SEED, trial, episode): np.asarray(initial(trial, episode)).tolist()
        for trial in range(TRIALS)
        for episode in range(EPISODES)
    }


def settings_of(algorithm):
    return {**SMALL, **(CRITIC if "critic" in ALGORITHMS[algorithm].parts else {})}


@pytest.mark.parametrize("algorithm", ["mac", "advantage_reinforce"])
def test_both_engines_play_the_same_episodes_and_learn_the_same(tmp_path, algorithm):
    common = {"trials": TRIALS, "episodes": EPISODES, "seed": SEED, **settings_of(algorithm)}
    compiled = mac.train("CartPole-v0", algorithm, out=tmp_path / "compiled", **common)
    make = functools.partial(SameStart, starts())
    hosted = mac.train(make, algorithm, engine="hosted", workers=2, out=tmp_path / "hosted", **common)
    assert np.array_equal(hosted.lengths, compiled.lengths)
    assert np.array_equal(hosted.returns, compiled.returns)
    assert len(np.unique(compiled.lengths)) > 5
    theirs, ours = (store.read_checkpoint(run.path, run.manifest).arrays for run in (compiled, hosted))
    assert set(ours) == set(theirs)
    for name, array in theirs.items():
        np.testing.assert_allclose(ours[name], array, rtol=2e-3, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("algorithm", EPISODIC)
def test_learning_among_many_is_learning_alone(algorithm):
    experiment = make_experiment("Test", algorithm, 4, 1, 0, settings_of(algorithm))
    setup, steps = experiment.setup, experiment.rules.max_episode_steps
    random = np.random.default_rng(0)
    lengths = np.array([steps, 7, 30])
    batch = Batch(
        observation=random.normal(size=(3, steps + 1, 4)).astype(np.float32),
        action=random.integers(2, size=(3, steps)).astype(np.int32),
        reward=np.where(np.arange(steps) < lengths[:, None], 1.0, 0.0).astype(np.float32),
        terminated=np.arange(steps) == lengths[:, None] - 1,
        valid=np.arange(steps) < lengths[:, None],
    )
    start = jax.vmap(lambda key: updates.initial(setup, Shapes((4,), 2), key))(jax.random.split(jax.random.key(0), 4))
    hyper = experiment.hyper_of_trials()
    keys = jax.random.split(jax.random.key(1), 3)
    which = np.array([2, 0, 4])  # the last is padding
    new, learners, metrics = jax.jit(functools.partial(updates.update_among, setup))(hyper, start, which, batch, keys)
    context = Context(np.int32(steps), np.int32(updates.NO_SCHEDULE))
    alone = jax.jit(functools.partial(updates.update, setup, context))
    for place, trial in enumerate(which[:2]):
        carried, metric = alone(
            *jax.tree.map(lambda x, trial=trial: x[trial], (hyper, start)),
            jax.tree.map(lambda x, place=place: x[place], batch),
            keys[place],
        )
        one = jax.tree.map(lambda x, trial=trial: x[trial], new)
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), one, carried)
        assert metrics.length[place] == metric.length == lengths[place]
        assert learners.episode[place] == 1
    for untouched in (1, 3):
        before, after = (jax.tree.map(lambda x, at=untouched: x[at], tree) for tree in (start, new))
        jax.tree.map(np.testing.assert_array_equal, after, before)


def test_a_trial_can_be_run_again_alone(tmp_path):
    settings = {"engine": "hosted", "episodes": 6, "seed": 1, "workers": 1, **SMALL, **CRITIC}
    together = mac.train("CartPole-v1", trials=3, out=tmp_path / "together", **settings)
    alone = mac.train("CartPole-v1", trials=1, first_trial=2, out=tmp_path / "alone", **settings)
    assert np.array_equal(alone.returns[0], together.returns[2])
    one, other = alone.agent(0).policy[0].weight, together.agent(2).policy[0].weight
    np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_evaluation_agrees_with_stable_baselines(tmp_path):
    reason = "Stable-Baselines3 is not installed"
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation", reason=reason)
    run = mac.train(
        "CartPole-v1", engine="hosted", episodes=80, out=tmp_path / "run", max_episode_steps=200, actor_lr=0.02
    )
    agent = run.agent()
    for deterministic in (False, True):
        ours = mac.evaluate(agent, 60, deterministic=deterministic)[0]
        theirs, _ = evaluation.evaluate_policy(
            agent,
            gymnasium.make("CartPole-v1", max_episode_steps=200),
            n_eval_episodes=60,
            deterministic=deterministic,
            return_episode_rewards=True,
            warn=False,
        )
        error = np.sqrt(np.var(ours, ddof=1) / 60 + np.var(theirs, ddof=1) / 60)
        assert abs(np.mean(ours) - np.mean(theirs)) <= 4 * error + 1e-6


def test_lunar_lander_trains_with_its_preset(tmp_path):
    run = mac.train("LunarLander-v3", trials=2, episodes=3, out=tmp_path / "run")
    assert run.experiment.engine == "hosted"
    assert run.experiment.rules.max_episode_steps == 1000
    assert run.finished
    assert np.all(run.lengths > 10)
