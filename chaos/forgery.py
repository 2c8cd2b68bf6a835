"""Damaged bytes, and files that are forged and sealed again with a right checksum."""

import hashlib
import json
import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Document = dict[str, Any]

# --- damage ----------------------------------------------------------------------------------------------------------


def _flip(content: bytearray, draw: random.Random) -> bytearray:
    for _ in range(draw.choice((1, 1, 1, 2, 8))):
        # half of the flips go to the beginning, where they can do more than spoil a number
        length = len(content) if draw.random() < 0.5 else min(2000, len(content))
        content[draw.randrange(length)] ^= 1 << draw.randrange(8)
    return content


def _cut(content: bytearray, draw: random.Random) -> bytearray:
    return content[: draw.randrange(len(content))]


def _cut_out(content: bytearray, draw: random.Random) -> bytearray:
    start, end = _span(content, draw)
    return content[:start] + content[end:]


def _swap(content: bytearray, draw: random.Random) -> bytearray:
    a, b, c = sorted(draw.randrange(len(content) + 1) for _ in range(3))
    return content[:a] + content[b:c] + content[a:b] + content[c:]


def _zeros(content: bytearray, draw: random.Random) -> bytearray:
    start, end = _span(content, draw)
    content[start:end] = bytes(end - start)
    return content


def _double(content: bytearray, draw: random.Random) -> bytearray:
    start, end = _span(content, draw)
    return content * 2 if draw.random() < 0.3 else content[:end] + content[start:end] + content[end:]


def _header(content: bytearray, draw: random.Random) -> bytearray:
    lengths = (0, 1, 7, 8, len(content), len(content) - 8, 2**31, 2**32, 2**62, 2**63, 2**64 - 1, draw.getrandbits(64))
    content[:8] = struct.pack("<Q", max(0, draw.choice(lengths)))
    return content


def _add(content: bytearray, draw: random.Random) -> bytearray:
    return content + draw.randbytes(draw.randint(1, 64))


def _noise(content: bytearray, draw: random.Random) -> bytearray:
    start, end = _span(content, draw)
    content[start:end] = draw.randbytes(end - start)
    return content


def _span(content: bytearray, draw: random.Random) -> tuple[int, int]:
    start = draw.randrange(len(content))
    return start, min(len(content), start + int(2 ** draw.uniform(0, 12)))


