"""What an agent is shown of a JAX program: observations, flattened as hosted environments' are, and legal actions."""

from typing import Any

import jax
import jax.numpy as jnp
from gymnasium import spaces
from jaxtyping import Array, Bool, Float

from mean_actor_critic.errors import InputError


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


def check_mask(world: Any) -> None:
    """Raise an InputError if a JAX program's `action_mask` cannot be used; nothing is computed for that."""
    key = jax.eval_shape(jax.random.key, 0)
    jax.eval_shape(lambda key: legal_actions(world, world.initial(key)), key)


def legal_actions(world: Any, state: Any) -> Bool[Array, " action"]:
    """Which actions a JAX program's `action_mask` says are legal in a state.

    Raises:
        InputError: it does not say that of each action.
    """
    mask, actions = jnp.asarray(world.action_mask(state)), int(world.action_space.n)
    if mask.shape != (actions,) or not jnp.issubdtype(mask.dtype, jnp.bool_):
        found = f"{mask.dtype} of shape {mask.shape}"
        raise InputError("action_mask", found, f"{actions} booleans, for {type(world).__name__}")
    return mask
