"""What several commands need: what a path names, and how to show what came out."""

from typing import TYPE_CHECKING

from mean_actor_critic.errors import InputError
from mean_actor_critic.terminal import say, show, tell

if TYPE_CHECKING:
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

        show(run_table(run))
        show_divergence(run)
        from mean_actor_critic.runs.advice import advice

        for line in advice(run):
            tell(line)
        tell(f"{run.path}: results {run.digest[:16]}")


def show_divergence(run: "Run") -> None:
    """A line about trials that diverged, if any."""
    from mean_actor_critic.reports.tables import diverged_line

    line = diverged_line(run)
    if line:
        tell(f"{run.experiment.algorithm}: {line}")


def warn(run: "Run") -> None:
    """Of checkpoints that could not be read."""
    for line in run.warnings:
        say(f"mac: warning: {line}; using the checkpoint before it")