DAMAGES: tuple[Callable[[bytearray, random.Random], bytearray], ...] = (
    _flip, _cut, _cut_out, _swap, _zeros, _double, _header, _add, _noise,
)  # fmt: skip


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Bytes as a failing disk, a broken transfer or a clumsy hand leaves them."""
    return bytes(draw.choice(DAMAGES)(bytearray(content), draw))


# --- forged documents ------------------------------------------------------------------------------------------------

NUMBERS = (
    0, 1, -1, 2, 3, 0.5, -0.0, 1e-320, 1e308, -1e308, float("nan"), float("inf"), -float("inf"), 2**31 - 1, 2**31,
    2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**12, 10**30, 10**400, 1.5, 1e6, 100_000,
)  # fmt: skip
WORDS = (
    "", " ", "x", "mac", "nan", "0", "true", "\0", "\ud800", "[/x]", "[red]", "\x1b[31mred\x1b]0;t\x07", "a\nb\r\nc",
    "\u202e\u2028\u0085", "../../etc/passwd", "/dev/zero", "CON", "%s%n{0}", "ß🦆", "os:system", "-", "--out",
    "é" * 300, "float64", "object", "Box", "Tuple", "CartPole-v1", "ALE/Pong-v5", "my_module:make_env",
)  # fmt: skip


def hostile(draw: random.Random) -> Any:
    """A value that a field was not made for."""
    way = draw.random()
    if way < 0.4:
        return draw.choice(NUMBERS)
    if way < 0.7:
        return draw.choice(WORDS)
    if way < 0.8:
        return draw.choice((None, True, False, [], {}, [[]], [None], {"": None}))
    if way < 0.9:
        return [hostile(draw) for _ in range(draw.randint(1, 4))]
    if way < 0.95:
        return {draw.choice(WORDS): hostile(draw) for _ in range(draw.randint(1, 3))}
    if way < 0.98:
        return _nested(draw.choice((5, 21, 50, 300)), draw.random() < 0.5)
    return draw.choice(([0] * 10_000, "a" * 100_000, [[1]] * 3000, {str(i): i for i in range(3000)}))


def _nested(depth: int, lists: bool) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if lists else {"parts": value}
    return value


def forge(value: Any, draw: random.Random) -> Any:
    """The same with one thing changed, somewhere."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice(list(value))
        way = draw.random()
        if way < 0.75:
            return {**value, name: forge(value[name], draw)}
        if way < 0.85:
            return {other: part for other, part in value.items() if other != name}
        if way < 0.9:
            return {**value, draw.choice(WORDS): hostile(draw)}
        if way < 0.95:
            return dict(draw.sample(list(value.items()), len(value)))
        return {**value, name: value[draw.choice(list(value))]}
    if isinstance(value, list) and value and draw.random() < 0.8:
        place = draw.randrange(len(value))
        way = draw.random()
        if way < 0.7:
            return [*value[:place], forge(value[place], draw), *value[place + 1 :]]
        if way < 0.8:
            return value[:place] + value[place + 1 :]
        if way < 0.9:
            return [*value, value[place]]
        return value * draw.choice((2, 3, 100))
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 10**300
    if number and draw.random() < 0.4:
        return draw.choice((value + 1, value - 1, -value, value * 2, float(value), str(value), [value], value // 2))
    return hostile(draw)


def forged_document(content: bytes, draw: random.Random) -> bytes:
    """A document of ours with a few things changed, and a right checksum."""
    document = json.loads(content)
    document.pop("sha256", None)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        document = forge(document, draw)
        if not isinstance(document, dict):
            return json.dumps(document).encode()
    return sealed_document(document)


def sealed_document(document: Document) -> bytes:
    """With a checksum as ours have it."""
    plain = json.loads(json.dumps(document))
    digest = hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
    return json.dumps({**document, "sha256": digest}).encode()


# --- forged arrays ---------------------------------------------------------------------------------------------------

TYPES = {
    "F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4", "I16": "i2", "I8": "i1", "U64": "u8", "U32": "u4",
    "U16": "u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
STRANGE_TYPES = ("BF16", "F8_E4M3", "F8_E5M2", "C64", "F4", "X")

Tensors = dict[str, tuple[str, tuple[int, ...], bytes]]  # type, shape and content of each


def taken_apart(content: bytes) -> tuple[Tensors, dict[str, str]]:
    """What a safetensors file holds."""
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    words = header.pop("__metadata__", {})
    data = content[8 + length :]
    tensors = {
        name: (part["dtype"], tuple(part["shape"]), data[slice(*part["data_offsets"])]) for name, part in header.items()
    }
    return tensors, words


def put_together(tensors: Tensors, words: Mapping[str, Any]) -> bytes:
    """A safetensors file, with the checksum that our readers ask for."""
    words = {name: word for name, word in words.items() if name != "sha256"}
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name in sorted(tensors):
        kind, shape, data = tensors[name]
        digest.update(json.dumps([name, np.dtype(TYPES.get(kind, "u1")).str, shape]).encode())
        digest.update(data)
    header: dict[str, Any] = {"__metadata__": {**words, "sha256": digest.hexdigest()}}
    place = 0
    parts = []
    for name, (kind, shape, data) in sorted(tensors.items(), key=lambda item: (-_width(item[1][0]), item[0])):
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [place, place + len(data)]}
        place += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(parts)


def _width(kind: str) -> int:
    return np.dtype(TYPES.get(kind, "u1")).itemsize


def forged_arrays(content: bytes, draw: random.Random) -> bytes:
    """A file of arrays of ours with a few things changed, and a right checksum."""
    tensors, words = taken_apart(content)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        if words and draw.random() < 0.35:
            words = _forged_words(words, draw)
        elif tensors:
            tensors = _forged_tensors(tensors, draw)
    file = put_together(tensors, words)
    return _forged_header(file, draw) if draw.random() < 0.1 else file


def _forged_words(words: dict[str, str], draw: random.Random) -> dict[str, Any]:
    """Words may be JSON themselves, which then is forged."""
    name = draw.choice(list(words))
    way = draw.random()
    if way < 0.1:
        return {other: word for other, word in words.items() if other != name}
    if way < 0.2:
        return {**words, name: draw.choice(WORDS)}
    if way < 0.25:
        return {**words, name: "[" * draw.choice((100, 5000, 100_000))}
    if way < 0.3:
        return {**words, name: hostile(draw)}
    try:
        return {**words, name: json.dumps(forge(json.loads(words[name]), draw))}
    except (ValueError, TypeError, RecursionError):
        return {**words, name: str(draw.choice(NUMBERS))}


def _forged_tensors(tensors: Tensors, draw: random.Random) -> Tensors:
    name = draw.choice(list(tensors))
    kind, shape, data = tensors[name]
    others = {other: part for other, part in tensors.items() if other != name}
    way = draw.randrange(10)
    if way == 0:
        return others
    if way == 1:
        return {**others, draw.choice((*WORDS, name + "/x", "state/x", "returns", "step")) or "x": tensors[name]}
    if way == 2:
        return {**tensors, name: tensors[draw.choice(list(tensors))]}
    if way == 3:
        return {
            **tensors,
            name: _of_shape(kind, tuple(reversed(shape)) if draw.random() < 0.3 else _shape(shape, draw)),
        }
    if way == 4:
        other = draw.choice((*TYPES, *STRANGE_TYPES))
        return {**tensors, name: _of_shape(other, shape)}
    if way == 5:
        return {**tensors, name: (kind, (*shape, 1) if draw.random() < 0.5 else (1, *shape), data)}
    if way == 6 and data:
        values = np.frombuffer(data, TYPES.get(kind, "u1")).copy()
        extremes = (0, 1, 255) if values.dtype.kind == "u" else (0, 1, -1, 127, *_of_type(values.dtype))
        with np.errstate(all="ignore"):
            values[draw.randrange(len(values)) :: draw.randint(1, 9)] = draw.choice(extremes)
        return {**tensors, name: (kind, shape, values.tobytes())}
    if way == 7 and data:
        return {**tensors, name: (kind, shape, draw.randbytes(len(data)))}
    if way == 8:
        return {**tensors, **{f"{name}/{i}": ("U8", (0,), b"") for i in range(draw.choice((1, 10, 2000)))}}
    return {**tensors, name: (kind, (), data[: _width(kind)].ljust(_width(kind), b"\0"))}


def _of_type(kind: np.dtype[Any]) -> tuple[Any, ...]:
    if kind.kind == "f":
        return float("nan"), float("inf"), -float("inf"), float(np.finfo(kind).max)
    return (np.iinfo(kind).max, np.iinfo(kind).min) if kind.kind == "i" else ()


def _shape(shape: tuple[int, ...], draw: random.Random) -> tuple[int, ...]:
    """Another shape that is not much larger."""
    sides = list(shape) or [1]
    place = draw.randrange(len(sides))
    sides[place] = draw.choice((0, 1, sides[place] + 1, max(0, sides[place] - 1), 2 * sides[place], 7))
    return tuple(sides) if draw.random() < 0.8 else tuple(sides[: draw.randrange(len(sides) + 1)])


def _of_shape(kind: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], bytes]:
    width = {"BF16": 2, "C64": 8}.get(kind, _width(kind))
    return kind, shape, bytes(width * int(np.prod(shape, dtype=np.int64)))


def _forged_header(content: bytes, draw: random.Random) -> bytes:
    """A header that lies about the data."""
    (length,) = struct.unpack("<Q", content[:8])
    header = forge(json.loads(content[8 : 8 + length]), draw)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + content[8 + length :]


# --- files that are small and cost much ------------------------------------------------------------------------------


def foreign(draw: random.Random) -> bytes:
    """Files of another kind, or of none."""
    deep = b"[" * draw.choice((1000, 200_000))
    return draw.choice(
        (
            b"", b"\0" * draw.randrange(100_000), b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100), b"[1, 2, 3]",
            b"{}", b"null", b"returns,lengths\n1,2\n", deep, len(deep).to_bytes(8, "little") + deep, b"\xff\xfe{\0}\0",
            b'{"a":' * 3000, b"9" * 5000, b'{"format": ' + b"1" * 5000 + b"}", b"\x80\x04\x95", b"\x93NUMPY\x01\0v\0{",
            (2**62).to_bytes(8, "little") + b"{}", draw.randbytes(draw.randrange(4000)),
            b'{"__metadata__": null}'.rjust(30), struct.pack("<Q", 22) + b'{"__metadata__": null}',
        )
    )  # fmt: skip


