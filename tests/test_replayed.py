"""The replayed learner: its targets and steps against their definitions, and twins that differ in one function."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mean_actor_critic.learning import replayed, scales
from mean_actor_critic.learning.learners import learner_of
from mean_actor_critic.learning.replayed import Judged
from mean_actor_critic.learning.sequences import Rows
from mean_actor_critic.learning.types import Batch, Context
from mean_actor_critic.spec.learners import CHOICE, VECTOR, Part, ReplayedHyper, ReplayedSetup, Shapes

SETUP = ReplayedSetup(parts=(Part(VECTOR, (3,)),), hidden=(8,), environments=2, sequences=4, sequence_length=3)
HYPER = ReplayedHyper()


@pytest.fixture
def float64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


_target = jax.jit(replayed.critic_target, static_argnums=(0, 1))


# --- targets ---------------------------------------------------------------------------------------------------------


def trajectory(seed, length=6, actions=3):
    """A run of rows with ends of both kinds in it, and what is believed of them."""
    random = np.random.default_rng(seed)
    last = random.random((1, length)) < 0.25
    rows = Rows(
        observation=np.zeros((1, length, 1)),
        action=random.integers(actions, size=(1, length)),
        reward=random.normal(size=(1, length)),
        terminated=~last & np.roll(last, -1, axis=1) & (random.random((1, length)) < 0.5),
        last=last,
        behaviour=random.uniform(0.05, 1, (1, length)),
    )
    policy = random.dirichlet(np.ones(actions), (1, length))
    return rows, policy, random.normal(size=(1, length, actions))


def defined(kind, hyper, rows, policy, q):
    """Q(s_t, a_t) + Σ_k γ^(k - t) (Π c_i) δ_k (Munos et al. 2016, Eq. 3), written out step by step."""
    length = rows.action.shape[1]
    taken = np.array([q[0, t, rows.action[0, t]] for t in range(length)])
    value = np.sum(policy[0] * q[0], axis=-1)
    targets = {}
    for t in range(length - 1):
        if rows.last[0, t]:
            continue
        total, trace = taken[t], 1.0
        for k in range(t, length - 1):
            discount = 0.0 if rows.terminated[0, k] else hyper.discount
            delta = rows.reward[0, k] + discount * value[k + 1] - taken[k]
            total += trace * delta
            if rows.last[0, k + 1] or k + 1 == length - 1:  # the episode is over, or the run
                break
            chosen = policy[0, k + 1, rows.action[0, k + 1]]
            believed = {
                "retrace": min(1.0, chosen / rows.behaviour[0, k + 1]),
                "tree_backup": chosen,
                "n_step": 1.0,
                "one_step": 0.0,
            }[kind]
            trace *= discount * hyper.trace_decay * believed
        targets[t] = total
    return targets


@pytest.mark.parametrize("kind", ["retrace", "tree_backup", "n_step", "one_step"])
def test_targets_are_what_they_are_defined_as(kind, float64):
    setup, hyper = dataclasses.replace(SETUP, critic_target=kind), ReplayedHyper(discount=0.9, trace_decay=0.8)
    for seed in range(60):
        rows, policy, q = trajectory(seed)
        found = _target(setup, hyper, jax.tree.map(jnp.asarray, rows), *map(jnp.asarray, (rows.reward, policy, q)))
        for t, wanted in defined(kind, hyper, rows, policy, q).items():
            np.testing.assert_allclose(found[0, t], wanted, rtol=1e-12, err_msg=f"{kind}, seed {seed}, step {t}")


def chain(seed, states=4, actions=3):
    """A small MDP: transitions [state, action, state], rewards [state, action], and two policies."""
    random = np.random.default_rng(seed)
    policies = random.dirichlet(np.ones(actions), (2, states))
    return random.dirichlet(np.ones(states), (states, actions)), random.normal(size=(states, actions)), *policies


def true_values(transition, reward, policy, discount):
    """Q of a policy, from its linear equations."""
    states, actions = reward.shape
    onward = np.einsum("sat,tb->satb", transition, policy).reshape(states * actions, states * actions)
    return np.linalg.solve(np.eye(states * actions) - discount * onward, reward.ravel()).reshape(states, actions)


@pytest.mark.parametrize("kind", ["retrace", "tree_backup", "one_step"])
def test_the_critics_fixed_point_is_the_value_of_the_policy_whatever_the_behaviour(kind, float64):
    """The mean of the target over all that can happen in two steps, from Q of the policy, is Q of the policy."""
    setup, hyper = dataclasses.replace(SETUP, critic_target=kind), ReplayedHyper(discount=0.9, trace_decay=0.8)
    transition, reward, policy, behaviour = chain(0)
    q = true_values(transition, reward, policy, hyper.discount)
    states, actions = reward.shape
    for state in range(states):
        for action in range(actions):
            ways = [
                (transition[state, action, s1] * behaviour[s1, a1] * transition[s1, a1, s2], s1, a1, s2)
                for s1 in range(states)
                for a1 in range(actions)
                for s2 in range(states)
            ]
            odds, s1, a1, s2 = (np.array(part) for part in zip(*ways, strict=True))
            n, path = len(odds), np.stack([np.full(len(odds), state), s1, s2], axis=1)
            done = np.stack([np.full(n, action), a1, np.zeros(n, int)], axis=1)
            rows = Rows(path[..., None], done, reward[path, done], *[np.zeros((n, 3), bool)] * 2, behaviour[path, done])
            target = _target(
                setup, hyper, jax.tree.map(jnp.asarray, rows), *map(jnp.asarray, (rows.reward, policy[path], q[path]))
            )
            np.testing.assert_allclose(np.sum(odds * np.asarray(target[:, 0])), q[state, action], rtol=1e-10)


# --- the policy ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.floats(0.1, 10.0))
@settings(max_examples=40, deadline=None)
def test_a_mirror_descent_step_with_exact_values_makes_no_state_worse(seed, temperature):
    transition, reward, policy, _ = chain(seed)
    q = true_values(transition, reward, policy, 0.9)
    advantage = q - np.sum(policy * q, axis=-1, keepdims=True)
    hyper = ReplayedHyper(temperature=temperature, uniform_pull=0.0, advantage_clip=1e9)
    logits = np.asarray(replayed.improved(hyper, np.log(policy), advantage), np.float64)
    better = np.exp(logits - logits.max(-1, keepdims=True))
    better /= better.sum(-1, keepdims=True)
    before = np.sum(policy * q, axis=-1)
    after = np.sum(better * true_values(transition, reward, better, 0.9), axis=-1)
    assert (after >= before - 1e-5).all()
    assert after.sum() > before.sum()


def judged(seed, n=200, actions=3):
    random = np.random.default_rng(seed)
    policy, behaviour = random.dirichlet(np.ones(actions), (2, n))
    action = np.array([random.choice(actions, p=row) for row in behaviour])
    return Judged(policy, random.normal(size=(n, actions)), action, behaviour[np.arange(n), action]), behaviour


def test_the_twins_estimate_is_without_bias():
    """Averaged over the actions that could have been taken, the sampled twin's advantages are MAC's."""
    given, behaviour = judged(0)
    actions = given.q.shape[-1]
    mean = 0.0
    for action in range(actions):
        own = given._replace(action=np.full(len(behaviour), action), behaviour=behaviour[:, action])
        mean = mean + behaviour[:, action, None] * np.asarray(replayed.action_taken(own))
    np.testing.assert_allclose(mean, replayed.all_actions(given), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("advantages", replayed.ADVANTAGES.values())
def test_advantages_average_to_nothing_under_the_policy(advantages):
    given, _ = judged(1)
    np.testing.assert_allclose(np.sum(given.policy * np.asarray(advantages(given)), axis=-1), 0, atol=1e-4)


def sampled(seed, setup=SETUP, actions=3):
    random = np.random.default_rng(seed)
    shape = (setup.updates_per_step, setup.sequences, setup.sequence_length + 1)
    return jax.tree.map(
        jnp.asarray,
        Rows(
            random.normal(size=(*shape, 3)).astype(np.float32),
            random.integers(actions, size=shape),
            random.normal(size=shape).astype(np.float32),
            *[np.zeros(shape, bool)] * 2,
            np.full(shape, 1 / actions, np.float32),
        ),
    )


@functools.partial(jax.jit, static_argnums=0)
def updated(setup, state, rows):
    return replayed._update(setup, HYPER, state, replayed.prepared(setup, HYPER, state, rows))


def test_twins_differ_in_nothing_but_their_function():
    """They begin alike, and an update moves all but the policy alike, and the policy otherwise."""
    states = {}
    for algorithm in ("mac", "advantage_actor_critic"):
        setup = dataclasses.replace(SETUP, algorithm=algorithm)
        state = replayed.init(setup, Shapes((3,), 3), jax.random.key(0))
        rows = jax.tree.map(lambda x: x[0], sampled(0))
        states[algorithm] = state, updated(setup, state, rows)
    (before, one), (also_before, other) = states.values()
    jax.tree.map(np.testing.assert_array_equal, before, also_before)
    critics = functools.partial(jax.tree.map, lambda x: x[:-1])
    jax.tree.map(np.testing.assert_array_equal, critics(one.networks), critics(other.networks))
    assert not np.array_equal(one.networks.head.weight[-1], other.networks.head.weight[-1])
    for name in ("observed", "returns", "novelty"):
        jax.tree.map(np.testing.assert_array_equal, getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("algorithm", replayed.ADVANTAGES)
@pytest.mark.parametrize("step", [0, 10_000])
@pytest.mark.parametrize("masked", [False, True])
def test_the_probabilities_of_every_way_to_act_sum_to_1(algorithm, step, masked):
    setup = dataclasses.replace(SETUP, algorithm=algorithm)
    mask = jnp.array([[True, False, True], [False, False, True]]) if masked else ()
    actor = replayed.actor(setup, replayed.init(setup, Shapes((3,), 3), jax.random.key(0)))
    logits = replayed.act(setup, actor, jnp.ones((2, 3)), mask).logits
    context = Context(jnp.int32(0), jnp.int32(0), jnp.int32(step))
    chosen = replayed.behaviour(setup, context, ReplayedHyper(exploration=0.1), logits, mask)
    np.testing.assert_allclose(np.sum(chosen, axis=-1), 1, rtol=1e-6)
    if masked:
        assert (np.asarray(chosen)[~np.asarray(mask)] == 0).all()
        np.testing.assert_allclose(chosen[1], [0, 0, 1])
    if step == 0:
        np.testing.assert_allclose(chosen[0], [0.5, 0, 0.5] if masked else [1 / 3] * 3, rtol=1e-6)


# --- scales ----------------------------------------------------------------------------------------------------------


def test_observations_are_scaled_by_what_was_seen_of_them():
    parts = (Part(VECTOR, (2,)), Part(CHOICE, (2,), in_bytes=True), Part("image", (6, 6), in_bytes=True))
    random, observed = np.random.default_rng(0), scales.no_observations(40)
    rows = np.concatenate(
        [random.normal(1e3, 5, (600, 1)), np.full((600, 1), 1e6), random.integers(0, 2, (600, 2)),
         random.integers(0, 11, (600, 36))], axis=1).astype(np.float32)  # fmt: skip
    for start in range(0, 600, 4):
        observed = scales.observe(observed, parts, jnp.asarray(rows[start : start + 4]))
    units = scales.scale_of(observed, parts)
    np.testing.assert_allclose(units.mean[:1], rows[:, 0].mean(), rtol=1e-5)
    np.testing.assert_allclose(units.deviation[:1], rows[:, 0].std(), rtol=1e-3)
    seen = np.asarray(replayed._seen(units, jnp.asarray(rows)))
    assert np.abs(seen[:, 1]).max() < 1e-2  # a constant is no news, however large it is
    np.testing.assert_allclose(seen[:, 2:4], rows[:, 2:4], atol=1e-6)
    np.testing.assert_allclose(seen[:, 4:], rows[:, 4:] / 10, rtol=1e-5)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_the_size_of_rewards_does_not_matter(size):
    """An update moves the networks alike, to rounding, when all rewards are larger or smaller."""
    setup = SETUP

    def learned(size):
        state = replayed.init(setup, Shapes((3,), 3), jax.random.key(0))
        rewards = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32) * size
        for reward in rewards:
            state = state._replace(returns=scales.earn(state.returns, jnp.asarray(reward), jnp.zeros(2, bool), 0.99))
        rows = jax.tree.map(lambda x: x[0], sampled(0))
        return updated(setup, state, rows._replace(reward=rows.reward * size)).networks

    jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-5), learned(size), learned(1.0))


@pytest.mark.parametrize("size", [2.0**-40, 2.0**10, 2.0**40])
def test_the_units_of_observations_do_not_matter(size):
    """To the bit, for powers of two: nothing in a scale is small or large by itself."""
    parts, random = (Part(VECTOR, (3,)),), np.random.default_rng(0)
    rows = random.normal([0.0, 1.0, -7.0], [1.0, 1e-2, 3.0], (400, 3)).astype(np.float32)

    def seen(size):
        observed = scales.no_observations(3)
        for start in range(0, 400, 4):
            observed = scales.observe(observed, parts, jnp.asarray(rows[start : start + 4] * np.float32(size)))
        return replayed._seen(scales.scale_of(observed, parts), jnp.asarray(rows * np.float32(size)))

    assert np.abs(seen(1.0)).mean() > 0.5
    np.testing.assert_array_equal(seen(size), seen(1.0))


def test_learning_settles_but_never_stands_still():
    hyper = dataclasses.replace(HYPER, settling_steps=20_000, release_steps=50_000)
    first, later, half, last = (replayed.settled(hyper, jnp.float32(steps)) for steps in (0, 20_000, 50_000, 2e7))
    assert (first.learning_rate, first.uniform_pull) == (hyper.learning_rate, hyper.uniform_pull)
    np.testing.assert_allclose(later.learning_rate, hyper.learning_rate / 2**0.5, rtol=1e-6)
    assert later.uniform_pull > 0.8 * hyper.uniform_pull  # it falls late
    np.testing.assert_allclose(half.uniform_pull, hyper.uniform_pull / 2)
    assert 0 < last.uniform_pull < 2e-4
    assert 0 < last.learning_rate < hyper.learning_rate / 30
    constant = replayed.settled(dataclasses.replace(hyper, settling_steps=1e12, release_steps=1e12), jnp.float32(1e6))
    np.testing.assert_allclose(constant.uniform_pull, hyper.uniform_pull, rtol=1e-5)
    np.testing.assert_allclose(constant.learning_rate, hyper.learning_rate, rtol=1e-5)


def test_learning_takes_the_settled_numbers():
    """After very many steps a call of `learn` moves next to nothing, though the same call did at first."""
    setup, rows = dataclasses.replace(SETUP, warm_up=0), sampled(0)
    before = replayed.init(setup, Shapes((3,), 3), jax.random.key(0))
    step = Batch(
        action=jnp.zeros((1, 2), jnp.int32),
        reward=jnp.ones((1, 2)),
        terminated=jnp.zeros((1, 2), bool),
        truncated=jnp.zeros((1, 2), bool),
        valid=jnp.ones((1, 2), bool),
        observation=jnp.ones((2, 2, 3)),
        behaviour=jnp.full((1, 2), 0.5),
    )

    def moved(time):
        context = Context(jnp.int32(0), jnp.int32(0), jnp.uint32(time))
        after, _ = learner_of(setup).learn(setup, context, HYPER, before, step, rows)
        change = jax.tree.map(lambda new, old: float(jnp.max(jnp.abs(new - old))), after.networks, before.networks)
        return max(jax.tree.leaves(change))

    assert 0 < moved(10**9) < moved(10) / 100
