"""Networks by observation: images go through convolutions, all else joins, and layers lead to one output an action.

On any array library: agents use them with NumPy.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mean_actor_critic.learning.networks import ILLEGAL, Layer, Network, convolve
from mean_actor_critic.spec.algorithms import POLICY, algorithm_of
from mean_actor_critic.spec.learners import IMAGE, Part

if TYPE_CHECKING:
    import jax

EPSILON = 1e-5  # of layer normalisation, as elsewhere in the field
_TRUNK_SCALE, _HEAD_SCALE = 2**0.5, 0.01  # of orthogonal weights: the first policies are nearly uniform


class Normed(NamedTuple):
    """An affine map whose outputs are normalised over the units, unless gain and shift are ()."""

    layer: Layer
    gain: Any = ()  # [outputs]
    shift: Any = ()


class Torso(NamedTuple):
    """The weights of a network."""

    convolutions: tuple[tuple[Normed, ...], ...]  # of each image among the parts of an observation
    hidden: tuple[Normed, ...]
    head: Layer


def convolutions_for(side: int) -> tuple[tuple[int, int, int], ...]:
    """Kernel, stride and filters of each convolution for images whose shorter side is so many pixels."""
    if side < 12:
        return ((3, 1, 16),)
    if side < 36:
        return ((4, 2, 16), (3, 1, 32))
    return ((8, 4, 16), (4, 2, 32), (3, 1, 32))


def torso_shapes(parts: Sequence[Part], hidden: Sequence[int], outputs: int, layer_norm: bool) -> Torso:
    """The shapes of all weights, in the place of these."""

    def normed(weight: tuple[int, ...]) -> Normed:
        units = weight[-1:]
        return Normed(Layer(weight, units), *((units, units) if layer_norm else ()))

    inputs, convolutions = 0, []
    for part in parts:
        if part.kind != IMAGE:
            inputs += part.size
            continue
        height, width, channels = image_shape(part)
        stack = []
        for kernel, stride, filters in convolutions_for(min(height, width)):
            stack.append(normed((kernel, kernel, channels, filters)))
            height, width, channels = (height - kernel) // stride + 1, (width - kernel) // stride + 1, filters
        convolutions.append(tuple(stack))
        inputs += height * width * channels
    layers = []
    for units in hidden:
        layers.append(normed((inputs, units)))
        inputs = units
    return Torso(tuple(convolutions), tuple(layers), Layer((inputs, outputs), (outputs,)))


def image_shape(part: Part) -> tuple[int, int, int]:
    """Height, width and channels of an image: its channels are its shorter outer side, or all but height and width."""
    shape: Any = part.shape
    if len(shape) == 2:
        return (*shape, 1)
    if len(shape) == 4:  # screens of several steps, in colour
        return shape[1], shape[2], shape[0] * shape[3]
    return (shape[1], shape[2], shape[0]) if shape[0] < shape[-1] else shape


def _as_image(part: Part, flat: Any) -> Any:
    """Flattened images [n, size] as [n, height, width, channels]."""
    xp = flat.__array_namespace__()
    shape = part.shape
    image = xp.reshape(flat, (-1, *shape))
    if len(shape) == 4:
        image = xp.permute_dims(image, (0, 2, 3, 1, 4))
    elif len(shape) == 3 and shape[0] < shape[-1]:
        image = xp.permute_dims(image, (0, 2, 3, 1))
    return xp.reshape(image, (-1, *image_shape(part)))


def initial_torso(key: "jax.Array", shapes: Torso) -> Torso:
    """Random weights of the given shapes: orthogonal; biases 0, gains 1."""
    import jax

    def drawn(place: int, shape: Layer, scale: float) -> Layer:
        orthogonal = jax.nn.initializers.orthogonal(scale)
        return Layer(orthogonal(jax.random.fold_in(key, place), shape.weight), jax.numpy.zeros(shape.bias))

    def normed(place: int, shape: Normed) -> Normed:
        norms = () if shape.gain == () else (jax.numpy.ones(shape.gain), jax.numpy.zeros(shape.shift))
        return Normed(drawn(place, shape.layer, _TRUNK_SCALE), *norms)

    places = iter(range(1000))
    return Torso(
        tuple(tuple(normed(next(places), shape) for shape in stack) for stack in shapes.convolutions),
        tuple(normed(next(places), shape) for shape in shapes.hidden),
        drawn(next(places), shapes.head, _HEAD_SCALE),
    )


def stacked_network(setup: Any) -> Network:
    """The network for agents: of a stack of torsos, the mean of their outputs as logits.

    Where there is no policy, the outputs are values, and all weight is on the action of the highest.
    """
    has_policy = POLICY in algorithm_of(setup.algorithm).parts

    def outputs(stack: Torso, seen: Any) -> Any:
        leading = seen.shape[:-1]
        flat = seen.reshape(-1, seen.shape[-1])
        count = stack.head.bias.shape[0]
        each = [torso_outputs(setup.parts, _taken(stack, place), flat) for place in range(count)]
        mean = sum(each[1:], each[0]) / count
        if not has_policy:
            xp = mean.__array_namespace__()
            mean = xp.where(mean >= xp.max(mean, axis=-1, keepdims=True), 0.0, ILLEGAL)
        return mean.reshape(*leading, mean.shape[-1])

    def shapes(observation: Sequence[int], actions: int) -> Torso:  # noqa: ARG001
        return torso_shapes(setup.parts, setup.hidden, actions, setup.layer_norm)

    return Network(shapes, initial_torso, outputs, each=functools.partial(torso_outputs, setup.parts))


def _taken(tree: Any, place: int) -> Any:
    """One network of a stack."""
    if not isinstance(tree, tuple):
        return tree[place]
    parts = [_taken(part, place) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def torso_outputs(
    parts: Sequence[Part],
    weights: Torso,
    seen: Any,
    dense: Callable[[Any, Any], Any] = operator.matmul,
) -> Any:
    """Outputs [n, outputs] for flattened and scaled observations [n, size]; `dense` is the matrix product."""
    xp = seen.__array_namespace__()
    if any(part.kind == IMAGE for part in parts):
        features, start, stacks = [], 0, iter(weights.convolutions)
        for part in parts:
            piece = seen[:, start : start + part.size]
            start += part.size
            features.append(_convolved(part, next(stacks), piece) if part.kind == IMAGE else piece)
        seen = xp.concat(features, axis=-1)
    for layer in weights.hidden:
        weight, bias = _centred(layer)
        seen = _activated(dense(seen, weight) + bias, layer)
    return dense(seen, weights.head.weight) + weights.head.bias


def _convolved(part: Part, stack: tuple[Normed, ...], flat: Any) -> Any:
    """Features [n, …] of flattened images [n, size].

    Convolutions are matrix products of patches: XLA's own, of several networks at once, are grouped ones, and slow.
    """
    image = _as_image(part, flat)
    strides = (stride for _, stride, _ in convolutions_for(min(image_shape(part)[:2])))
    for layer, stride in zip(stack, strides, strict=True):
        weight, bias = _centred(layer)
        image = _activated(convolve(image, weight, stride) + bias, layer)
    return image.__array_namespace__().reshape(image, (image.shape[0], math.prod(image.shape[1:])))


def _centred(layer: Normed) -> Layer:
    """The affine map of a layer, and where its outputs are to be normalised, less their mean.

    What is subtracted from every unit's output can be subtracted from its weights, which are fewer than outputs.
    """
    weight, bias = layer.layer
    if isinstance(layer.gain, tuple):
        return layer.layer
    xp = weight.__array_namespace__()
    return Layer(weight - xp.mean(weight, axis=-1, keepdims=True), bias - xp.mean(bias))


def _activated(x: Any, layer: Normed) -> Any:
    """ReLU, after normalisation over the last axis where there is one: `x` has mean 0 over it."""
    xp = x.__array_namespace__()
    if not isinstance(layer.gain, tuple):
        x = x * (1 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + EPSILON)) * layer.gain + layer.shift
    return xp.where(x > 0, x, 0)
