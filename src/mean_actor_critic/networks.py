"""Multi-layer perceptrons as plain tuples of layers, for JAX (training) and NumPy (agents) alike."""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax

LEAK = 0.3  # the paper's leaky ReLU


class Layer(NamedTuple):
    """An affine map: weight [inputs, outputs], bias [outputs]."""

    weight: Any
    bias: Any


Network = tuple[Layer, ...]


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


def mlp(network: Network, x: Any, activation: Any, dense: Callable[[Any, Any], Any] = operator.matmul) -> Any:
    """Outputs [..., outputs] for inputs [..., inputs]; the last layer is linear.

    Args:
        network: the layers, first to last.
        x: a NumPy or JAX array.
        activation: a name in `ACTIVATIONS`, or a traced place among them.
        dense: the matrix product; `kernels.dense` is the fast one for training.
    """
    *hidden, last = network
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


def normalize(observation: Any, mean: Any, variance: Any) -> Any:
    """Observations [..., size] in standard deviations from their mean [size]."""
    xp = observation.__array_namespace__()
    deviations = (observation - mean) / xp.sqrt(variance + 1e-8)
    return xp.clip(deviations, -LARGEST_NORMALIZED, LARGEST_NORMALIZED)


def inverse_cdf(policy: Any, uniform: Any) -> Any:
    """The action [...] that a uniform draw [...] in [0, 1) selects from probabilities [..., actions].

    Both engines and saved agents sample this way, so that equal draws mean equal actions.
    """
    xp = policy.__array_namespace__()
    # the last action takes what rounding leaves: its boundary is never compared
    boundaries = xp.cumulative_sum(policy, axis=-1)[..., :-1]
    return xp.sum(uniform[..., None] >= boundaries, axis=-1)


def initial_mlp(key: "jax.Array", sizes: Sequence[int]) -> Network:
    """A random network with layers between consecutive `sizes`: Glorot-uniform weights, zero biases."""
    import jax  # here, so that agents run without it

    glorot = jax.nn.initializers.glorot_uniform()
    keys = jax.random.split(key, len(sizes) - 1)
    return tuple(
        Layer(glorot(layer_key, (inputs, outputs), "float32"), jax.numpy.zeros(outputs))
        for layer_key, inputs, outputs in zip(keys, sizes[:-1], sizes[1:], strict=True)
    )
