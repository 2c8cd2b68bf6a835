"""Bias and variance of the estimators for networks that stand still: sampled, with intervals.

Episodes are played by sampled actions, and every step's part of every estimator is computed. An estimate is a weighted
sum of such parts, and comes in these batches:

- n independent states, drawn from all steps of all episodes as often as the policy visits them (no step is discounted,
  as in training): the mean of their parts;
- `episode`: the parts of one whole episode, summed and divided by the expected length, so that it estimates the same;
- `update`: the mean over one episode's own length, which is the step that training takes.

Where the variance comes from. Given the states, the part due to *actions* is computed in closed form, over all actions.
The part due to *states* is that of the mean given the state, which is MAC's part whatever the estimator. Estimators by
returns have a third: what *returns* add beyond the critic's values in their place. An episode's steps come together:
what that adds, or takes away, beyond as many independent states is due to *trajectories*.

The reference is an unbiased estimate of the gradient that training follows: MAC's part, corrected in each step by what
the return was beyond the critic's value, over all steps. Like the returns in training it ends at the time limit, and a
critic that looks beyond it counts as biased. What other episodes' returns were beyond the critic's values after as many
steps is taken off: it does not depend on the action, and most of the correction's noise goes with it.

Episodes are the independent units, and what intervals resample.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int

from mean_actor_critic.agent import Agent
from mean_actor_critic.atari_experiment import of_episodes
from mean_actor_critic.estimators import policy_loss
from mean_actor_critic.experiment import ALGORITHMS
from mean_actor_critic.gradients.exact import COMPARED
from mean_actor_critic.kernels import log_softmax
from mean_actor_critic.networks import Network, mlp, normalize, sum_over_actions
from mean_actor_critic.theory import EPISODE, QUANTILES, RATIOS, TAIL, UPDATE, Moment, Number, Row
from mean_actor_critic.training.collecting import Pool
from mean_actor_critic.types import Evidence

RESAMPLES = 1000
NUMBERS_AT_ONCE = 2**21  # of the scores [step, action, parameter] that are in memory
MOST_ROWS = 1024  # steps that are worked on together
BY_RETURNS = tuple(name for name in COMPARED if "critic" not in ALGORITHMS[name].parts)

HostArray = np.ndarray[Any, Any]
NAN = float("nan")


# --- parts of estimates ----------------------------------------------------------------------------------------------


class Frozen(NamedTuple):
    """A policy and its critic, in float64."""

    policy: Network
    critic: Network
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
        seen = normalize(seen, *networks.normalizer)
    returns = np.asarray(pool.returns, np.float64)
    q = mlp(networks.critic, seen, of_episodes(agent.experiment).setup.activation)
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
            sums = _sums_of_rows(
                of_episodes(agent.experiment).setup.activation, frozen, block, here - begin, rows, counts
            )
            for name, found in sums._asdict().items():
                episode_axis = 1 if name in ("parts", "squares", "actions") else 0
                place = (slice(None),) * episode_axis
                getattr(total, name)[(*place, slice(begin, end))] += np.asarray(found)[(*place, slice(end - begin))]
    return total


@functools.partial(jax.jit, static_argnums=0)
def _gradients(activation: str, frozen: Frozen, steps: Steps) -> Float[Array, "estimator replicate parameter"]:
    """The estimate of each batch of steps [replicate, row], by the loss that training follows."""

    def estimate(name: str, steps: Steps) -> Array:
        def loss(policy: Network) -> Array:
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
            found.append(np.asarray(_gradients(of_episodes(agent.experiment).setup.activation, frozen, some)))
    return np.concatenate(found, axis=1)[:, :replicates]


# --- numbers ---------------------------------------------------------------------------------------------------------


class _Mean(NamedTuple):
    """A mean vector over episodes: as it is, in bootstrap samples, and how far each episode pulls it."""

    now: HostArray  # [parameter]
    samples: HostArray  # [resample, parameter]
    pull: HostArray  # [episode, parameter]

    def __sub__(self, other: "_Mean") -> "_Mean":
        return _Mean(self.now - other.now, self.samples - other.samples, self.pull - other.pull)

    def squared_length(self) -> "_Squared":
        """Less what noise adds to it."""
        episodes = len(self.pull)
        noise = float(np.sum(_square(self.pull))) / (episodes * (episodes - 1))
        length = float(_square(self.now))
        # samples come from a mean of this very length, and have the noise in theirs: what they miss it by is an error
        errors = _square(self.samples) - noise - length
        return _Squared(length - noise, noise, length - noise - errors)


class _Squared(NamedTuple):
    """A squared length: without its noise, that noise, and where it may lie [resample]."""

    value: float
    noise: float
    samples: HostArray

    @property
    def resampled(self) -> HostArray:
        """As it comes out of each resample, for statistics that depend on others of the same resample."""
        return 2 * self.value - self.samples

    def in_units_of(self, unit: float) -> Number:
        """The length itself, 0 where noise is all there is."""
        return _interval(np.sqrt(max(self.value, 0) / unit), np.sqrt(np.maximum(self.samples, 0) / unit))


class _Statistics:
    """Of episodes, under weights [resample, episode] whose rows add up to 1."""

    def __init__(self, sums: Sums, weights: HostArray) -> None:
        self._sums, self._weights = sums, weights
        self._unbiased = weights.shape[1] / (weights.shape[1] - 1)
        self.length = weights @ sums.lengths  # [resample], as is all that has no parameters
        self.entropy = weights @ sums.entropy / self.length
        self._summed = {name: weights @ sums.of(name) for name in COMPARED}
        self.reference = weights @ sums.reference / self.length[:, None]

    @functools.cached_property
    def per_step(self) -> dict[str, HostArray]:
        """Mean parts [resample, parameter] of independent states, and of whole episodes."""
        return {name: summed / self.length[:, None] for name, summed in self._summed.items()}

    @functools.cached_property
    def per_update(self) -> dict[str, HostArray]:
        """Mean of episodes' means [resample, parameter]."""
        shares = self._weights / self._sums.lengths
        return {name: shares @ self._sums.of(name) for name in COMPARED}

    @functools.cached_property
    def _of_one_state(self) -> dict[str, dict[str, HostArray]]:
        sums, weights = self._sums, self._weights
        states = weights @ sums.mean_squares / self.length - _square(self.per_step["mac"])
        found = {}
        for place, name in enumerate(COMPARED):
            actions = weights @ sums.actions[place] / self.length
            whole = weights @ sums.squares[place] / self.length - _square(self.per_step[name])
            returns = whole - actions - states if name in BY_RETURNS else np.zeros_like(actions)
            found[name] = {"actions": actions, "states": states, "returns": returns}
        return found

    def variance(self, name: str, batch: str) -> dict[str, HostArray]:
        """Of an estimator's estimates from a batch: the `variance` of all parameters together, and its parts."""
        if batch == UPDATE:
            return self._of_updates[name]
        divisor = self.length if batch == EPISODE else int(batch)
        split = {part: value / divisor for part, value in self._of_one_state[name].items()}
        if batch != EPISODE:
            return _with_rest(sum(split.values(), np.zeros_like(self.length)), split)
        spread = self._weights @ _square(self._sums.of(name)) - _square(self._summed[name])
        return _with_rest(self._unbiased * spread / self.length**2, split)

    @functools.cached_property
    def _of_updates(self) -> dict[str, dict[str, HostArray]]:
        sums = self._sums
        shares = self._weights / sums.lengths
        squared_shares = shares / sums.lengths

        def about(centre: HostArray, name: str, squares: HostArray) -> HostArray:
            """Squared distances of parts from a centre, as episodes weigh them."""
            across = np.sum(centre * (squared_shares @ sums.of(name)), axis=1)
            return squared_shares @ squares - 2 * across + _square(centre) * shares.sum(axis=1)

        states = about(self.per_update["mac"], "mac", sums.mean_squares)
        found = {}
        for place, name in enumerate(COMPARED):
            mean = self.per_update[name]
            actions = squared_shares @ sums.actions[place]
            returns = np.zeros_like(actions)
            if name in BY_RETURNS:
                returns = about(mean, name, sums.squares[place]) - actions - states
            spread = squared_shares @ _square(sums.of(name)) - _square(mean)
            split = {"actions": actions, "states": states, "returns": returns}
            found[name] = _with_rest(self._unbiased * spread, split)
        return found


