"""Which actions an environment says are legal: by `info["action_mask"]`, or by `action_masks()` as for sb3-contrib."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np

from mean_actor_critic.environments.spaces import FormError

KEY, METHOD = "action_mask", "action_masks"

Array = np.ndarray[Any, Any]


def method_of(environment: "gymnasium.Env[Any, Any]") -> Callable[[], Any] | None:
    """Its `action_masks`, of whichever wrapper has it, if there is one."""
    method = environment.get_wrapper_attr(METHOD) if environment.has_wrapper_attr(METHOD) else None
    return method if callable(method) else None


def told(info: Any, method: Callable[[], Any] | None) -> Any:
    """What is said of the state that `info` came with; None if nothing is."""
    mask = info.get(KEY) if isinstance(info, Mapping) else None
    return method() if mask is None and method is not None else mask


def checked(mask: Any, actions: int) -> Array:
    """A mask as booleans [action], of which all may be false.

    Raises:
        FormError: it is not one of so many actions.
    """
    try:
        array = np.asarray(mask)
    except (TypeError, ValueError):
        raise FormError("is not an array") from None
    if array.shape != (actions,):
        raise FormError(f"has shape {array.shape}, not ({actions},)")
    if array.dtype.kind not in "biuf" or not ((array == 0) | (array == 1)).all():
        raise FormError(f"is {array.tolist()}, not 0 or 1 for each action"[:200])
    return array.astype(bool)
