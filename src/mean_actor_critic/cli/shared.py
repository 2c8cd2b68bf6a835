"""What several commands need: what a path names, and how to show what came out."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mean_actor_critic.errors import InputError, MacError
from mean_actor_critic.progress import say

if TYPE_CHECKING:
    from rich.console import Console
    from typing_extensions import TypeIs

    from mean_actor_critic.reports.content import Content
    from mean_actor_critic.reports.page import Recording
    from mean_actor_critic.reports.tensorboard import EventWriter
    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.atari_run import AtariRun
    from mean_actor_critic.runs.run import Run


def load_player(path: str, trial: int | None) -> "Run | AtariRun | Agent":
    """The run or agent that a path names; one trial of the run, if asked."""
    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.atari_run import load_run

    if os.path.isdir(path):
        run = load_run(path)
        warn(run)
        return run if trial is None else run.agent(trial)
    if not os.path.exists(path):
        raise InputError("RUN|AGENT", path, "a run folder or an agent's .safetensors file")
    if trial is not None:
        raise InputError("--trial", trial, "nothing with an agent, which is one trial")
    return Agent.load(path)


def is_run(player: "Run | AtariRun | Agent") -> "TypeIs[Run | AtariRun]":
    """Whether it is a run, of several trials."""
    return hasattr(player, "status")


def show_run(run: "Run | AtariRun", quiet: bool) -> None:
    """What came out of a run, unless nothing is to be shown."""
    if not quiet:
        from mean_actor_critic.reports import atari, tables
        from mean_actor_critic.runs.atari_run import AtariRun

        console().print(atari.run_table(run) if isinstance(run, AtariRun) else tables.run_table(run))
        show_divergence(run)
        print(f"{run.path}: results {run.digest[:16]}")


def show_divergence(run: "Run | AtariRun") -> None:
    """A line about trials that diverged, if any."""
    from mean_actor_critic.reports.tables import diverged_line

    line = diverged_line(run)
    if line:
        print(f"{run.experiment.algorithm}: {line}")


def warn(run: "Run | AtariRun") -> None:
    """Of checkpoints that could not be read."""
    for line in run.warnings:
        say(f"mac: warning: {line}; using the checkpoint before it")


def console() -> "Console":
    """For tables."""
    from rich.console import Console

    # a pipe has no width: give tables the room they need
    width = None if sys.stdout.isatty() else 140
    return Console(width=width, color_system=None if os.environ.get("NO_COLOR") else "auto")


def can_make_page() -> bool:
    """Whether the report's extra is installed; if not, that is said now, before long work."""
    from mean_actor_critic.reports.page import require_page

    try:
        require_page()
    except MacError as fault:
        say(f"mac: there will be no page: {fault}")
        return False
    return True


def record_best(numbers: "Content", environment: str | None) -> "Recording":
    """A short video of the best agent, or the reason why there is none: a report does without."""
    import tempfile

    from mean_actor_critic.reports.content import best_agent
    from mean_actor_critic.reports.page import MOST_VIDEO, Recording
    from mean_actor_critic.runs.watch import watch

    best = best_agent(numbers)
    if best is None:
        return Recording("Searches keep no agents.")
    entry, trial = best
    try:
        with tempfile.TemporaryDirectory() as folder:
            video = watch(entry.source.run.agent(trial), Path(folder) / "best.mp4", environment=environment)
            recorded = video.file.read_bytes()
    except MacError as fault:
        return Recording(f"No video: {fault}.")
    if len(recorded) > MOST_VIDEO:
        return Recording(
            f"No video: an episode takes {len(recorded) / 2**20:.1f} MB; mac watch records it into a file."
        )
    words = (
        f"{entry.label}, trial {trial}: one episode with sampled actions after training, return {video.returns[0]:.1f}."
    )
    return Recording(words, recorded)


MENTIONED = 10**9  # bytes of memory that are worth a word


def memory_words(run: Path) -> str:
    """What to add to the line with which a run starts, if it takes much memory."""
    from mean_actor_critic.engines.memory import in_words, need
    from mean_actor_critic.runs.store import read_manifest

    manifest = read_manifest(run)
    size = need(manifest.experiment, manifest.spaces, manifest.snapshots).size
    return f"; takes {in_words(size)} of memory" if size >= MENTIONED else ""


class Events:
    """TensorBoard events of a run, if they are wanted."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._writer: EventWriter | None = None
        if wanted:
            from mean_actor_critic.reports.tensorboard import require_tensorboard

            require_tensorboard()

    def begin(self, run: Path) -> None:
        """For a run folder that is there."""
        if self._wanted:
            from mean_actor_critic.reports.tensorboard import EventWriter

            self._writer = EventWriter(run)

    def episodes(self, returns: Any, lengths: Any) -> None:
        """Of episodes, whatever is new."""
        if self._writer is not None:
            with self._given_up_if_it_fails():
                self._writer.episodes(returns, lengths)

    def evaluations(self, curves: Any, steps: Any) -> None:
        """Of a game's evaluations, whatever is new."""
        if self._writer is not None:
            with self._given_up_if_it_fails():
                self._writer.evaluations(curves, steps)

    @contextlib.contextmanager
    def _given_up_if_it_fails(self) -> Iterator[None]:
        """Whatever is wrong with events is said once and is no reason to stop training."""
        try:
            yield
        except Exception as fault:  # of a library, too
            self._writer = None
            say(f"mac: warning: no more TensorBoard events: {fault}")
