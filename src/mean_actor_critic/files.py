"""Files that are written whole or not at all, and read with care: no links are followed, nothing is executed."""

import contextlib
import datetime
import errno
import json
import os
import re
import stat
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from mean_actor_critic.errors import DamagedFileError, DiskError, InputError, MissingFileError

LARGEST_JSON = 16 * 2**20  # bytes; ours are a few kilobytes
LIMITS = {errno.EMFILE: "ulimit -n", errno.ENFILE: "of the system", errno.EAGAIN: "ulimit -u"}  # that workers meet
_TEMPORARY = re.compile(r"\.(.+)\.\d+\.tmp")  # files that are being written: what they become, and by which process


def now() -> str:
    """ISO 8601, UTC, to the second."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def as_path(field: str, given: Any) -> Path:
    """A path that was given, as text or as a path; an InputError if it is neither, or none that a system knows."""
    try:
        if not isinstance(os.fspath(given), bytes) and b"\0" not in os.fsencode(given):
            return Path(given)
    except (TypeError, UnicodeEncodeError):  # a list, or half a character
        pass
    raise InputError(field, given, "a path")


def as_file_name(name: str) -> str:
    """A name with what file names should not have replaced."""
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")


@contextlib.contextmanager
def disk_faults(path: Path, doing: str) -> Iterator[None]:
    """Turn an operating system's refusal into one line that says what was being done."""
    try:
        yield
    except OSError as fault:
        raise DiskError(f"{path}: could not {doing}: {fault.strerror or fault}") from None


def in_words(fault: OSError) -> str:
    """What the system refused, and of which file if it says so."""
    reason = fault.strerror or str(fault)
    if fault.errno in LIMITS:
        reason += f"; fewer workers would need less, or a higher limit ({LIMITS[fault.errno]})"
    if fault.errno == errno.ENOENT and fault.filename is None:  # as only the question for the folder itself is answered
        reason = "the working folder is gone"
    return reason if fault.filename is None else f"{fault.filename}: {reason}"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or the world after a power cut, sees all of it or the one before."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with disk_faults(path, "write"):
        try:
            temporary.unlink(missing_ok=True)  # of a killed process that had our number
            with temporary.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, which is made if it is not there; a link is not followed."""
    with disk_faults(path, "write"):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "ab") as file:
            file.write(content)


def becomes(path: Path) -> str | None:
    """What a file was to be called when it was written; None unless `write_whole` left it half written."""
    match = _TEMPORARY.fullmatch(path.name)
    return match[1] if match and os.path.isfile(path) and not os.path.islink(path) else None


def require_own(path: Path) -> None:
    """Refuse a link, or anything but a folder, where a folder of ours has a sub-folder of ours, or will have one.

    Raises:
        DiskError: what is there would lead elsewhere.
    """
    with disk_faults(path, "be used"):
        try:
            mode = os.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):  # nothing is there; who makes it will say what is in the way
            return
        if not stat.S_ISDIR(mode):
            reason = "a symbolic link, which is not followed" if stat.S_ISLNK(mode) else "not a folder"
            raise OSError(errno.ENOTDIR, f"it is {reason}")


def folder_within(folder: Path, name: str) -> Path:
    """A sub-folder of a folder of ours, made if it is not there; a link in its place is not followed."""
    path = folder / name
    with disk_faults(path, "make the folder"), contextlib.suppress(FileExistsError):
        path.mkdir()
    require_own(path)
    return path


def open_regular(path: Path) -> BufferedReader:
    """A regular file, to be read; links are not followed, and nothing is waited for.

    Raises:
        MissingFileError: there is none.
        DamagedFileError: what is there is something else, or cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, ValueError):  # no file has a name with a null in it
        raise MissingFileError(f"{path}: there is no such file") from None
    except OSError as fault:
        reason = "is a symbolic link" if os.path.islink(path) else (fault.strerror or str(fault))
        raise DamagedFileError(f"{path}: cannot be read: {reason}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedFileError(f"{path}: cannot be read: is not a regular file")
    return os.fdopen(descriptor, "rb")


@contextlib.contextmanager
def read_faults(path: Path) -> Iterator[None]:
    """Name the file that the system cannot read on."""
    try:
        yield
    except OSError as fault:
        raise DamagedFileError(f"{path}: cannot be read: {fault.strerror}") from None


def read_whole(path: Path, largest: int) -> bytes:
    """The content of a regular file of at most so many bytes; links are not followed."""
    with open_regular(path) as file, read_faults(path):
        if os.fstat(file.fileno()).st_size <= largest:
            content = file.read(largest + 1)
            if len(content) <= largest:
                return content
    raise DamagedFileError(f"{path}: is larger than such a file can be")


def parsed_json(text: bytes | str) -> Any:
    """What JSON says.

    Raises:
        ValueError: it is none, too deep, or has a number of more digits than anything here can be; says which.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    except ValueError:  # Python's own limit, with advice for programmers
        raise ValueError("it has a number of too many digits") from None
