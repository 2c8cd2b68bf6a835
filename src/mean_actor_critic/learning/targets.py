"""What the critic learns towards, each as rows for the replay ring.

A row says: from `observation`, `action` brought `reward` and then `next_observation`, whose value counts `bootstrap`
times. The target is `reward + bootstrap * V(next_observation)`: with the discount as bootstrap this is one-step
Expected Sarsa; with the whole return as reward and no bootstrap it is Monte Carlo.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from mean_actor_critic.learning.replay import Transitions
from mean_actor_critic.learning.types import Batch
from mean_actor_critic.spec.learners import EpisodicHyper as Hyper


def cut_bootstrap(batch: Batch, time_limit: str) -> Bool[Array, " time"]:
    """The steps after which nothing more is counted on: a terminal state, and with `terminal` also the time limit."""
    if time_limit == "bootstrap":
        return batch.terminated
    length = jnp.sum(batch.valid)
    return batch.terminated | (jnp.arange(batch.valid.shape[0]) == length - 1)


def discounted_returns(reward: Float[Array, " time"], discount: Float[Array, ""]) -> Float[Array, " time"]:
    """G_t = r_t + discount * G_{t+1}, undiscounted at t. Padding must have zero reward."""

    def combine(later: tuple[Array, Array], earlier: tuple[Array, Array]) -> tuple[Array, Array]:
        return earlier[0] + earlier[1] * later[0], earlier[1] * later[1]

    # associative: log2(T) vectorised passes instead of T tiny steps
    discounts = jnp.broadcast_to(discount, reward.shape)
    return jax.lax.associative_scan(combine, (reward, discounts), reverse=True)[0]


def n_step(
    reward: Float[Array, "time environment"],
    over: Bool[Array, "time environment"],
    value_beyond: Float[Array, "time environment"],
    last_value: Float[Array, " environment"],
    discount: Float[Array, ""],
) -> Float[Array, "time environment"]:
    """R_t = r_t + discount * R_{t+1} along short rollouts of many environments, bootstrapped at their ends.

    Args:
        reward: of each step.
        over: whether the episode ended with the step: what follows in the rollout is another one.
        value_beyond: of the state that an ended episode ended in: 0 if it was terminal, else what it was still worth.
        last_value: of the state after the rollout, for episodes that go on.
        discount: per step.
    """

    def step(following: Array, now: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        reward, over, beyond = now
        returns = reward + discount * jnp.where(over, beyond, following)
        return returns, returns

    return jax.lax.scan(step, last_value, (reward, over, value_beyond), reverse=True, unroll=True)[1]


def traced(
    reward: Float[Array, "n time"],
    discount: Float[Array, "n time"],
    next_value: Float[Array, "n time"],
    next_taken: Float[Array, "n time"],
    trace: Float[Array, "n time"],
) -> Float[Array, "n time"]:
    """y_t = r_t + γ_t [V_{t+1} + c_{t+1} (y_{t+1} - Q(s_{t+1}, a_{t+1}))] along runs of successive steps.

    With c = λ min(1, π/μ) of the next action this is Retrace(λ) (Munos et al. 2016), with λπ tree backup, with λ alone
    an uncorrected λ-return, and with 0 one-step Expected Sarsa.

    Args:
        reward: of each step.
        discount: after it; 0 in front of a terminal state.
        next_value: V of the next state: its action values, averaged as the policy acts.
        next_taken: the value of the action taken in the next state.
        trace: c, how much of what came after is believed; 0 where nothing is known of it.
    """

    def step(beyond: Array, now: tuple[Array, ...]) -> tuple[Array, Array]:
        reward, discount, value, taken, trace = now
        # where the trace is 0, what follows must not be looked at: it may belong to another episode
        target = reward + discount * (value + jnp.where(trace > 0, trace * (beyond - taken), 0.0))
        return target, target

    steps = jax.tree.map(jnp.transpose, (reward, discount, next_value, next_taken, trace))
    return jax.lax.scan(step, jnp.zeros(len(reward)), steps, reverse=True, unroll=True)[1].T


def expected_sarsa(batch: Batch, hyper: Hyper, time_limit: str) -> Transitions:
    """One-step rows: r_t, then the discounted value of the next state unless the episode was over."""
    return Transitions(
        observation=batch.observation[:-1],
        action=batch.action,
        reward=batch.reward,
        next_observation=batch.observation[1:],
        bootstrap=jnp.where(cut_bootstrap(batch, time_limit), 0.0, hyper.discount),
        next_mask=() if isinstance(batch.mask, tuple) else batch.mask[1:],
    )


def monte_carlo(batch: Batch, hyper: Hyper, time_limit: str) -> Transitions:
    """Whole-return rows: G_t, then the value of the last state if only the time limit ended the episode."""
    steps = batch.valid.shape[0]
    length = jnp.sum(batch.valid)
    cut = jnp.any(cut_bootstrap(batch, time_limit) & batch.valid)
    remaining = jnp.maximum(length - jnp.arange(steps), 0)
    return Transitions(
        observation=batch.observation[:-1],
        action=batch.action,
        reward=discounted_returns(batch.reward, hyper.discount),
        next_observation=jnp.broadcast_to(batch.observation[length], batch.observation[:-1].shape),
        bootstrap=jnp.where(cut, 0.0, hyper.discount**remaining),
        next_mask=() if isinstance(batch.mask, tuple) else jnp.broadcast_to(batch.mask[length], batch.mask[:-1].shape),
    )


CRITIC_TARGETS: dict[str, Callable[[Batch, Hyper, str], Transitions]] = {
    target.__name__: target for target in (expected_sarsa, monte_carlo)
}
