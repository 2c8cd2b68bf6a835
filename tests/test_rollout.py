"""The Atari learner against computations of its own in NumPy and float64, and its fast paths against plain ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from mean_actor_critic.engines import vector_programs
from mean_actor_critic.learning import combined, kernels, rollout
from mean_actor_critic.learning.networks import (
    CONVOLUTIONS,
    GameNetwork,
    Layer,
    convolve,
    game_layer_shapes,
    game_outputs,
    initial_game_network,
)
from mean_actor_critic.learning.targets import n_step
from mean_actor_critic.learning.types import Acted, Batch, Context
from mean_actor_critic.spec.learners import GameRolloutSetup, RolloutHyper

ALGORITHMS = ("mac", "advantage_actor_critic", "a2c")
HYPER = RolloutHyper()


def setup_of(algorithm, **more):
    return GameRolloutSetup(algorithm, **more)


# --- targets ---------------------------------------------------------------------------------------------------------


def test_n_step_returns_end_where_episodes_end():
    # columns: goes on; terminal in the middle; cut off in the middle; terminal at the end; cut off at the end
    reward = np.array([[1, 1, 1, 1, 1], [2, 2, 2, 2, 2], [4, 4, 4, 4, 4]], float)
    over = np.array([[0, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 0, 0, 1, 1]], bool)
    beyond = np.array([[0, 0, 0, 0, 0], [0, 0, 10, 0, 0], [0, 0, 0, 0, 30]], float)
    last = np.array([100, 200, 300, 400, 500], float)
    expected = [
        [1 + 0.5 * 2 + 0.25 * 4 + 0.125 * 100, 1 + 0.5 * 2, 1 + 0.5 * 2 + 0.25 * 10, 3.0, 3 + 0.125 * 30],
        [2 + 0.5 * 4 + 0.25 * 100, 2.0, 2 + 0.5 * 10, 4.0, 4 + 0.25 * 30],
        [4 + 0.5 * 100, 4 + 0.5 * 200, 4 + 0.5 * 300, 4.0, 4 + 0.5 * 30],
    ]
    found = n_step(*map(jnp.asarray, (reward, over, beyond, last)), jnp.float32(0.5))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# --- the loss --------------------------------------------------------------------------------------------------------


def numpy_loss(algorithm, hyper, logits, values, action, returns, weight):
    """The loss and its gradients with respect to logits and values, by hand."""
    shifted = logits - logits.max(1, keepdims=True)
    log_policy = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    policy = np.exp(log_policy)
    rows = np.arange(len(action))
    taken = np.eye(logits.shape[1])[action]
    if algorithm == "mac":
        actor = policy * values
    elif algorithm == "advantage_actor_critic":
        actor = taken * (values - (policy * values).sum(1, keepdims=True))
    else:
        actor = taken * (returns - values[:, 0])[:, None]
    chosen = values[:, 0] if algorithm == "a2c" else values[rows, action]
    entropy = -(policy * log_policy).sum(1)
    loss = (
        -hyper.policy_weight * (weight * (actor * log_policy).sum(1)).sum()
        - hyper.entropy_weight * (weight * entropy).sum()
        + hyper.value_weight * (weight * (chosen - returns) ** 2 / 2).sum()
    )
    of_logits = weight[:, None] * (
        -hyper.policy_weight * (actor - policy * actor.sum(1, keepdims=True))
        + hyper.entropy_weight * policy * (log_policy + entropy[:, None])
    )
    of_values = np.zeros_like(values)
    of_values[rows, 0 if algorithm == "a2c" else action] = hyper.value_weight * weight * (chosen - returns)
    return loss, of_logits, of_values


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_combined_loss_and_its_gradient(algorithm):
    random = np.random.default_rng(0)
    states, actions = 7, 4
    logits = random.normal(size=(states, actions))
    values = 3 * random.normal(size=(states, 1 if algorithm == "a2c" else actions))
    action, returns = random.integers(actions, size=states), random.normal(size=states)
    weight = np.array([1, 1, 0, 1, 1, 0, 1]) / 5  # two states do not count
    with jax.enable_x64(True):
        found = jax.value_and_grad(combined.combined_loss, argnums=(2, 3))(
            setup_of(algorithm), HYPER, *map(jnp.asarray, (logits, values, action, returns, weight))
        )
    loss, of_logits, of_values = numpy_loss(algorithm, HYPER, logits, values, action, returns, weight)
    np.testing.assert_allclose(found[0], loss, rtol=1e-12)
    np.testing.assert_allclose(found[1][0], of_logits, rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(found[1][1], of_values, rtol=1e-10, atol=1e-14)


# --- RMSProp ---------------------------------------------------------------------------------------------------------


def tiny_state(weights):
    layer = Layer(jnp.asarray(weights, jnp.float32), jnp.zeros(2))
    network = GameNetwork((), layer, layer, layer)
    return combined.State(network, jax.tree.map(jnp.ones_like, network), jnp.int32(0), jnp.int32(0))


@pytest.mark.parametrize("schedule", ["constant", "linear"])
def test_rmsprop_is_tensorflow_s_with_a_clipped_gradient(schedule):
    random = np.random.default_rng(1)
    weights = random.normal(size=(3, 2))
    state, setup, updates = tiny_state(weights), setup_of("mac", schedule=schedule), 8
    expected = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(state.network)]
    square = [np.ones_like(leaf) for leaf in expected]
    for step in range(4):
        size = 0.01 if step % 2 else 3.0  # below and above the norm that is cut
        gradient = jax.tree.map(lambda x, size=size: jnp.float32(size * random.normal(size=x.shape)), state.network)
        parts = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(gradient)]
        norm = np.sqrt(sum((part**2).sum() for part in parts))
        parts = [part * min(1, HYPER.gradient_norm / norm) for part in parts]
        rate = HYPER.learning_rate * (1 - step / updates if schedule == "linear" else 1)
        square = [HYPER.rms_decay * s + (1 - HYPER.rms_decay) * g**2 for s, g in zip(square, parts, strict=True)]
        expected = [
            w - rate * g / np.sqrt(s + HYPER.rms_epsilon) for w, g, s in zip(expected, parts, square, strict=True)
        ]
        state = combined.descend(setup, HYPER, state, gradient, jnp.int32(updates))
    for found, wanted in zip(jax.tree.leaves(state.network), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7)
    assert (int(state.update), int(state.diverged_at)) == (4, 0)


def test_a_gradient_that_is_not_finite_freezes_the_learner():
    state = tiny_state(np.ones((3, 2)))
    bad = jax.tree.map(lambda x: x.at[0].set(jnp.nan), state.network)
    frozen = combined.descend(setup_of("mac"), HYPER, state, bad, jnp.int32(8))
    after = combined.descend(setup_of("mac"), HYPER, frozen, state.network, jnp.int32(8))
    assert (int(frozen.diverged_at), int(after.diverged_at), int(after.update)) == (1, 1, 2)
    for old, new in zip(jax.tree.leaves(state.network), jax.tree.leaves(after.network), strict=True):
        np.testing.assert_array_equal(old, new)


# --- the network -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("side", "channels", "layer"), [(84, 4, 0), (20, 32, 1), (9, 64, 2), (37, 3, 0)])
def test_the_convolution_by_matrix_products_equals_xla_s_forward_and_backward(side, channels, layer):
    kernel, stride, filters = CONVOLUTIONS[layer]
    random = np.random.default_rng(2)
    x = jnp.asarray(random.normal(size=(2, side, side, channels)), jnp.float32)
    weight = jnp.asarray(random.normal(size=(kernel, kernel, channels, filters)), jnp.float32)
    ours, back = jax.vjp(lambda x, w: convolve(x, w, stride), x, weight)
    theirs, back_of_theirs = jax.vjp(lambda x, w: kernels.convolve(x, w, stride), x, weight)
    assert ours.shape == theirs.shape
    size = float(jnp.abs(theirs).max())
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5 * size)
    gradient = jnp.asarray(random.normal(size=ours.shape), jnp.float32)
    for found, wanted in zip(back(gradient), back_of_theirs(gradient), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5 * float(jnp.abs(wanted).max()))


def random_network(values, seed=0):
    return initial_game_network(jax.random.key(seed), game_layer_shapes((2, 36, 36), 3, values))


def test_numpy_and_jax_see_the_same():
    network = random_network(3)
    observation = np.random.default_rng(3).integers(0, 256, (2, 2, 36, 36), np.uint8)
    on_host = game_outputs(jax.tree.map(np.asarray, network), observation)
    compiled = jax.jit(lambda n, o: game_outputs(n, o, kernels.XLA.forward))(network, observation)
    np.testing.assert_allclose(on_host.logits, compiled.logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(on_host.values, compiled.values, rtol=1e-4, atol=1e-5)


def test_weights_begin_orthogonal_and_biases_at_zero():
    assert game_layer_shapes((4, 84, 84), 6, 6).features.weight == (3136, 512)
    network = initial_game_network(jax.random.key(0), game_layer_shapes((4, 52, 52), 6, 6))
    layers = [*network.convolutions, network.features, network.policy, network.critic]
    for layer, scale in zip(layers, [2, 2, 2, 2, 1, 1], strict=True):
        matrix = np.asarray(layer.weight).reshape(-1, layer.weight.shape[-1])
        np.testing.assert_allclose(matrix.T @ matrix, scale * np.eye(matrix.shape[1]), atol=1e-4)
        assert not np.any(layer.bias)


def test_going_back_from_the_acting_pass_is_the_gradient_of_the_loss():
    """The gradient that an update uses, against JAX's own of forward pass and loss together."""
    random = np.random.default_rng(4)
    setup, environments, steps = setup_of("mac", rollout_steps=2), 3, 2
    network = random_network(3)
    observations = random.integers(0, 256, (steps, environments, 2, 36, 36), np.uint8)
    action = jnp.asarray(random.integers(3, size=steps * environments))
    returns = jnp.asarray(random.normal(size=steps * environments), jnp.float32)
    weight = jnp.full(steps * environments, 1 / (steps * environments))

    def outcome(logits, values):
        return combined.combined_loss(setup, HYPER, logits, values, action, returns, weight)

    def whole(network):
        outputs = [game_outputs(network, seen, kernels.XLA.forward) for seen in observations]
        return outcome(*(jnp.concatenate([getattr(o, part) for o in outputs]) for part in ("logits", "values")))

    def in_parts(network):
        acted = [game_outputs(network, seen) for seen in observations]
        outputs = (jnp.concatenate([getattr(step, part) for step in acted]) for part in ("logits", "values"))
        return rollout.backward(network, acted, *jax.grad(outcome, argnums=(0, 1))(*outputs), kernels.XLA.backward)

    for found, wanted in zip(
        jax.tree.leaves(jax.jit(in_parts)(network)), jax.tree.leaves(jax.jit(jax.grad(whole))(network)), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-6 + 1e-5 * float(jnp.abs(wanted).max()))


