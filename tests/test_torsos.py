"""Networks by observation: every kind is seen, played and kept; layer normalisation is what it is defined as."""

import functools

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

import mean_actor_critic as mac
from mean_actor_critic.environments.spaces import flatten, parts_of
from mean_actor_critic.learning import torsos
from mean_actor_critic.learning.kernels import OPERATIONS
from mean_actor_critic.learning.torsos import stacked_network
from mean_actor_critic.spec.learners import CHOICE, IMAGE, VECTOR, Part, ReplayedSetup

KINDS = {
    "vector": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "tabular": spaces.Discrete(7),
    "bytes": spaces.Box(0, 255, (5,), np.uint8),
    "image, channels last": spaces.Box(0, 255, (7, 7, 3), np.uint8),
    "image, channels first": spaces.Box(0, 1, (4, 10, 10), np.float32),
    "image, binary": spaces.Box(0, 1, (10, 10, 4), bool),
    "screens": spaces.Box(0, 255, (2, 40, 40), np.uint8),
    "mixture": spaces.Dict({"map": spaces.Box(0, 255, (6, 6, 2), np.uint8), "speed": spaces.Box(-1, 1, (2,)),
                            "gear": spaces.Discrete(3)}),
}  # fmt: skip


class Shown(gymnasium.Env):
    """Shows anything at all for a few steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, space):
        self.observation_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.time += 1
        return self.observation_space.sample(), float(action), self.time == 4, False, {}


def test_parts_say_what_is_an_image_and_what_fits_into_bytes():
    found = {name: parts_of(space) for name, space in KINDS.items()}
    assert found["vector"] == (Part(VECTOR, (3,)),)
    assert found["tabular"] == (Part(CHOICE, (7,), in_bytes=True),)
    assert found["bytes"] == (Part(VECTOR, (5,), in_bytes=True),)
    assert found["image, channels last"] == (Part(IMAGE, (7, 7, 3), in_bytes=True),)
    assert found["image, binary"] == (Part(IMAGE, (10, 10, 4), in_bytes=True),)
    assert [part.kind for part in found["mixture"]] == [CHOICE, IMAGE, VECTOR]  # a Dict is in the order of its keys
    assert torsos.image_shape(found["image, channels first"][0]) == (10, 10, 4)
    assert torsos.image_shape(found["screens"][0]) == (40, 40, 2)
    assert parts_of(spaces.Box(-1, 1, (3, 4))) == (Part(VECTOR, (12,)),)


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_jax_see_the_same(kind):
    space = KINDS[kind]
    space.seed(0)
    parts = parts_of(space)
    seen = np.stack([flatten(space, space.sample()) for _ in range(4)]) / 10
    shapes = torsos.torso_shapes(parts, (8, 6), 3, layer_norm=True)
    weights = torsos.initial_torso(jax.random.key(0), shapes)
    fast = jax.jit(functools.partial(torsos.torso_outputs, parts, operations=OPERATIONS))(weights, jnp.asarray(seen))
    plain = torsos.torso_outputs(parts, jax.tree.map(np.asarray, weights), seen.astype(np.float32))
    assert fast.shape == (4, 3)
    np.testing.assert_allclose(fast, plain, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("choices", "hidden", "kept"), [((5,), (), True), ((100,), (), True), ((3, 2), (), True),
                                                         ((5,), (8,), False)])  # fmt: skip
def test_what_a_table_learns_of_one_choice_says_nothing_of_others(choices, hidden, kept):
    parts = tuple(Part(CHOICE, (n,), in_bytes=True) for n in choices)
    one, other = (np.concatenate([np.eye(n, dtype=np.float32)[place] for n in choices])[None] for place in (0, 1))
    weights = torsos.initial_torso(jax.random.key(0), torsos.torso_shapes(parts, hidden, 3, layer_norm=True))
    outputs = functools.partial(torsos.torso_outputs, parts, operations=OPERATIONS)
    gradient = jax.grad(lambda weights: jnp.sum(outputs(weights, jnp.asarray(one)) ** 2))(weights)
    learned = jax.tree.map(lambda weight, move: weight - move, weights, gradient)
    before, after = (np.asarray([outputs(w, jnp.asarray(seen)) for seen in (one, other)]) for w in (weights, learned))
    assert np.abs(after[0] - before[0]).max() > 1e-4
    assert (np.abs(after[1] - before[1]).max() == 0) == kept


def test_an_image_is_the_same_image_wherever_its_channels_are():
    first, last = Part(IMAGE, (3, 8, 8)), Part(IMAGE, (8, 8, 3))
    image = np.random.default_rng(0).normal(size=(2, 8, 8, 3)).astype(np.float32)
    weights = torsos.initial_torso(jax.random.key(0), torsos.torso_shapes((last,), (4,), 2, layer_norm=True))
    one = torsos.torso_outputs((last,), weights, jnp.asarray(image.reshape(2, -1)))
    other = torsos.torso_outputs((first,), weights, jnp.asarray(np.moveaxis(image, -1, 1).reshape(2, -1)))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_layers_are_normalised_as_defined():
    random, part = np.random.default_rng(0), Part(VECTOR, (5,))
    weights = torsos.initial_torso(jax.random.key(0), torsos.torso_shapes((part,), (16,), 2, layer_norm=True))
    (layer,) = weights.hidden
    layer = layer._replace(
        layer=layer.layer._replace(bias=jnp.asarray(random.normal(size=16), jnp.float32)),
        gain=jnp.asarray(random.normal(size=16), jnp.float32),
        shift=jnp.asarray(random.normal(size=16), jnp.float32),
    )
    weights, x = weights._replace(hidden=(layer,)), random.normal(size=(6, 5)).astype(np.float32)
    inner = x @ np.asarray(layer.layer.weight) + np.asarray(layer.layer.bias)
    scaled = (inner - inner.mean(-1, keepdims=True)) / np.sqrt(inner.var(-1, keepdims=True) + torsos.EPSILON)
    hidden = np.maximum(scaled * np.asarray(layer.gain) + np.asarray(layer.shift), 0)
    wanted = hidden @ np.asarray(weights.head.weight) + np.asarray(weights.head.bias)
    np.testing.assert_allclose(torsos.torso_outputs((part,), weights, jnp.asarray(x)), wanted, rtol=1e-3, atol=1e-5)


def test_the_fast_normalisation_has_the_gradients_of_the_plain_one():
    """Also for several networks at once, each with gain and shift of its own."""
    key = jax.random.key(0)
    x, gain, shift, weight = (jax.random.normal(jax.random.fold_in(key, i), (3, *shape)) for i, shape in
                              enumerate([(5, 6), (6,), (6,), (5, 6)]))  # fmt: skip
    x -= jnp.mean(x, axis=-1, keepdims=True)

    def gradients(function):
        return jax.grad(lambda *given: jnp.sum(jax.vmap(function)(*given) * weight), argnums=(0, 1, 2))(x, gain, shift)

    for fast, plain in zip(gradients(OPERATIONS.rectified), gradients(torsos.rectified), strict=True):
        np.testing.assert_allclose(fast, plain, rtol=1e-4, atol=1e-5)


def test_weights_of_choices_among_many_are_looked_up(monkeypatch):
    """In outputs and gradients the same as the product with one 1 among 0s, wherever the choice is."""
    parts = (Part(VECTOR, (2,)), Part(CHOICE, (90,)), Part(CHOICE, (3,)), Part(CHOICE, (70,)))
    key = jax.random.key(0)
    chosen = [jax.nn.one_hot(jax.random.randint(jax.random.key(n), (5,), 0, n), n) for n in (90, 3, 70)]
    seen = jnp.concatenate([jax.random.normal(key, (5, 2)), *chosen], axis=-1)
    weights = torsos.initial_torso(key, torsos.torso_shapes(parts, (8,), 2, layer_norm=True))

    def found():
        value = jax.value_and_grad(lambda weights: jnp.sum(torsos.torso_outputs(parts, weights, seen, OPERATIONS) ** 2))
        return jax.tree.leaves(value(weights))

    looked_up = found()
    monkeypatch.setattr(torsos, "MANY", 1000)
    for one, other in zip(looked_up, found(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("shape", [(5, 5, 2), (7, 9, 3), (10, 10, 4), (13, 20, 1), (37, 41, 1)])
def test_every_pixel_of_an_image_counts(shape):
    part = Part(IMAGE, shape)
    weights = torsos.initial_torso(jax.random.key(0), torsos.torso_shapes((part,), (6,), 1, layer_norm=False))
    images = jax.random.normal(jax.random.key(1), (8, part.size))
    of_pixels = jax.grad(lambda seen: jnp.sum(torsos.torso_outputs((part,), weights, seen)))(images)
    assert (np.abs(of_pixels).max(axis=0) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tabular", "mixture"])
def test_every_kind_is_trained_on_resumed_and_kept(kind, tmp_path):
    space = KINDS[kind]
    settings = {"hidden": (4,), "sequences": 2, "sequence_length": 2, "updates_per_step": 1, "environments": 2}
    make = functools.partial(Shown, space)
    run = mac.train(make, steps=24, out=tmp_path / "run", progress=False, warm_up=8, replay_capacity=40, **settings)
    assert run.finished
    assert run.experiment.learner == "replayed"
    agent = run.agent()
    agent.save(tmp_path / "agent.safetensors")
    again = mac.Agent.load(tmp_path / "agent.safetensors")
    seen = space.sample()
    np.testing.assert_array_equal(agent.action_probabilities(seen), again.action_probabilities(seen))
    longer = mac.resume(run, make, steps=32, progress=False)
    assert longer.finished
    assert longer.steps_done.tolist() == [32]


def test_one_choice_has_a_table_and_everything_else_layers():
    choice, vector = Part(CHOICE, (5,), in_bytes=True), Part(VECTOR, (2,))
    assert ReplayedSetup(parts=(choice,)).layers == ()
    assert ReplayedSetup(parts=(choice,), table=False).layers == (64, 64)
    for parts in ((vector,), (choice, choice), (choice, vector)):
        assert ReplayedSetup(parts=parts).layers == (64, 64)
    table = stacked_network(ReplayedSetup(parts=(choice,))).shapes((5,), 3)
    assert table.hidden == ()
    assert table.head.weight == (5, 3)
