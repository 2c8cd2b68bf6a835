"""Runs of a study that may be on disk already, whole or in part."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mean_actor_critic.errors import InputError
from mean_actor_critic.progress import Watch
from mean_actor_critic.runs.atari_run import AtariRun
from mean_actor_critic.runs.run import Run

R = TypeVar("R", Run, AtariRun)


def stored(path: Path, load: Callable[[Path], R]) -> R | None:
    """The run in a folder of a study, if there is one."""
    return load(path) if (path / "manifest.json").exists() else None


def require_asked(path: Path, asked: bool) -> None:
    """Refuse the run in a folder if it is not the one that a study asks for."""
    if not asked:
        raise InputError("out", str(path), "a folder without another study; this one was run with other settings")


def completed(
    there: R | None, train: Callable[..., R], resume: Callable[..., R], watch: Watch, name: str
) -> tuple[R, bool]:
    """A finished run, from the beginning, from where it stands, or as it is; and whether it was finished already."""
    if there is not None and there.finished:
        return there, True
    return (train if there is None else resume)(on_progress=watch(name)), False
