"""Multi-layer perceptrons and the Atari network as plain tuples of layers, for JAX (training) and NumPy (agents)."""

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax

ILLEGAL = -1e9  # the logit of an action that is never taken: its probability is exactly 0
LEAK = 0.3  # the paper's leaky ReLU


class Layer(NamedTuple):
    """An affine map: weight [inputs, outputs], bias [outputs], or () without."""

    weight: Any
    bias: Any


Layers = tuple[Layer, ...]  # the weights of a multi-layer perceptron, first layer to last


class Network(NamedTuple):
    """A kind of network, chosen from settings: learners know networks by nothing else.

    Attributes:
        shapes: (shape of an observation, outputs of each head) -> the shapes of all weights, in the place of these.
        init: (key, shapes) -> random weights.
        outputs: (weights, observations [*n, …], …) -> what it makes of them.
        each: where weights are a stack of several networks and outputs are the mean of theirs: (weights of one,
            observations [n, …], operations) -> its outputs.
        shared: whether one network has heads for policy and critic and sees observations as they are. Else each of the
            two has its own, with the logits or values as outputs, and sees them flattened.
        greedy: whether what plays are values, and all weight is on the action of the highest.
    """

    shapes: Callable[..., Any]
    init: Callable[..., Any]
    outputs: Callable[..., Any]
    each: Callable[..., Any] | None = None
    shared: bool = False
    greedy: bool = False


class Networks(NamedTuple):
    """What an agent keeps of what was learned. Parts that there are not are ()."""

    policy: Any = ()  # layers from observation to action logits
    critic: Any = ()  # layers from observation to action values
    normalizer: Any = ()  # a `Scale`, or `Units`, where observations are normalised
    network: Any = ()  # one network with heads for both


class Scale(NamedTuple):
    """Mean and variance [size] of observations, as the paper's learner normalises them."""

    mean: Any
    variance: Any

    @property
    def deviation(self) -> Any:
        """What they are divided by [size]; where they hardly vary, about a number that is small in usual units."""
        return self.variance.__array_namespace__().sqrt(self.variance + 1e-8)


class Units(NamedTuple):
    """What observations are measured from and by, whatever their size."""

    mean: Any  # [size]
    deviation: Any  # [size], above 0


def _relu(x: Any) -> Any:
    return x.__array_namespace__().where(x > 0, x, 0)  # slope 0 at 0


def _leaky_relu(x: Any) -> Any:
    return x.__array_namespace__().where(x > 0, x, LEAK * x)


def _tanh(x: Any) -> Any:
    return x.__array_namespace__().tanh(x)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"relu": _relu, "leaky_relu": _leaky_relu, "tanh": _tanh}


def _activate(x: Any, activation: Any) -> Any:
    if isinstance(activation, str):
        return ACTIVATIONS[activation](x)
    # Which one is a traced number. All are computed: branches would keep XLA from fusing this with what is around it,
    # which costs up to half of the speed.
    xp = x.__array_namespace__()
    relu, leaky_relu, tanh = (function(x) for function in ACTIVATIONS.values())
    return xp.where(activation == 0, relu, xp.where(activation == 1, leaky_relu, tanh))


def mlp(layers: Layers, x: Any, activation: Any, dense: Callable[[Any, Any], Any] = operator.matmul) -> Any:
    """Outputs [..., outputs] for inputs [..., inputs]; the last layer is linear.

    Args:
        layers: first to last.
        x: a NumPy or JAX array.
        activation: a name in `ACTIVATIONS`, or a traced place among them.
        dense: the matrix product; `kernels.dense` is the fast one for training.
    """
    *hidden, last = layers
    for layer in hidden:
        x = _activate(dense(x, layer.weight) + layer.bias, activation)
    return dense(x, last.weight) + last.bias


def fold_actions(operation: Callable[[Any, Any], Any], x: Any) -> Any:
    """Fold the last axis [..., actions] to [..., 1].

    Written out action by action: XLA's own reductions over a short innermost axis cost three times as much, more than
    the layers that feed them.
    """
    return functools.reduce(operation, (x[..., i : i + 1] for i in range(x.shape[-1])))


def sum_over_actions(x: Any) -> Any:
    """Sum over the last axis: [...] of [..., actions]."""
    return fold_actions(operator.add, x)[..., 0]


def softmax(logits: Any) -> Any:
    """Probabilities over the last axis, safe for large logits."""
    xp = logits.__array_namespace__()
    unnormalised = xp.exp(logits - fold_actions(xp.maximum, logits))
    return unnormalised / fold_actions(operator.add, unnormalised)


LARGEST_NORMALIZED = 10.0  # standard deviations; what is further out is cut off, as elsewhere in the field


def normalize(observation: Any, scale: Scale | Units) -> Any:
    """Observations [..., size] in standard deviations from their mean."""
    deviations = (observation - scale.mean) / scale.deviation
    return observation.__array_namespace__().clip(deviations, -LARGEST_NORMALIZED, LARGEST_NORMALIZED)


