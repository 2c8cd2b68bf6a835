"""What several commands need: what a path names, and how to show what came out."""

import os
import sys
from typing import TYPE_CHECKING

from mean_actor_critic.errors import InputError
from mean_actor_critic.progress import say

if TYPE_CHECKING:
    from rich.console import Console

    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.run import Run


def player_at(path: str, trial: int | None) -> "Run | Agent":
    """The run or agent that a path names; one trial of the run, if asked."""
    from mean_actor_critic.runs.agent import Agent
    from mean_actor_critic.runs.players import load_player

    player = load_player(path)
    if isinstance(player, Agent):
        if trial is not None:
            raise InputError("--trial", trial, "nothing with an agent, which is one trial")
        return player
    warn(player)
    return player if trial is None else player.agent(trial)


def show_run(run: "Run", quiet: bool) -> None:
    """What came out of a run, unless nothing is to be shown."""
    if not quiet:
        from mean_actor_critic.reports.tables import run_table

        console().print(run_table(run))
        show_divergence(run)
        from mean_actor_critic.runs.advice import advice

        for line in advice(run):
            print(line)
        print(f"{run.path}: results {run.digest[:16]}")


def show_divergence(run: "Run") -> None:
    """A line about trials that diverged, if any."""
    from mean_actor_critic.reports.tables import diverged_line

    line = diverged_line(run)
    if line:
        print(f"{run.experiment.algorithm}: {line}")


def warn(run: "Run") -> None:
    """Of checkpoints that could not be read."""
    for line in run.warnings:
        say(f"mac: warning: {line}; using the checkpoint before it")


def console() -> "Console":
    """For tables."""
    from rich.console import Console

    # a pipe has no width: give tables the room they need
    width = None if sys.stdout.isatty() else 140
    return Console(width=width, color_system=None if os.environ.get("NO_COLOR") else "auto")
