"""Networks that users give: weights and a function of their own from observations to features, and a head of ours."""

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple

from mean_actor_critic.errors import InputError
from mean_actor_critic.learning.networks import Layer
from mean_actor_critic.spec.given import Fields, GivenNetwork, Numbers

if TYPE_CHECKING:
    import jax

_HEAD_SCALE = 0.01  # of orthogonal weights: the first policies are nearly uniform


class Given(NamedTuple):
    """The weights of a network."""

    own: tuple[Any, ...]  # the leaves of the user's tree
    head: Layer


def given_shapes(network: GivenNetwork, outputs: int) -> Given:
    """The shapes of all weights, in the place of these.

    Raises:
        InputError: the network cannot be used; says why.
    """
    weights, features = _abstract(network)
    import jax

    return Given(tuple(jax.tree.leaves(weights)), Layer((features, outputs), (outputs,)))


def initial_given(network: GivenNetwork, key: "jax.Array", shapes: Given) -> Given:
    """Random weights: the user's, and an orthogonal head without biases."""
    import jax

    assert network.init is not None
    own_key, head_key = jax.random.split(key)
    own = jax.tree.leaves(network.init(own_key, _blank(network)))
    head = jax.nn.initializers.orthogonal(_HEAD_SCALE)(head_key, shapes.head.weight)
    return Given(tuple(own), Layer(head, jax.numpy.zeros(shapes.head.bias)))


def given_outputs(network: GivenNetwork, weights: Given, seen: Any, operations: Any = None) -> Any:  # noqa: ARG001
    """Outputs [n, outputs] for flattened observations [n, size] as the environment shows them."""
    import jax

    assert network.apply is not None
    own = jax.tree.unflatten(jax.tree.structure(_abstract(network)[0]), weights.own)
    features = network.apply(own, unflattened(network.form, jax.numpy.asarray(seen)))
    return features.reshape(len(seen), -1) @ weights.head.weight + weights.head.bias


def unflattened(form: Any, flat: "jax.Array") -> Any:
    """Flattened observations [n, size] in their own form: arrays [n, …], dictionaries and tuples of these."""
    if isinstance(form, Fields):
        sizes = [_size(part) for part in form.forms]
        starts = [sum(sizes[:place]) for place in range(len(sizes))]
        parts = [
            unflattened(part, flat[:, start : start + size])
            for part, start, size in zip(form.forms, starts, sizes, strict=True)
        ]
        return dict(zip(form.names, parts, strict=True)) if form.names else tuple(parts)
    shape = (len(flat), *form.shape)
    if not form.choices:
        return flat.reshape(shape).astype(_dtype(form))
    from jax import numpy as jnp

    ends = [sum(form.choices[: place + 1]) for place in range(len(form.choices))]
    chosen = [jnp.argmax(flat[:, end - n : end], axis=-1) for end, n in zip(ends, form.choices, strict=True)]
    return (form.first + jnp.stack(chosen, axis=-1)).astype(_dtype(form)).reshape(shape)


def _size(form: Any) -> int:
    """Numbers in a flattened observation of a form."""
    if isinstance(form, Fields):
        return sum(map(_size, form.forms))
    return sum(form.choices) if form.choices else math.prod(form.shape)


def _dtype(form: Numbers) -> Any:
    """As JAX has it: of 64 bits, 32 are kept."""
    import jax

    return jax.dtypes.canonicalize_dtype(form.dtype)


def _blank(network: GivenNetwork) -> Any:
    """One observation of zeros, with the dimension of a batch."""
    from jax import numpy as jnp

    return unflattened(network.form, jnp.zeros((1, _size(network.form))))


@functools.cache
def _abstract(network: GivenNetwork) -> tuple[Any, int]:
    """The shapes of a user's weights, in their tree, and how many features come of them."""
    import jax

    if network.init is None or network.apply is None:
        raise InputError("network", network.name, "the network itself, given from Python: network=…")
    try:
        weights = jax.eval_shape(network.init, jax.random.key(0), _blank(network))
        features = jax.eval_shape(network.apply, weights, _blank(network))
    except Exception as fault:  # of a user's code
        words = str(fault).partition("\n")[0]
        raise InputError("network", network.name, f"{_SHOWN}; it raised {type(fault).__name__}: {words}") from fault
    if not all(leaf.dtype == jax.numpy.float32 for leaf in jax.tree.leaves(weights)):
        raise InputError("network", network.name, "one whose weights are float32 arrays")
    shape: tuple[int, ...] = getattr(features, "shape", ())
    if len(shape) < 2 or shape[0] != 1:
        raise InputError("network", network.name, f"{_SHOWN}; of one it gave the shape {shape}")
    return weights, math.prod(shape[1:])


_SHOWN = "one that takes observations [n, …] in their own form and gives features [n, f]"
