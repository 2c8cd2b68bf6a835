"""The paper's classic-control learner: after each episode, some critic steps on replayed data, then one policy step."""

import functools
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from mean_actor_critic.learning.architectures import network_of
from mean_actor_critic.learning.estimators import estimator_of, policy_loss
from mean_actor_critic.learning.kernels import dense, log_softmax
from mean_actor_critic.learning.networks import Layers, Networks, Scale, legal, normalize, softmax, sum_over_actions
from mean_actor_critic.learning.replay import Transitions
from mean_actor_critic.learning.steps import optimizer_step
from mean_actor_critic.learning.targets import CRITIC_TARGETS, discounted_returns
from mean_actor_critic.learning.types import Batch, Context, Evidence, Learner, Memory, Metrics
from mean_actor_critic.spec.learners import EpisodicHyper as Hyper
from mean_actor_critic.spec.learners import EpisodicSetup as Setup
from mean_actor_critic.spec.learners import Shapes

# Weights beyond these count as diverged along with non-finite ones. There a softmax is saturated in float32: its
# gradient is exactly zero, nothing would ever become infinite, and the trial would pass for a slow learner.
LARGEST_POLICY_WEIGHT = 1e3
LARGEST_CRITIC_WEIGHT = 1e4  # more, because a critic's outputs are of the size of the returns

POLICY_ROWS = 64  # states of an episode that the policy step takes at a time
TARGET_ROWS = 320  # rows whose targets are computed together: enough to pay, few enough to stay in the cache


class Normalizer(NamedTuple):
    """Mean and variance of all observations so far."""

    mean: Float[Array, " observation"]
    variance: Float[Array, " observation"]
    observations: Float[Array, ""]  # how many


class RunningAverage(NamedTuple):
    """Exponential average of episode returns, kept as sum and weight so that young averages are unbiased."""

    total: Float[Array, ""]
    weight: Float[Array, ""]


class Actor(NamedTuple):
    """What decides on actions."""

    policy: Layers
    normalizer: Normalizer | tuple[()]  # () unless observations are normalised


class State(NamedTuple):
    """Everything that a trial carries from one episode to the next, but for the ring of transitions."""

    policy: Layers
    critic: Layers
    policy_optimizer: Any
    critic_optimizer: Any
    average_return: RunningAverage
    normalizer: Normalizer | tuple[()]
    episode: Int[Array, ""]  # episodes played
    diverged_at: Int[Array, ""]  # the episode (from 1) whose update was not finite; 0: none


class Outputs(NamedTuple):
    """What acting computes."""

    logits: Float[Array, "*n action"]


def init(setup: Setup, shapes: Shapes, key: Array) -> State:
    """A trial before its first episode."""
    policy_key, critic_key = jax.random.split(key)
    network = network_of(setup)
    layers = network.shapes(*shapes)
    policy = network.init(policy_key, layers)
    critic = network.init(critic_key, layers) if setup.has_critic else ()
    optimizer = optimizer_step(setup.optimizer)
    return State(
        policy=policy,
        critic=critic,
        policy_optimizer=optimizer.init(policy),
        critic_optimizer=optimizer.init(critic),
        average_return=RunningAverage(jnp.float32(0), jnp.float32(0)),
        normalizer=_initial_normalizer(math.prod(shapes.observation)) if setup.normalize_observations else (),
        episode=jnp.int32(0),
        diverged_at=jnp.int32(0),
    )


def actor(setup: Setup, state: State) -> Actor:  # noqa: ARG001
    """The part of a state that plays."""
    return Actor(state.policy, state.normalizer)


def keep(setup: Setup, state: State) -> Networks:  # noqa: ARG001
    """What an agent keeps of a state."""
    scale = Scale(state.normalizer.mean, state.normalizer.variance) if state.normalizer else ()
    return Networks(state.policy, state.critic, scale)