def _with_rest(whole: HostArray, split: dict[str, HostArray]) -> dict[str, HostArray]:
    """Whatever the parts leave of the whole is due to trajectories."""
    return {"variance": whole, **split, "trajectories": whole - sum(split.values(), np.zeros_like(whole))}


def _square(vectors: HostArray) -> HostArray:
    """Squared lengths [...] of [..., parameter]."""
    return np.einsum("...p,...p->...", vectors, vectors)


def _interval(value: float, samples: HostArray) -> Number:
    low, high = np.quantile(samples, (TAIL, 1 - TAIL))
    return Number(float(value), float(low), float(high))


class _Bootstrap:
    """Statistics of the episodes as they are, and of bootstrap samples of them."""

    def __init__(self, sums: Sums, random: np.random.Generator) -> None:
        episodes = len(sums.lengths)
        counts = random.multinomial(episodes, np.full(episodes, 1 / episodes), size=RESAMPLES)
        self.sums = sums
        self.now = _Statistics(sums, np.full((1, episodes), 1 / episodes))
        self.samples = _Statistics(sums, counts / episodes)

    def number(self, of: Callable[[_Statistics], HostArray]) -> Number:
        """A statistic with its interval."""
        return _interval(of(self.now)[0], of(self.samples))

    def mean(self, name: str, batch: str) -> _Mean:
        """Of an estimator."""
        if batch == UPDATE:
            now, samples = self.now.per_update[name][0], self.samples.per_update[name]
            return _Mean(now, samples, self.sums.of(name) / self.sums.lengths[:, None] - now)
        return self._ratio(self.now.per_step[name][0], self.samples.per_step[name], self.sums.of(name))

    def reference(self) -> _Mean:
        """The gradient that an estimator should have."""
        return self._ratio(self.now.reference[0], self.samples.reference, self.sums.reference)

    def _ratio(self, now: HostArray, samples: HostArray, summed: HostArray) -> _Mean:
        return _Mean(now, samples, (summed - self.sums.lengths[:, None] * now) / self.now.length)


