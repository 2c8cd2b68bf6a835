"""The parts of estimates: what each step of some episodes adds to each estimator, for networks that stand still."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from mean_actor_critic.gradients.exact import COMPARED
from mean_actor_critic.learning.estimators import policy_loss
from mean_actor_critic.learning.kernels import log_softmax
from mean_actor_critic.learning.networks import Layers, mlp, normalize, sum_over_actions
from mean_actor_critic.learning.types import Evidence
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.collect import Pool

NUMBERS_AT_ONCE = 2**21  # of the scores [step, action, parameter] that are in memory
MOST_ROWS = 1024  # steps that are worked on together

HostArray = np.ndarray[Any, Any]


class Frozen(NamedTuple):
    """A policy and its critic, in float64."""

    policy: Layers
    critic: Layers
    baseline: Float[Array, ""]  # for advantage REINFORCE: the expected return, where its running average tends to


class Steps(NamedTuple):
    """Steps [row] as estimators see them."""

    observation: Float[Array, "row observation"]  # as the networks see it
    action: Int[Array, " row"]
    returns: Float[Array, " row"]
    surplus: Float[Array, " row"]  # of the return over the critic's value, less other episodes' after as many steps


class Sums(NamedTuple):
    """Of the parts of an episode's steps [episode]; by estimator, in the order of `COMPARED`."""

    parts: Float[Any, "estimator episode parameter"]
    reference: Float[Any, "episode parameter"]
    squares: Float[Any, "estimator episode"]  # of the lengths of parts
    actions: Float[Any, "estimator episode"]  # variance over actions given the state, all parameters together
    mean_squares: Float[Any, " episode"]  # of the lengths of means given the state
    entropy: Float[Any, " episode"]
    lengths: Float[Any, " episode"]

    def of(self, name: str) -> Float[Any, "episode parameter"]:
        """The summed parts of an estimator."""
        return self.parts[list(COMPARED).index(name)]


def freeze(agent: Agent, pool: Pool) -> tuple[Frozen, Steps]:
    """An agent's networks, and the steps as they see them."""
    networks = jax.tree.map(lambda x: np.asarray(x, np.float64), agent.networks)
    seen = np.asarray(pool.observation, np.float64)
    if networks.normalizer:
        seen = normalize(seen, networks.normalizer)
    returns = np.asarray(pool.returns, np.float64)
    q = mlp(networks.critic, seen, _activation(agent))
    beyond = returns - np.take_along_axis(q, pool.action[:, None].astype(np.intp), axis=1)[:, 0]
    steps: Any = (seen, pool.action, returns, beyond - _of_others(beyond, pool))
    baseline: Any = np.mean(pool.first_returns, dtype=np.float64)
    return Frozen(networks.policy, networks.critic, baseline), Steps(*steps)


def _of_others(values: HostArray, pool: Pool) -> HostArray:
    """The mean of other episodes' values [step] after as many steps; 0 where no other lasted so long."""
    time = np.arange(len(values)) - np.repeat(np.cumsum(pool.lengths) - pool.lengths, pool.lengths)
    others = np.bincount(time)[time] - 1
    return (np.bincount(time, values)[time] - values) / np.maximum(others, 1) * (others > 0)


def _evidence(activation: str, frozen: Frozen, steps: Steps, log_policy: Array) -> Evidence:
    q = mlp(frozen.critic, steps.observation, activation)
    return Evidence(jnp.exp(log_policy), q, steps.returns, frozen.baseline, steps.action)


def _every_estimator(evidence: Evidence) -> Float[Array, "estimator row action"]:
    return jnp.stack([estimator(evidence) for estimator in COMPARED.values()])