def legal(logits: Any, mask: Any) -> Any:
    """Logits [..., actions] by which only the actions of a mask are taken; () stands for a mask of all.

    The probability of any other action is exactly 0, and so is the gradient of its logit. Not minus infinity, of which
    a product with that 0 would not be a number.
    """
    if isinstance(mask, tuple):
        return logits
    return logits.__array_namespace__().where(mask, logits, ILLEGAL)


def highest(values: Any) -> Any:
    """Logits by which the action of the highest value is taken, of values [..., actions]."""
    xp = values.__array_namespace__()
    return xp.where(values >= xp.max(values, axis=-1, keepdims=True), 0.0, ILLEGAL)


def inverse_cdf(policy: Any, uniform: Any, masked: bool = False) -> Any:
    """The action [...] that a uniform draw [...] in [0, 1) selects from probabilities [..., actions].

    Both engines and saved agents sample this way, so that equal draws mean equal actions.

    Args:
        policy: the probabilities.
        uniform: the draw.
        masked: whether actions of probability 0 must not be taken.
    """
    xp = policy.__array_namespace__()
    # the last action takes what rounding leaves: its boundary is never compared
    boundaries = xp.cumulative_sum(policy, axis=-1)[..., :-1]
    action = xp.sum(uniform[..., None] >= boundaries, axis=-1)
    if not masked:
        return action
    # rounding may leave something to any action, once in ten million draws
    probability = xp.take_along_axis(policy, action[..., None], axis=-1)[..., 0]
    return xp.where(probability > 0, action, xp.argmax(policy, axis=-1))


MOST_PROBABLE = -1.0  # in the place of a draw


def chosen_action(policy: Any, draw: Any, masked: bool = False) -> Any:
    """The action [...] that a draw [...] selects from probabilities [..., actions], or MOST_PROBABLE in its place.

    `masked` is that of `inverse_cdf`.
    """
    xp = policy.__array_namespace__()
    return xp.where(draw < 0, xp.argmax(policy, axis=-1), inverse_cdf(policy, draw, masked))


def mlp_shapes(hidden: Sequence[int], observation: Sequence[int], outputs: int) -> Layers:
    """Of a perceptron for observations of a shape, which it sees flattened."""
    sizes = (math.prod(observation), *hidden, outputs)
    return tuple(Layer((inputs, units), (units,)) for inputs, units in itertools.pairwise(sizes))


def initial_mlp(key: "jax.Array", shapes: Layers) -> Layers:
    """A random perceptron: Glorot-uniform weights, zero biases."""
    import jax  # here, so that agents run without it

    glorot = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(key, len(shapes))
    return tuple(
        Layer(glorot(layer_key, layer.weight, "float32"), jax.numpy.zeros(layer.bias))
        for layer_key, layer in zip(keys, shapes, strict=True)
    )


# --- Atari -----------------------------------------------------------------------------------------------------------

CONVOLUTIONS = ((8, 4, 32), (4, 2, 64), (3, 1, 64))  # kernel, stride, filters
FEATURES = 512
BRIGHTEST = 255  # of a pixel
_TRUNK_SCALE, _HEAD_SCALE = 2**0.5, 1.0  # of orthogonal weights

Convolve = Callable[[Any, Any, int], Any]  # (x [n, height, width, channels], weight, stride) -> without padding
MapsOf = Callable[[Sequence[Layer], Any], tuple[Any, ...]]  # (convolutions, observation) -> the map of each


class GameNetwork(NamedTuple):
    """The paper's network for Atari: one trunk, a head for the policy and one for values."""

    convolutions: tuple[Layer, ...]  # weight [height, width, channels, filters], bias [filters]
    features: Layer
    policy: Layer  # to a logit for each action
    critic: Layer  # to a value for each action, or one of the state


class Activations(NamedTuple):
    """All that a forward pass computed, from which a backward pass can go on without another."""

    observation: Any  # uint8 [n, stack, height, width], or [n, stack, height, width, 3]
    maps: tuple[Any, ...]  # of each convolution [n, height, width, filters], after the ReLU
    features: Any  # [n, FEATURES], after the ReLU
    logits: Any  # [n, actions]
    values: Any  # [n, actions], or [n, 1]


def screens(observation: Any) -> Any:
    """Observations uint8 [n, stack, height, width] as float32 images [n, height, width, stack], from 0 to 255.

    In colour, [n, stack, height, width, 3], all colours of all screens are channels.
    """
    xp = observation.__array_namespace__()
    if observation.ndim == 4:
        return xp.permute_dims(observation, (0, 2, 3, 1)).astype("float32")
    n, stack, height, width, colours = observation.shape
    seen = xp.permute_dims(observation, (0, 2, 3, 1, 4))
    return xp.reshape(seen, (n, height, width, stack * colours)).astype("float32")