@pytest.mark.slow
@pytest.mark.parametrize("pipelined", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_update_descends_the_loss_of_its_rollout(algorithm, pipelined):
    """The compiled programs of the engine against JAX's own gradient, step after step."""
    random, environments, steps = np.random.default_rng(7), 4, 3
    setup = setup_of(algorithm, rollout_steps=steps, pipelined=pipelined)
    values = 1 if algorithm == "a2c" else 3
    network, decided = random_network(values), random_network(values, seed=1 if pipelined else 0)
    state = combined.State(network, jax.tree.map(jnp.ones_like, network), jnp.int32(3), jnp.int32(0))
    observations = random.integers(0, 256, (steps + 1, environments, 2, 36, 36), np.uint8)
    shape = (steps, environments)

    def act(network, observation):
        return vector_programs.forward_program(setup)(network, observation)._replace(observation=observation)

    acted = tuple(act(decided, seen) for seen in observations[:-1])
    after = act(network, observations[-1]) if pipelined else observations[-1]
    over = random.random(shape) < 0.3
    cut_off = over & (random.random(shape) < 0.5)
    batch = Batch(
        action=random.integers(3, size=shape),
        reward=random.normal(size=shape).astype(np.float32),
        terminated=over & ~cut_off,
        truncated=cut_off,
        value_beyond=random.normal(size=shape).astype(np.float32),
        valid=random.random(shape) < 0.7,
        acted=Acted(acted, after, decided if pipelined else None),
    )
    own = jax.device_put(jax.tree.map(np.array, state))  # which the program consumes
    found = vector_programs.learning_program(setup)(HYPER, own, batch, Context(np.int32(0), np.int32(9)))

    last_value = rollout.value(setup, game_outputs(network, jnp.asarray(observations[-1])))
    returns = n_step(jnp.sign(batch.reward), over, batch.value_beyond, last_value, HYPER.discount)
    weight = jnp.asarray(batch.valid / batch.valid.sum(), jnp.float32)

    def loss(network):
        outputs = [game_outputs(network, jnp.asarray(seen)) for seen in observations[:-1]]
        return sum(
            combined.combined_loss(
                setup,
                HYPER,
                outputs[t].logits,
                outputs[t].values,
                jnp.asarray(batch.action[t]),
                returns[t],
                weight[t],
            )
            for t in range(steps)
        )

    wanted = combined.descend(setup, HYPER, state, jax.grad(loss)(decided), jnp.int32(9))
    for one, other, before in zip(*map(jax.tree.leaves, (found.network, wanted.network, network)), strict=True):
        moved = np.abs(np.asarray(other) - np.asarray(before)).max()
        assert moved > 0
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-3 * moved)


