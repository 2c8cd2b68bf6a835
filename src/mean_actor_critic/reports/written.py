"""Which files of a folder a report wrote, so that the next report can clear away what it does not replace.

`files.json` lists each file with its SHA-256. A file is removed only if the list has it and it is still as it was
written: what somebody else put there or changed stays. No symbolic link is followed.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from mean_actor_critic.errors import DamagedFileError, MissingFileError
from mean_actor_critic.files import LARGEST_JSON, as_file_name, disk_faults, read_whole, write_whole

LIST = "files.json"
FORMAT = "mean_actor_critic report 1"


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
        document = json.loads(read_whole(folder / LIST, LARGEST_JSON))
    except (DamagedFileError, MissingFileError, ValueError, RecursionError):
        return {}
    files = document.get("files") if isinstance(document, dict) and document.get("format") == FORMAT else None
    if not isinstance(files, dict):
        return {}
    # a name that leads elsewhere was not written by a report
    return {name: digest for name, digest in files.items() if name and as_file_name(name) == name}


def _digest(file: Path) -> str | None:
    """SHA-256 of a regular file; None of anything else."""
    try:
        return hashlib.sha256(read_whole(file)).hexdigest()
    except (DamagedFileError, MissingFileError):
        return None
