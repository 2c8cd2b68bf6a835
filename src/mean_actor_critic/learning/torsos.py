"""Networks by observation: images go through convolutions, all else joins, and layers lead to one output an action.

On any array library: agents use them with NumPy.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from mean_actor_critic.learning.given import given_outputs, given_shapes, initial_given
from mean_actor_critic.learning.networks import Layer, Network, convolve
from mean_actor_critic.spec.algorithms import POLICY, algorithm_of
from mean_actor_critic.spec.learners import CHOICE, IMAGE, Part

if TYPE_CHECKING:
    import jax

EPSILON = 1e-5  # of layer normalisation, as elsewhere in the field
MANY = 64  # choices from which on the chosen one's weights are looked up: a product with 0s and one 1 costs more
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


class Operations(NamedTuple):
    """What a torso computes with."""

    product: Callable[[Any, Any], Any]  # (x [n, inputs], weight [inputs, outputs]) -> [n, outputs]
    rectified: Callable[[Any, Any, Any], Any]  # (x [*n, units] of mean 0, gain, shift [units]) -> see `rectified`


def convolutions_for(side: int) -> tuple[tuple[int, int, int], ...]:
    """Kernel, stride and filters of each convolution for images whose shorter side is so many pixels.

    They halve small images at once. Without strides a convolution, and above all the layer that looks at all of its
    pixels, costs several times what the rest of the network does.
    """
    if side < 12:
        return ((4, 2, 16),)
    if side < 36:
        return ((4, 2, 16), (4, 2, 32))
    return ((8, 8, 16), (4, 2, 32))


def _covered(side: int, kernel: int, stride: int) -> int:
    """How many steps a kernel takes until it has covered a side: where the last one leaves it, there are zeros."""
    return max(0, -(-(side - kernel) // stride)) + 1


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
            height, width = (_covered(side, kernel, stride) for side in (height, width))
            channels = filters
        convolutions.append(tuple(stack))
        inputs += height * width * channels
    layers = []
    for units in hidden:
        layers.append(normed((inputs, units)))
        inputs = units
    # A bias of choices' own weights would carry what was learned of some of them over to those never seen.
    shared = bool(hidden) or any(part.kind != CHOICE for part in parts)
    return Torso(tuple(convolutions), tuple(layers), Layer((inputs, outputs), (outputs,) if shared else ()))


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
        bias = jax.numpy.zeros(shape.bias) if shape.bias else ()
        return Layer(orthogonal(jax.random.fold_in(key, place), shape.weight), bias)

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
    """The network for agents: of a stack of networks, the mean of their outputs; as values where there is no policy."""
    greedy = POLICY not in algorithm_of(setup.algorithm).parts

    one = _one_network(setup)

    def outputs(stack: Any, seen: Any) -> Any:
        leading = seen.shape[:-1]
        flat = seen.reshape(-1, seen.shape[-1])
        count = stack.head.weight.shape[0]
        each = [one.outputs(_taken(stack, place), flat) for place in range(count)]
        mean = sum(each[1:], each[0]) / count
        return mean.reshape(*leading, mean.shape[-1])

    return Network(one.shapes, one.init, outputs, each=one.outputs, greedy=greedy)


def _one_network(setup: Any) -> Network:
    """A network of the stack: the user's own, with a head on top, or a torso."""
    network = setup.network
    if network is not None:
        return Network(
            lambda _, actions: given_shapes(network, actions),
            functools.partial(initial_given, network),
            functools.partial(given_outputs, network),
        )

    def shapes(observation: Sequence[int], actions: int) -> Torso:  # noqa: ARG001
        return torso_shapes(setup.parts, setup.layers, actions, setup.layer_norm)

    return Network(shapes, initial_torso, functools.partial(torso_outputs, setup.parts))


def _taken(tree: Any, place: int) -> Any:
    """One network of a stack."""
    if not isinstance(tree, tuple):
        return tree[place]
    parts = [_taken(part, place) for part in tree]
    return type(tree)(*parts) if hasattr(tree, "_fields") else tuple(parts)


