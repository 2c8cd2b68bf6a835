"""Arrays by name: a tree of NamedTuples, tuples and dictionaries as the flat arrays of a file, and back. No JAX."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mean_actor_critic.errors import DamagedFileError

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def named(tree: Any, prefix: str = "") -> dict[str, Any]:
    """The leaves of a tree by their places in it: `policy/0/weight`."""
    if tree is None:
        return {}
    parts = _parts(tree)
    if parts is None:
        return {prefix.removesuffix("/"): tree}
    return {name: leaf for place, part in parts.items() for name, leaf in named(part, f"{prefix}{place}/").items()}


def restored(template: Any, arrays: Mapping[str, Any], prefix: str = "") -> Any:
    """A tree like `template` whose leaves are the arrays that `named` called so.

    Raises:
        KeyError: an array is missing.
    """
    if template is None:
        return None
    parts = _parts(template)
    if parts is None:
        return arrays[prefix.removesuffix("/")]
    found = {place: restored(part, arrays, f"{prefix}{place}/") for place, part in parts.items()}
    if isinstance(template, dict):
        return found
    return type(template)(*found.values()) if hasattr(template, "_fields") else type(template)(found.values())


def _parts(tree: Any) -> dict[str, Any] | None:
    """What a tree consists of, by name or place; None for a leaf."""
    if hasattr(tree, "_fields"):
        return dict(zip(tree._fields, tree, strict=True))
    if isinstance(tree, dict):
        return tree
    return {str(place): part for place, part in enumerate(tree)} if isinstance(tree, tuple | list) else None


def require_arrays(arrays: Arrays, expected: Mapping[str, Any]) -> None:
    """Raise a DamagedFileError unless `arrays` are exactly those `expected`, by shape and type."""
    foreign = set(arrays) - set(expected)
    if foreign:
        raise DamagedFileError(f"checkpoint: holds something that no run writes: {min(foreign)}")
    for name, leaf in expected.items():
        array = arrays.get(name)
        if array is None or array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise DamagedFileError(f"checkpoint: {name} is missing or does not fit the manifest")
