"""The Atari learner on other environments: its update by hand, and what its engines make of rollouts."""

import dataclasses
import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mean_actor_critic as mac
from helpers import message_of
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.targets import n_step
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.experiment import settings_for_engine
from mean_actor_critic.spec.learners import VECTOR, GeneralRolloutSetup, Part, RolloutHyper, Shapes
from probes import RewardFromAction
from test_given_networks import LikeFlax
from test_rollout import ALGORITHMS, numpy_loss

TINY = {"learner": "rollout", "hidden": (4,), "environments": 2, "rollout_steps": 4, "progress": False}
# steps that are the gradient itself: nothing is cut, and the mean square stays 0
PLAIN = RolloutHyper(learning_rate=1.0, gradient_norm=1e9, rms_decay=1.0, rms_epsilon=1.0)
of_engines = pytest.mark.parametrize("engine", ["compiled", "hosted"])


# --- an update -------------------------------------------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=0)
def learned(setup, state, batch):
    """The state after an update, and what the network made of the observations before it."""
    functions = learner_of(setup)
    new, _ = functions.learn(setup, Context(jnp.int32(0), jnp.int32(9)), PLAIN, state, batch)
    return new, functions.act(setup, functions.actor(setup, state), batch.observation)


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(ALGORITHMS), st.booleans())
def test_an_update_follows_the_gradient_of_the_combined_loss(seed, algorithm, scale_rewards):
    """Of a linear network, by hand: what the bias of each output moves by."""
    random = np.random.default_rng(seed)
    setup = GeneralRolloutSetup(
        algorithm, parts=(Part(VECTOR, (3,)),), environments=2, hidden=(), rollout_steps=3, clip_rewards=False,
        normalize_observations=False, scale_rewards=scale_rewards,
    )  # fmt: skip
    functions, size = learner_of(setup), (3, 2)
    state = functions.init(setup, Shapes((3,), 4), jax.random.key(seed))
    ends = random.integers(0, 3, size)  # goes on, terminal, cut off
    batch = Batch(
        observation=jnp.asarray(random.normal(size=(4, 2, 3)), jnp.float32),
        action=jnp.asarray(random.integers(4, size=size)),
        reward=jnp.asarray(random.normal(size=size), jnp.float32),
        terminated=jnp.asarray(ends == 1),
        truncated=jnp.asarray(ends == 2),
        value_beyond=jnp.where(ends == 2, 0.7, 0.0),
        valid=jnp.ones(size, bool),
    )
    new, outputs = learned(setup, state, batch)
    last = functions.value(setup, jax.tree.map(lambda x: x[-1], outputs))
    size_of_returns = np.sqrt(new.returns.mean_square) if scale_rewards else 1.0
    returns = n_step(batch.reward / size_of_returns, ends > 0, batch.value_beyond, last, PLAIN.discount)
    logits, values = (np.asarray(x[:-1], np.float64).reshape(6, -1) for x in outputs)
    action = np.asarray(batch.action).ravel()
    _, *gradients = numpy_loss(algorithm, PLAIN, logits, values, action, np.asarray(returns).ravel(), np.full(6, 1 / 6))
    moved = np.asarray(state.network.head.bias) - np.asarray(new.network.head.bias)
    np.testing.assert_allclose(moved, np.concatenate(gradients, axis=1).sum(axis=0), rtol=1e-3, atol=1e-5)


# --- settings --------------------------------------------------------------------------------------------------------


def test_usual_values_are_the_paper_s_on_games_only():
    games, others = settings_for_engine("atari", "rollout"), settings_for_engine("hosted", "rollout")
    assert [games[name].default for name in ("clip_rewards", "time_limit", "rollout_steps")] == [True, "terminal", 1]
    assert [others[name].default for name in ("clip_rewards", "time_limit", "rollout_steps")] == [False, "bootstrap", 5]
    assert "pipelined" not in others
    assert not {"hidden", "layer_norm", "normalize_observations", "scale_rewards"} & set(games)


def test_what_only_games_have_is_refused_elsewhere(tmp_path):
    train = functools.partial(mac.train, "CartPole-v1", "a2c", steps=40, out=tmp_path / "run")
    assert message_of(lambda: train(pipelined=True)).startswith("setting: 'pipelined' cannot be used")
    assert "which the learner rollout counts" in message_of(lambda: train(episodes=3, steps=None))
    assert not (tmp_path / "run").exists()


# --- engines ---------------------------------------------------------------------------------------------------------


class Constant(RewardFromAction):
    """Pays 1 in every step, whatever is done, and never ends by itself."""

    def reward(self, state, action, next_state, rng, params=None):
        return jnp.float32(1)

    def observation(self, state, rng, params=None):
        return jnp.array([1.0, 0.0, 0.0])

    def terminal(self, state, rng, params=None):
        return jnp.bool_(False)


class HostedConstant(gymnasium.Env):
    """The same for worker processes, which do not have JAX."""

    observation_space = RewardFromAction.observation_space
    action_space = RewardFromAction.action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.float32([1, 0, 0]), {}

    def step(self, action):
        return np.float32([1, 0, 0]), 1.0, False, False, {}


