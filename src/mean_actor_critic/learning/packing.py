"""How a replay keeps observations: as they are when flattened, but for choices, of which it keeps the number alone.

A choice among n is n numbers when flattened, one 1 among 0s. Where the replay is of bytes, the number of a choice takes
as many as it needs.
"""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from mean_actor_critic.spec.learners import CHOICE, Part, all_in_bytes

_BITS = 8  # of a byte


def packed_size(parts: Sequence[Part]) -> int:
    """Numbers, or bytes, of an observation in the replay."""
    return sum(_sizes(parts))


def _sizes(parts: Sequence[Part]) -> list[int]:
    """The same of each part."""
    in_bytes = all_in_bytes(parts)
    return [(_digits(part) if in_bytes else 1) if part.kind == CHOICE else part.size for part in parts]


def _digits(part: Part) -> int:
    """Bytes that say which of a part's choices it is."""
    return max(1, -(-(part.size - 1).bit_length() // _BITS))


def packed(parts: Sequence[Part], flat: Array) -> Array:
    """Flattened observations [*n, size] as they are kept [*n, packed size]."""
    if all(part.kind != CHOICE for part in parts):
        return flat
    pieces, start = [], 0
    for part, size in zip(parts, _sizes(parts), strict=True):
        piece: Any = flat[..., start : start + part.size]
        start += part.size
        if part.kind == CHOICE:
            index = jnp.argmax(piece, axis=-1)[..., None]
            digits = index >> _BITS * jnp.arange(size) & 2**_BITS - 1 if all_in_bytes(parts) else index
            piece = digits.astype(flat.dtype)
        pieces.append(piece)
    return jnp.concatenate(pieces, axis=-1)


def unpacked(parts: Sequence[Part], kept: Array) -> Array:
    """The inverse."""
    if all(part.kind != CHOICE for part in parts):
        return kept
    pieces, start = [], 0
    for part, size in zip(parts, _sizes(parts), strict=True):
        piece: Any = kept[..., start : start + size]
        start += size
        if part.kind == CHOICE:
            index = jnp.sum(piece.astype(jnp.int32) << _BITS * jnp.arange(size), axis=-1, keepdims=True)
            piece = (index == jnp.arange(part.size)).astype(kept.dtype)
        pieces.append(piece)
    return jnp.concatenate(pieces, axis=-1)
