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

import numpy as np
from jaxtyping import Float

from mean_actor_critic.gradients.exact import COMPARED
from mean_actor_critic.gradients.parts import HostArray, Sums, episode_sums, independent_estimates
from mean_actor_critic.gradients.theory import EPISODE, QUANTILES, RATIOS, TAIL, UPDATE, Moment, Number, Row
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.collect import Pool
from mean_actor_critic.spec.algorithms import ALGORITHMS

RESAMPLES = 1000
BY_RETURNS = tuple(name for name in COMPARED if "critic" not in ALGORITHMS[name].parts)
NAN = float("nan")


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
