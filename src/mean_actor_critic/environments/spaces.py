"""What an environment shows and takes: observations as vectors, actions as numbers from 0. NumPy and Gymnasium only.

Observation spaces flatten as Gymnasium flattens them: numbers as they are, choices one-hot, the parts of a Dict or
Tuple one after the other. Text, such as MiniGrid's missions, flattens to no numbers: networks here do not read. Written
for batches too, because agents meet both single observations and those of vector environments.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from mean_actor_critic.errors import InputError
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.spec.given import Fields, Numbers
from mean_actor_critic.spec.learners import BINARY, CHOICE, IMAGE, VECTOR, Part, Shapes

SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these, whose text is left out"
LARGEST_OBSERVATION = 1_000_000  # numbers; more than any network here could take
_NUMBERS = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (8, 16, 32, 64)))
SMALLEST_IMAGE = 5  # pixels of its shorter side
DEEPEST = 20  # Dicts and Tuples within each other

Array = np.ndarray[Any, Any]


class Spaces(NamedTuple):
    """An environment's observation and action space, and whether it tells which actions are legal."""

    observation: "gymnasium.Space[Any]"
    action: Any  # Discrete
    masked: bool = False

    @property
    def observation_size(self) -> int:
        """Numbers in a flattened observation."""
        return size(self.observation)

    @property
    def actions(self) -> int:
        """How many actions there are."""
        return int(self.action.n)

    @property
    def first_action(self) -> int:
        """What the environment calls action 0."""
        return int(self.action.start)

    @property
    def flat_shapes(self) -> Shapes:
        """What an agent sees that is shown flattened observations, and can do."""
        return Shapes((self.observation_size,), self.actions)

    @property
    def whole_shapes(self) -> Shapes:
        """What an agent sees that is shown observations as they are, and can do."""
        return Shapes(tuple(self.observation.shape or ()), self.actions)

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; `spaces_from_json` is the inverse, up to the bounds of Boxes."""
        words = {"observation": _to_json(self.observation), "action": _to_json(self.action)}
        return {**words, "masked": True} if self.masked else words


def parts_of(space: Any) -> tuple[Part, ...]:
    """What a flattened observation consists of, in its order."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return tuple(part for own in _parts(space) for part in parts_of(own))
    if is_text(space):
        return ()
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        choices = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        return tuple(Part(CHOICE, (int(n),), in_bytes=True) for n in choices)
    in_bytes = isinstance(space, spaces.MultiBinary) or space.dtype.name in ("bool", "uint8")
    shape = tuple(int(side) for side in space.shape)
    if _is_image(shape, in_bytes):
        return (Part(IMAGE, shape, in_bytes),)
    binary = isinstance(space, spaces.MultiBinary) or space.dtype.name == "bool"
    return (Part(BINARY if binary else VECTOR, (math.prod(shape),), in_bytes),)


def form_of(space: Any) -> Numbers | Fields:
    """How an observation looks to those who are shown it as it is, but for text."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        names = list(space.spaces) if isinstance(space, spaces.Dict) else [""] * len(space.spaces)
        shown = [(name, form_of(part)) for name, part in zip(names, _parts(space), strict=True) if not is_text(part)]
        is_dict = isinstance(space, spaces.Dict)
        return Fields(tuple(name for name, _ in shown) if is_dict else (), tuple(form for _, form in shown))
    shape = tuple(int(side) for side in space.shape)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        choices = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        first = space.start if isinstance(space, spaces.Discrete) else 0
        return Numbers(shape, space.dtype.name, tuple(map(int, choices)), int(first))
    return Numbers(shape, space.dtype.name)


def fitted(experiment: Experiment, spaces: Spaces) -> Experiment:
    """The experiment for an environment: networks follow what there is to see, and programs whether there are masks."""
    setup: Any = dataclasses.replace(experiment.setup, masked=spaces.masked)
    if hasattr(setup, "parts"):
        network = setup.network and dataclasses.replace(setup.network, form=form_of(spaces.observation))
        setup = dataclasses.replace(setup, parts=parts_of(spaces.observation), network=network)
    return dataclasses.replace(experiment, setup=setup)


def _is_image(shape: tuple[int, ...], in_bytes: bool) -> bool:
    """Whether numbers of a shape are taken for pixels: height and width of some extent, with or without channels."""
    if len(shape) == 3:
        height, width = shape[1:] if shape[0] < shape[-1] else shape[:-1]
    elif len(shape) == 4:
        height, width = shape[1:3]
    elif len(shape) == 2 and in_bytes:
        height, width = shape
    else:
        return False
    return min(height, width) >= SMALLEST_IMAGE


def is_text(space: Any) -> bool:
    """Whether a space's values are text: Gymnasium's `Text`, or a space of somebody's own."""
    dtype = getattr(space, "dtype", None)
    return dtype is not None and np.dtype(dtype).kind == "U"


