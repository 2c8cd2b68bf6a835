"""Ways to convolve while training, chosen by what they run on."""

import jax
from jaxtyping import Array, Float

from mean_actor_critic.networks import Convolve, convolve


def plain(
    x: Float[Array, "n height width channels"], weight: Float[Array, "kernel kernel channels filters"], stride: int
) -> Float[Array, "n rows columns filters"]:
    """XLA's own convolution, without padding: what accelerators have hardware for."""
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def fastest() -> Convolve:
    """The way for the device that JAX computes on: matrix products on a CPU, XLA's convolution elsewhere.

    Decision 14 says what is known, and what is not, about which is faster on a CPU.
    """
    return convolve if jax.default_backend() == "cpu" else plain
