"""What an agent is shown of a JAX program's observation: the numbers that hosted environments' are flattened to."""

from typing import Any

import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Float


def shown(space: Any, value: Any) -> Float[Array, " observation"]:
    """One observation as `environments.spaces.flatten` has it: numbers as they are, choices one-hot, parts in a row."""
    if isinstance(space, spaces.Dict):
        return jnp.concatenate([shown(part, value[key]) for key, part in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        return jnp.concatenate([shown(part, item) for part, item in zip(space.spaces, value, strict=True)])
    if isinstance(space, spaces.Discrete):
        return jax.nn.one_hot(value - int(space.start), int(space.n), dtype=jnp.float32)
    if isinstance(space, spaces.MultiDiscrete):
        choices, sizes = jnp.ravel(value - space.start), space.nvec.ravel().tolist()
        return jnp.concatenate([jax.nn.one_hot(choices[i], n, dtype=jnp.float32) for i, n in enumerate(sizes)])
    numbers = jnp.asarray(value, jnp.float32)
    return numbers if numbers.ndim == 1 else numbers.reshape(-1)