def learn_from(algorithm, hyper, state, batch, acted, last_value):
    """An update by a rollout, after which every state is worth `last_value`: pipelined, outputs can be given for it."""
    last = acted[-1]
    after = last._replace(values=jnp.full_like(last.values, last_value))
    setup = setup_of(algorithm, rollout_steps=len(acted), pipelined=True)
    batch = batch._replace(acted=Acted(tuple(acted), after, None))
    context = Context(jnp.int32(0), jnp.int32(9))
    return rollout.learn(setup, context, hyper, state, batch, None, maps_backward=kernels.XLA.backward)[0]


def test_a_masked_step_teaches_nothing():
    random = np.random.default_rng(5)
    network = random_network(3)
    state = combined.State(network, jax.tree.map(jnp.ones_like, network), jnp.int32(0), jnp.int32(0))
    acted = game_outputs(network, jnp.asarray(random.integers(0, 256, (2, 2, 36, 36), np.uint8)))

    @jax.jit
    def learn(action, reward, change):
        """From two environments, of which the second one's step is masked, and seen changed."""
        changed = acted._replace(logits=acted.logits.at[1].add(change), values=acted.values.at[1].add(change))
        batch = Batch(
            action=jnp.array([[1, action]]),
            reward=jnp.array([[1.0, reward]]),
            terminated=jnp.zeros((1, 2), bool),
            truncated=jnp.zeros((1, 2), bool),
            value_beyond=jnp.zeros((1, 2)),
            valid=jnp.array([[True, False]]),
        )
        return learn_from("mac", HYPER, state, batch, (changed,), 1.0).network

    one, other = learn(0, 5.0, 0.0), learn(2, -5.0, 0.25)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(np.any(a != b) for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(network), strict=True))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_nothing_crosses_the_reset_between_two_games(algorithm):
    """A game ends, a masked step resets it, the next one begins: the gradient of the heads' biases by hand."""
    values = 1 if algorithm == "a2c" else 3
    network = random_network(values)
    state = combined.State(network, jax.tree.map(jnp.ones_like, network), jnp.int32(0), jnp.int32(0))
    seen = np.random.default_rng(8).integers(0, 256, (3, 1, 2, 36, 36), np.uint8)
    acted = [game_outputs(network, jnp.asarray(one)) for one in seen]
    action, last_value = np.array([2, 1, 0]), 5.0
    batch = Batch(
        action=jnp.asarray(action)[:, None],
        reward=jnp.array([[1.0], [7.0], [-1.0]]),
        terminated=jnp.array([[True], [False], [False]]),
        truncated=jnp.zeros((3, 1), bool),
        value_beyond=jnp.zeros((3, 1)),
        valid=jnp.array([[True], [False], [True]]),
    )
    # steps that are the gradient itself: nothing is cut, and the mean of squares stays 1
    plain = RolloutHyper(learning_rate=1.0, gradient_norm=1e9, rms_decay=1.0, rms_epsilon=1e-30)
    found = learn_from(algorithm, plain, state, batch, acted, last_value).network
    returns = np.array([1.0, np.nan, -1 + plain.discount * last_value])  # what the masked step has is not used
    rows = [0, 2]
    logits, q = (
        np.concatenate([np.asarray(getattr(o, part), np.float64) for o in acted]) for part in ("logits", "values")
    )
    _, of_logits, of_values = numpy_loss(
        algorithm, plain, logits[rows], q[rows], action[rows], returns[rows], np.array([0.5, 0.5])
    )
    for head, gradient in (("policy", of_logits), ("critic", of_values)):
        moved = np.asarray(getattr(network, head).bias) - np.asarray(getattr(found, head).bias)
        np.testing.assert_allclose(moved, gradient.sum(0), rtol=1e-4, atol=1e-6)
        assert np.abs(moved).max() > 1e-3