def measure(agent: Agent, episode: int, pool: Pool, batches: Sequence[str], replicates: int, seed: int = 0) -> Moment:
    """Everything about the estimators for one frozen agent.

    Args:
        agent: with a critic.
        episode: of training that it is from.
        pool: what it played.
        batches: numbers of independent states, EPISODE, UPDATE.
        replicates: estimates to draw for each number of independent states. Variances come from all steps and episodes
            there are; these are for what single estimates are like.
        seed: of what is drawn and resampled.
    """
    random = np.random.default_rng([seed, episode])
    bootstrap = _Bootstrap(episode_sums(agent, pool), random)
    reference = bootstrap.reference()
    of_reference = reference.squared_length()
    with np.errstate(invalid="ignore", divide="ignore"):  # without any variance there are no ratios
        rows = [
            row
            for batch in batches
            for row in _rows(bootstrap, batch, _estimates(agent, pool, bootstrap, batch, replicates, random), random)
        ]
    return Moment(
        episode=episode,
        steps=len(pool.action),
        episodes=len(pool.lengths),
        length=bootstrap.number(lambda statistics: statistics.length),
        score=_interval(pool.scores.mean(), random.choice(pool.scores, (RESAMPLES, len(pool.scores))).mean(axis=1)),
        entropy=bootstrap.number(lambda statistics: statistics.entropy),
        reference=_interval(of_reference.value, of_reference.samples),
        noise=of_reference.noise,
        rows=tuple(rows),
    )


def _estimates(
    agent: Agent, pool: Pool, bootstrap: _Bootstrap, batch: str, replicates: int, random: np.random.Generator
) -> Float[Any, "estimator replicate parameter"]:
    """Single estimates."""
    if batch not in (EPISODE, UPDATE):
        return independent_estimates(agent, pool, int(batch), replicates, random)
    lengths = bootstrap.sums.lengths if batch == UPDATE else np.full_like(bootstrap.sums.lengths, bootstrap.now.length)
    return bootstrap.sums.parts[:, :replicates] / lengths[:replicates, None]


