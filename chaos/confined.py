"""`python confined.py JSON -- WORDS …` becomes the command WORDS, confined in the ways that the JSON names."""

import ctypes
import json
import os
import resource
import sys
from typing import TypedDict

PR_CAPBSET_DROP = 24
FILE_PERMISSIONS = (1, 2)  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with them, root writes wherever it likes


class Confinement(TypedDict, total=False):
    """In which ways."""

    folder: str  # the working folder
    gone: bool  # whether that is removed
    full: list[int]  # standard streams that lead to a full device
    unread: list[int]  # standard streams that lead to a pipe which nobody reads
    drop: list[int]  # capabilities of root
    close: list[int]  # standard streams
    limits: dict[str, int]  # of resources, by their names in `resource`


def confine(how: Confinement) -> None:
    """This process, and what it becomes."""
    if "folder" in how:
        os.chdir(how["folder"])
    if how.get("gone"):
        os.rmdir(os.getcwd())
    for stream in how.get("full", []):
        os.dup2(os.open("/dev/full", os.O_WRONLY), stream)
    for stream in how.get("unread", []):
        reading, writing = os.pipe()
        os.dup2(writing, stream)
        os.close(reading)
        os.close(writing)
    for capability in how.get("drop", []):
        if ctypes.CDLL(None, use_errno=True).prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "a capability cannot be dropped")
    for stream in how.get("close", []):
        os.close(stream)
    for name, value in how.get("limits", {}).items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


if __name__ == "__main__":
    confine(json.loads(sys.argv[1]))
    os.execv(sys.argv[3], sys.argv[3:])
