"""The paper's identities, on whatever policies, values and MDPs hypothesis comes up with."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.estimators import ESTIMATORS, actor_critic, advantage_actor_critic, mac, policy_loss
from mean_actor_critic.learning.kernels import dense
from mean_actor_critic.learning.networks import mlp
from mean_actor_critic.learning.types import Evidence
from mean_actor_critic.spec.algorithms import ALGORITHMS, POLICY
from mean_actor_critic.spec.learners import EpisodicSetup

SEEDS = st.integers(0, 2**31 - 1)
SIZES = st.tuples(st.integers(1, 5), st.integers(2, 4))  # states, actions


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def softmax_policy(parameters, features):
    """log pi [states, actions] of a linear softmax policy; one-hot features make it tabular."""
    return jax.nn.log_softmax(features @ parameters)


log_policy_of = jax.jit(softmax_policy)  # one small program for each shape instead of several, as everywhere below


@functools.partial(jax.jit, static_argnums=0)
def gradient(estimator, parameters, features, q, action, state_weight, returns=None, baseline=0.0):
    def loss(parameters):
        log_policy = softmax_policy(parameters, features)
        evidence = Evidence(
            policy=jnp.exp(log_policy),
            q=q,
            returns=jnp.zeros(len(q)) if returns is None else returns,
            baseline=jnp.asarray(baseline),
            action=action,
        )
        return policy_loss(log_policy, estimator(evidence), state_weight)

    return -jax.grad(loss)(parameters)


@functools.partial(jax.jit, static_argnums=0)
def gradients(estimator, parameters, features, q, actions, state_weights):
    """One for each row of actions and of weights."""
    each = functools.partial(gradient, estimator, parameters, features, q)
    return jax.vmap(each)(actions, state_weights)


def random_problem(seed, states, actions):
    random = np.random.default_rng(seed)
    features = random.normal(size=(states, states))  # of full rank: any policy can be expressed
    parameters = random.normal(size=(features.shape[1], actions))
    q = 10 * random.normal(size=(states, actions))
    return random, jnp.asarray(parameters), jnp.asarray(features), jnp.asarray(q)


def test_there_is_one_estimator_for_each_algorithm():
    """But for Q-learning, which has no policy whose gradient could be estimated."""
    assert set(ESTIMATORS) == {name for name, algorithm in ALGORITHMS.items() if POLICY in algorithm.parts}


@settings(deadline=None, max_examples=50)
@given(SEEDS, SIZES)
def test_mac_is_the_policy_weighted_mean_of_actor_critic(seed, sizes):
    states, actions = sizes
    _, parameters, features, q = random_problem(seed, states, actions)
    policy = np.exp(log_policy_of(parameters, features))
    every_state = np.full(states, 1 / states)
    exact = gradient(mac, parameters, features, q, np.zeros(states, int), every_state)
    only_this = np.repeat(np.eye(states) / states, actions, axis=0)  # [states * actions, states]
    taken = np.tile(np.repeat(np.arange(actions)[:, None], states, axis=1), (states, 1))
    for sampled in (actor_critic, advantage_actor_critic):  # the state's value as a baseline changes no expectation
        each = gradients(sampled, parameters, features, q, taken, only_this)
        mean = np.einsum("s,s...->...", policy.ravel(), each)
        np.testing.assert_allclose(mean, exact, atol=1e-12, rtol=1e-10)


@settings(deadline=None, max_examples=50)
@given(SEEDS, SIZES)
def test_a_baseline_leaves_mac_unchanged(seed, sizes):
    states, actions = sizes
    random, parameters, features, q = random_problem(seed, states, actions)
    baseline = jnp.asarray(100 * random.normal(size=(states, 1)))
    ignored, weight = np.zeros(states, int), np.full(states, 1 / states)
    with_baseline = gradient(mac, parameters, features, q - baseline, ignored, weight)
    np.testing.assert_allclose(with_baseline, gradient(mac, parameters, features, q, ignored, weight), atol=1e-11)


@jax.jit
@functools.partial(jax.value_and_grad, has_aux=True)
def value_and_gradient(parameters, features, transition, reward, start, discount):
    """The value of a policy in an MDP and its derivative; besides, its true Q and discounted state visits."""
    policy = jnp.exp(softmax_policy(parameters, features))
    moves = jnp.einsum("sa,sab->sb", policy, transition)
    resolvent = jnp.linalg.inv(jnp.eye(len(start)) - discount * moves)
    state_value = resolvent @ jnp.sum(policy * reward, axis=1)
    return start @ state_value, (reward + discount * transition @ state_value, start @ resolvent)


@settings(deadline=None, max_examples=200)
@given(SEEDS, SIZES, st.floats(0.0, 0.99))
def test_mac_with_the_true_q_is_the_policy_gradient(seed, sizes, discount):
    """Against the derivative of the value itself, through the matrix inverse that defines it."""
    states, actions = sizes
    random, parameters, features, _ = random_problem(seed, states, actions)
    transition = jnp.asarray(random.dirichlet(np.ones(states), size=(states, actions)))  # [state, action, next]
    reward = jnp.asarray(random.normal(size=(states, actions)))
    start = jnp.asarray(random.dirichlet(np.ones(states)))

    (_, (q, visits)), exact = value_and_gradient(parameters, features, transition, reward, start, discount)
    estimate = gradient(mac, parameters, features, q, np.zeros(states, int), visits)
    np.testing.assert_allclose(estimate, exact, atol=1e-6, rtol=1e-6)


@settings(deadline=None, max_examples=50)
@given(SEEDS, SIZES)
def test_weights_are_those_of_the_table(seed, sizes):
    """Each algorithm's weights written out once more, entry by entry."""
    states, actions = sizes
    random, parameters, features, q = random_problem(seed, states, actions)
    policy = np.exp(log_policy_of(parameters, features))
    returns, baseline = random.normal(size=states), random.normal()
    action = random.integers(actions, size=states)
    evidence = Evidence(*map(jnp.asarray, (policy, q, returns, baseline, action)))
    weights = {name: np.asarray(estimator(evidence)) for name, estimator in ESTIMATORS.items()}
    q = np.asarray(q)
    for t in range(states):
        for a in range(actions):
            taken = float(a == action[t])
            state_value = sum(policy[t, b] * q[t, b] for b in range(actions))
            expected = {
                "reinforce": taken * returns[t],
                "advantage_reinforce": taken * (returns[t] - baseline),
                "actor_critic": taken * q[t, a],
                "advantage_actor_critic": taken * (q[t, a] - state_value),
                "mac": policy[t, a] * q[t, a],
                "a2c": taken * (returns[t] - baseline),
            }
            assert set(expected) == set(weights)
            for name, weight in expected.items():
                assert weights[name][t, a] == pytest.approx(weight, abs=1e-12)


