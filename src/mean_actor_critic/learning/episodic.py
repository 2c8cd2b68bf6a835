"""The paper's classic-control learner: after each episode, some critic steps on replayed data, then one policy step."""

import functools
import operator
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.learning import replay as ring
from mean_actor_critic.learning.estimators import ESTIMATORS, policy_loss
from mean_actor_critic.learning.kernels import dense, log_softmax
from mean_actor_critic.learning.networks import Network, initial_mlp, mlp, normalize, softmax, sum_over_actions
from mean_actor_critic.learning.optimizers import directions
from mean_actor_critic.learning.targets import CRITIC_TARGETS, discounted_returns
from mean_actor_critic.learning.types import (
    Actor,
    EpisodeMetrics,
    Evidence,
    LearnerState,
    Normalizer,
    RunningAverage,
    Trajectory,
)
from mean_actor_critic.spec.experiment import Hyper, Setup

# Weights beyond these count as diverged along with non-finite ones. There a softmax is saturated in float32: its
# gradient is exactly zero, nothing would ever become infinite, and the trial would pass for a slow learner.
LARGEST_POLICY_WEIGHT = 1e3
LARGEST_CRITIC_WEIGHT = 1e4  # more, because a critic's outputs are of the size of the returns

POLICY_ROWS = 64  # states of an episode that the policy step takes at a time
TARGET_ROWS = 320  # rows whose targets are computed together: enough to pay, few enough to stay in the cache


def initial_state(setup: Setup, observation_size: int, actions: int, key: Array) -> LearnerState:
    """A trial before its first episode."""
    policy_key, critic_key = jax.random.split(key)
    sizes = (observation_size, *setup.hidden, actions)
    policy = initial_mlp(policy_key, sizes)
    critic = initial_mlp(critic_key, sizes) if setup.has_critic else ()
    optimizer = directions(setup.optimizer)
    return LearnerState(
        policy=policy,
        critic=critic,
        policy_optimizer=optimizer.init(policy),
        critic_optimizer=optimizer.init(critic),
        replay=ring.empty(setup.replay_capacity if setup.has_critic else 0, observation_size),
        average_return=RunningAverage(jnp.float32(0), jnp.float32(0)),
        normalizer=_initial_normalizer(observation_size) if setup.normalize_observations else (),
        episode=jnp.int32(0),
        diverged_at=jnp.int32(0),
    )


def action_probabilities(
    setup: Setup, actor: Actor, observation: Float[Array, " observation"]
) -> Float[Array, " action"]:
    """The policy in one state."""
    return softmax(mlp(actor.policy, _seen(actor.normalizer, observation), setup.activation))


def _seen(normalizer: Normalizer | tuple[()], observation: Array) -> Array:
    """Observations as the networks see them."""
    return normalize(observation, normalizer.mean, normalizer.variance) if normalizer else observation


def update(
    setup: Setup,
    longest: Int[Array, ""],
    hyper: Hyper,
    state: LearnerState,
    trajectory: Trajectory,
    key: Array,
) -> tuple[LearnerState, EpisodeMetrics]:
    """Remember one episode and learn from it. `longest` is the length of the longest among those learned together."""
    if not setup.has_critic:
        return learn(setup, longest, hyper, state, trajectory, None)
    assert isinstance(state.replay, ring.Replay)
    replay = ring.add(state.replay, critic_rows(setup, hyper, trajectory), trajectory.valid)
    sampled = ring.sample(replay, key, minibatch_shape(setup))
    return learn(setup, longest, hyper, state._replace(replay=replay), trajectory, sampled)


def longest_of(trajectories: Trajectory) -> Int[Array, ""]:
    """Steps of the longest of some episodes [lane]."""
    return jnp.max(jnp.sum(trajectories.valid, axis=-1, dtype=jnp.int32))


def update_among(
    setup: Setup,
    hyper: Hyper,
    states: LearnerState,
    which: Int[Array, " some"],
    trajectory: Trajectory,
    key: Array,
) -> tuple[LearnerState, LearnerState, EpisodeMetrics]:
    """`update` for the trials at the places `which` of many; a place past the last is left out.

    Args:
        setup: of all.
        hyper: [all].
        states: [all].
        which: the trials that learn, each at most once.
        trajectory: [some] an episode of each.
        key: [some].

    Returns:
        The states of all, and the states without replay and metrics of those that learned [some].
    """
    own_hyper = jax.tree.map(lambda all_: all_[which], hyper)
    own = jax.tree.map(lambda all_: all_[which], states._replace(replay=()))
    replay, sampled = states.replay, None
    if setup.has_critic:
        assert isinstance(replay, ring.Replay)
        rows = jax.vmap(functools.partial(critic_rows, setup))(own_hyper, trajectory)
        replay = ring.add_among(replay, which, rows, trajectory.valid)
        sampled = ring.sample_among(replay, which, key, minibatch_shape(setup))
    new, metrics = jax.vmap(functools.partial(learn, setup, longest_of(trajectory)))(
        own_hyper, own, trajectory, sampled
    )
    written = jax.tree.map(lambda all_, one: all_.at[which].set(one, mode="drop"), states._replace(replay=()), new)
    return written._replace(replay=replay), new, metrics


