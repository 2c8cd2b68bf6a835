"""Bias and variance of the estimators in finite decision problems: exactly, over everything that can happen.

An estimate is a sum over the steps of an episode, and a step's part of it is affine in the return that followed. So its
mean and covariance over all trajectories follow from moments that are passed back from the last step to the first: the
numbers that listing every trajectory would give, without the listing. Nothing is sampled. The weights are those of
`estimators`, by which algorithms train. All in float64, whatever the rest of the process computes in.

Two weightings of an episode's steps. `discounted`: step t counts discount^t, and with the true action values every
estimate is unbiased for the gradient of the expected discounted return. Otherwise every step counts the same, which is
what training does, here as nearly everywhere (Nota & Thomas, 2020).
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from mean_actor_critic.learning.estimators import ESTIMATORS, policy_loss
from mean_actor_critic.learning.types import Evidence
from mean_actor_critic.spec import paper

COMPARED = {
    name: ESTIMATORS[name] for name in paper.COMPARED
}  # those of one learner and critic; the game's A2C has another


@functools.partial(jax.tree_util.register_dataclass, meta_fields=["horizon"],
                   data_fields=["initial", "transition", "reward", "discount"])  # fmt: skip
@dataclasses.dataclass(frozen=True)
class Problem:
    """A finite Markov decision problem; an episode ends after `horizon` steps at the latest."""

    initial: Float[Any, " state"]
    transition: Float[Any, "state action next_state"]  # what a row lacks to 1 is the chance that the episode ends
    reward: Float[Any, "state action"]
    discount: Float[Any, ""]
    horizon: int


class SoftmaxPolicy(NamedTuple):
    """Logits that are linear in the parameters. Tabular where the features are an identity; else they share some."""

    features: Float[Any, "state action parameter"]
    parameters: Float[Any, " parameter"]

    def log_probabilities(self) -> Float[Array, "state action"]:
        """Of each action in each state."""
        return jax.nn.log_softmax(self.features @ self.parameters, axis=-1)

    def probabilities(self) -> Float[Array, "state action"]:
        """Of each action in each state."""
        return jnp.exp(self.log_probabilities())


class Measured(NamedTuple):
    """An estimator of the whole gradient, from one state drawn by itself or from one whole episode.

    The mean of n independent states has the same mean and an n-th of their covariance, as has that of n episodes.
    """

    mean: Float[Any, " parameter"]
    independent: Float[Any, "parameter parameter"]  # covariance from one state: the sum of the next three
    actions: Float[Any, "parameter parameter"]  # over actions given the state, of the mean given both
    returns: Float[Any, "parameter parameter"]  # over what followed, given state and action
    states: Float[Any, "parameter parameter"]  # of the mean given the state
    episode_mean: Float[Any, " parameter"]
    episode: Float[Any, "parameter parameter"]  # covariance from one whole episode
    steps: Float[Any, ""]  # expected number in an episode, as they are weighed

    @property
    def trajectories(self) -> Float[Any, "parameter parameter"]:
        """What it adds to the covariance, or takes from it, that an episode's steps come together.

        That is: beyond what as many independent states would have.
        """
        return self.episode - self.independent / self.steps[..., None, None]


def _exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """In float64, compiled, with NumPy's arrays as results."""
    options = [name for name in inspect.signature(function).parameters if name == "discounted"]
    compiled = jax.jit(function, static_argnames=options)

    @functools.wraps(function)
    def wrapped(*arguments: Any, **discounted: bool) -> Any:
        with jax.enable_x64(True):
            floats = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), arguments)
            return jax.tree.map(np.asarray, compiled(*floats, **discounted))

    return wrapped


# --- the problem itself ----------------------------------------------------------------------------------------------


class _Returns(NamedTuple):
    """Moments of the return G from a state and action on."""

    mean: Float[Array, "time state action"]
    square: Float[Array, "time state action"]


def _returns(problem: Problem, policy: SoftmaxPolicy) -> _Returns:
    probability = policy.probabilities()

    def back(after: _Returns, _: None) -> tuple[_Returns, _Returns]:
        later = problem.discount * (problem.transition @ after.mean)
        later_square = problem.discount**2 * (problem.transition @ after.square)
        now = _Returns(problem.reward + later, problem.reward**2 + 2 * problem.reward * later + later_square)
        return jax.tree.map(lambda x: jnp.sum(probability * x, axis=-1), now), now

    nothing = jnp.zeros_like(problem.initial)
    return jax.lax.scan(back, _Returns(nothing, nothing), None, length=problem.horizon, reverse=True)[1]


