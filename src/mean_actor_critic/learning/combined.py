"""One loss for a network with a policy and values, and one RMSProp step on it: what short rollouts teach.

The learners of rollouts share all of this and differ in their network only.
"""

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from mean_actor_critic.learning.estimators import estimator_of, policy_loss
from mean_actor_critic.learning.kernels import log_softmax
from mean_actor_critic.learning.networks import softmax, sum_over_actions
from mean_actor_critic.learning.targets import n_step
from mean_actor_critic.learning.types import Batch, Evidence
from mean_actor_critic.spec.learners import RolloutHyper as Hyper
from mean_actor_critic.spec.learners import RolloutSetup as Setup


class State(NamedTuple):
    """Everything that a trial carries from one update to the next."""

    network: Any
    mean_square: Any  # like the network: RMSProp's running mean of squared gradients
    update: Int[Array, ""]  # updates so far
    diverged_at: Int[Array, ""]  # the update (from 1) whose gradient was not finite; 0: none
    observed: Any = ()  # an `Observed`, where observations are scaled
    returns: Any = ()  # `Returns`, where rewards are scaled
    health: Any = ()  # a `Health`, where it is kept for people


def value(setup: Setup, outputs: Any) -> Float[Array, " n"]:
    """V(s): the critic's own, or its action values averaged as the policy acts."""
    if setup.has_state_values:
        return outputs.values[:, 0]
    return sum_over_actions(softmax(outputs.logits) * outputs.values)


class Told(NamedTuple):
    """What a rollout says of the states that were acted in [time × environment]."""

    action: Int[Array, " n"]
    returns: Float[Array, " n"]  # n-step
    state_weight: Float[Array, " n"]  # 1 over how many count, or 0


def told_by(setup: Setup, hyper: Hyper, batch: Batch, after: Any) -> Told:
    """What a rollout says, with the network's outputs for the observations `after` it."""
    reward = jnp.sign(batch.reward) if setup.clip_rewards else batch.reward
    over = batch.terminated | batch.truncated
    returns = n_step(reward, over, batch.value_beyond, value(setup, after), hyper.discount)
    state_weight = batch.valid / jnp.maximum(jnp.sum(batch.valid), 1)
    return Told(*(part.ravel() for part in (batch.action, returns, state_weight)))


def combined_loss(
    setup: Setup,
    hyper: Hyper,
    logits: Float[Array, "n action"],
    values: Float[Array, "n value"],
    action: Int[Array, " n"],
    returns: Float[Array, " n"],
    state_weight: Float[Array, " n"],
    mask: Any = (),
) -> Float[Array, ""]:
    """The paper's loss: policy, entropy and critic, each a mean over states, `state_weight` saying what counts.

    Where there is a `mask` [n, action], the logits of other actions are those of `networks.legal`.
    """
    log_policy = log_softmax(logits)
    policy = jnp.exp(log_policy)
    if setup.has_state_values:
        chosen, q = values[:, 0], jnp.zeros_like(logits)
    else:
        chosen, q = sum_over_actions(values * jax.nn.one_hot(action, values.shape[-1])), values
    evidence = Evidence(policy, q, returns, chosen if setup.has_state_values else jnp.float32(0), action, mask)
    policy_term = policy_loss(log_policy, estimator_of(setup)(evidence), state_weight, mask)
    entropy = -jnp.sum(state_weight * sum_over_actions(policy * log_policy))
    value_term = jnp.sum(state_weight * 0.5 * (chosen - returns) ** 2)
    return hyper.policy_weight * policy_term - hyper.entropy_weight * entropy + hyper.value_weight * value_term


def descend(setup: Setup, hyper: Hyper, state: State, gradient: Any, updates: Int[Array, ""]) -> State:
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
    return state._replace(
        network=jax.tree.map(moved, state.network, gradient, mean_square),
        mean_square=mean_square,
        update=number,
        diverged_at=jnp.where((state.diverged_at == 0) & ~healthy, number, state.diverged_at),
    )
