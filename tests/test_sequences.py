"""The ring of runs of steps: what is written is what is sampled, in its order, and nothing else."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mean_actor_critic.learning import packing, sequences
from mean_actor_critic.learning.sequences import Rows
from mean_actor_critic.spec.learners import BINARY, CHOICE, IMAGE, VECTOR, Part, all_in_bytes

ENVIRONMENTS = 2
_add = jax.jit(sequences.add)


def play(capacity, steps, ends, dtype=jnp.float32):
    """A ring after some steps, each of which shows its own number, and what each environment showed in turn."""
    ring = sequences.empty(capacity, ENVIRONMENTS, jax.ShapeDtypeStruct((1,), dtype), 3)
    told = [[] for _ in range(ENVIRONMENTS)]
    for step in range(steps):
        number = jnp.array([10 * step + 1, 10 * step + 2])
        over = jnp.array([(step, place) in ends for place in range(ENVIRONMENTS)])
        row = Rows(number[:, None].astype(dtype), number % 3, number / 2, over, jnp.zeros(2, bool), jnp.full(2, 0.5))
        ring = _add(ring, row, over, (number + 5)[:, None].astype(dtype))
        for place in range(ENVIRONMENTS):
            told[place].append((int(number[place]), False))
            if over[place]:
                told[place].append((int(number[place]) + 5, True))
    return ring, told


@given(
    st.sampled_from([4, 7, 24]),
    st.integers(8, 20),
    st.sets(st.tuples(st.integers(0, 19), st.integers(0, 1)), max_size=8),
)
@settings(max_examples=30, deadline=None)
def test_runs_are_successive_rows_of_one_environment_and_the_oldest_are_forgotten(capacity, steps, ends):
    length = 3
    ring, told = play(2 * capacity, steps, ends)
    sampled = jax.tree.map(np.asarray, sequences.sample(ring, jax.random.key(0), (64,), length))
    held = [own[-capacity:] for own in told]
    runs = {tuple(own[i : i + length]) for own in held for i in range(len(own) - length + 1)}
    found = {
        tuple((int(shown[0]), bool(last)) for shown, last in zip(observation, lasts, strict=True))
        for observation, lasts in zip(sampled.observation, sampled.last, strict=True)
    }
    assert found <= runs
    done = ~sampled.last
    np.testing.assert_array_equal(sampled.reward[done], sampled.observation[..., 0][done] / 2)
    np.testing.assert_array_equal(sampled.action[done], sampled.observation[..., 0][done] % 3)
    assert not sampled.reward[sampled.last].any()
    ended = {10 * step + place + 1 for step, place in ends}
    assert set(sampled.observation[..., 0][sampled.terminated].astype(int).tolist()) <= ended


def test_every_run_is_as_likely_as_any_other():
    ring, told = play(100, 10, {(4, 0)})
    first = np.asarray(sequences.sample(ring, jax.random.key(1), (20_000,), 4).observation)[:, 0, 0]
    shown, counts = np.unique(first, return_counts=True)
    assert len(shown) == sum(len(own) - 3 for own in told)
    by_environment = [counts[shown.astype(int) % 10 != 2], counts[shown.astype(int) % 10 == 2]]
    for own in by_environment:  # environments first, then beginnings
        assert np.allclose(own, 10_000 / len(own), rtol=0.15)


def test_bytes_stay_bytes_and_an_inactive_trial_writes_nothing():
    ring, _ = play(16, 5, set(), jnp.uint8)
    assert ring.rows.observation.dtype == jnp.uint8
    row = Rows(jnp.ones((2, 1)), jnp.ones(2, jnp.int32), jnp.ones(2), *[jnp.zeros(2, bool)] * 2, jnp.ones(2))
    still = sequences.add(ring, row, jnp.array([True, False]), jnp.ones((2, 1)), active=jnp.bool_(False))
    jax.tree.map(np.testing.assert_array_equal, still, ring)


@pytest.mark.parametrize("capacity", [6, 7])
def test_the_capacity_is_shared_by_the_environments(capacity):
    ring, _ = play(capacity, 3, set())
    assert ring.rows.action.shape == (-(-capacity // 2), 2)


# --- what it keeps of observations -----------------------------------------------------------------------------------

PARTS = st.one_of(
    st.builds(lambda n: Part(CHOICE, (n,), in_bytes=True), st.sampled_from([1, 2, 7, 256, 257, 500, 65_536, 65_537])),
    st.builds(lambda n: Part(BINARY, (n,), in_bytes=True), st.integers(1, 4)),
    st.builds(lambda in_bytes: Part(VECTOR, (3,), in_bytes), st.booleans()),
    st.just(Part(IMAGE, (5, 5, 1), in_bytes=True)),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=3), st.integers(0, 2**31))
def test_what_is_kept_of_an_observation_is_all_of_it(parts, seed):
    random = np.random.default_rng(seed)
    dtype = np.uint8 if all_in_bytes(parts) else np.float32
    pieces = []
    for part in parts:
        numbers = random.integers(0, 256, (3, 2, part.size)).astype(np.float32)
        if part.kind == CHOICE:
            numbers = (random.integers(part.size, size=(3, 2, 1)) == np.arange(part.size)).astype(np.float32)
        pieces.append(numbers if part.in_bytes else numbers - 100.5)
    flat = np.concatenate(pieces, axis=-1)
    kept = packing.packed(parts, jnp.asarray(flat)).astype(dtype)
    assert kept.shape == (3, 2, packing.packed_size(parts))
    np.testing.assert_array_equal(packing.unpacked(parts, kept), flat)


def test_a_choice_takes_as_many_bytes_as_its_number_needs():
    sizes = {n: packing.packed_size([Part(CHOICE, (n,), in_bytes=True)]) for n in (1, 2, 256, 257, 65_536, 65_537)}
    assert sizes == {1: 1, 2: 1, 256: 1, 257: 2, 65_536: 2, 65_537: 3}
    assert packing.packed_size([Part(CHOICE, (500,), in_bytes=True), Part(VECTOR, (2,))]) == 3
