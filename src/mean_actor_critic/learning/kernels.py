"""Operations on many small networks at once, shaped for what XLA does well.

Under vmap a layer is a batch of small matrix products. XLA's library call for one of them costs more than its
arithmetic when one side is a few elements wide (an observation of 4 numbers, 2 actions), so the backward pass of such a
layer is written as multiply-and-sum, which XLA fuses into one vectorised loop. Measured in `benchmarks/`.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, UInt8

from mean_actor_critic.learning import torsos
from mean_actor_critic.learning.networks import CONVOLUTIONS, Layer, MapsOf, convolved, fold_actions, for_bytes, screens

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


@jax.custom_vjp
def rectified(
    x: Float[Array, "*n units"], gain: Float[Array, " units"], shift: Float[Array, " units"]
) -> Float[Array, "*n units"]:
    """`torsos.rectified`, with a backward pass that does without sums of products.

    XLA hands these to a library that takes up to thirty times as long for them as for sums, or for matrix products.
    """
    return torsos.rectified(x, gain, shift)


def _rectified_forward(x: Array, gain: Array, shift: Array) -> tuple[Array, tuple[Array, ...]]:
    scale = 1 / jnp.sqrt(jnp.mean(x * x, axis=-1, keepdims=True) + torsos.EPSILON)
    outputs = x * scale * gain + shift
    return jnp.where(outputs > 0, outputs, 0), (x, scale, gain, outputs)


def _rectified_backward(residuals: tuple[Array, ...], gradient: Array) -> tuple[Array, Array, Array]:
    x, scale, gain, outputs = residuals
    normalised, of_outputs = x * scale, jnp.where(outputs > 0, gradient, 0)
    of_gain, rows = normalised * of_outputs, tuple(range(x.ndim - 1))  # of each row
    along = of_gain @ gain[:, None] / gain.shape[0]  # how far the gradient points along x, whose length is fixed
    return (gain * of_outputs - normalised * along) * scale, jnp.sum(of_gain, rows), jnp.sum(of_outputs, rows)


rectified.defvjp(_rectified_forward, _rectified_backward)
OPERATIONS = torsos.Operations(dense, rectified)  # for training the networks of `torsos`


def log_softmax(logits: Float[Array, "*batch actions"]) -> Float[Array, "*batch actions"]:
    """Logarithms of the probabilities over the last axis, safe for large logits."""
    shifted = logits - jax.lax.stop_gradient(fold_actions(jnp.maximum, logits))  # whose gradient would cancel
    return shifted - jnp.log(fold_actions(operator.add, jnp.exp(shifted)))


# --- the trunk of the Atari network ----------------------------------------------------------------------------------

Observation = UInt8[Array, "n stack height width"]  # or with a last axis of colours
Images = Float[Array, "n height width channels"]
Maps = Float[Array, "n rows columns filters"]
# (convolutions, observations and maps of each step, gradient of all last maps, step by step) -> of the convolutions
Backward = Callable[[Sequence[Layer], Sequence[Observation], Sequence[Sequence[Maps]], Maps], tuple[Layer, ...]]


class Trunk(NamedTuple):
    """A way to do the convolutions of the Atari network, each with its ReLU, forward and backward."""

    forward: MapsOf
    backward: Backward


def convolve(x: Images, weight: Float[Array, "kernel kernel channels filters"], stride: int) -> Images:
    """XLA's own convolution, without padding: what accelerators have hardware for, and on CPU faster than patches."""
    return jax.lax.conv_general_dilated(
        x, weight, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _backward_of_convolutions(
    convolutions: Sequence[Layer], seen: Sequence[Observation], maps: Sequence[Sequence[Maps]], gradient: Maps
) -> tuple[Layer, ...]:
    scaled = for_bytes(convolutions)
    # one step at a time: all rows at once need more cache than there is
    gradients = jnp.split(gradient, len(seen))
    steps = [
        _backward_of_a_step(scaled, screens(observation), made, of_last)
        for observation, made, of_last in zip(seen, maps, gradients, strict=True)
    ]
    return for_bytes(jax.tree.map(lambda *parts: functools.reduce(operator.add, parts), *steps))


def _backward_of_a_step(
    convolutions: Sequence[Layer], images: Images, maps: Sequence[Array], gradient: Array
) -> tuple[Layer, ...]:
    inputs, layers = (images, *maps[:-1]), []
    for place in reversed(range(len(CONVOLUTIONS))):
        x, weight, stride = inputs[place], convolutions[place].weight, CONVOLUTIONS[place][1]
        gradient = jnp.where(maps[place] > 0, gradient, 0)
        # only the pullbacks are used: XLA leaves out the convolutions themselves
        _, of_weight = jax.vjp(lambda w, x=x, s=stride: convolve(x, w, s), weight)
        layers.append(Layer(of_weight(gradient)[0], jnp.sum(gradient, axis=(0, 1, 2))))
        if place > 0:
            _, of_input = jax.vjp(lambda x, w=weight, s=stride: convolve(x, w, s), x)
            gradient = of_input(gradient)[0]
    return tuple(reversed(layers))


XLA = Trunk(functools.partial(convolved, convolution=convolve), _backward_of_convolutions)