def critic_rows(setup: Setup, hyper: Hyper, trajectory: Trajectory) -> ring.Transitions:
    """What an episode adds to the replay."""
    return CRITIC_TARGETS[setup.critic_target](trajectory, hyper, setup.time_limit)


def minibatch_shape(setup: Setup) -> tuple[int, int]:
    """Of the rows that an update samples: critic steps, rows in each."""
    return setup.minibatches, setup.batch_size


def learn(
    setup: Setup,
    longest: Int[Array, ""],
    hyper: Hyper,
    state: LearnerState,
    trajectory: Trajectory,
    sampled: ring.Transitions | None,
) -> tuple[LearnerState, EpisodeMetrics]:
    """Learn from one episode and rows sampled from the replay. The replay itself is neither read nor changed.

    A trial that would become non-finite keeps its last finite weights from then on.
    """
    learned = state._replace(replay=())
    if state.normalizer:
        learned = learned._replace(normalizer=_observe(state.normalizer, trajectory))
    if sampled is not None:
        learned = _improve_critic(setup, hyper, learned, sampled)
    learned = _improve_policy(setup, hyper, learned, trajectory, longest)

    episode = state.episode + 1
    healthy = _is_healthy(learned)
    diverged_at = jnp.where((state.diverged_at == 0) & ~healthy, episode, state.diverged_at)
    # not the ring: a frozen trial never reads it again, and copying it would cost more than the update
    kept = jax.tree.map(
        lambda new, old: jnp.where(diverged_at == 0, new, old),
        learned,
        state._replace(replay=()),
    )
    metrics = EpisodeMetrics(
        episode_return=jnp.sum(trajectory.reward), length=jnp.sum(trajectory.valid, dtype=jnp.int32)
    )
    return kept._replace(replay=state.replay, episode=episode, diverged_at=diverged_at), metrics


