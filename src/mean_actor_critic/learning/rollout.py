"""The paper's Atari learner: one network, one combined loss, one RMSProp step after every short rollout.

Acting and learning share their forward pass: while weights stand still it is the same computation, so acting hands its
activations on and learning goes backward from them.
"""

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mean_actor_critic.learning import kernels, native
from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.estimators import estimator_of, policy_loss
from mean_actor_critic.learning.kernels import Backward, Trunk, log_softmax
from mean_actor_critic.learning.networks import Activations, GameNetwork, Layer, Networks, softmax, sum_over_actions
from mean_actor_critic.learning.targets import n_step
from mean_actor_critic.learning.types import Acted, Batch, Context, Evidence, Learner, Metrics
from mean_actor_critic.spec.learners import RolloutHyper as Hyper
from mean_actor_critic.spec.learners import RolloutSetup as Setup
from mean_actor_critic.spec.learners import Shapes


class State(NamedTuple):
    """Everything that a trial carries from one update to the next."""

    network: GameNetwork
    mean_square: GameNetwork  # RMSProp's running mean of squared gradients
    update: Int[Array, ""]  # updates so far
    diverged_at: Int[Array, ""]  # the update (from 1) whose gradient was not finite; 0: none


def trunk() -> Trunk:
    """How to convolve here."""
    return native.NATIVE if native.compiler() else kernels.XLA


def init(setup: Setup, shapes: Shapes, key: Array) -> State:
    """A trial before its first update."""
    network = network_of(setup)
    values = 1 if setup.has_state_values else shapes.actions
    weights = network.init(key, network.shapes(*shapes, values))
    # 1, not 0: as in TensorFlow, where the first steps are small ones
    return State(weights, jax.tree.map(jnp.ones_like, weights), jnp.int32(0), jnp.int32(0))


def actor(setup: Setup, state: State) -> GameNetwork:  # noqa: ARG001
    """The part of a state that plays."""
    return state.network


def keep(setup: Setup, state: State) -> Networks:  # noqa: ARG001
    """What an agent keeps of a state."""
    return Networks(network=state.network)


def player(networks: Networks) -> GameNetwork:
    """The actor that plays as an agent does."""
    network: GameNetwork = networks.network
    return network


def act(setup: Setup, actor: GameNetwork, observation: Array) -> Activations:
    """The forward pass, all of which learning goes back through."""
    return network_of(setup).outputs(actor, observation, trunk().forward)


def value(setup: Setup, outputs: Activations) -> Float[Array, " n"]:
    """V(s): the critic's own, or its action values averaged as the policy acts."""
    if setup.has_state_values:
        return outputs.values[:, 0]
    return sum_over_actions(softmax(outputs.logits) * outputs.values)


def combined_loss(
    setup: Setup,
    hyper: Hyper,
    logits: Float[Array, "n action"],
    values: Float[Array, "n value"],
    action: Int[Array, " n"],
    returns: Float[Array, " n"],
    state_weight: Float[Array, " n"],
) -> Float[Array, ""]:
    """The paper's loss: policy, entropy and critic, each a mean over states, `state_weight` saying what counts."""
    log_policy = log_softmax(logits)
    policy = jnp.exp(log_policy)
    if setup.has_state_values:
        chosen, q = values[:, 0], jnp.zeros_like(logits)
    else:
        chosen, q = sum_over_actions(values * jax.nn.one_hot(action, values.shape[-1])), values
    evidence = Evidence(policy, q, returns, chosen if setup.has_state_values else jnp.float32(0), action)
    policy_term = policy_loss(log_policy, estimator_of(setup)(evidence), state_weight)
    entropy = -jnp.sum(state_weight * sum_over_actions(policy * log_policy))
    value_term = jnp.sum(state_weight * 0.5 * (chosen - returns) ** 2)
    return hyper.policy_weight * policy_term - hyper.entropy_weight * entropy + hyper.value_weight * value_term