def rectified(x: Any, gain: Any, shift: Any) -> Any:
    """ReLU of outputs [*n, units] that are normalised over the last axis, over which their mean is 0."""
    xp = x.__array_namespace__()
    x = x * (1 / xp.sqrt(xp.mean(x * x, axis=-1, keepdims=True) + EPSILON)) * gain + shift
    return xp.where(x > 0, x, 0)


PLAIN = Operations(operator.matmul, rectified)


class _Chosen(NamedTuple):
    """A choice among many, as a number."""

    index: Any  # [n]
    size: int  # how many there are


def torso_outputs(parts: Sequence[Part], weights: Torso, seen: Any, operations: Operations = PLAIN) -> Any:
    """Outputs [n, outputs] for flattened and scaled observations [n, size]."""
    features: Iterable[Any] = _features(parts, weights, seen, operations)
    for layer in weights.hidden:
        features = [_activated(_affine(layer, features, operations), layer, operations)]
    return _affine(Normed(weights.head), features, operations)


def _features(parts: Sequence[Part], weights: Torso, seen: Any, operations: Operations) -> list[Any]:
    """What the first layer sees, in its order: choices among many as such, what is between them as [n, features]."""
    xp, start, stacks, pieces = seen.__array_namespace__(), 0, iter(weights.convolutions), []
    for part in parts:
        piece: Any = seen[:, start : start + part.size]
        start += part.size
        if part.kind == IMAGE:
            piece = _convolved(part, next(stacks), piece, operations)
        elif part.kind == CHOICE and part.size > MANY:
            piece = _Chosen(xp.sum(piece * xp.arange(part.size, dtype=piece.dtype), axis=-1).astype("int32"), part.size)
        pieces.append(piece)
    joined: list[Any] = []
    for chosen, group in itertools.groupby(pieces, lambda piece: isinstance(piece, _Chosen)):
        some = list(group)
        joined += some if chosen or len(some) == 1 else [xp.concat(some, axis=-1)]
    return joined


def _affine(layer: Normed, pieces: Iterable[Any], operations: Operations) -> Any:
    """The affine map of a layer, less the mean over its units where they are to be normalised.

    What is subtracted from every unit's output can be subtracted from its weights, which are fewer than outputs. Of
    choices among many they are more, but only those are subtracted from that are looked up.
    """
    (weight, bias), centred = layer.layer, _centring(layer)
    total, start = 0 if isinstance(bias, tuple) else centred(bias), 0
    for piece in pieces:
        if isinstance(piece, _Chosen):
            total, size = centred(weight[start + piece.index]) + total, piece.size
        else:
            size = piece.shape[-1]
            total = operations.product(piece, centred(weight[start : start + size])) + total
        start += size
    return total


def _centring(layer: Normed) -> Callable[[Any], Any]:
    """What is done to weights [*n, units], or to a bias, so that what a layer computes has the mean 0 if need be."""
    if isinstance(layer.gain, tuple):
        return lambda x: x
    return lambda x: x - x.__array_namespace__().mean(x, axis=-1, keepdims=True)


def _activated(x: Any, layer: Normed, operations: Operations) -> Any:
    if not isinstance(layer.gain, tuple):
        return operations.rectified(x, layer.gain, layer.shift)
    return x.__array_namespace__().where(x > 0, x, 0)


def _convolved(part: Part, stack: tuple[Normed, ...], flat: Any, operations: Operations) -> Any:
    """Features [n, …] of flattened images [n, size].

    Convolutions are matrix products of patches: XLA's own, of several networks at once, are grouped ones, and slow.
    """
    image = _as_image(part, flat)
    xp = image.__array_namespace__()
    for layer, (kernel, stride, _) in zip(stack, convolutions_for(min(image_shape(part)[:2])), strict=True):
        missing = [(_covered(side, kernel, stride) - 1) * stride + kernel - side for side in image.shape[1:3]]
        image = xp.pad(image, ((0, 0), *((0, max(0, pixels)) for pixels in missing), (0, 0)))
        weight, bias = _centring(layer)(layer.layer.weight), _centring(layer)(layer.layer.bias)
        image = _activated(convolve(image, weight, stride) + bias, layer, operations)
    return xp.reshape(image, (image.shape[0], math.prod(image.shape[1:])))
