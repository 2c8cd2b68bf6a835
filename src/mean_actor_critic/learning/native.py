"""Convolutions for CPUs in C++, compiled by the machine that trains: XLA's own take 1.3 to 1.5 times as long on a core.

`convolutions.cc` is compiled on first use for exactly this CPU and kept in the user's cache. Where that cannot be done,
because there is no compiler or JAX runs on an accelerator, training uses XLA's (`kernels.XLA`).
"""

import ctypes
import functools
import hashlib
import importlib.resources
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from mean_actor_critic.learning.kernels import Maps, Observation, Trunk
from mean_actor_critic.learning.networks import CONVOLUTIONS, Layer
from mean_actor_critic.machine import cache_folder

SWITCH = "MAC_NATIVE"  # an environment variable; 0 does without
SOURCE = "convolutions.cc"
COMPILING_SECONDS = 300.0  # that a compiler may take for what takes it ten
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-shared", "-fPIC", "-w")
_FORWARD, _BACKWARD = "convolutions_forward", "convolutions_backward"
_STRIDES = np.array([stride for _, stride, _ in CONVOLUTIONS])


@functools.cache
def compiler() -> str | None:
    """What compiled the convolutions of this process, by its own name and version; None: they are XLA's."""
    if os.environ.get(SWITCH) == "0" or jax.default_backend() != "cpu":
        return None
    command = shlex.split(os.environ.get("CXX") or "c++")
    try:
        version = _output(*command, "--version").splitlines()[0]
        library = ctypes.CDLL(str(_compiled(command, version)))
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None
    for name in (_FORWARD, _BACKWARD):
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, name)), platform="cpu")
    return version


def _output(*command: str) -> str:
    silent: Any = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    return subprocess.run(command, check=True, timeout=COMPILING_SECONDS, **silent).stdout


def _compiled(command: Sequence[str], version: str) -> Path:
    """The library, from the cache if it was compiled from the same by the same."""
    source = importlib.resources.files("mean_actor_critic.learning").joinpath(SOURCE).read_text(encoding="utf-8")
    # -march=native is another thing on another CPU, and a home may be seen from several
    target = _output(*command, "-march=native", "-E", "-dM", "-x", "c++", os.devnull)
    made_of = "\0".join((source, version, target, jax.__version__, *command, *_FLAGS))
    folder = cache_folder() / "native"
    library = folder / f"convolutions-{hashlib.sha256(made_of.encode()).hexdigest()[:32]}.so"
    if not os.path.exists(library):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            written, made = Path(scratch) / SOURCE, Path(scratch) / library.name
            written.write_text(source, encoding="utf-8")
            _output(*command, *_FLAGS, "-I", jax.ffi.include_dir(), str(written), "-o", str(made))
            made.replace(library)  # whole or not at all: other processes may look for it
    return library


def _float32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _forward(convolutions: Sequence[Layer], observation: Observation) -> tuple[Maps, ...]:
    n, side = observation.shape[0], observation.shape[2]
    shapes = []
    for kernel, stride, filters in CONVOLUTIONS:
        side = (side - kernel) // stride + 1
        shapes.append(_float32(n, side, side, filters))
    call: Any = jax.ffi.ffi_call(_FORWARD, shapes)
    return tuple(call(observation, *jax.tree.leaves(convolutions), strides=_STRIDES))


def _backward(
    convolutions: Sequence[Layer], seen: Sequence[Observation], maps: Sequence[Sequence[Maps]], gradient: Maps
) -> tuple[Layer, ...]:
    call: Any = jax.ffi.ffi_call(_BACKWARD, [_float32(*leaf.shape) for leaf in jax.tree.leaves(convolutions)])
    weights = [layer.weight for layer in convolutions]
    steps = [array for observation, made in zip(seen, maps, strict=True) for array in (observation, *made)]
    return jax.tree.unflatten(jax.tree.structure(convolutions), call(gradient, *weights, *steps, strides=_STRIDES))


NATIVE = Trunk(_forward, _backward)