@functools.partial(jax.jit, static_argnums=(0, 4))
def _sums_of_rows(
    activation: str, frozen: Frozen, steps: Steps, episode: Int[Array, " row"], episodes: int, counts: Array
) -> Sums:
    """Sums over the rows of each of the first `episodes`; a row counts 1, or 0 if it is padding."""
    parameters, as_network = ravel_pytree(frozen.policy)

    def log_policy(parameters: Array, observation: Array) -> Array:
        return log_softmax(mlp(as_network(parameters), observation, activation))

    scores = jax.vmap(jax.jacrev(log_policy), (None, 0))(parameters, steps.observation)  # [row, action, parameter]
    products = jnp.einsum("rap,rbp->rab", scores, scores)
    log_probability = jax.vmap(log_policy, (None, 0))(parameters, steps.observation)
    evidence = _evidence(activation, frozen, steps, log_probability)
    weights = _every_estimator(evidence)

    def had_it_been(action: Array) -> Array:
        """The weights after this action, and what the critic says in the place of the return."""
        taken = jnp.full_like(steps.action, action)
        return _every_estimator(evidence._replace(action=taken, returns=evidence.q[:, action]))

    alternatives = jax.vmap(had_it_been)(jnp.arange(evidence.q.shape[1]))  # [taken, estimator, row, action]
    from_first = alternatives - alternatives[:1]  # so that weights that do not depend on the action leave exactly 0
    apart = from_first - jnp.einsum("rt,tera->era", evidence.policy, from_first)

    def summed(of_rows: Array) -> Array:
        return jax.ops.segment_sum(of_rows * counts.reshape(-1, *[1] * (of_rows.ndim - 1)), episode, episodes)

    over_rows = jax.vmap(summed)
    advantage = evidence.policy * (evidence.q - sum_over_actions(evidence.policy * evidence.q)[:, None])
    unbiased = advantage + jax.nn.one_hot(steps.action, advantage.shape[1]) * steps.surplus[:, None]
    return Sums(
        parts=over_rows(jnp.einsum("era,rap->erp", weights, scores)),
        reference=summed(jnp.einsum("ra,rap->rp", unbiased, scores)),
        squares=over_rows(jnp.einsum("era,rab,erb->er", weights, products, weights)),
        actions=over_rows(jnp.einsum("rt,tera,rab,terb->er", evidence.policy, apart, products, apart)),
        mean_squares=summed(jnp.einsum("ra,rab,rb->r", advantage, products, advantage)),
        entropy=summed(-sum_over_actions(evidence.policy * log_probability)),
        lengths=summed(jnp.ones_like(steps.returns)),
    )


def episode_sums(agent: Agent, pool: Pool) -> Sums:
    """The parts of every estimator, summed over each episode."""
    frozen, steps = freeze(agent, pool)
    count, episodes = len(pool.action), len(pool.lengths)
    parameters = sum(x.size for x in jax.tree.leaves(frozen.policy))
    actions = agent.spaces.actions
    rows = max(16, min(MOST_ROWS, NUMBERS_AT_ONCE // (actions * parameters)))
    kinds = len(COMPARED)
    total = Sums(
        np.zeros((kinds, episodes, parameters)),
        np.zeros((episodes, parameters)),
        *np.zeros((2, kinds, episodes)),
        *np.zeros((3, episodes)),
    )
    with jax.enable_x64(True):
        for first in range(0, count, rows):
            some = np.minimum(np.arange(first, first + rows), count - 1)
            block = jax.tree.map(lambda x, some=some: x[some], steps)
            here, counts = pool.episode[some], np.arange(first, first + rows) < count
            begin, end = here[0], here[-1] + 1
            sums = _sums_of_rows(_activation(agent), frozen, block, here - begin, rows, counts)
            for name, found in sums._asdict().items():
                episode_axis = 1 if name in ("parts", "squares", "actions") else 0
                place = (slice(None),) * episode_axis
                getattr(total, name)[(*place, slice(begin, end))] += np.asarray(found)[(*place, slice(end - begin))]
    return total


@functools.partial(jax.jit, static_argnums=0)
def _gradients(activation: str, frozen: Frozen, steps: Steps) -> Float[Array, "estimator replicate parameter"]:
    """The estimate of each batch of steps [replicate, row], by the loss that training follows."""

    def estimate(name: str, steps: Steps) -> Array:
        def loss(policy: Layers) -> Array:
            log_policy = log_softmax(mlp(policy, steps.observation, activation))
            weights = COMPARED[name](_evidence(activation, frozen, steps, log_policy))
            rows = steps.action.shape[0]
            return policy_loss(log_policy, weights, jnp.full(rows, 1 / rows))

        return -ravel_pytree(jax.grad(loss)(frozen.policy))[0]

    return jnp.stack([jax.vmap(functools.partial(estimate, name))(steps) for name in COMPARED])


def independent_estimates(
    agent: Agent, pool: Pool, batch: int, replicates: int, random: np.random.Generator
) -> Float[Any, "estimator replicate parameter"]:
    """Estimates from `batch` states each, drawn independently from all steps."""
    frozen, steps = freeze(agent, pool)
    drawn = random.integers(len(pool.action), size=(replicates, batch))
    together = max(1, MOST_ROWS * 4 // batch)
    found = []
    with jax.enable_x64(True):
        for first in range(0, replicates, together):
            which = drawn[np.minimum(np.arange(first, first + together), replicates - 1)]
            some = jax.tree.map(lambda x, which=which: x[which], steps)
            found.append(np.asarray(_gradients(_activation(agent), frozen, some)))
    return np.concatenate(found, axis=1)[:, :replicates]


def _activation(agent: Agent) -> str:
    """That of the agent's hidden layers."""
    setup: Any = agent.experiment.setup
    return str(setup.activation)
