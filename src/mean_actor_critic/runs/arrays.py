"""Arrays in safetensors files: described by the header, which is small, before anything of them is read.

The library that writes these files would read one whole before it can be asked what is in it: a few bytes that a disk
makes a file of many gigabytes of could cost all of the memory.
"""

import math
import os
import struct
from collections.abc import Mapping
from io import BufferedReader
from typing import Any, NamedTuple

import numpy as np

from mean_actor_critic.files import LARGEST_JSON, parsed_json
from mean_actor_critic.spec.settings import is_whole
from mean_actor_critic.trees import Array, Arrays

MOST_ARRAYS = 20_000  # of a file; a hundred trials on games have 4,000
MOST_DIMENSIONS = 16
_LENGTH = struct.Struct("<Q")  # of the header, with which the file begins
_WORDS = "__metadata__"
_TYPES = {
    "BOOL": np.dtype(bool),
    **{f"I{bits}": np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"F{bits}": np.dtype(f"f{bits // 8}") for bits in (16, 32, 64)},
}


class Described(NamedTuple):
    """What the header of a file says of it."""

    words: dict[str, str]
    arrays: Arrays  # by name, in the order of their content: of the right shapes and types, but they take no memory
    size: int  # bytes of their content
    start: int  # where it begins in the file


def described(file: BufferedReader) -> Described:
    """What a file's header says, which is made sure to be so of a file of its size. Reads the header only.

    Raises:
        ValueError: it is no header.
    """
    whole = os.fstat(file.fileno()).st_size
    prefix = file.read(_LENGTH.size)
    length = _LENGTH.unpack(prefix)[0] if len(prefix) == _LENGTH.size else math.inf
    if length > min(LARGEST_JSON, whole - _LENGTH.size):
        raise ValueError("its header is larger than the file, or than a header can be")
    header = parsed_json(file.read(int(length)))
    words = header.pop(_WORDS, {}) if isinstance(header, dict) else None
    if not isinstance(words, dict) or not all(isinstance(word, str) for word in words.values()):
        raise ValueError("its header has no words")
    if len(header) > MOST_ARRAYS:
        raise ValueError(f"it has {len(header)} arrays, more than {MOST_ARRAYS}")
    start = _LENGTH.size + int(length)
    placed = sorted((*_place(entry), name) for name, entry in header.items())
    arrays: Arrays = {}
    end = 0
    for begins, ends, name in placed:
        arrays[name] = _blank(header[name])
        if begins != end or ends - begins != arrays[name].nbytes:
            raise ValueError("its arrays are not where its header says")
        end = ends
    if start + end != whole:
        raise ValueError("it has another size than its header says")
    return Described(words, arrays, end, start)


def _place(entry: Any) -> tuple[int, int]:
    """Where the content of an array begins and ends, after the header."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError("its header does not describe arrays")
    place = entry["data_offsets"]
    if not isinstance(place, list) or len(place) != 2 or not all(is_whole(x, 0, 2**63 - 1) for x in place):
        raise ValueError("its header does not say where arrays are")
    return place[0], place[1]


def _blank(entry: Mapping[str, Any]) -> Array:
    """An array as it is described, which takes no memory."""
    dtype, shape = entry["dtype"], entry["shape"]
    if not isinstance(dtype, str) or dtype not in _TYPES:
        raise ValueError("it has arrays of an unknown type")
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS or not all(is_whole(x, 0, 2**62) for x in shape):
        raise ValueError("it has arrays of no shape")
    if math.prod(filter(None, shape)) * _TYPES[dtype].itemsize >= 2**63:
        raise ValueError("it has arrays beyond any memory")
    return np.broadcast_to(np.zeros((), _TYPES[dtype]), shape)


def content(file: BufferedReader, what: Described) -> Arrays:
    """The arrays that were described, read from the file where its header ends.

    Raises:
        ValueError: the file has become shorter.
        MemoryError: there is not enough memory.
    """
    found = {}
    for name, like in what.arrays.items():
        found[name] = array = np.empty(like.shape, like.dtype)
        if array.size and file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
            raise ValueError("it is shorter than its header says")
    return found
