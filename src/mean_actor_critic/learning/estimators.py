"""The paper: one loss for every algorithm, and one function each for the weights that tell them apart.

Every algorithm here follows the gradient of

    - mean over t of  sum over a of  W[t, a] * log pi(a | s_t),        W held constant,

and is the function that makes W from the evidence of an episode. Sampled-action algorithms put all weight on the action
taken; Mean Actor-Critic spreads it over every action, as the policy does.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mean_actor_critic.learning.networks import sum_over_actions
from mean_actor_critic.learning.types import Evidence

Weights = Float[Array, "time action"]


def reinforce(evidence: Evidence) -> Weights:
    """The return that followed (Eq. 2): W[t, a] = 1[a = a_t] G_t."""
    return _taken(evidence) * evidence.returns[:, None]


def advantage_reinforce(evidence: Evidence) -> Weights:
    """The return above a running average b of recent episodes' returns: W[t, a] = 1[a = a_t] (G_t - b)."""
    return _taken(evidence) * (evidence.returns - evidence.baseline)[:, None]


def actor_critic(evidence: Evidence) -> Weights:
    """The critic's value of the action taken (Eq. 3): W[t, a] = 1[a = a_t] Q(s_t, a_t)."""
    return _taken(evidence) * evidence.q


def advantage_actor_critic(evidence: Evidence) -> Weights:
    """That value above the state's: W[t, a] = 1[a = a_t] (Q(s_t, a_t) - sum over b of pi(b) Q(s_t, b))."""
    state_value = sum_over_actions(evidence.policy * evidence.q)[:, None]
    return _taken(evidence) * (evidence.q - state_value)


def mac(evidence: Evidence) -> Weights:
    """Mean Actor-Critic (Eq. 4), every action as often as the policy takes it: W[t, a] = pi(a | s_t) Q(s_t, a)."""
    return evidence.policy * evidence.q


def a2c(evidence: Evidence) -> Weights:
    """OpenAI Baselines' A2C, the n-step return above the state's value: W[t, a] = 1[a = a_t] (R_t - V(s_t))."""
    return _taken(evidence) * (evidence.returns - evidence.baseline)[:, None]


ESTIMATORS: dict[str, Callable[[Evidence], Weights]] = {
    estimator.__name__: estimator
    for estimator in (reinforce, advantage_reinforce, actor_critic, advantage_actor_critic, mac, a2c)
}


def estimator_of(setup: Any) -> Callable[[Evidence], Weights]:
    """The function that a setup learns by: one of these, or one that was given from Python."""
    given: Callable[[Evidence], Weights] | None = setup.estimator
    return given or ESTIMATORS[setup.algorithm]


def policy_loss(
    log_policy: Float[Array, "time action"], weights: Weights, state_weight: Float[Array, " time"], mask: Any = ()
) -> Float[Array, ""]:
    """The one loss. `state_weight` says how much each state counts: 1/T for the T states of an episode.

    What an estimator weighs an action with that a mask [time, action] forbids counts for nothing.
    """
    if not isinstance(mask, tuple):
        weights = jnp.where(mask, weights, 0.0)
    return -jnp.sum(state_weight * sum_over_actions(jax.lax.stop_gradient(weights) * log_policy))


def _taken(evidence: Evidence) -> Weights:
    """1 for the action taken, 0 for the others."""
    return jax.nn.one_hot(evidence.action, evidence.policy.shape[-1])
