"""Which files of a folder a report wrote, so that the next report can clear away what it does not replace.

`files.json` lists each file with its SHA-256. A file is removed only if the list has it and it is still as it was
written: what somebody else put there or changed stays. No symbolic link is followed.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from mean_actor_critic.errors import DamagedFileError, MissingFileError
from mean_actor_critic.files import (
    LARGEST_JSON,
    as_file_name,
    disk_faults,
    open_regular,
    parsed_json,
    read_faults,
    read_whole,
    write_whole,
)

LIST = "files.json"
FORMAT = "mean_actor_critic report 1"
LARGEST = 2**30  # bytes of a file that is looked at again


def clear_and_list(folder: Path, files: Sequence[Path]) -> Path:
    """Remove what an earlier report wrote into a folder and this one did not, then list this one's; returns the list.

    Args:
        folder: of the report.
        files: all that this report wrote, directly in the folder.

    Raises:
        DiskError: the disk refuses.
    """
    names = {file.name for file in files}
    for name, digest in _listed(folder).items():
        if name not in names and _digest(folder / name) == digest:
            with disk_faults(folder / name, "remove a file of an earlier report"):
                (folder / name).unlink()
    document = {"format": FORMAT, "files": {name: _digest(folder / name) for name in sorted(names)}}
    write_whole(folder / LIST, json.dumps(document, indent=1).encode())
    return folder / LIST


def _listed(folder: Path) -> dict[str, str]:
    """Names and checksums of what the earlier report wrote; nothing if there is no list that can be trusted."""
    try:
        document = parsed_json(read_whole(folder / LIST, LARGEST_JSON))
    except (DamagedFileError, MissingFileError, ValueError):
        return {}
    files = document.get("files") if isinstance(document, dict) and document.get("format") == FORMAT else None
    if not isinstance(files, dict):
        return {}
    # a name that leads elsewhere was not written by a report
    own = {name: digest for name, digest in files.items() if name and as_file_name(name) == name}
    return {name: digest for name, digest in own.items() if isinstance(digest, str)}


def _digest(file: Path) -> str | None:
    """SHA-256 of a regular file; None of anything else, or of what is too large."""
    try:
        with open_regular(file) as opened, read_faults(file):
            small = os.fstat(opened.fileno()).st_size <= LARGEST
            return hashlib.file_digest(opened, "sha256").hexdigest() if small else None
    except (DamagedFileError, MissingFileError):
        return None