def texts_in(space: Any, name: str = "") -> list[str]:
    """Where in an observation there is text, such as ['mission']."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        keys = space.spaces.keys() if isinstance(space, spaces.Dict) else range(len(space.spaces))
        named = zip(keys, _parts(space), strict=True)
        return [text for key, part in named for text in texts_in(part, f"{name}[{key!r}]")]
    return [name] if is_text(space) else []


def check_spaces(name: str, observation: Any, action: Any, masked: bool = False) -> Spaces:
    """The spaces of environment `name`, if the algorithms can use them.

    Raises:
        InputError: says what was found and what is supported.
    """
    if not isinstance(action, spaces.Discrete):
        raise InputError("environment", name, f"a Discrete action space; this one's is {_brief(action)}")
    unsupported = observation if is_text(observation) else _first_unsupported(observation)
    if unsupported is not None or observation is None:
        within = "" if unsupported is observation else f" within {_brief(observation)}"
        raise InputError(
            "environment", name, f"an observation space of {SUPPORTED}; this one's is {_brief(unsupported)}{within}"
        )
    if not 1 <= size(observation) <= LARGEST_OBSERVATION:
        raise InputError("environment", name, f"observations of 1 to {LARGEST_OBSERVATION} numbers when flattened")
    return Spaces(observation, action, masked)


def _brief(space: Any) -> str:
    text = str(space)
    return text if len(text) <= 100 else text[:100] + "…"


def _first_unsupported(space: Any) -> Any:
    """The first part that cannot be flattened to a fixed number of numbers, if any."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        named = isinstance(space, spaces.Tuple) or all(isinstance(key, str) for key in space)
        if not space.spaces or not named:  # JSON, and so a manifest, knows no other keys
            return space
        return next((bad for part in _parts(space) if (bad := _first_unsupported(part)) is not None), None)
    plain = isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
    return None if plain or is_text(space) else space


def _parts(space: Any) -> "list[gymnasium.Space[Any]]":
    return list(space.spaces.values()) if isinstance(space, spaces.Dict) else list(space.spaces)


def size(space: Any) -> int:
    """Numbers in a flattened value of `space`."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return sum(size(part) for part in _parts(space))
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.sum(space.nvec))
    if is_text(space):
        return 0
    return math.prod(space.shape)


def flatten(space: Any, value: Any) -> Array:
    """Values of `space`, one or a batch with leading dimensions [...], as float32 [..., size].

    Raises:
        FormError: the value is not of this space's form; says which part and why.
    """
    if isinstance(space, spaces.Dict):
        if not isinstance(value, Mapping) or set(value) != set(space.spaces):
            found = sorted(map(str, value)) if isinstance(value, Mapping) else type(value).__name__
            raise FormError(f"is {found}, not a dictionary with {', '.join(map(str, space.spaces))}")
        return _joined([_flatten_part(part, value[key], f"[{key!r}]") for key, part in space.spaces.items()])
    if isinstance(space, spaces.Tuple):
        if not isinstance(value, tuple | list) or len(value) != len(space.spaces):
            raise FormError(f"is {type(value).__name__}, not a tuple of {len(space.spaces)}")
        parts = enumerate(zip(space, value, strict=True))
        return _joined([_flatten_part(part, item, f"[{i}]") for i, (part, item) in parts])
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        raise FormError("is not an array of numbers") from None
    if is_text(space):
        if array.dtype.kind != "U":
            raise FormError(f"has dtype {array.dtype}, not text")
        return np.zeros((*array.shape, 0), np.float32)
    # float64 for a float32 Box is common and harmless; floats for choices, or objects for numbers, are neither
    if not np.can_cast(array.dtype, space.dtype, "same_kind"):
        raise FormError(f"has dtype {array.dtype}, not {space.dtype}")
    own = len(space.shape)
    lead = array.shape[: array.ndim - own] if array.ndim >= own else ()
    if array.shape[len(lead) :] != space.shape:
        raise FormError(f"has shape {array.shape}, not {space.shape}")
    if isinstance(space, spaces.Discrete):
        return _one_hot(array - space.start, int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        choices = (array - space.start).reshape(*lead, -1)
        return np.concatenate([_one_hot(choices[..., i], n) for i, n in enumerate(space.nvec.ravel().tolist())], -1)
    return array.astype(np.float32, copy=False).reshape(*lead, math.prod(space.shape))


class FormError(ValueError):
    """A value that is not of its space's form. The message follows the name of what is wrong."""


