"""The Atari learner on any environment: its loss and its step, and a network that follows what is shown.

One network has the policy's logits and, beside them, the critic's values as its outputs. Its forward pass is cheap, so
that learning passes over the whole rollout again, as one batch, rather than keep what acting computed step by step.
"""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mean_actor_critic.learning import scales
from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.combined import State, Told, combined_loss, descend, told_by, value
from mean_actor_critic.learning.kernels import OPERATIONS, log_softmax
from mean_actor_critic.learning.networks import Networks, Units, legal, normalize, sum_over_actions
from mean_actor_critic.learning.scales import Health
from mean_actor_critic.learning.types import Batch, Context, Learner, Metrics
from mean_actor_critic.spec.learners import GeneralRolloutSetup as Setup
from mean_actor_critic.spec.learners import RolloutHyper as Hyper
from mean_actor_critic.spec.learners import Shapes

LARGEST_WEIGHT = 1e6  # beyond which a trial counts as diverged, though its gradient may be finite, or 0


class Actor(NamedTuple):
    """What plays."""

    network: Any
    scale: Any  # `Units`, where observations are scaled


class Outputs(NamedTuple):
    """What the network makes of observations."""

    logits: Float[Array, "*n action"]
    values: Float[Array, "*n value"]


def init(setup: Setup, shapes: Shapes, key: Array) -> State:
    """A trial before its first rollout."""
    network = network_of(setup)
    size = sum(part.size for part in setup.parts)
    weights = network.init(key, network.shapes(*shapes))
    return State(
        network=weights,
        mean_square=jax.tree.map(jnp.zeros_like, weights),
        update=jnp.int32(0),
        diverged_at=jnp.int32(0),
        observed=scales.no_observations(size) if setup.scales_observations else (),
        returns=scales.no_returns(setup.environments) if setup.scale_rewards else (),
        health=scales.UNKNOWN,
    )


def actor(setup: Setup, state: State) -> Actor:
    """The part of a state that plays."""
    return Actor(state.network, _scale(setup, state))


def _scale(setup: Setup, state: State) -> Any:
    """What observations are scaled by; () where they are not."""
    return scales.scale_of(state.observed, setup.parts) if setup.scales_observations else ()


def keep(setup: Setup, state: State) -> Networks:
    """What an agent keeps of a state: a stack of one network, whose outputs are for the policy and the critic."""
    return Networks(jax.tree.map(lambda x: x[None], state.network), normalizer=_scale(setup, state))


def player(networks: Networks) -> Actor:
    """The actor that plays as an agent does."""
    return Actor(jax.tree.map(lambda x: x[0], networks.policy), networks.normalizer)


def act(setup: Setup, actor: Actor, observation: Float[Array, "*n observation"], mask: Any = ()) -> Outputs:
    """The policy and the critic in some states."""
    each = network_of(setup).each
    assert each is not None
    seen = observation.astype(jnp.float32)
    if isinstance(actor.scale, Units):
        seen = normalize(seen, actor.scale)
    both = each(actor.network, seen.reshape(-1, seen.shape[-1]), OPERATIONS)
    actions = setup.actions_among(both.shape[-1])
    logits, values = (x.reshape(*seen.shape[:-1], -1) for x in (both[:, :actions], both[:, actions:]))
    return Outputs(legal(logits, mask), values)


def learn(
    setup: Setup, context: Context, hyper: Hyper, state: State, batch: Batch, sampled: None = None
) -> tuple[State, Metrics]:
    """Learn from one rollout. A trial that would diverge keeps its last state from then on."""
    del sampled
    playing, scaled = actor(setup, state), batch
    if setup.scale_rewards:
        state = state._replace(returns=_earned(state.returns, batch, hyper))
        scaled = batch._replace(reward=batch.reward / scales.reward_scale(state.returns))
    last, mask = jax.tree.map(lambda x: x[-1], (batch.observation, batch.mask))
    told = told_by(setup, hyper, scaled, act(setup, playing, last, mask))
    seen, mask = jax.tree.map(lambda x: x[:-1].reshape(-1, x.shape[-1]), (batch.observation, batch.mask))

    def loss(network: Any) -> tuple[Array, Outputs]:
        outputs = act(setup, playing._replace(network=network), seen, mask)
        return combined_loss(setup, hyper, *outputs, *told, mask), outputs

    gradient, outputs = jax.grad(loss, has_aux=True)(state.network)
    learned = descend(setup, hyper, state, gradient, context.updates)
    absurd = _largest(learned.network) >= LARGEST_WEIGHT
    diverged_at = jnp.where(absurd & (learned.diverged_at == 0), learned.update, learned.diverged_at)
    learned = learned._replace(health=_noted(setup, state.health, told, outputs, mask))
    if setup.scales_observations:
        learned = learned._replace(observed=scales.observe(state.observed, setup.parts, seen))
    kept = jax.tree.map(lambda new, old: jnp.where(diverged_at == 0, new, old), learned, state)
    metrics = Metrics(jnp.sum(batch.reward), jnp.sum(batch.valid, dtype=jnp.int32))
    return kept._replace(update=learned.update, diverged_at=diverged_at), metrics


def _earned(returns: scales.Returns, batch: Batch, hyper: Hyper) -> scales.Returns:
    """Returns with a rollout's rewards counted in."""

    def step(returns: scales.Returns, now: tuple[Array, Array]) -> tuple[scales.Returns, None]:
        return scales.earn(returns, *now, hyper.discount), None

    return jax.lax.scan(step, returns, (batch.reward, batch.terminated | batch.truncated))[0]


def _largest(network: Any) -> Float[Array, ""]:
    """The largest weight."""
    return functools.reduce(jnp.maximum, [jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(network)])


def _noted(setup: Setup, health: Health, told: Told, outputs: Outputs, mask: Any) -> Health:
    """What an update says of itself: how open the policy is, and how far off the critic, against returns' own size."""
    log_policy = log_softmax(outputs.logits)
    entropy = -sum_over_actions(jnp.exp(log_policy) * log_policy)
    most = scales.most_entropy(told.state_weight, log_policy.shape[-1], mask)
    share = jnp.sum(told.state_weight * entropy) / most
    chosen = outputs.values[:, 0]
    if not setup.has_state_values:
        chosen = sum_over_actions(outputs.values * jax.nn.one_hot(told.action, outputs.values.shape[-1]))
    size = jnp.sum(told.state_weight * told.returns**2)
    error = jnp.sum(told.state_weight * (chosen - told.returns) ** 2) / jnp.maximum(size, scales.SMALLEST_RETURN)
    return Health(*map(scales.averaged, health, (share, error)))


def work(setup: Setup) -> int:
    """What an update goes over again and again, float32, in bytes: its activations, forward and backward, and weights.

    Of these there are the gradient and its mean square, too.
    """
    inputs = sum(part.size for part in setup.parts)
    activations = 2 * setup.rollout_steps * setup.environments * max(inputs, *setup.hidden, 1)
    weights = sum(a * b for a, b in itertools.pairwise((inputs, *setup.hidden, 1)))
    return 4 * (activations + 3 * weights)


LEARNER = Learner(init, actor, act, learn, keep, player, work=work, value=value)
