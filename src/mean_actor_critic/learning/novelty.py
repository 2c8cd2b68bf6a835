"""A bonus for states that are unlike those seen before; it fades by itself as they become known.

The bonus of a state with features φ is sqrt(φᵀ Λ⁻¹ φ), where Λ = I + Σ φ φᵀ over all states so far: about
1/sqrt(visits). Tabular observations are their own features, so that it is exactly 1/sqrt(1 + visits). Others get random
features, waves in random directions, which tell states apart by their distance, measured by how far apart states
usually are: of a large image only a few pixels may ever change.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

FEATURES = 128  # random ones
BANDWIDTH = 2.0  # of their frequencies, where observations have a variance of 1 in all
REFRESH = 256  # steps after which the inverse is made exact again, before rounding could add up


class Novelty(NamedTuple):
    """What is known of the states so far: of tabular observations the visits, of others the rest; what is not is ()."""

    frequency: Any  # [observation, feature] in cycles
    phase: Any  # [feature]
    precision: Any  # [feature, feature] Λ
    inverse: Any  # [feature, feature] Λ⁻¹
    visits: Any  # [observation]


def init(key: Array, size: int, tabular: bool) -> Novelty:
    """Before the first state, for observations of so many numbers."""
    if tabular:
        return Novelty((), (), (), (), jnp.zeros(size))
    frequency_key, phase_key = jax.random.split(key)
    frequency = jax.random.normal(frequency_key, (size, FEATURES)) * (BANDWIDTH / (2 * jnp.pi))
    phase = jax.random.uniform(phase_key, (FEATURES,))
    return Novelty(frequency, phase, jnp.eye(FEATURES), jnp.eye(FEATURES), ())


def features(
    novelty: Novelty, seen: Float[Array, "n observation"], variance: Float[Array, ""]
) -> Float[Array, "n feature"]:
    """sqrt(3/F) times a wave of W x + b: inner products fall with distance, nearly as exp(-2 distance² / variance).

    The variance is that of all numbers of an observation together. A triangle wave and not a cosine, which on CPU costs
    more than the networks; nearly all of it is its first harmonic.
    """
    cycles = (seen @ novelty.frequency) / jnp.sqrt(variance) + novelty.phase
    return (4 * jnp.abs(cycles - jnp.round(cycles)) - 1) * (3.0 / FEATURES) ** 0.5


def bonus(novelty: Novelty, seen: Float[Array, "n observation"], variance: Float[Array, ""]) -> Float[Array, " n"]:
    """How new states are: about 1 for one unlike all others, falling as 1/sqrt(visits)."""
    if not isinstance(novelty.visits, tuple):
        return jax.lax.rsqrt(1 + seen @ novelty.visits)
    phi = features(novelty, seen, variance)
    # the sum as a matrix product: XLA's own sums of products take thirty times as long (see `kernels.rectified`)
    return jnp.sqrt(jnp.maximum(((phi @ novelty.inverse) * phi) @ jnp.ones(FEATURES), 0.0))


def visit(
    novelty: Novelty, seen: Float[Array, "n observation"], variance: Float[Array, ""], step: Int[Array, ""]
) -> Novelty:
    """Count some states in; `step` counts the calls, the same for all trials that are vmapped."""
    if not isinstance(novelty.visits, tuple):
        return novelty._replace(visits=novelty.visits + jnp.sum(seen, axis=0))
    phi = features(novelty, seen, variance)
    precision = novelty.precision + phi.T @ phi

    def add(inverse: Array, one: Array) -> tuple[Array, None]:  # Sherman and Morrison: the inverse after one more state
        projected = inverse @ one
        return inverse - jnp.outer(projected, projected) / (1 + one @ projected), None

    # No inverse by LAPACK: within a loop, on several devices, its threads and XLA's wait for each other for ever.
    inverse, _ = jax.lax.scan(add, novelty.inverse, phi)
    inverse = jax.lax.cond(step % REFRESH == REFRESH - 1, lambda x: _polished(precision, x), lambda x: x, inverse)
    return novelty._replace(precision=precision, inverse=inverse)


def _polished(matrix: Float[Array, "n n"], inverse: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """An inverse that is nearly one, after two steps of Newton's, each of which squares what is wrong with it."""
    for _ in range(2):
        inverse = 2 * inverse - inverse @ (matrix @ inverse)
    return (inverse + inverse.T) / 2