def test_the_weights_are_constants_of_the_loss():
    parameters, features = jnp.asarray([[0.3, -0.2]]), jnp.ones((1, 1))

    def loss(parameters):
        log_policy = softmax_policy(parameters, features)
        return policy_loss(log_policy, jnp.exp(log_policy) * 5.0, jnp.ones(1))

    log_policy = softmax_policy(parameters, features)
    fixed = jax.grad(lambda p: policy_loss(softmax_policy(p, features), jnp.exp(log_policy) * 5.0, jnp.ones(1)))
    np.testing.assert_allclose(jax.grad(loss)(parameters), fixed(parameters))


@pytest.mark.parametrize("sizes", [(4, 2), (4, 64, 2), (20, 9, 30, 3), (9, 16, 9), (3, 5, 8, 20)])
def test_the_fast_product_has_the_gradient_of_the_plain_one(sizes):
    kind = network_of(EpisodicSetup(hidden=sizes[1:-1], activation="tanh"))
    weights = kind.init(jax.random.key(0), kind.shapes((sizes[0],), sizes[-1]))
    network = jax.tree.map(lambda x: x.astype(jnp.float64), weights)
    x = jax.random.normal(jax.random.key(1), (7, sizes[0]))
    cotangent = jax.random.normal(jax.random.key(2), (7, sizes[-1]))

    def gradients(product):
        derivative = jax.grad(lambda net, x: jnp.sum(cotangent * mlp(net, x, "tanh", product)), argnums=(0, 1))
        return jax.jit(derivative)(network, x)

    jax.tree.map(
        lambda fast, plain: np.testing.assert_allclose(fast, plain, atol=1e-12), *map(gradients, (dense, jnp.matmul))
    )
