"""Running statistics that make settings independent of an environment's units: of observations, returns, advantages."""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from mean_actor_critic.learning.networks import Units
from mean_actor_critic.spec.learners import IMAGE, VECTOR, Part

SMALLEST_SHARE = 1e-4  # of a number's mean that its deviation is taken to be at least: below it, float32 rounds
SMALLEST_RETURN = 1e-30  # what rewards are divided by at least


class Observed(NamedTuple):
    """Of observations so far: mean and sum of squared deviations of each number, and the largest of all."""

    mean: Float[Array, " observation"]
    squares: Float[Array, " observation"]
    largest: Float[Array, " observation"]  # absolute; of an image, the same for all its pixels
    n: Float[Array, ""]  # how many


def no_observations(size: int) -> Observed:
    """Before the first."""
    return Observed(jnp.zeros(size), jnp.zeros(size), jnp.zeros(size), jnp.float32(0))


def observe(observed: Observed, parts: tuple[Part, ...], new: Any) -> Observed:
    """Count some observations [n, observation] in (Chan et al. 1979: a batch at a time, without loss of digits)."""
    n = len(new)
    new = new.astype(jnp.float32)
    mean = jnp.mean(new, axis=0)
    delta, count = mean - observed.mean, observed.n + n
    squares = jnp.sum((new - mean) ** 2, axis=0) + delta**2 * observed.n * n / count
    highest = jnp.max(jnp.abs(new), axis=0)
    pieces = jnp.split(highest, _boundaries(parts))
    whole = [
        jnp.broadcast_to(jnp.max(piece), piece.shape) if part.kind == IMAGE else piece
        for part, piece in zip(parts, pieces, strict=True)
    ]
    largest = jnp.maximum(observed.largest, jnp.concatenate(whole))
    return Observed(observed.mean + delta * n / count, observed.squares + squares, largest, count)


def scale_of(observed: Observed, parts: tuple[Part, ...]) -> Units:
    """What observations are shifted and divided by: numbers by mean and deviation, images by the largest pixel.

    Choices, which are 0 or 1, stay as they are: a rare one would be blown up.
    """
    deviation = jnp.sqrt(observed.squares / jnp.maximum(observed.n, 1))
    deviation = jnp.maximum(deviation, SMALLEST_SHARE * jnp.abs(observed.mean))
    means, sizes = [], []
    boundaries = _boundaries(parts)
    pieces = zip(*(jnp.split(x, boundaries) for x in (observed.mean, deviation, observed.largest)), strict=True)
    for part, (mean, spread, largest) in zip(parts, pieces, strict=True):
        means.append(mean if part.kind == VECTOR else jnp.zeros_like(mean))
        sizes.append({VECTOR: spread, IMAGE: largest}.get(part.kind, jnp.ones_like(mean)))
    size = jnp.concatenate(sizes)
    return Units(jnp.concatenate(means), jnp.where(size > 0, size, 1.0))


def variance(observed: Observed, scale: Units) -> Float[Array, ""]:
    """The sum of the variances of all numbers of scaled observations; 1 where nothing varies."""
    total = jnp.sum(observed.squares / jnp.maximum(observed.n, 1) / scale.deviation**2)
    return jnp.where(total > 0, total, 1.0)


def _boundaries(parts: tuple[Part, ...]) -> list[int]:
    ends, end = [], 0
    for part in parts[:-1]:
        end += part.size
        ends.append(end)
    return ends


class Returns(NamedTuple):
    """The mean square of discounted returns as they build up, from 0 at the beginning of an episode."""

    so_far: Float[Array, " environment"]
    mean_square: Float[Array, ""]
    n: Float[Array, ""]  # how many


def no_returns(environments: int) -> Returns:
    """Before the first reward."""
    return Returns(jnp.zeros(environments), jnp.float32(0), jnp.float32(0))


def earn(
    returns: Returns, reward: Float[Array, " environment"], ended: Bool[Array, " environment"], discount: Any
) -> Returns:
    """Count the rewards of a step in."""
    so_far = discount * returns.so_far + reward
    count = returns.n + len(reward)
    mean_square = returns.mean_square + (jnp.mean(so_far**2) - returns.mean_square) * len(reward) / count
    return Returns(jnp.where(ended, 0.0, so_far), mean_square, count)


def reward_scale(returns: Returns) -> Float[Array, ""]:
    """What rewards are divided by; 1 as long as there was none."""
    size = jnp.sqrt(returns.mean_square)
    return jnp.where(size > SMALLEST_RETURN, size, 1.0)


class Average(NamedTuple):
    """An exponential average, unbiased from the first value on."""

    mean: Float[Array, ""]
    n: Float[Array, ""]  # values so far


MEMORY = 100.0  # values that it goes back
_ZERO: Any = np.float32(0)
NOTHING = Average(_ZERO, _ZERO)


def averaged(average: Average, value: Float[Array, ""]) -> Average:
    """Count another value in."""
    n = average.n + 1
    return Average(average.mean + jnp.maximum(1 / n, 1 / MEMORY) * (value - average.mean), n)


class Health(NamedTuple):
    """What updates say of themselves, averaged over the latest: for people, not for learning."""

    entropy: Average  # of the policy, as a share of the uniform policy's; 0 without a policy
    error: Average  # mean square of the critics' error, where returns have about size 1


UNKNOWN = Health(NOTHING, NOTHING)  # before the first update


def most_entropy(weight: Float[Array, "*n"], actions: int, mask: Any) -> Any:
    """The entropy of the uniform policy in states of so much weight; above 0, also where there is no choice."""
    if isinstance(mask, tuple):
        return math.log(max(2, actions))
    return jnp.maximum(jnp.sum(weight * jnp.log(jnp.maximum(jnp.sum(mask, axis=-1), 1))), 1e-6)