def _objective(problem: Problem, policy: SoftmaxPolicy) -> Float[Array, ""]:
    values = jnp.sum(policy.probabilities() * _returns(problem, policy).mean[0], axis=-1)
    return problem.initial @ values


def _visits(problem: Problem, policy: SoftmaxPolicy, discounted: bool) -> Float[Array, "time state"]:
    step = jnp.einsum("sa,sap->sp", policy.probabilities(), problem.transition)
    step *= problem.discount if discounted else 1.0

    def forth(reached: Array, _: None) -> tuple[Array, Array]:
        return reached @ step, reached

    return jax.lax.scan(forth, problem.initial, None, length=problem.horizon)[1]


def _gradient(problem: Problem, policy: SoftmaxPolicy, discounted: bool) -> Float[Array, " parameter"]:
    if discounted:  # straight from the definition, not through the theorem that the estimators rest on
        return jax.grad(lambda parameters: _objective(problem, policy._replace(parameters=parameters)))(
            policy.parameters
        )
    scores = jax.jacobian(lambda parameters: policy._replace(parameters=parameters).log_probabilities())(
        policy.parameters
    )
    q = _returns(problem, policy).mean
    return jnp.einsum("ts,sa,tsa,sak->k", _visits(problem, policy, False), policy.probabilities(), q, scores)


@_exactly
def action_values(problem: Problem, policy: SoftmaxPolicy) -> Float[Array, "time state action"]:
    """The true Q: the expected discounted return from each time, state and action on."""
    return _returns(problem, policy).mean


@_exactly
def objective(problem: Problem, policy: SoftmaxPolicy) -> Float[Array, ""]:
    """The expected discounted return."""
    return _objective(problem, policy)


@_exactly
def policy_gradient(problem: Problem, policy: SoftmaxPolicy, *, discounted: bool = True) -> Float[Array, " parameter"]:
    """The gradient of the objective; or, not `discounted`, what training follows in its place."""
    return _gradient(problem, policy, discounted)


# --- estimates -------------------------------------------------------------------------------------------------------


class _Parts(NamedTuple):
    """A step's part of an estimate, `fixed + G * slope` with the return G from that step on."""

    fixed: Float[Array, "time state action parameter"]
    slope: Float[Array, "time state action parameter"]


def _parts(
    name: str, policy: SoftmaxPolicy, q: Float[Array, "time state action"], baseline: Float[Array, ""]
) -> _Parts:
    states, actions = q.shape[1:]

    def part(values: Array, state: Array, action: Array, returns: Array) -> Array:
        def loss(parameters: Array) -> Array:
            log_policy = policy._replace(parameters=parameters).log_probabilities()[state][None]
            evidence = Evidence(jnp.exp(log_policy), values[state][None], returns[None], baseline, action[None])
            return policy_loss(log_policy, COMPARED[name](evidence), jnp.ones(1))

        return -jax.grad(loss)(policy.parameters)

    over_actions = jax.vmap(part, (None, None, 0, None))
    over_states = jax.vmap(over_actions, (None, 0, None, None))
    over_time = jax.vmap(over_states, (0, None, None, None))
    at = [over_time(q, jnp.arange(states), jnp.arange(actions), jnp.asarray(g, q.dtype)) for g in (0.0, 1.0)]
    return _Parts(at[0], at[1] - at[0])


class _Ahead(NamedTuple):
    """What is to come from a state on: the return G, and the sum X of the estimate's parts."""

    g: Float[Array, " state"]
    gg: Float[Array, " state"]
    x: Float[Array, "state parameter"]
    gx: Float[Array, "state parameter"]
    xx: Float[Array, "state parameter parameter"]


