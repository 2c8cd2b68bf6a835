"""Our Cart Pole is Gymnasium's, step by step and episode by episode."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mean_actor_critic.engines.compiled import rollout
from mean_actor_critic.environments.catalogue import find_environment
from mean_actor_critic.environments.compiled.cart_pole import ANGLE_LIMIT, POSITION_LIMIT, CartPole
from mean_actor_critic.learning.episodic import Actor
from mean_actor_critic.learning.networks import Layer
from mean_actor_critic.learning.randomness import training_keys
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.presets import start_from

STATES = 100_000
ours = CartPole()


def near_a_threshold(states, margin):
    return (np.abs(np.abs(states[..., 0]) - POSITION_LIMIT) < margin) | (
        np.abs(np.abs(states[..., 2]) - ANGLE_LIMIT) < margin
    )


def test_every_step_agrees_from_random_states():
    random = np.random.default_rng(0)
    spread = np.array([POSITION_LIMIT, 4.0, ANGLE_LIMIT, 4.0])
    states = random.uniform(-spread, spread, (STATES, 4)).astype(np.float32)
    actions = random.integers(2, size=STATES)

    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=0)
    expected, rewards, ends = np.empty((STATES, 4)), np.empty(STATES), np.empty(STATES, bool)
    for i in range(STATES):
        env.state, env.steps_beyond_terminated = tuple(states[i].astype(np.float64)), None
        _, rewards[i], ends[i], _, _ = env.step(int(actions[i]))
        expected[i] = env.state

    after = jax.vmap(lambda s, a: ours.transition(s, a, None))(jnp.asarray(states), jnp.asarray(actions))
    np.testing.assert_allclose(after, expected, atol=1e-5, rtol=0)
    clear = ~near_a_threshold(expected, 1e-5)
    assert np.mean(clear) > 0.999
    ended = np.asarray(jax.vmap(lambda s: ours.terminal(s, None))(after))
    assert np.array_equal(ended[clear], ends[clear])
    assert 0.05 < np.mean(ended) < 0.95  # both kinds were met
    assert np.all(rewards == 1)
    assert ours.reward(None, None, None, None) == 1


def random_policies(lanes):
    """Linear policies, one a lane, from hopeless to fair."""
    scale = np.linspace(0, 4, lanes)[:, None, None]
    weights = np.random.default_rng(1).normal(size=(lanes, 4, 2)) * scale
    return (Layer(jnp.asarray(weights, jnp.float32), jnp.zeros((lanes, 2))),)


@pytest.mark.parametrize(("name", "limit"), [("CartPole-v0", 200), ("CartPole-v1", 500)])
def test_whole_episodes_agree(name, limit):
    """Recorded episodes, replayed action by action in Gymnasium, go and end the same way.

    Rounding grows in an unstable system: by e^15 over 200 steps. So Gymnasium is left alone for the first 50 steps,
    then put back on the recorded state before each of the others.
    """
    lanes = 64
    spec = find_environment(name)
    start = start_from(name, "reinforce", engine=spec.engine, max_episode_steps=spec.max_episode_steps)
    experiment = make_experiment(name, "reinforce", 1, 1, 0, {**start.settings, "hidden": ()})
    assert experiment.rules.max_episode_steps == limit
    keys = jax.vmap(lambda trial: training_keys(0, trial, 0))(np.arange(lanes))
    play = jax.jit(lambda policy, keys: rollout(experiment.setup, limit, spec.build, Actor(policy, ()), keys))
    record = jax.tree.map(np.asarray, play(random_policies(lanes), keys))

    env = gymnasium.make(name)
    assert env.spec.max_episode_steps == limit == spec.max_episode_steps
    lengths = record.valid.sum(axis=1)
    assert lengths.min() < 30
    assert lengths.max() > 100
    for lane in range(lanes):
        env.reset()
        env.unwrapped.state = tuple(record.observation[lane, 0].astype(np.float64))
        for t in range(lengths[lane]):
            if t > 50:
                env.unwrapped.state = tuple(record.observation[lane, t].astype(np.float64))
            observation, reward, terminated, truncated, _ = env.step(int(record.action[lane, t]))
            np.testing.assert_allclose(observation, record.observation[lane, t + 1], atol=1e-5 if t > 50 else 1e-4)
            assert reward == record.reward[lane, t]
            if not near_a_threshold(observation, 1e-4):
                assert terminated == record.terminated[lane, t]
                assert (terminated or truncated) == (t == lengths[lane] - 1)


def test_starts_are_those_of_gymnasium():
    starts = jax.vmap(ours.initial)(jax.random.split(jax.random.key(0), 10_000))
    assert np.abs(starts).max() <= 0.05
    np.testing.assert_allclose(np.mean(starts, axis=0), 0, atol=0.002)
    np.testing.assert_allclose(np.var(starts, axis=0), 0.1**2 / 12, rtol=0.05)
