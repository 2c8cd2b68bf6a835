"""The paper's classic-control learner: after each episode, some critic steps on replayed data, then one policy step."""

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from mean_actor_critic import replay as ring
from mean_actor_critic.critic_targets import CRITIC_TARGETS, discounted_returns
from mean_actor_critic.estimators import ESTIMATORS, policy_loss
from mean_actor_critic.experiment import Hyper, Setup
from mean_actor_critic.kernels import dense, log_softmax
from mean_actor_critic.networks import Network, initial_mlp, mlp, softmax, sum_over_actions
from mean_actor_critic.types import EpisodeMetrics, Evidence, LearnerState, RunningAverage, Trajectory

# Weights beyond these count as diverged along with non-finite ones. There a softmax is saturated in float32: its
# gradient is exactly zero, nothing would ever become infinite, and the trial would pass for a slow learner.
LARGEST_POLICY_WEIGHT = 1e3
LARGEST_CRITIC_WEIGHT = 1e4  # more, because a critic's outputs are of the size of the returns

TARGET_ROWS = 320  # rows whose targets are computed together: enough to pay, few enough to stay in the cache

# Each as a direction of descent for learning rate 1; the traced learning rate multiplies it.
_DIRECTIONS = {
    "sgd": optax.identity,
    "adam": optax.scale_by_adam,
    "rmsprop": lambda: optax.scale_by_rms(decay=0.9, eps=1e-7, eps_in_sqrt=False),
    "adadelta": optax.scale_by_adadelta,
}


def initial_state(setup: Setup, observation_size: int, actions: int, key: Array) -> LearnerState:
    """A trial before its first episode."""
    policy_key, critic_key = jax.random.split(key)
    sizes = (observation_size, *setup.hidden, actions)
    policy = initial_mlp(policy_key, sizes)
    critic = initial_mlp(critic_key, sizes) if setup.has_critic else ()
    optimizer = _DIRECTIONS[setup.optimizer]()
    return LearnerState(
        policy=policy,
        critic=critic,
        policy_optimizer=optimizer.init(policy),
        critic_optimizer=optimizer.init(critic),
        replay=ring.empty(setup.replay_capacity if setup.has_critic else 0, observation_size),
        average_return=RunningAverage(jnp.float32(0), jnp.float32(0)),
        episode=jnp.int32(0),
        diverged_at=jnp.int32(0),
    )


def action_probabilities(
    setup: Setup, policy: Network, observation: Float[Array, " observation"]
) -> Float[Array, " action"]:
    """The policy in one state."""
    return softmax(mlp(policy, observation, setup.activation))


def update(
    setup: Setup, hyper: Hyper, state: LearnerState, trajectory: Trajectory, key: Array
) -> tuple[LearnerState, EpisodeMetrics]:
    """Learn from one episode. A trial that would become non-finite keeps its last finite weights from then on."""
    learned = state
    if setup.has_critic:
        learned = _improve_critic(setup, hyper, learned, trajectory, key)
    learned = _improve_policy(setup, hyper, learned, trajectory)

    episode = state.episode + 1
    healthy = _is_healthy(learned)
    diverged_at = jnp.where((state.diverged_at == 0) & ~healthy, episode, state.diverged_at)
    # The ring is left out: a frozen trial never reads it again, and copying it would cost more than the update.
    kept = jax.tree.map(
        lambda new, old: jnp.where(diverged_at == 0, new, old),
        learned._replace(replay=state.replay),
        state,
    )
    metrics = EpisodeMetrics(
        episode_return=jnp.sum(trajectory.reward), length=jnp.sum(trajectory.valid, dtype=jnp.int32)
    )
    return kept._replace(replay=learned.replay, episode=episode, diverged_at=diverged_at), metrics


def _improve_critic(
    setup: Setup, hyper: Hyper, state: LearnerState, trajectory: Trajectory, key: Array
) -> LearnerState:
    """`setup.minibatches` steps towards targets from a critic copied now, once an episode."""
    rows = CRITIC_TARGETS[setup.critic_target](trajectory, hyper, setup.time_limit)
    replay = ring.add(state.replay, rows, trajectory.valid)

    sampled = ring.sample(replay, key, (setup.minibatches, setup.batch_size))

    def loss(critic: Network, observation: Array, action: Array, target: Array) -> Array:
        q = mlp(critic, observation, setup.activation, dense)
        taken = sum_over_actions(q * jax.nn.one_hot(action, q.shape[-1]))
        return jnp.mean((taken - target) ** 2)

    optimizer = _DIRECTIONS[setup.optimizer]()

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
        next_policy = softmax(mlp(state.policy, rows.next_observation, setup.activation, dense))
        next_q = mlp(state.critic, rows.next_observation, setup.activation, dense)
        target = rows.reward + rows.bootstrap * sum_over_actions(next_policy * next_q)
        return jax.lax.scan(step, carry, (rows.observation, rows.action, target))

    together = _largest_divisor(setup.minibatches, TARGET_ROWS // setup.batch_size)
    chunks = jax.tree.map(lambda x: x.reshape(-1, together, *x.shape[1:]), sampled)
    (critic, optimizer_state), _ = jax.lax.scan(steps, (state.critic, state.critic_optimizer), chunks)
    return state._replace(critic=critic, critic_optimizer=optimizer_state, replay=replay)


def _improve_policy(setup: Setup, hyper: Hyper, state: LearnerState, trajectory: Trajectory) -> LearnerState:
    """One step on the episode's states, each counting 1/T."""
    observation = trajectory.observation[:-1]
    returns = discounted_returns(trajectory.reward, hyper.discount)
    average = state.average_return
    state_weight = trajectory.valid / jnp.sum(trajectory.valid)
    actions = state.policy[-1].bias.shape[0]
    no_values = jnp.zeros((observation.shape[0], actions))
    q = mlp(state.critic, observation, setup.activation, dense) if setup.has_critic else no_values

    def loss(policy: Network) -> Array:
        log_policy = log_softmax(mlp(policy, observation, setup.activation, dense))
        evidence = Evidence(
            policy=jnp.exp(log_policy),
            q=q,
            returns=returns,
            baseline=average.total / jnp.maximum(average.weight, 1e-6),
            action=trajectory.action,
        )
        return policy_loss(log_policy, ESTIMATORS[setup.algorithm](evidence), state_weight)

    direction, optimizer_state = _DIRECTIONS[setup.optimizer]().update(
        jax.grad(loss)(state.policy), state.policy_optimizer
    )
    return state._replace(
        policy=_descend(state.policy, direction, hyper.actor_lr),
        policy_optimizer=optimizer_state,
        average_return=RunningAverage(
            total=hyper.baseline_decay * average.total + (1 - hyper.baseline_decay) * returns[0],
            weight=hyper.baseline_decay * average.weight + (1 - hyper.baseline_decay),
        ),
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
    statistics = jax.tree.leaves((state.policy_optimizer, state.critic_optimizer, state.average_return))
    return jnp.all(jnp.stack(bounded + [jnp.all(jnp.isfinite(s)) for s in statistics]))
