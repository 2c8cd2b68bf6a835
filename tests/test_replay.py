"""The ring of transitions and the rows that are written to it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mean_actor_critic.learning import replay as ring
from mean_actor_critic.learning.targets import discounted_returns, expected_sarsa, monte_carlo
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.spec.learners import EpisodicHyper


def numbered_rows(first, count, padded):
    number = jnp.arange(first, first + padded, dtype=jnp.float32)
    rows = ring.Transitions(number[:, None], number.astype(jnp.int32), number, number[:, None], number)
    return rows, jnp.arange(padded) < count


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 9), st.lists(st.integers(0, 12), min_size=1, max_size=6))
def test_the_ring_holds_the_last_rows_written(capacity, episodes):
    replay, written = ring.empty(capacity, 1), []
    for length in episodes:
        replay = ring.add(replay, *numbered_rows(len(written), length, 12))
        written += range(len(written), len(written) + length)
    held = np.asarray(replay.rows.action)[: min(len(written), capacity)]
    assert sorted(held) == written[-capacity:]
    assert int(replay.cursor.filled) == min(len(written), capacity)
    for column in (replay.rows.reward, replay.rows.observation[:, 0], replay.rows.bootstrap):
        np.testing.assert_array_equal(np.asarray(column)[: len(held)], held)


def test_rows_are_drawn_uniformly_from_those_written():
    replay = ring.add(ring.empty(100, 1), *numbered_rows(0, 10, 12))
    drawn = np.asarray(ring.sample(replay, jax.random.key(0), (50_000,)).action)
    counts = np.bincount(drawn, minlength=10)
    assert len(counts) == 10
    # 5000 expected of each, standard deviation 67
    assert np.all(np.abs(counts - 5000) < 5 * 67)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.floats(-10, 10, width=32), min_size=1, max_size=40), st.floats(0, 1, width=32))
def test_returns_obey_their_recursion(rewards, discount):
    expected, following = [], 0.0
    for reward in reversed(rewards):
        following = reward + discount * following
        expected.append(following)
    found = discounted_returns(jnp.asarray(rewards, jnp.float32), jnp.float32(discount))
    np.testing.assert_allclose(found, expected[::-1], atol=1e-3, rtol=1e-5)


def episode(length, terminated, limit=6):
    """Rewards 1, 2, 3, …; the observation is the time."""
    time = jnp.arange(limit + 1, dtype=jnp.float32)
    valid = jnp.arange(limit) < length
    last = jnp.arange(limit) == length - 1
    return Batch(
        observation=jnp.minimum(time, length)[:, None],
        action=jnp.zeros(limit, jnp.int32),
        reward=jnp.where(valid, time[1:], 0.0),
        terminated=last & terminated,
        valid=valid,
    )


HALF = EpisodicHyper(actor_lr=0.0, critic_lr=0.0, discount=jnp.float32(0.5), baseline_decay=0.0)
# (terminated, time_limit) → does the value of the last state count?
CASES = [(True, "bootstrap", False), (True, "terminal", False), (False, "bootstrap", True), (False, "terminal", False)]


@pytest.mark.parametrize(("terminated", "time_limit", "counts"), CASES)
def test_expected_sarsa_counts_on_the_next_state_unless_it_is_the_end(terminated, time_limit, counts):
    rows = expected_sarsa(episode(3, terminated), HALF, time_limit)
    np.testing.assert_array_equal(rows.reward[:3], [1, 2, 3])
    np.testing.assert_array_equal(rows.next_observation[:3, 0], [1, 2, 3])
    np.testing.assert_array_equal(rows.bootstrap[:3], [0.5, 0.5, 0.5 if counts else 0])


@pytest.mark.parametrize(("terminated", "time_limit", "counts"), CASES)
def test_monte_carlo_is_the_whole_return(terminated, time_limit, counts):
    rows = monte_carlo(episode(3, terminated), HALF, time_limit)
    np.testing.assert_allclose(rows.reward[:3], [1 + 0.5 * (2 + 0.5 * 3), 2 + 0.5 * 3, 3])
    np.testing.assert_array_equal(rows.next_observation[:3, 0], [3, 3, 3])
    np.testing.assert_allclose(rows.bootstrap[:3], [0.125, 0.25, 0.5] if counts else [0, 0, 0])


# --- some rings of many ----------------------------------------------------------------------------------------------

RINGS, ROWS, CAPACITY = 4, 5, 7


def random_rings(random):
    """Rings that each hold something of their own."""
    return [add(add(ring.empty(CAPACITY, 2), *random_rows(random)), *random_rows(random)) for _ in range(RINGS)]


def random_rows(random, *lead):
    """Rows, and how many of them count: at least one."""

    def numbers(*shape):
        return random.random((*lead, *shape), np.float32)

    action = random.integers(0, 9, (*lead, ROWS), np.int32)
    rows = ring.Transitions(numbers(ROWS, 2), action, numbers(ROWS), numbers(ROWS, 2), numbers(ROWS))
    return rows, np.arange(ROWS) < random.integers(1, ROWS + 1, (*lead, 1))


def stacked(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def at(tree, i):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[i], tree)


def assert_same(found, expected):
    jax.tree.map(np.testing.assert_array_equal, found, expected)


add, add_among = jax.jit(ring.add), jax.jit(ring.add_among)
sample = jax.jit(ring.sample, static_argnums=2)
sample_among = jax.jit(ring.sample_among, static_argnums=3)


def some_rings(test):
    return settings(max_examples=30, deadline=None)(given(st.integers(0, 9999))(test))


@some_rings
def test_adding_to_some_rings_is_adding_to_each_and_to_no_other(seed):
    random = np.random.default_rng(seed)
    rings = random_rings(random)
    which = random.permutation(RINGS + 2)[:3]  # those from RINGS on are past the end
    rows, valid = random_rows(random, 3)
    after = add_among(stacked(rings), which, rows, valid)
    for place, one in enumerate(rings):
        found = [i for i in range(3) if which[i] == place]
        expected = add(one, at(rows, found[0]), valid[found[0]]) if found else one
        assert_same(at(after, place), expected)


@some_rings
def test_sampling_from_some_rings_is_sampling_from_each(seed):
    random = np.random.default_rng(seed)
    rings = random_rings(random)
    which, keys = random.permutation(RINGS)[:3], jax.random.split(jax.random.key(seed), 3)
    found = sample_among(stacked(rings), which, keys, (2, 3))
    for i, place in enumerate(which):
        assert_same(at(found, i), sample(rings[place], keys[i], (2, 3)))