def learn(
    setup: Setup,
    context: Context,
    hyper: Hyper,
    state: State,
    batch: Batch,
    sampled: None = None,
    maps_backward: Backward | None = None,
) -> tuple[State, Metrics]:
    """Learn from one rollout. A state that would become non-finite stays as it is from then on.

    Args:
        setup: of the trial.
        context: for the learning rate's schedule.
        hyper: of the trial.
        state: before.
        batch: what was done and what came of it; its acting pass is an `Acted`.
        sampled: nothing; there is no replay.
        maps_backward: how to go back through the convolutions; None for the fastest way here.
    """
    del sampled
    acted: Acted = batch.acted
    outputs = acted.after if setup.pipelined else act(setup, state.network, acted.after)
    reward = jnp.sign(batch.reward) if setup.clip_rewards else batch.reward
    over = batch.terminated | batch.truncated
    returns = n_step(reward, over, batch.value_beyond, value(setup, outputs), hyper.discount)
    state_weight = batch.valid / jnp.maximum(jnp.sum(batch.valid), 1)
    action, returns, state_weight = (part.ravel() for part in (batch.action, returns, state_weight))

    def loss(logits: Array, values: Array) -> Array:
        return combined_loss(setup, hyper, logits, values, action, returns, state_weight)

    logits, values = (jnp.concatenate([getattr(step, part) for step in acted.steps]) for part in ("logits", "values"))
    of_logits, of_values = jax.grad(loss, argnums=(0, 1))(logits, values)
    network = state.network if acted.actor is None else acted.actor
    gradient = backward(network, acted.steps, of_logits, of_values, maps_backward or trunk().backward)
    # the engine adds up scores of whole games, of which a rollout has only a part
    metrics = Metrics(jnp.sum(batch.reward), jnp.sum(batch.valid, dtype=jnp.int32))
    return descend(setup, hyper, state, gradient, context.updates), metrics


def backward(
    network: GameNetwork,
    acted: Sequence[Activations],
    logits_gradient: Float[Array, "n action"],
    values_gradient: Float[Array, "n value"],
    maps_backward: Backward,
) -> GameNetwork:
    """The gradient of the weights, from the forward pass of each step and the gradient of all their outputs in turn."""
    features = jnp.concatenate([step.features for step in acted])
    features_gradient = logits_gradient @ network.policy.weight.T + values_gradient @ network.critic.weight.T
    features_gradient = jnp.where(features > 0, features_gradient, 0)
    flat_gradient = features_gradient @ network.features.weight.T
    last = jnp.concatenate([step.maps[-1] for step in acted])
    seen, maps = [step.observation for step in acted], [step.maps for step in acted]
    convolutions = maps_backward(network.convolutions, seen, maps, flat_gradient.reshape(last.shape))

    def dense(x: Array, gradient: Array) -> Layer:
        return Layer(x.T @ gradient, jnp.sum(gradient, axis=0))

    return GameNetwork(
        convolutions,
        dense(last.reshape(len(last), -1), features_gradient),
        dense(features, logits_gradient),
        dense(features, values_gradient),
    )


def descend(setup: Setup, hyper: Hyper, state: State, gradient: GameNetwork, updates: Int[Array, ""]) -> State:
    """One step of TensorFlow's RMSProp on a gradient of bounded length."""
    norm = jnp.sqrt(functools.reduce(operator.add, [jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradient)]))
    healthy = (state.diverged_at == 0) & jnp.isfinite(norm)  # which it is only if all of the gradient is
    shorter = hyper.gradient_norm / jnp.maximum(norm, hyper.gradient_norm)
    step = hyper.learning_rate * (1 - state.update / updates if setup.schedule == "linear" else 1.0)

    def averaged(mean_square: Array, leaf: Array) -> Array:
        square = hyper.rms_decay * mean_square + (1 - hyper.rms_decay) * (leaf * shorter) ** 2
        return jnp.where(healthy, square, mean_square)

    def moved(weight: Array, leaf: Array, mean_square: Array) -> Array:
        by = step * leaf * shorter * jax.lax.rsqrt(mean_square + hyper.rms_epsilon)
        return jnp.where(healthy, weight - by, weight)

    # As optax's, but for the barrier: XLA would compute the average twice, and copy the one before to be able to
    mean_square = jax.lax.optimization_barrier(jax.tree.map(averaged, state.mean_square, gradient))
    number = state.update + 1
    return State(
        jax.tree.map(moved, state.network, gradient, mean_square),
        mean_square,
        number,
        jnp.where((state.diverged_at == 0) & ~healthy, number, state.diverged_at),
    )


LEARNER = Learner(init, actor, act, learn, keep, player, value=value)