def player(networks: Networks) -> Actor:
    """The actor that plays as an agent does; how many observations there were is of no use without learning."""
    scale: Any = (*networks.normalizer, np.float32(0)) if networks.normalizer else ()
    return Actor(networks.policy, Normalizer(*scale) if scale else ())


def act(setup: Setup, actor: Actor, observation: Float[Array, "*n observation"], mask: Any = ()) -> Outputs:
    """The policy in some states."""
    return Outputs(legal(network_of(setup).outputs(actor.policy, _seen(actor.normalizer, observation)), mask))


def _seen(normalizer: Normalizer | tuple[()], observation: Array) -> Array:
    """Observations as the networks see them."""
    return normalize(observation, Scale(normalizer.mean, normalizer.variance)) if normalizer else observation


def memory(setup: Setup) -> Memory | None:
    """The critic's replay."""
    if not setup.has_critic:
        return None

    def rows(hyper: Hyper, batch: Batch) -> Transitions:
        return CRITIC_TARGETS[setup.critic_target](batch, hyper, setup.time_limit)

    return Memory(setup.replay_capacity, (setup.minibatches, setup.batch_size), rows)


def work(setup: Setup) -> int:
    """What an update goes over again and again, float32, in bytes.

    Weights, their gradient and two moments of it, and the activations of a critic step, forward and backward. A policy
    step comes but once an episode.
    """
    activations = 2 * setup.batch_size * max(setup.hidden, default=1) if setup.has_critic else 1
    weights = sum(inputs * outputs for inputs, outputs in itertools.pairwise(setup.hidden))
    return 4 * (activations + 4 * weights)


def learn(
    setup: Setup,
    context: Context,
    hyper: Hyper,
    state: State,
    batch: Batch,
    sampled: Transitions | None,
) -> tuple[State, Metrics]:
    """Learn from one episode and rows sampled from the replay.

    A trial that would become non-finite keeps its last finite weights from then on.
    """
    learned = state
    if state.normalizer:
        learned = learned._replace(normalizer=_observe(state.normalizer, batch))
    if sampled is not None:
        learned = _improve_critic(setup, hyper, learned, sampled)
    learned = _improve_policy(setup, hyper, learned, batch, context.longest)

    episode = state.episode + 1
    healthy = _is_healthy(learned)
    diverged_at = jnp.where((state.diverged_at == 0) & ~healthy, episode, state.diverged_at)
    # not the ring: a frozen trial never reads it again, and copying it would cost more than the update
    kept = jax.tree.map(lambda new, old: jnp.where(diverged_at == 0, new, old), learned, state)
    metrics = Metrics(episode_return=jnp.sum(batch.reward), length=jnp.sum(batch.valid, dtype=jnp.int32))
    return kept._replace(episode=episode, diverged_at=diverged_at), metrics


def _improve_critic(setup: Setup, hyper: Hyper, state: State, sampled: Transitions) -> State:
    """`setup.minibatches` steps towards targets from a critic copied now, once an episode."""
    outputs = functools.partial(network_of(setup).outputs, dense=dense)

    def loss(critic: Layers, observation: Array, action: Array, target: Array) -> Array:
        q = outputs(critic, observation)
        taken = sum_over_actions(q * jax.nn.one_hot(action, q.shape[-1]))
        return jnp.mean((taken - target) ** 2)

    optimizer = optimizer_step(setup.optimizer)

    def step(
        carry: tuple[Layers, optax.OptState], batch: tuple[Array, Array, Array]
    ) -> tuple[tuple[Layers, optax.OptState], None]:
        critic, optimizer_state = carry
        return optimizer.step(critic, jax.grad(loss)(critic, *batch), optimizer_state, hyper.critic_lr), None

    def steps(carry: tuple[Layers, optax.OptState], rows: Transitions) -> tuple[tuple[Layers, optax.OptState], None]:
        # policy and target network stand still meanwhile, so the targets of several minibatches are one computation
        def bootstrapped() -> Array:
            next_observation = _seen(state.normalizer, rows.next_observation)
            next_policy = softmax(legal(outputs(state.policy, next_observation), rows.next_mask))
            next_q = outputs(state.critic, next_observation)
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
    mask: Any  # [time, action], where the environment tells