def _flatten_part(space: Any, value: Any, name: str) -> Array:
    try:
        return flatten(space, value)
    except FormError as fault:
        between = "" if str(fault).startswith("[") else " "
        raise FormError(f"{name}{between}{fault}") from None


def _joined(rows: list[Array]) -> Array:
    leads = {row.shape[:-1] for row in rows}
    if len(leads) > 1:
        raise FormError(f"has parts of different leading dimensions: {', '.join(map(str, sorted(leads)))}")
    return np.concatenate(rows, axis=-1)


def _one_hot(choice: Array, n: int) -> Array:
    if np.any((choice < 0) | (choice >= n)):
        raise FormError(f"is {choice}, not one of {n} choices")
    return np.asarray(choice[..., None] == np.arange(n), np.float32)


# --- as JSON ---------------------------------------------------------------------------------------------------------


def _to_json(space: Any) -> dict[str, Any]:
    if isinstance(space, spaces.Dict):
        return {"kind": "Dict", "parts": {str(key): _to_json(part) for key, part in space.spaces.items()}}
    if isinstance(space, spaces.Tuple):
        return {"kind": "Tuple", "parts": [_to_json(part) for part in space.spaces]}
    if isinstance(space, spaces.Discrete):
        return {"kind": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        start = np.broadcast_to(space.start, space.nvec.shape)
        return {"kind": "MultiDiscrete", "n": space.nvec.tolist(), "start": start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"kind": "MultiBinary", "shape": list(space.shape)}
    if is_text(space):
        return {"kind": "Text"}
    return {"kind": "Box", "shape": list(space.shape), "dtype": space.dtype.name}


def spaces_from_json(document: Any) -> Spaces:
    """The spaces that `Spaces.to_json` described.

    Raises:
        InputError: the description is not one of supported spaces.
    """
    try:
        # before anything of that size is made
        if _described_size(document["observation"]) > LARGEST_OBSERVATION:
            raise ValueError("too large")
        masked = document.get("masked", False)
        found = Spaces(_from_json(document["observation"]), _from_json(document["action"]), masked)
        if set(document) - {"masked"} != {"observation", "action"} or not isinstance(masked, bool):
            raise ValueError("other fields")
        return check_spaces("described", *found)
    except (KeyError, TypeError, ValueError, AssertionError, AttributeError, OverflowError, MemoryError):
        raise InputError(
            "spaces", "their description", f"an observation space of {SUPPORTED}, and a Discrete"
        ) from None


def _described_size(document: Any, depth: int = 0) -> int:
    """Numbers in a flattened value of the described space."""
    if depth > DEEPEST:
        raise ValueError("too deep")
    kind = document["kind"]
    if kind == "Text":
        return 0
    if kind in ("Dict", "Tuple"):
        parts = document["parts"].values() if kind == "Dict" else document["parts"]
        return sum(_described_size(part, depth + 1) for part in parts)
    if kind in ("Discrete", "MultiDiscrete"):
        sizes = np.ravel(document["n"]).tolist()
        total = sum(sizes)
    else:
        sizes = document["shape"]
        total = math.prod(sizes)
    if any(size < 0 for size in sizes):
        raise ValueError("less than none")
    return int(total)


def _from_json(document: Any) -> "gymnasium.Space[Any]":
    kind = document["kind"]
    if kind == "Dict":
        return spaces.Dict([(str(key), _from_json(part)) for key, part in document["parts"].items()])
    if kind == "Tuple":
        return spaces.Tuple([_from_json(part) for part in document["parts"]])
    if kind == "Text":
        return spaces.Text(1)
    if kind == "Discrete":
        return spaces.Discrete(document["n"], start=document["start"])
    if kind == "MultiDiscrete":
        return spaces.MultiDiscrete(np.asarray(document["n"]), start=np.asarray(document["start"]))
    shape = tuple(document["shape"])
    if kind == "MultiBinary":
        return spaces.MultiBinary(shape)
    if kind != "Box" or document["dtype"] not in _NUMBERS:
        raise ValueError("unknown kind")
    low, high = (-np.inf, np.inf) if document["dtype"].startswith("float") else (0, 1)
    return spaces.Box(low, high, shape, np.dtype(document["dtype"]).type)