@pytest.mark.slow
@of_engines
@pytest.mark.parametrize(("time_limit", "worth"), [("bootstrap", 2.0), ("terminal", 1.25)])
def test_what_comes_after_a_cut_off_counts_if_it_is_to(engine, time_limit, worth, tmp_path):
    """Cut off after every second step, in the middle of rollouts and at their ends."""
    run = mac.train(
        Constant() if engine == "compiled" else HostedConstant, "a2c", steps=2400, max_episode_steps=2,
        time_limit=time_limit, discount=0.5, scale_rewards=False, learning_rate=0.02, schedule="linear",
        out=tmp_path / "run", **{**TINY, "rollout_steps": 3},
    )  # fmt: skip
    setup = run.experiment.setup
    functions = learner_of(setup)
    outputs = functions.act(setup, functions.player(run.agent(0).networks), jnp.array([[1.0, 0.0, 0.0]]))
    np.testing.assert_allclose(functions.value(setup, outputs), worth, atol=0.08)


@pytest.mark.slow
@of_engines
def test_the_learning_rate_falls_by_the_updates_of_the_whole_training(engine, tmp_path):
    """The second of two updates is half as large as without a schedule."""

    def weights(updates, schedule):
        run = mac.train(
            "CartPole-v1", engine=engine, steps=8 * updates, schedule=schedule, seed=5,
            out=tmp_path / f"{updates}-{schedule}", **TINY,
        )  # fmt: skip
        assert run.steps_done.tolist() == [8 * updates]
        return np.asarray(run.agent(0).networks.policy.hidden[0].layer.weight, np.float64)

    one, whole, half = weights(1, "constant"), weights(2, "constant"), weights(2, "linear")
    assert np.abs(whole - one).max() > 1e-4
    np.testing.assert_allclose(half - one, (whole - one) / 2, atol=1e-6)


@pytest.mark.slow
@of_engines
def test_episodes_end_in_the_curves_at_their_own_step_of_a_rollout(engine, tmp_path):
    run = mac.train("CartPole-v1", engine=engine, steps=800, trials=2, out=tmp_path / "run", **TINY)
    for trial in range(2):
        played = run.lengths[trial] > 0
        ends = run.curves.ended_at[trial][played]
        assert played.sum() > 10
        assert (np.diff(ends) >= 0).all()
        assert (ends % 2 == 0).all()
        assert (ends % 8 > 0).any()
        assert run.lengths[trial].sum() <= ends[-1] <= 800
        np.testing.assert_array_equal(run.returns[trial][played], run.lengths[trial][played])


# --- what is observed ------------------------------------------------------------------------------------------------


class Mixed(gymnasium.Env):
    """An image, a number and a choice; episodes of four steps."""

    observation_space = gymnasium.spaces.Dict(
        {
            "image": gymnasium.spaces.Box(0, 255, (7, 7, 3), np.uint8),
            "number": gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32),
            "choice": gymnasium.spaces.Discrete(3),
        }
    )
    action_space = gymnasium.spaces.Discrete(3)

    def _shown(self):
        return {
            "image": self.np_random.integers(0, 256, (7, 7, 3), np.uint8),
            "number": self.np_random.normal(size=1).astype(np.float32),
            "choice": int(self.np_random.integers(3)),
        }

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._shown(), {}

    def step(self, action):
        self.time += 1
        return self._shown(), 1.0, self.time == 4, False, {}


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["mac", "a2c"])
def test_mixtures_are_seen_and_agents_do_on_numpy_what_was_done_in_training(algorithm, tmp_path):
    run = mac.train(Mixed, algorithm, steps=80, layer_norm=True, max_episode_steps=9, out=tmp_path / "run", **TINY)
    run.agent(0).save(tmp_path / "agent.safetensors")
    agent, setup = mac.Agent.load(tmp_path / "agent.safetensors"), run.experiment.setup
    env = Mixed()
    shown, _ = env.reset(seed=0)
    flat = np.concatenate([np.eye(3)[shown["choice"]], shown["image"].ravel(), shown["number"]])  # keys in order
    functions = learner_of(setup)
    acting = functions.player(agent.networks)
    logits = functions.act(setup, acting, jnp.asarray(flat[None], jnp.float32)).logits
    np.testing.assert_allclose(agent.action_probabilities(shown), jax.nn.softmax(logits)[0], rtol=1e-4)
    assert dataclasses.asdict(agent.experiment) == dataclasses.asdict(run.experiment)


def test_a_user_s_own_network_takes_the_place_of_ours(tmp_path):
    network = LikeFlax()
    run = mac.train("CartPole-v1", "a2c", steps=80, network=network, out=tmp_path / "run", **TINY)
    run.agent(0).save(tmp_path / "agent.safetensors")
    shown = np.zeros((3, 4), np.float32)
    loaded = mac.Agent.load(tmp_path / "agent.safetensors", network=network)
    np.testing.assert_array_equal(loaded.action_probabilities(shown), run.agent(0).action_probabilities(shown))
    again = mac.resume(run, steps=160, network=network, progress=False)
    assert not np.array_equal(again.agent(0).action_probabilities(shown + 1), loaded.action_probabilities(shown + 1))