def _improve_critic(setup: Setup, hyper: Hyper, state: LearnerState, sampled: ring.Transitions) -> LearnerState:
    """`setup.minibatches` steps towards targets from a critic copied now, once an episode."""

    def loss(critic: Network, observation: Array, action: Array, target: Array) -> Array:
        q = mlp(critic, observation, setup.activation, dense)
        taken = sum_over_actions(q * jax.nn.one_hot(action, q.shape[-1]))
        return jnp.mean((taken - target) ** 2)

    optimizer = directions(setup.optimizer)

    def step(
        carry: tuple[Network, optax.OptState], batch: tuple[Array, Array, Array]
    ) -> tuple[tuple[Network, optax.OptState], None]:
        critic, optimizer_state = carry
        direction, optimizer_state = optimizer.update(jax.grad(loss)(critic, *batch), optimizer_state)
        return (_descend(critic, direction, hyper.critic_lr), optimizer_state), None

    def steps(
        carry: tuple[Network, optax.OptState], rows: ring.Transitions
    ) -> tuple[tuple[Network, optax.OptState], None]:
        # policy and target network stand still meanwhile, so the targets of several minibatches are one computation
        def bootstrapped() -> Array:
            next_observation = _seen(state.normalizer, rows.next_observation)
            next_policy = softmax(mlp(state.policy, next_observation, setup.activation, dense))
            next_q = mlp(state.critic, next_observation, setup.activation, dense)
            return rows.reward + rows.bootstrap * sum_over_actions(next_policy * next_q)

        # whole returns seldom need it; under vmap both are computed, which costs nothing more than before
        target = jax.lax.cond(jnp.any(rows.bootstrap != 0), bootstrapped, lambda: rows.reward)
        return jax.lax.scan(step, carry, (_seen(state.normalizer, rows.observation), rows.action, target))

    together = _largest_divisor(setup.minibatches, TARGET_ROWS // setup.batch_size)
    chunks = jax.tree.map(lambda x: x.reshape(-1, together, *x.shape[1:]), sampled)
    (critic, optimizer_state), _ = jax.lax.scan(steps, (state.critic, state.critic_optimizer), chunks)
    return state._replace(critic=critic, critic_optimizer=optimizer_state)


class _States(NamedTuple):
    """The states of an episode, with what the policy step needs to know of each."""

    observation: Float[Array, "time observation"]
    action: Int[Array, " time"]
    returns: Float[Array, " time"]
    weight: Float[Array, " time"]  # 1/T, and 0 after the end


def _improve_policy(
    setup: Setup, hyper: Hyper, state: LearnerState, trajectory: Trajectory, longest: Int[Array, ""]
) -> LearnerState:
    """One step on the episode's states, each counting 1/T. What is padding after `longest` steps costs nothing."""
    returns = discounted_returns(trajectory.reward, hyper.discount)
    average = state.average_return
    states = _States(
        observation=_seen(state.normalizer, trajectory.observation[:-1]),
        action=trajectory.action,
        returns=returns,
        weight=trajectory.valid / jnp.sum(trajectory.valid),
    )

    def gradient_over(some: _States) -> Network:
        no_values = jnp.zeros((some.action.shape[0], state.policy[-1].bias.shape[0]))
        q = mlp(state.critic, some.observation, setup.activation, dense) if setup.has_critic else no_values

        def loss(policy: Network) -> Array:
            log_policy = log_softmax(mlp(policy, some.observation, setup.activation, dense))
            evidence = Evidence(
                policy=jnp.exp(log_policy),
                q=q,
                returns=some.returns,
                baseline=average.total / jnp.maximum(average.weight, 1e-6),
                action=some.action,
            )
            return policy_loss(log_policy, ESTIMATORS[setup.algorithm](evidence), some.weight)

        return jax.grad(loss)(state.policy)

    direction, optimizer_state = directions(setup.optimizer).update(
        _sum_over_chunks(gradient_over, states, longest), state.policy_optimizer
    )
    return state._replace(
        policy=_descend(state.policy, direction, hyper.actor_lr),
        policy_optimizer=optimizer_state,
        average_return=RunningAverage(
            total=hyper.baseline_decay * average.total + (1 - hyper.baseline_decay) * returns[0],
            weight=hyper.baseline_decay * average.weight + (1 - hyper.baseline_decay),
        ),
    )


def _sum_over_chunks(function: Callable[[_States], Network], states: _States, longest: Int[Array, ""]) -> Network:
    """The sum of `function` over the states, a chunk at a time, as far as the `longest` episode goes.

    A chunk of padding adds exactly nothing, so that how long other trials' episodes were changes no bit.
    """
    steps = states.action.shape[0]
    chunks = -(-steps // POLICY_ROWS)
    rows = min(steps, POLICY_ROWS)

    def cut(x: Array) -> Array:
        padded = jnp.pad(x, [(0, chunks * rows - steps), *[(0, 0)] * (x.ndim - 1)])
        return padded.reshape(chunks, rows, *x.shape[1:])

    cut_states = jax.tree.map(cut, states)

    def add(chunk: Array, total: Network) -> Network:
        return jax.tree.map(operator.add, total, function(jax.tree.map(lambda x: x[chunk], cut_states)))

    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, jax.tree.map(lambda x: x[0], cut_states)))
    return jax.lax.fori_loop(0, -(-longest // rows), add, nothing)


def _initial_normalizer(size: int) -> Normalizer:
    """One that changes nothing yet."""
    return Normalizer(jnp.zeros(size), jnp.ones(size), jnp.float32(0))


def _observe(normalizer: Normalizer, trajectory: Trajectory) -> Normalizer:
    """Take in the states of an episode in which an action was taken (Chan, Golub & LeVeque's merge of two samples)."""
    valid = trajectory.valid[:, None]
    count = jnp.sum(trajectory.valid, dtype=jnp.float32)
    observation = jnp.where(valid, trajectory.observation[:-1], 0.0)
    mean = jnp.sum(observation, axis=0) / count
    variance = jnp.sum(jnp.where(valid, observation - mean, 0.0) ** 2, axis=0) / count
    total = normalizer.observations + count
    share = count / total
    difference = mean - normalizer.mean
    return Normalizer(
        mean=normalizer.mean + share * difference,
        variance=(1 - share) * normalizer.variance + share * variance + share * (1 - share) * difference**2,
        observations=total,
    )


def _largest_divisor(number: int, limit: int) -> int:
    return next((k for k in range(min(number, limit), 1, -1) if number % k == 0), 1)


def _descend(network: Network, direction: Network, learning_rate: Array) -> Network:
    return jax.tree.map(lambda weight, step: weight - learning_rate * step, network, direction)


def _is_healthy(state: LearnerState) -> Bool[Array, ""]:
    """Every weight is finite and within bounds, every optimiser statistic is finite."""
    bounds = ((state.policy, LARGEST_POLICY_WEIGHT), (state.critic, LARGEST_CRITIC_WEIGHT))
    # a comparison with NaN is false as well
    bounded = [jnp.all(jnp.abs(w) < bound) for network, bound in bounds for w in jax.tree.leaves(network)]
    statistics = jax.tree.leaves(
        (state.policy_optimizer, state.critic_optimizer, state.average_return, state.normalizer)
    )
    return jnp.all(jnp.stack(bounded + [jnp.all(jnp.isfinite(s)) for s in statistics]))
