"""Operations on many small networks at once, shaped for what XLA does well.

Under vmap a layer is a batch of small matrix products. XLA's library call for one of them costs more than its
arithmetic when one side is a few elements wide (an observation of 4 numbers, 2 actions), so the backward pass of such a
layer is written as multiply-and-sum, which XLA fuses into one vectorised loop. Measured in `benchmarks/`.
"""

import operator

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from mean_actor_critic.networks import fold_actions

NARROW = 8  # a side of at most this many elements is multiplied out instead of handed to the matrix library


@jax.custom_vjp
def dense(x: Float[Array, "*batch inputs"], weight: Float[Array, "inputs outputs"]) -> Float[Array, "*batch outputs"]:
    """`x @ weight`, with a backward pass that is fast for narrow layers; `x` may have further leading dimensions."""
    return x @ weight


def _forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ weight, (x, weight)


def _backward(residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = residuals
    inputs, outputs = weight.shape
    if outputs <= NARROW:
        x_gradient = sum((gradient[:, i, None] * weight[None, :, i] for i in range(outputs)), jnp.zeros_like(x))
        weight_gradient = jnp.sum(gradient[:, :, None] * x[:, None, :], axis=0).T  # the wide side innermost
    elif inputs <= NARROW:
        x_gradient = gradient @ weight.T
        weight_gradient = jnp.sum(x[:, :, None] * gradient[:, None, :], axis=0)
    else:
        x_gradient = gradient @ weight.T
        weight_gradient = x.T @ gradient
    return x_gradient, weight_gradient


dense.defvjp(_forward, _backward)


def log_softmax(logits: Float[Array, "*batch actions"]) -> Float[Array, "*batch actions"]:
    """Logarithms of the probabilities over the last axis, safe for large logits."""
    shifted = logits - jax.lax.stop_gradient(fold_actions(jnp.maximum, logits))  # whose gradient would cancel
    return shifted - jnp.log(fold_actions(operator.add, jnp.exp(shifted)))


def convolve(
    x: Float[Array, "n height width channels"], weight: Float[Array, "kernel kernel channels filters"], stride: int
) -> Float[Array, "n rows columns filters"]:
    """XLA's own convolution, without padding: what accelerators have hardware for, and on CPU faster than patches."""
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
