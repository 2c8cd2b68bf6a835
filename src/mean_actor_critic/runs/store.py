"""Run folders and agent files: written whole or not at all, checked when read, never executed.

A run folder holds
    manifest.json                    what runs: experiment, compiled width, versions; written once
    checkpoint-<n>.safetensors       learning curves and complete learner states after n episodes in all (on Atari games
                                     agent steps and evaluations); the last two. And, if asked for, every trial's
                                     networks as they were at some moments
    lock                             held by the process that writes here
Every file carries a SHA-256 of its content. Arrays are safetensors, the rest is JSON; nothing is unpickled, evaluated
or followed through a symbolic link.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import itertools
import json
import os
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from mean_actor_critic import machine
from mean_actor_critic.engines.curves import lengthened
from mean_actor_critic.environments.spaces import Spaces, fitted, spaces_from_json
from mean_actor_critic.errors import (
    DamagedFileError,
    DiskError,
    InputError,
    MissingFileError,
    OutOfMemoryError,
    RunBusyError,
)
from mean_actor_critic.files import (
    LARGEST_JSON,
    becomes,
    disk_faults,
    now,
    open_regular,
    parsed_json,
    read_faults,
    read_whole,
    require_own,
    write_whole,
)
from mean_actor_critic.runs.arrays import content, described
from mean_actor_critic.runs.expected import most_bytes
from mean_actor_critic.spec.experiment import Experiment, checked_moments, experiment_from_json
from mean_actor_critic.spec.settings import is_whole
from mean_actor_critic.trees import Arrays

RUN_FORMAT = "mean_actor_critic run 3"
OLD_RUN_FORMAT = "mean_actor_critic run 2"  # whose manifests are still read
CHECKPOINT_FORMAT = "mean_actor_critic checkpoint 1"
RUNS = "runs"  # the folder of run folders, unless said otherwise
# Between checkpoints, by engine, unless said otherwise. One of a trial on a game has 15 megabytes.
CHECKPOINT_SECONDS = {"compiled": 30.0, "hosted": 30.0, "atari": 300.0}
GENERATIONS = 2  # checkpoints kept: the last, and the one to fall back on

_OURS = (".json", ".safetensors", ".csv")  # files that whoever holds a lock writes
_CHECKPOINT_NAME = re.compile(r"checkpoint-(\d{12})\.safetensors")


class Manifest(NamedTuple):
    """What a run folder is about. Fixed when the run begins."""

    experiment: Experiment
    spaces: Spaces  # of the environment
    width: int  # trials in one compiled call, of a device: the bits of the results depend on it
    created: str  # ISO 8601, UTC
    versions: dict[str, str]  # of everything else that the bits depend on
    digest: str  # of the file; checkpoints name it, so that they cannot be mixed up between runs
    snapshots: tuple[int, ...] = ()  # episodes after which networks are kept as they were, ascending
    extended: tuple[tuple[str, int], ...] = ()  # digest and amount of the budgets that it had before, oldest first
    origin: str = ""  # where its settings came from, in words

    def before(self, digest: str | None) -> Experiment | None:
        """The experiment as it was when its manifest had this digest; None if it never had."""
        amounts = {**dict(self.extended), self.digest: self.experiment.budget.amount}
        if digest not in amounts:
            return None
        budget = self.experiment.budget._replace(amount=amounts[digest])
        return dataclasses.replace(self.experiment, budget=budget)


# --- arrays ----------------------------------------------------------------------------------------------------------


def write_arrays(path: Path, arrays: Arrays, metadata: Mapping[str, str]) -> None:
    """Write arrays and words as one self-checking safetensors file."""
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    words = {**metadata, "sha256": digest_of_arrays(contiguous, metadata)}
    try:
        whole = safetensors.numpy.save(contiguous, words)
    except BaseException as fault:
        if type(fault).__name__ == "PanicException":  # which is how the library meets a refusal of memory
            raise MemoryError(f"{path.name} could not be put together") from None
        raise
    write_whole(path, whole)


Fits = Callable[[dict[str, str], Arrays], None]  # raises an error if arrays of these shapes are not what is expected


def read_arrays(
    path: Path, format_name: str | tuple[str, ...], fits: Fits | None = None
) -> tuple[Arrays, dict[str, str]]:
    """The arrays and words of a file written by `write_arrays` with `format_name` as its "format" word.

    Args:
        path: of the file.
        format_name: of its kind; there may be several.
        fits: is shown the words and arrays of the described shapes and types, which take no memory, before any is read.

    Raises:
        DamagedFileError: it cannot be read, is of another kind, or its content is not what was written.
        OutOfMemoryError: it is larger than the memory that is left.
    """
    formats = (format_name,) if isinstance(format_name, str) else format_name
    with open_regular(path) as file, read_faults(path):
        try:
            header = described(file)
        except ValueError:
            raise DamagedFileError(f"{path}: is damaged or not a safetensors file") from None
        metadata = dict(header.words)
        if metadata.get("format") not in formats:
            raise DamagedFileError(f"{path}: is not a file of the kind “{formats[0]}”")
        claimed = metadata.pop("sha256", None)
        if fits is not None:
            fits(metadata, header.arrays)
        try:
            room = machine.room()
            if header.size > room.size:
                raise MemoryError
            arrays = content(file, header)
        except MemoryError:
            size = f"it has {header.size / 1e9:.1f} GB, and {room.size / 1e9:.1f} GB are {room.bound}"
            raise OutOfMemoryError(f"{path}: not enough memory to read it: {size}") from None
        except ValueError:
            raise DamagedFileError(f"{path}: is damaged or not a safetensors file") from None
    if claimed != digest_of_arrays(arrays, metadata):
        raise DamagedFileError(f"{path}: is damaged: its content does not match its checksum")
    return arrays, metadata


def digest_of_arrays(arrays: Arrays, metadata: Mapping[str, str]) -> str:
    """SHA-256 of names, types, shapes and contents."""
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


# --- manifest --------------------------------------------------------------------------------------------------------


def create_folder(path: Path, name: str, document: Mapping[str, Any]) -> None:
    """Make a new folder, or take an empty one, and put a JSON `document` with its own checksum into it.

    Raises:
        InputError: the folder is in use, or the document larger than a reader takes it for.
        DiskError: the folder cannot be written. Nothing is left of it.
    """
    content = json.dumps({**document, "sha256": digest_of_document(document)}, indent=2).encode()
    if len(content) > LARGEST_JSON:
        raise InputError("settings", f"{len(content)} bytes", f"those that fit into {LARGEST_JSON}")
    made = missing_folders(path)
    try:
        if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
            raise InputError("out", str(path), "a folder")
        if not made and any(entry.name != "lock" and becomes(entry) != name for entry in path.iterdir()):
            raise _in_use(path)
        make_folder(path)
    except OSError as fault:
        raise InputError("out", str(path), f"a folder that can be made ({fault.strerror})") from None
    try:
        with sole_writer(path):  # of two that found the folder empty, one
            if os.path.lexists(path / name):
                raise _in_use(path)
            try:
                write_whole(path / name, content)
            except BaseException:
                withdraw(path, name, made)
                raise
    except DiskError:  # not even a lock could be written
        remove_empty(made)
        raise


def missing_folders(path: Path) -> list[Path]:
    """A folder and those around it that are not there, the innermost first."""
    return [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]


def withdraw(path: Path, name: str, made: Sequence[Path]) -> None:
    """Take back a folder in which nothing was begun: its document, and the folders that were made for it.

    For the process that holds the lock and has put the document there.
    """
    for file in (name, "lock"):
        with contextlib.suppress(OSError):
            (path / file).unlink(missing_ok=True)
    remove_empty(made)


def remove_empty(folders: Sequence[Path]) -> None:
    """Remove folders, the innermost first, as far as nothing is in them."""
    for folder in folders:
        with contextlib.suppress(OSError):
            folder.rmdir()


def make_folder(path: Path) -> None:
    """Make a folder, if it is not there.

    Raises:
        InputError: it cannot be made or written. Those around it that were made are gone again.
    """
    made = missing_folders(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        remove_empty(made)
        raise InputError("out", str(path), f"a folder that can be made ({fault.strerror})") from None
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError("out", str(path), "a folder that can be written")


@contextlib.contextmanager
def folder_for_results(path: Path) -> Iterator[None]:
    """Make a folder that results of what happens in the block are put into; it is gone again if there are none.

    Raises:
        InputError: it cannot be made or written.
    """
    made = missing_folders(path)
    make_folder(path)
    try:
        yield
    finally:
        remove_empty(made)


def read_document(
    file: Path, format_name: str | tuple[str, ...], names: set[str], optional: frozenset[str] = frozenset()
) -> tuple[dict[str, Any], str]:
    """The JSON that `create_folder` wrote, with these `names` beside its format, and its checksum.

    What is `optional` may be missing. There may be several formats.

    Raises:
        DamagedFileError: it is not what was written.
    """
    formats = (format_name,) if isinstance(format_name, str) else format_name
    kind = formats[0].split()[1]  # "mean_actor_critic run 3"
    damaged = DamagedFileError(f"{file}: is damaged, or not the manifest of a {kind}")
    try:
        document = parsed_json(read_whole(file, LARGEST_JSON))
    except ValueError:
        raise damaged from None
    if not isinstance(document, dict) or document.get("format") not in formats:
        raise damaged
    digest = document.pop("sha256", None)
    try:
        if digest not in (digest_of_document(document), digest_without_order(document)):
            raise DamagedFileError(f"{file}: is damaged: its content does not match its checksum")
    except RecursionError:
        raise damaged from None
    if set(document) - optional != {"format", *names}:
        raise damaged
    return document, digest


def create_run(
    path: Path,
    experiment: Experiment,
    spaces: Spaces,
    width: int,
    versions: Mapping[str, str],
    snapshots: Sequence[int] = (),
    origin: str = "",
) -> Manifest:
    """Make the folder of a new run, or fill an empty one.

    Raises:
        InputError: the folder is in use.
        DiskError: the folder cannot be written.
    """
    document = {
        "format": RUN_FORMAT,
        "experiment": experiment.to_json(),
        "spaces": spaces.to_json(),
        "width": width,
        "created": now(),
        "versions": dict(versions),
        "origin": origin,
        **({"snapshots": list(snapshots)} if snapshots else {}),
    }
    create_folder(path, "manifest.json", document)
    return read_manifest(path)


def extend_run(path: Path, manifest: Manifest, experiment: Experiment) -> Manifest:
    """Write the manifest of a run anew with a longer budget, for the process that holds the lock.

    Its checkpoints stay what they are: the new manifest names the budgets that they were written with.
    """
    document = {
        "format": RUN_FORMAT,
        "experiment": experiment.to_json(),
        "spaces": manifest.spaces.to_json(),
        "width": manifest.width,
        "created": manifest.created,
        "versions": dict(manifest.versions),
        "origin": manifest.origin,
        "extended": [*map(list, manifest.extended), [manifest.digest, manifest.experiment.budget.amount]],
        **({"snapshots": list(manifest.snapshots)} if manifest.snapshots else {}),
    }
    checked = {**document, "sha256": digest_of_document(document)}
    write_whole(path / "manifest.json", json.dumps(checked, indent=2).encode())
    return read_manifest(path)


def _in_use(path: Path) -> InputError:
    hint = f" (mac resume {path} continues the run in this one)" if os.path.lexists(path / "manifest.json") else ""
    return InputError("out", str(path), "an empty or new folder" + hint)


def read_manifest(path: Path) -> Manifest:
    """The manifest of the run in folder `path`.

    Raises:
        InputError: there is no run.
        DamagedFileError: there is one, but its manifest is not what was written.
    """
    file = path / "manifest.json"
    if not os.path.lexists(file):
        raise InputError("run", str(path), "a run folder (with a manifest.json), as mac train makes")
    names = {"experiment", "spaces", "width", "created", "versions"}
    optional = frozenset({"snapshots", "origin", "extended"})
    document, digest = read_document(file, (RUN_FORMAT, OLD_RUN_FORMAT), names, optional)
    damaged = DamagedFileError(f"{file}: is damaged, or not the manifest of a run")
    width, created, versions = (document[key] for key in ("width", "created", "versions"))
    if not isinstance(created, str) or not isinstance(versions, dict):
        raise damaged
    if not all(isinstance(version, str) for version in versions.values()):
        raise damaged
    try:
        experiment = experiment_from_json(document["experiment"])
        spaces = spaces_from_json(document["spaces"])
        experiment = fitted(experiment, spaces)
        snapshots = checked_moments(document.get("snapshots", []), experiment.episodes)
    except InputError as fault:
        raise DamagedFileError(f"{file}: {fault}") from None
    if isinstance(width, bool) or not isinstance(width, int) or not 1 <= width <= experiment.trials:
        raise damaged
    extended, origin = document.get("extended", []), document.get("origin", "")
    if not isinstance(origin, str) or not isinstance(extended, list) or not all(map(_is_extension, extended)):
        raise damaged
    amounts = [amount for _, amount in extended] + [experiment.budget.amount]
    if any(longer <= amount for amount, longer in itertools.pairwise(amounts)):
        raise damaged
    return Manifest(
        experiment, spaces, width, created, versions, digest, snapshots, tuple(map(tuple, extended)), origin
    )


def _is_extension(part: Any) -> bool:
    """Whether it is the digest of a manifest and the amount of its budget."""
    return isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) and is_whole(part[1], 1, 2**63)


def digest_of_document(document: Mapping[str, Any]) -> str:
    """SHA-256 of plain JSON values in their order: a Dict space in another order flattens observations otherwise."""
    return hashlib.sha256(json.dumps(document).encode()).hexdigest()


def digest_without_order(document: Mapping[str, Any]) -> str:
    """The same for whatever order objects have: of settings by name, and of files that were written before.

    A file whose digest keeps its order cannot be taken for one of those: none is written in the order of names.
    """
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()


# --- checkpoints -----------------------------------------------------------------------------------------------------


def write_checkpoint(path: Path, manifest: Manifest, position: int, arrays: Arrays) -> None:
    """Write a generation and drop those beyond `GENERATIONS`. `position` says how far the run is, over all trials."""
    # a run that was made longer may have one evaluation less than its last checkpoint: names go on from there
    newest = max((number for number, _ in _checkpoints(path)), default=0)
    name = f"checkpoint-{position if position >= newest else newest + 1:012d}.safetensors"
    write_arrays(path / name, arrays, {"format": CHECKPOINT_FORMAT, "run": manifest.digest})
    with disk_faults(path, "remove an old checkpoint"):
        for _, old in _checkpoints(path)[GENERATIONS:]:
            old.unlink()


class Checkpoint(NamedTuple):
    """The newest generation that is whole, and the lines to show about newer ones that are not."""

    arrays: Arrays | None  # None: no checkpoint was written yet
    warnings: list[str]


def read_checkpoint(path: Path, manifest: Manifest, set_aside: bool = False) -> Checkpoint:
    """The newest whole checkpoint of a run.

    Args:
        path: the run folder.
        manifest: its manifest.
        set_aside: rename damaged newer ones out of the way; only for the process that holds the lock.

    Raises:
        DamagedFileError: there are checkpoints, and all are damaged.
    """
    try:
        most = most_bytes(manifest.experiment, manifest.spaces, len(manifest.snapshots))
    except ValueError as fault:
        raise DamagedFileError(f"{path / 'manifest.json'}: {fault}") from None
    damaged: dict[Path, str] = {}
    seen: set[Path] = set()

    def fits(words: dict[str, str], arrays: Arrays) -> None:
        if manifest.before(words.get("run")) is None:
            raise DamagedFileError(f"{file}: belongs to another run")
        if sum(array.nbytes for array in arrays.values()) > most:
            raise DamagedFileError(f"{file}: is larger than its manifest allows")

    # list anew after each failure: while we read, a writer may replace what was listed
    while file := next((file for _, file in _checkpoints(path) if file not in seen), None):
        seen.add(file)
        try:
            arrays, metadata = read_arrays(file, CHECKPOINT_FORMAT, fits)
        except (DamagedFileError, MissingFileError) as fault:
            if os.path.lexists(file):
                damaged[file] = str(fault)
            continue
        for bad in damaged if set_aside else ():
            with disk_faults(bad, "set aside"):
                bad.rename(bad.with_name(bad.name + ".damaged"))
        before = manifest.before(metadata["run"])
        if before is not None and before != manifest.experiment:
            arrays = lengthened(before, manifest.experiment, arrays)
        return Checkpoint(arrays, list(damaged.values()))
    if damaged:
        raise DamagedFileError("; ".join(damaged.values()) + "; no earlier checkpoint is left")
    return Checkpoint(None, [])


def _checkpoints(path: Path) -> list[tuple[int, Path]]:
    """Checkpoint files, newest first."""
    matches = ((_CHECKPOINT_NAME.fullmatch(file.name), file) for file in path.iterdir())
    return sorted(((int(match[1]), file) for match, file in matches if match), reverse=True)


# --- the lock --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def sole_writer(path: Path, *parts: str) -> Iterator[None]:
    """Hold the run folder for writing. The operating system lets go when the process ends, however it ends.

    What a writer that was killed left half written is removed, but not below sub-folders that others may write.

    Args:
        path: the folder.
        parts: names of sub-folders that whoever holds it writes to.

    Raises:
        RunBusyError: names the process that holds it.
        DiskError: the disk refuses, or a sub-folder is a link.
    """
    for name in parts:
        require_own(path / name)
    file = path / "lock"
    with disk_faults(file, "open the lock"):
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 200).decode(errors="replace").strip() or "another process"
            raise RunBusyError(f"{path}: is being written by {holder}") from None
        with disk_faults(file, "write the lock"):
            os.ftruncate(descriptor, 0)
            for folder in (path, *(path / name for name in parts if os.path.lexists(path / name))):
                for leftover in [entry for entry in folder.iterdir() if (becomes(entry) or "").endswith(_OURS)]:
                    leftover.unlink(missing_ok=True)
            os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} since {now()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