def convolve(x: Any, weight: Any, stride: int) -> Any:
    """A convolution without padding, as a matrix product of patches; on any array library.

    Blocks of `stride` × `stride` pixels become the channels of one, so that the patches of a strided convolution are
    those of a smaller one without stride: conv 8/4 on 84 × 84 × 4 is conv 2/1 on 21 × 21 × 64.

    Args:
        x: [n, height, width, channels].
        weight: [kernel, kernel, channels, filters]; the kernel is a multiple of the stride.
        stride: in pixels.
    """
    xp = x.__array_namespace__()
    kernel, _, channels, filters = weight.shape
    blocks, small = kernel // stride, stride * stride * channels
    height, width = ((side - kernel) // stride + blocks for side in x.shape[1:3])
    x = x[:, : height * stride, : width * stride]
    x = xp.reshape(x, (-1, height, stride, width, stride, channels))
    x = xp.reshape(xp.permute_dims(x, (0, 1, 3, 2, 4, 5)), (-1, height, width, small))
    weight = xp.reshape(weight, (blocks, stride, blocks, stride, channels, filters))
    weight = xp.reshape(xp.permute_dims(weight, (0, 2, 1, 3, 4, 5)), (blocks * blocks * small, filters))
    height, width = height - blocks + 1, width - blocks + 1
    patches = xp.concat([x[:, i : i + height, j : j + width] for i in range(blocks) for j in range(blocks)], axis=-1)
    rows = xp.reshape(patches, (-1, blocks * blocks * small)) @ weight
    return xp.reshape(rows, (-1, height, width, filters))


def convolved(convolutions: Sequence[Layer], observation: Any, convolution: Convolve = convolve) -> tuple[Any, ...]:
    """The map of each convolution [n, rows, columns, filters] for observations uint8 [n, stack, height, width, …].

    Args:
        convolutions: the layers, first to last.
        observation: a NumPy or JAX array.
        convolution: how to convolve; all ways give the same up to rounding.
    """
    maps: list[Any] = []
    x = screens(observation)
    for layer, (_, stride, _) in zip(for_bytes(convolutions), CONVOLUTIONS, strict=True):
        x = _relu(convolution(x, layer.weight, stride) + layer.bias)
        maps.append(x)
    return tuple(maps)


def for_bytes(convolutions: Sequence[Layer]) -> tuple[Layer, ...]:
    """The convolutions for images of pixels from 0 to 255: the weights are scaled, which are fewer than pixels."""
    first, *others = convolutions
    return (first._replace(weight=first.weight * (1 / BRIGHTEST)), *others)


def game_outputs(network: GameNetwork, observation: Any, maps_of: MapsOf = convolved) -> Activations:
    """The forward pass for observations uint8 [n, stack, height, width], or [n, stack, height, width, 3].

    Args:
        network: its weights.
        observation: a NumPy or JAX array.
        maps_of: the convolutions; all ways give the same up to rounding.
    """
    maps = maps_of(network.convolutions, observation)
    xp, last = observation.__array_namespace__(), maps[-1]
    features = _relu(xp.reshape(last, (last.shape[0], -1)) @ network.features.weight + network.features.bias)
    logits, values = (features @ head.weight + head.bias for head in (network.policy, network.critic))
    return Activations(observation, maps, features, logits, values)


def game_layer_shapes(observation: Sequence[int], actions: int, values: int) -> GameNetwork:
    """The shapes of all weights and biases, in the place of these, for observations of a shape without n."""
    stack, side, _, *colours = observation
    channels, convolutions = stack * math.prod(colours), []
    for kernel, stride, filters in CONVOLUTIONS:
        convolutions.append(Layer((kernel, kernel, channels, filters), (filters,)))
        channels, side = filters, (side - kernel) // stride + 1
    return GameNetwork(
        tuple(convolutions),
        Layer((side * side * channels, FEATURES), (FEATURES,)),
        Layer((FEATURES, actions), (actions,)),
        Layer((FEATURES, values), (values,)),
    )


def initial_game_network(key: "jax.Array", shapes: GameNetwork) -> GameNetwork:
    """Random weights of the given shapes: orthogonal, √2 in the trunk and 1 in the heads; biases 0."""
    import jax

    *convolution_keys, features_key, policy_key, critic_key = jax.random.split(key, len(CONVOLUTIONS) + 3)

    def initial(layer_key: Any, shape: Layer, scale: float) -> Layer:
        orthogonal = jax.nn.initializers.orthogonal(scale)
        return Layer(orthogonal(layer_key, shape.weight, "float32"), jax.numpy.zeros(shape.bias))

    return GameNetwork(
        tuple(initial(*both, _TRUNK_SCALE) for both in zip(convolution_keys, shapes.convolutions, strict=True)),
        initial(features_key, shapes.features, _TRUNK_SCALE),
        initial(policy_key, shapes.policy, _HEAD_SCALE),
        initial(critic_key, shapes.critic, _HEAD_SCALE),
    )
