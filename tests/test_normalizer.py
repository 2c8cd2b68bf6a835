"""Observations normalised by the mean and variance of all that were seen."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hosted_environments as hosted
from helpers import arrays_of, tiny_run
from mean_actor_critic.engines import updates
from mean_actor_critic.learning.networks import Scale, mlp, normalize, softmax
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.spec.learners import EpisodicHyper, EpisodicSetup, Shapes

pytestmark = pytest.mark.slow

EPISODE = 6


@functools.cache
def updater():
    setup = EpisodicSetup(hidden=(4,), minibatches=1, batch_size=2, replay_capacity=8, normalize_observations=True)
    hyper = EpisodicHyper(*(jnp.float32(x) for x in (0.001, 0.001, 0.99, 0.9)))
    initial = updates.initial(setup, Shapes((3,), 2), jax.random.key(0))
    context = Context(jnp.int32(EPISODE), jnp.int32(updates.NO_SCHEDULE))
    return initial, jax.jit(functools.partial(updates.update, setup, context, hyper))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, EPISODE), min_size=1, max_size=8),
    st.sampled_from([0.0, 1.0, 100.0]),
    st.sampled_from([0.01, 1.0]),
    st.integers(0, 999),
)
def test_the_normalizer_holds_mean_and_variance_of_all_states_in_which_an_action_was_taken(
    lengths, offset, deviation, seed
):
    random = np.random.default_rng(seed)
    carried, update = updater()
    seen = []
    for length in lengths:
        observation = (offset + deviation * random.normal(size=(EPISODE + 1, 3))).astype(np.float32)
        steps = np.arange(EPISODE)
        batch = Batch(
            observation=observation,
            action=random.integers(0, 2, EPISODE, np.int32),
            reward=np.where(steps < length, 1, 0).astype(np.float32),
            terminated=steps == length - 1,
            valid=steps < length,
        )
        carried, _ = update(carried, batch, jax.random.key(seed))
        seen.append(observation[:length].astype(np.float64))
    state, states = carried.learner, np.concatenate(seen)
    assert state.diverged_at == 0
    assert state.normalizer.observations == len(states)
    np.testing.assert_allclose(state.normalizer.mean, states.mean(axis=0), rtol=1e-6, atol=1e-6)
    # float32 rounds a state by some 1e-7 of the offset, its square by that much times the deviation
    rounding = 1e-6 * offset * (deviation + 1e-6 * offset) + 1e-9
    np.testing.assert_allclose(state.normalizer.variance, states.var(axis=0), rtol=1e-4, atol=rounding)


@pytest.fixture(scope="module", params=["compiled", "hosted"])
def normalized(request, tmp_path_factory):
    run = tiny_run(tmp_path_factory.getbasetemp(), "CartPole-v0", engine=request.param, normalize_observations=True)
    assert run.experiment.engine == request.param
    return run


def test_both_engines_normalize_by_the_states_in_the_replay(normalized):
    arrays = arrays_of(normalized)
    for trial, steps in enumerate(normalized.lengths.sum(axis=1)):
        assert steps <= 64
        states = arrays["state/replay/rows/observation"][trial, :steps].astype(np.float64)
        np.testing.assert_allclose(arrays["state/normalizer/mean"][trial], states.mean(axis=0), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(arrays["state/normalizer/variance"][trial], states.var(axis=0), rtol=1e-4)
        assert arrays["state/normalizer/observations"][trial] == steps


def test_an_agent_takes_its_normalizer_along(normalized, tmp_path):
    agent = normalized.agent(1)
    agent.save(tmp_path / "agent.safetensors")
    loaded = Agent.load(tmp_path / "agent.safetensors")
    observation = np.random.default_rng(0).uniform(-1, 1, (5, agent.spaces.observation_size)).astype(np.float32)
    found = loaded.action_probabilities(observation)
    np.testing.assert_array_equal(found, agent.action_probabilities(observation))
    arrays = arrays_of(normalized)
    own = [arrays[f"state/normalizer/{name}"][1] for name in ("mean", "variance")]
    expected = softmax(mlp(agent.policy, normalize(observation, Scale(*own)), agent.experiment.setup.activation))
    np.testing.assert_array_equal(found, expected)
    plain = Agent(agent.experiment, agent.spaces, 1, agent.networks._replace(normalizer=()))
    assert np.max(np.abs(plain.action_probabilities(observation) - found)) > 1e-3


def test_observations_are_not_normalized_unless_asked_for(tmp_path):
    run = tiny_run(tmp_path, hosted.make, env_kwargs={"what": "box"})
    assert not run.experiment.setup.normalize_observations
    assert not [name for name in arrays_of(run) if "normalizer" in name]
    assert run.agent().networks.normalizer == ()