def bloated(content: bytes, draw: random.Random) -> bytes:
    """A file of ours that says it holds a great many things."""
    if content[:1] == b"{":
        document = json.loads(content)
        document.pop("sha256", None)
        return sealed_document(_bloat(document, draw))
    tensors, words = taken_apart(content)
    if draw.random() < 0.5:
        many = draw.choice((10_000, 100_000))
        return put_together({**tensors, **{f"x/{i}": ("U8", (0,), b"") for i in range(many)}}, words)
    name = draw.choice(list(words))
    try:
        return put_together(tensors, {**words, name: json.dumps(_bloat(json.loads(words[name]), draw))})
    except ValueError:
        return put_together(tensors, {**words, name: "9" * 100_000})


def _bloat(value: Any, draw: random.Random) -> Any:
    """Somewhere a list becomes long, or a number large."""
    if isinstance(value, dict) and value:
        name = draw.choice(list(value))
        return {**value, name: _bloat(value[name], draw)}
    if isinstance(value, list) and value:
        if draw.random() < 0.5:
            return value * draw.choice((1000, 20_000, 200_000))
        return [_bloat(value[0], draw), *value[1:]]
    if isinstance(value, bool | None):
        return [value] * 100_000
    if isinstance(value, int | float):
        return draw.choice((10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 2**31 - 1))
    return value * 100_000
