"""What the machine, the container and the limits of a process leave to it."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CGROUPS = Path("/sys/fs/cgroup")
MEMBERSHIPS = Path("/proc/self/cgroup")  # the control groups that we are in


class Room(NamedTuple):
    """Memory that this process can still get, and what sets the bound."""

    size: int  # bytes
    bound: str  # in words that follow "are"


def memory_bytes() -> int:
    """Memory of the machine, or of the container that we are in."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *(group.limit for group in _control_groups())])


def room() -> Room:
    """The least of all that can be known; what a system does not tell counts as boundless.

    Memory that only keeps copies of files counts as free: the system takes it back when it is asked for.
    """
    found = [Room(group.limit - group.used, "left in this container") for group in _control_groups()]
    machine = _sizes_in(Path("/proc/meminfo"))
    if "MemAvailable" in machine:
        free = machine["MemAvailable"] + machine.get("SwapFree", 0)
        found.append(Room(free, "free on this machine"))
    own = _sizes_in(Path("/proc/self/status"))
    for limit, held, bound in (
        (resource.RLIMIT_AS, "VmSize", "left by the limit on addresses (ulimit -v)"),
        (resource.RLIMIT_DATA, "VmData", "left by the limit on data (ulimit -d)"),
    ):
        allowed, _ = resource.getrlimit(limit)
        if allowed != resource.RLIM_INFINITY:
            found.append(Room(allowed - own.get(held, 0), bound))
    least = min(found, default=Room(memory_bytes(), "on this machine"))
    return least._replace(size=max(0, least.size))


def _sizes_in(file: Path) -> dict[str, int]:
    """Bytes by name, of lines such as `MemAvailable: 1024 kB`; nothing where there is no such file."""
    with contextlib.suppress(OSError):
        words = (line.split() for line in file.read_text(encoding="utf-8").splitlines())
        return {word[0].rstrip(":"): int(word[1]) * 1024 for word in words if len(word) == 3 and word[2] == "kB"}
    return {}


class _ControlGroup(NamedTuple):
    """A Linux control group that we are in, with a limit on memory."""

    limit: int  # bytes
    used: int  # bytes, without copies of files


def _control_groups() -> Iterator[_ControlGroup]:
    """Ours and those around it, of both versions of Linux's interface."""
    try:
        memberships = MEMBERSHIPS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return
    for line in memberships:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, names = CGROUPS, ("memory.max", "memory.current", "")
        elif controllers == "memory":
            root, names = CGROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
        else:
            continue
        own = root / path.strip("/")
        # a container may see only its own group, as the root, and know it by a path that is not there
        for folder in (own, *own.parents) if own != root else (own,):
            if not folder.is_relative_to(root):
                break
            with contextlib.suppress(OSError, ValueError, IndexError):  # not there, "max", or not one that we know
                limit = int((folder / names[0]).read_text(encoding="utf-8"))
                used = int((folder / names[1]).read_text(encoding="utf-8"))
                counts = dict(
                    line.split() for line in (folder / "memory.stat").read_text(encoding="utf-8").splitlines()
                )
                files = sum(int(counts.get(f"{names[2]}{kind}_file", 0)) for kind in ("active", "inactive"))
                yield _ControlGroup(limit, max(0, used - files))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_folder() -> Path:
    """Where things are kept that can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mean_actor_critic"