def _episode(problem: Problem, policy: SoftmaxPolicy, parts: _Parts) -> tuple[Array, Array]:
    """Mean and covariance of the sum of an episode's parts."""
    probability = policy.probabilities()
    reward, discount = problem.reward, problem.discount

    def back(after: _Ahead, step: _Parts) -> tuple[_Ahead, None]:
        ahead = _Ahead(*(jnp.einsum("sap,p...->sa...", problem.transition, moment) for moment in after))
        g = reward + discount * ahead.g
        gg = reward**2 + 2 * reward * discount * ahead.g + discount**2 * ahead.gg
        g_and_later = reward[..., None] * ahead.x + discount * ahead.gx  # E[G X']
        one, two = g[..., None], gg[..., None]
        now = _Ahead(
            g=g,
            gg=gg,
            x=step.fixed + one * step.slope + ahead.x,
            gx=one * step.fixed + two * step.slope + g_and_later,
            xx=_outer(step.fixed, step.fixed)
            + one[..., None] * _both_ways(step.fixed, step.slope)
            + two[..., None] * _outer(step.slope, step.slope)
            + _both_ways(step.fixed, ahead.x)
            + _both_ways(step.slope, g_and_later)
            + ahead.xx,
        )
        return _Ahead(*(jnp.einsum("sa,sa...->s...", probability, moment) for moment in now)), None

    states, parameters = reward.shape[0], policy.parameters.shape[0]
    shapes = ((states,), (states,), (states, parameters), (states, parameters), (states, parameters, parameters))
    nothing = _Ahead(*(jnp.zeros(shape, reward.dtype) for shape in shapes))
    first, _ = jax.lax.scan(back, nothing, parts, reverse=True)
    mean = problem.initial @ first.x
    return mean, jnp.einsum("s,skl->kl", problem.initial, first.xx) - _outer(mean, mean)


def _measured(problem: Problem, policy: SoftmaxPolicy, parts: _Parts, discounted: bool) -> Measured:
    returns = _returns(problem, policy)
    visited = _visits(problem, policy, discounted)
    steps = jnp.sum(visited)
    chance = visited / steps  # [time, state]
    taken = policy.probabilities()  # [state, action]

    # what one state says, times the steps of an episode: an estimate of the whole gradient
    given_action = steps * (parts.fixed + returns.mean[..., None] * parts.slope)  # [time, state, action, parameter]
    given_state = jnp.einsum("sa,tsak->tsk", taken, given_action)
    mean = jnp.einsum("ts,tsk->k", chance, given_state)
    square = steps**2 * (
        _outer(parts.fixed, parts.fixed)
        + returns.mean[..., None, None] * _both_ways(parts.fixed, parts.slope)
        + returns.square[..., None, None] * _outer(parts.slope, parts.slope)
    )
    of_returns = (returns.square - returns.mean**2)[..., None, None] * steps**2 * _outer(parts.slope, parts.slope)
    among_actions = given_action - given_state[:, :, None]
    among_states = given_state - mean

    weights = (problem.discount if discounted else 1.0) ** jnp.arange(problem.horizon)
    weighed = jax.tree.map(lambda x: x * weights[:, None, None, None], parts)
    episode_mean, episode = _episode(problem, policy, weighed)
    return Measured(
        mean,
        jnp.einsum("ts,sa,tsakl->kl", chance, taken, square) - _outer(mean, mean),
        jnp.einsum("ts,sa,tsak,tsal->kl", chance, taken, among_actions, among_actions),
        jnp.einsum("ts,sa,tsakl->kl", chance, taken, of_returns),
        jnp.einsum("ts,tsk,tsl->kl", chance, among_states, among_states),
        episode_mean,
        episode,
        steps,
    )


def _outer(x: Array, y: Array) -> Array:
    return x[..., :, None] * y[..., None, :]


def _both_ways(x: Array, y: Array) -> Array:
    return _outer(x, y) + _outer(y, x)


def _measure(
    problem: Problem, policy: SoftmaxPolicy, q: Float[Array, "time state action"], baseline: Array, discounted: bool
) -> dict[str, Measured]:
    every = [_parts(name, policy, q, baseline) for name in COMPARED]
    stacked: _Parts = jax.tree.map(lambda *parts: jnp.stack(parts), *every)
    measured = jax.vmap(lambda parts: _measured(problem, policy, parts, discounted))(stacked)
    return {name: jax.tree.map(lambda x, i=i: x[i], measured) for i, name in enumerate(COMPARED)}


