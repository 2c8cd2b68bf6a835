"""How JAX is set up for training: one device per core, and a compilation cache that outlives the process."""

import functools
import importlib.metadata
import os
import platform
import tempfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh

from mean_actor_critic._version import __version__
from mean_actor_critic.learning import native
from mean_actor_critic.machine import cache_folder, cores
from mean_actor_critic.terminal import one_line

AXIS = "device"  # of a mesh


@functools.cache
def prepare(engine: str = "compiled") -> None:
    """Spread the CPU over one device per core and keep compiled programs on disk, unless the user decided otherwise.

    For the hosted and Atari engines also: run a program in the thread that calls it. They act up to a thousand times a
    second, on cores that are busy with environments, and handing each call to another thread doubles what it costs. The
    compiled engine is a twentieth faster without. Whichever comes first in a process decides.
    """
    config: Any = jax.config  # its options are attributes that no type describes
    if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
        try:
            if config.jax_num_cpu_devices < 1:
                config.update("jax_num_cpu_devices", cores())
        except RuntimeError:
            pass  # JAX is already running in this process: its devices are taken as they are
    if engine in ("hosted", "atari"):
        config.update("jax_cpu_enable_async_dispatch", False)
    if config.jax_compilation_cache_dir is None:
        cache = cache_folder() / "jax"
        try:
            cache.mkdir(parents=True, exist_ok=True)
        except OSError:
            return  # a read-only home costs a few seconds of compilation, no more
        config.update("jax_compilation_cache_dir", str(cache))
        config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        _write_whole_entries()


def _write_whole_entries() -> None:
    """Let an entry of JAX's cache come into its place as a whole.

    JAX writes it in its place. Whoever reads there meanwhile, or after a kill or on a full disk, gets a part of it,
    warns and compiles; and the part stays for ever, because JAX writes no entry that is there.
    """
    try:
        from jax._src.lru_cache import LRUCache
    except ImportError:
        return  # a version of JAX that writes in a way that we do not know
    put = LRUCache.put

    def put_whole(cache: LRUCache, key: str, value: bytes) -> None:
        if cache.eviction_enabled:  # JAX has a lock then, and more files than the entry
            put(cache, key, value)
            return
        with tempfile.TemporaryDirectory(dir=str(cache.path), prefix=".") as scratch:
            put(LRUCache(scratch, max_size=-1), key, value)
            for file in Path(scratch).iterdir():
                file.replace(Path(str(cache.path)) / file.name)

    LRUCache.put = put_whole  # type: ignore[assignment, method-assign]


@functools.cache
def forget_programs() -> None:
    """Let go of what was compiled, after a run of a study: the next has a program of its own, of many megabytes."""
    jax.clear_caches()


def mesh(count: int) -> Mesh:
    """The first `count` devices, along one axis."""
    return jax.make_mesh((count,), (AXIS,), devices=jax.devices()[:count], axis_types=(jax.sharding.AxisType.Auto,))


def versions(engine: str = "compiled") -> dict[str, str]:
    """All that the bits of a result depend on, besides the experiment and the compiled width."""
    prepare(engine)
    of_games = {}
    if engine == "atari":
        of_games = {"ale_py": importlib.metadata.version("ale_py"), "convolutions": native.compiler() or "XLA"}
    return {
        "mean_actor_critic": __version__,
        "python": platform.python_version(),
        "jax": jax.__version__,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "numpy": np.__version__,
        "optax": importlib.metadata.version("optax"),
        "device": f"{jax.devices()[0].platform} {jax.devices()[0].device_kind}",
        "devices": str(jax.device_count()),
        "machine": f"{platform.machine()} {_processor()}",
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        **of_games,
    }


def changes(recorded: dict[str, str], engine: str = "compiled") -> list[str]:
    """What differs now from the versions that a manifest recorded, as "name before → now"."""
    now = versions(engine)
    return [
        one_line(f"{name} {recorded[name]} → {now[name]}") for name in now if recorded.get(name, now[name]) != now[name]
    ]


def _processor() -> str:
    """The model of the CPU where Linux tells it: XLA compiles for its features."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("vendor_id", "cpu family", "model", "stepping")
    found = dict(line.replace("\t", "").split(":", 1) for line in lines if ":" in line)
    return " ".join(found[name].strip() for name in wanted if name in found)
