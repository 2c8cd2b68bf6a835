"""The bonus for new states against its definition, from the first state to a million later."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mean_actor_critic.learning import novelty

SIZE = 5
VARIANCE = jnp.float32(SIZE)  # of all numbers of an observation together


def seen(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, SIZE)).astype(np.float32)


def direct(state, visited, asked):
    """sqrt(φᵀ (I + Σ φ φᵀ)⁻¹ φ), in float64."""
    phi, wanted = (np.asarray(novelty.features(state, jnp.asarray(x), VARIANCE), np.float64) for x in (visited, asked))
    inverse = np.linalg.inv(np.eye(phi.shape[1]) + phi.T @ phi)
    return np.sqrt(np.einsum("nf,fg,ng->n", wanted, inverse, wanted))


def test_the_bonus_is_that_of_the_direct_inverse():
    state, visited = novelty.init(jax.random.key(0), SIZE, tabular=False), seen(400)
    visit = jax.jit(novelty.visit)
    for step in range(100):
        state = visit(state, visited[4 * step : 4 * step + 4], VARIANCE, jnp.int32(step))
    asked = np.concatenate([visited[:20], seen(20, seed=1), 5 * seen(20, seed=2)])
    np.testing.assert_allclose(
        novelty.bonus(state, jnp.asarray(asked), VARIANCE), direct(state, visited, asked), rtol=1e-3
    )


def test_a_new_state_is_worth_about_1_and_a_known_one_the_less_the_more_often_it_was_visited():
    state = novelty.init(jax.random.key(0), SIZE, tabular=False)
    one = jnp.asarray(seen(1))
    before = float(novelty.bonus(state, one, VARIANCE)[0])
    assert 0.7 < before < 1.3
    visit = jax.jit(novelty.visit)
    for visits in range(1, 65):
        state = visit(state, one, VARIANCE, jnp.int32(visits))
    size = float(jnp.sum(novelty.features(state, one, VARIANCE) ** 2))
    np.testing.assert_allclose(novelty.bonus(state, one, VARIANCE)[0], np.sqrt(size / (1 + 64 * size)), rtol=1e-3)
    assert float(novelty.bonus(state, jnp.asarray(3 * seen(1, seed=5)), VARIANCE)[0]) > 0.5


@pytest.mark.slow
def test_the_bonus_holds_after_a_million_states(monkeypatch):
    """With few features, which is quicker: rounding errors depend on how often the inverse is updated."""
    monkeypatch.setattr(novelty, "FEATURES", 16)
    start = novelty.init(jax.random.key(0), SIZE, tabular=False)
    steps, n = 250_000, 4

    def states(step):
        key = jax.random.fold_in(jax.random.key(9), step)
        return 0.3 * jax.random.normal(key, (n, SIZE))  # most of them are alike, so that few directions are common

    @jax.jit
    def visited(state):
        return jax.lax.fori_loop(
            0, steps, lambda step, state: novelty.visit(state, states(step), VARIANCE, step), state
        )

    state = visited(start)
    exact = np.linalg.inv(np.asarray(state.precision, np.float64))
    asked = np.concatenate([0.3 * seen(20), 3 * seen(20, seed=3)])
    phi = np.asarray(novelty.features(state, jnp.asarray(asked), VARIANCE), np.float64)
    wanted = np.sqrt(np.einsum("nf,fg,ng->n", phi, exact, phi))
    np.testing.assert_allclose(novelty.bonus(state, jnp.asarray(asked), VARIANCE), wanted, rtol=0.02)
    # and what the inverse is of has lost nothing either: its trace counts the states
    assert float(jnp.trace(state.precision)) == pytest.approx(16 + steps * n, rel=0.02)


def test_states_of_a_large_image_in_which_little_changes_are_told_apart():
    """A dot that moves over 20 × 20 pixels: places where it was not yet are new, however often others were visited."""
    pixels = 400
    state, dots = novelty.init(jax.random.key(0), pixels, tabular=False), jnp.eye(pixels)
    variance = jnp.float32(1 - 1 / pixels)
    visit = jax.jit(novelty.visit)
    for step in range(200):
        state = visit(state, dots[step % 20 : step % 20 + 1], variance, jnp.int32(step))
    bonus = np.asarray(novelty.bonus(state, dots, variance))
    assert bonus[:20].max() < 0.4 < 0.6 < np.median(bonus[20:])


def test_of_tabular_observations_it_is_exactly_one_over_the_root_of_the_visits():
    state = novelty.init(jax.random.key(0), 3, tabular=True)
    for step, place in enumerate([0, 0, 1, 0]):
        state = novelty.visit(state, jnp.eye(3)[np.array([place, place])], VARIANCE, jnp.int32(step))
    np.testing.assert_allclose(
        novelty.bonus(state, jnp.eye(3), VARIANCE), [1 / np.sqrt(7), 1 / np.sqrt(3), 1], rtol=1e-6
    )