@_exactly
def measure(
    problem: Problem,
    policy: SoftmaxPolicy,
    q: Float[Array, "time state action"],
    baseline: Float[Array, ""],
    *,
    discounted: bool = True,
) -> dict[str, Measured]:
    """Mean and covariance of every estimator, by the names of `COMPARED`.

    Args:
        problem: where.
        policy: whose gradient.
        q: what the critic says: the true `action_values`, or others.
        baseline: for advantage REINFORCE; with the expected return, `objective`, it is the running average's limit.
        discounted: weigh step t by discount^t.
    """
    return _measure(problem, policy, q, baseline, discounted)


# --- many of them ----------------------------------------------------------------------------------------------------


class Exact(NamedTuple):
    """A problem, with a critic: all that its verdict needs."""

    gradient: Float[Any, " parameter"]
    entropy: Float[Any, ""]  # nats, over states as they are visited
    estimators: dict[str, Measured]
    shifted: Measured  # MAC, with a baseline of its own for each state in its critic


@_exactly
def examine(
    problem: Problem,
    policy: SoftmaxPolicy,
    error: Float[Array, "problem time state action"],
    shift: Float[Array, "problem time state"],
    *,
    discounted: bool = True,
) -> Exact:
    """Many problems of one size at once, every array with a first axis [problem]; so have the results.

    Args:
        problem: where.
        policy: whose gradient.
        error: of the critic, which says this beyond the true action values.
        shift: a baseline for each state, to see what it does to MAC.
        discounted: weigh step t by discount^t.
    """

    def one(problem: Problem, policy: SoftmaxPolicy, error: Array, shift: Array) -> Exact:
        q = _returns(problem, policy).mean + error
        visited = _visits(problem, policy, discounted)
        entropy = -jnp.sum(policy.probabilities() * policy.log_probabilities(), axis=-1)
        zero = jnp.zeros((), q.dtype)
        return Exact(
            _gradient(problem, policy, discounted),
            jnp.sum(visited * entropy) / jnp.sum(visited),
            _measure(problem, policy, q, _objective(problem, policy), discounted),
            _measured(problem, policy, _parts("mac", policy, q + shift[..., None], zero), discounted),
        )

    return jax.vmap(one)(problem, policy, error, shift)


class Size(NamedTuple):
    """Of random problems."""

    states: int
    actions: int
    parameters: int | None = None  # of a policy whose states share them; None: tabular


def random_problems(
    random: np.random.Generator, count: int, size: Size, horizon: int = 5, ending: float = 0.1
) -> tuple[Problem, SoftmaxPolicy]:
    """Problems with random transitions, rewards, discounts and policies, all with a first axis [count].

    In every other one, an action leads nearly always to the same state: there, what an action does lasts.
    """
    states, actions, parameters = size
    anywhere = random.dirichlet(np.ones(states), (count, states, actions))
    somewhere = random.dirichlet(np.full(states, 0.05), (count, states, actions))
    every_other = (np.arange(count) % 2 == 0)[:, None, None, None]
    problem = Problem(
        initial=random.dirichlet(np.ones(states), count),
        transition=(1 - ending) * np.where(every_other, anywhere, somewhere),
        reward=random.normal(size=(count, states, actions)),
        discount=random.uniform(0.5, 1.0, count),
        horizon=horizon,
    )
    if parameters is None:
        features = np.eye(states * actions).reshape(states, actions, -1)
        policy = SoftmaxPolicy(
            np.broadcast_to(features, (count, *features.shape)), random.normal(size=(count, states * actions))
        )
    else:
        policy = SoftmaxPolicy(
            random.normal(size=(count, states, actions, parameters)), random.normal(size=(count, parameters))
        )
    return problem, policy


def counterexample() -> tuple[Problem, SoftmaxPolicy]:
    """Where MAC has more variance than actor-critic on trajectories: ¼ against 0, with the true action values.

    One parameter, shared by all states, at which both actions are equally likely. The first state pays 1 and leads to A
    by action 1, to B by action 0; A pays −1 for action 1 and 1 for action 0, B the other way round; then it ends.
    """
    start, a, b = range(3)
    transition = np.zeros((3, 2, 3))
    transition[start, 1, a] = transition[start, 0, b] = 1.0
    reward = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0]])
    problem = Problem(np.array([1.0, 0.0, 0.0]), transition, reward, np.asarray(1.0), horizon=2)
    return problem, SoftmaxPolicy(np.tile(np.array([[0.0], [1.0]]), (3, 1, 1)), np.zeros(1))
