"""The paper's Atari learner: one network, one combined loss, one RMSProp step after every short rollout.

Acting and learning share their forward pass: while weights stand still it is the same computation, so acting hands its
activations on and learning goes backward from them.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mean_actor_critic.learning import kernels, native
from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.combined import State, combined_loss, descend, told_by, value
from mean_actor_critic.learning.kernels import Backward, Trunk
from mean_actor_critic.learning.networks import Activations, GameNetwork, Layer, Networks
from mean_actor_critic.learning.types import Acted, Batch, Context, Learner, Metrics
from mean_actor_critic.spec.learners import GameRolloutSetup as Setup
from mean_actor_critic.spec.learners import RolloutHyper as Hyper
from mean_actor_critic.spec.learners import Shapes


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
    network: GameNetwork = state.network
    return network


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
    told = told_by(setup, hyper, batch, outputs)

    def loss(logits: Array, values: Array) -> Array:
        return combined_loss(setup, hyper, logits, values, *told)

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


LEARNER = Learner(init, actor, act, learn, keep, player, value=value)