def _rows(bootstrap: _Bootstrap, batch: str, drawn: HostArray, random: np.random.Generator) -> Iterator[Row]:
    """A row for each estimator."""
    reference, of_mac = bootstrap.reference(), bootstrap.mean("mac", batch)
    of_reference = reference.squared_length()
    # of the reference or of MAC's mean, whichever is longer: where a task is solved, the reference vanishes
    unit = max(of_reference.value, of_mac.squared_length().value)
    unit = unit if unit > 0 else NAN
    # where the reference may be nothing but noise, no direction is the right one
    vanishes = _interval(of_reference.value, of_reference.samples).low <= 0
    of_estimates = _of_estimates(drawn, reference.now * (NAN if vanishes else 1), random)
    parts = list(bootstrap.now.variance("mac", batch))
    for place, name in enumerate(COMPARED):
        now, samples = (statistics.variance(name, batch) for statistics in (bootstrap.now, bootstrap.samples))
        mac_now, mac_samples = (statistics.variance("mac", batch) for statistics in (bootstrap.now, bootstrap.samples))
        mean = bootstrap.mean(name, batch)
        signal, bias = mean.squared_length(), (mean - reference).squared_length()
        yield Row(
            name,
            batch,
            {
                **{part: _interval(now[part][0], samples[part]) for part in parts},
                "ratio": _interval(
                    now["variance"][0] / mac_now["variance"][0], samples["variance"] / mac_samples["variance"]
                ),
                "snr": _interval(
                    max(signal.value, 0.0) / now["variance"][0], np.maximum(signal.resampled, 0.0) / samples["variance"]
                ),
                "direction": Number(NAN, NAN, NAN) if vanishes else _direction(signal, of_reference, bias),
                "bias": bias.in_units_of(unit),
                "difference": (mean - of_mac).squared_length().in_units_of(unit),
                **of_estimates[place],
            },
        )


def _direction(one: _Squared, other: _Squared, apart: _Squared) -> Number:
    """The cosine between two means, from their squared lengths and that of their difference, all without noise."""

    def cosine(a: Any, b: Any, c: Any) -> HostArray:
        with np.errstate(invalid="ignore", divide="ignore"):  # a length may be within noise
            return np.clip((a + b - c) / (2 * np.sqrt(a * np.where(b > 0, b, NAN))), -1, 1)

    value = float(cosine(one.value, other.value, apart.value))
    samples = cosine(one.resampled, other.resampled, apart.resampled)
    known = samples[np.isfinite(samples)]
    if not np.isfinite(value) or len(known) < len(samples) * (1 - TAIL):
        return Number(NAN, NAN, NAN)
    return _interval(value, known)


def _of_estimates(drawn: HostArray, reference: HostArray, random: np.random.Generator) -> list[dict[str, Number]]:
    """What single estimates [estimator, replicate, parameter] are like, with intervals that resample them.

    Their cosines are to a reference that stands still; NaN if it is.
    """
    replicates = drawn.shape[1]
    counts = random.multinomial(replicates, np.full(replicates, 1 / replicates), size=RESAMPLES) / replicates
    unbiased = replicates / (replicates - 1)
    lengths = np.sqrt(_square(drawn)) * np.sqrt(_square(reference))
    with np.errstate(invalid="ignore"):
        cosines = np.where(lengths == 0, 0.0, drawn @ reference / lengths)  # an estimate of nothing points nowhere

    def variances(estimates: HostArray) -> tuple[HostArray, HostArray]:
        """Of each parameter, as they are and resampled."""
        resampled = unbiased * (counts @ estimates**2 - (counts @ estimates) ** 2)
        return np.var(estimates, axis=0, ddof=1), resampled

    of_mac, of_mac_resampled = variances(drawn[list(COMPARED).index("mac")])
    moved = of_mac > 1e-12 * of_mac.max()  # a unit that never fires has no variance to compare
    moved |= ~moved.any()  # unless there is no variance at all
    found = []
    for estimates, cosine in zip(drawn, cosines, strict=True):
        now, resampled = variances(estimates)
        with np.errstate(invalid="ignore", divide="ignore"):  # a resample may lack the few estimates that move it
            ratios = np.quantile(now[moved] / of_mac[moved], QUANTILES)
            resampled_ratios = np.quantile(resampled[:, moved] / of_mac_resampled[:, moved], QUANTILES, axis=1)
        quantiles = map(_interval, ratios, resampled_ratios)
        found.append(
            {
                **dict(zip(RATIOS, quantiles, strict=True)),
                "cosine": _interval(cosine.mean(), counts @ cosine),
                "measured": _interval(now.sum(), resampled.sum(axis=1)),
            }
        )
    return found