def _improve_policy(setup: Setup, hyper: Hyper, state: State, batch: Batch, longest: Int[Array, ""]) -> State:
    """One step on the episode's states, each counting 1/T. What is padding after `longest` steps costs nothing."""
    returns = discounted_returns(batch.reward, hyper.discount)
    average = state.average_return
    states = _States(
        observation=_seen(state.normalizer, batch.observation[:-1]),
        action=batch.action,
        returns=returns,
        weight=batch.valid / jnp.sum(batch.valid),
        mask=() if isinstance(batch.mask, tuple) else batch.mask[:-1],
    )

    outputs, estimator = functools.partial(network_of(setup).outputs, dense=dense), estimator_of(setup)

    def gradient_over(some: _States) -> Layers:
        def loss(policy: Layers) -> Array:
            log_policy = log_softmax(legal(outputs(policy, some.observation), some.mask))
            evidence = Evidence(
                policy=jnp.exp(log_policy),
                q=outputs(state.critic, some.observation) if setup.has_critic else jnp.zeros_like(log_policy),
                returns=some.returns,
                baseline=average.total / jnp.maximum(average.weight, 1e-6),
                action=some.action,
                mask=some.mask,
            )
            return policy_loss(log_policy, estimator(evidence), some.weight, some.mask)

        return jax.grad(loss)(state.policy)

    gradient = _sum_over_chunks(gradient_over, states, longest)
    optimizer = optimizer_step(setup.optimizer)
    policy, optimizer_state = optimizer.step(state.policy, gradient, state.policy_optimizer, hyper.actor_lr)
    return state._replace(
        policy=policy,
        policy_optimizer=optimizer_state,
        average_return=RunningAverage(
            total=hyper.baseline_decay * average.total + (1 - hyper.baseline_decay) * returns[0],
            weight=hyper.baseline_decay * average.weight + (1 - hyper.baseline_decay),
        ),
    )


def _sum_over_chunks(function: Callable[[_States], Layers], states: _States, longest: Int[Array, ""]) -> Layers:
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

    def add(chunk: Array, total: Layers) -> Layers:
        return jax.tree.map(operator.add, total, function(jax.tree.map(lambda x: x[chunk], cut_states)))

    nothing = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, jax.tree.map(lambda x: x[0], cut_states)))
    return jax.lax.fori_loop(0, -(-longest // rows), add, nothing)


def _initial_normalizer(size: int) -> Normalizer:
    """One that changes nothing yet."""
    return Normalizer(jnp.zeros(size), jnp.ones(size), jnp.float32(0))


def _observe(normalizer: Normalizer, batch: Batch) -> Normalizer:
    """Take in the states of an episode in which an action was taken (Chan, Golub & LeVeque's merge of two samples)."""
    valid = batch.valid[:, None]
    count = jnp.sum(batch.valid, dtype=jnp.float32)
    observation = jnp.where(valid, batch.observation[:-1], 0.0)
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


def _is_healthy(state: State) -> Bool[Array, ""]:
    """Every weight is finite and within bounds, every optimiser statistic is finite."""
    bounds = ((state.policy, LARGEST_POLICY_WEIGHT), (state.critic, LARGEST_CRITIC_WEIGHT))
    # a comparison with NaN is false as well
    bounded = [jnp.all(jnp.abs(w) < bound) for network, bound in bounds for w in jax.tree.leaves(network)]
    statistics = jax.tree.leaves(
        (state.policy_optimizer, state.critic_optimizer, state.average_return, state.normalizer)
    )
    return jnp.all(jnp.stack(bounded + [jnp.all(jnp.isfinite(s)) for s in statistics]))


LEARNER = Learner(init, actor, act, learn, keep, player, memory, work)