@pytest.mark.slow
@pytest.mark.optimised  # it takes ten times as long otherwise
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_paper_s_settings_learn_what_two_screens_ask_for(algorithm):
    """Each screen pays for one action; every episode is one step long."""
    environments = 4  # the paper has 16, which take three times as long to learn the same
    screen = np.random.default_rng(6).integers(0, 256, (2, 2, 36, 36), np.uint8)
    context = np.arange(environments) % 2
    observation = jnp.asarray(screen[context])
    network = random_network(1 if algorithm == "a2c" else 3)
    state = combined.State(network, jax.tree.map(jnp.ones_like, network), jnp.int32(0), jnp.int32(0))

    def step(state, key):
        acted = game_outputs(state.network, observation)
        action = jax.random.categorical(key, acted.logits)
        batch = Batch(
            action=action[None],
            reward=jnp.where(action == context, 7.0, 0.0)[None],
            terminated=jnp.ones((1, environments), bool),
            truncated=jnp.zeros((1, environments), bool),
            value_beyond=jnp.zeros((1, environments)),
            valid=jnp.ones((1, environments), bool),
        )
        return learn_from(algorithm, HYPER, state, batch, (acted,), 0.0), None

    # until RMSProp has forgotten that its mean square began at 1: 0.99 ** 1500 is 3e-7, while 0.99 ** 400 is still 0.02
    keys = jax.random.split(jax.random.key(0), 1500)
    state, _ = jax.jit(lambda state: jax.lax.scan(step, state, keys))(state)
    policy = jax.nn.softmax(game_outputs(state.network, observation).logits)
    assert float(policy[jnp.arange(environments), context].min()) > 0.9
