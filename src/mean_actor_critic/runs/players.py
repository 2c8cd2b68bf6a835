"""Who plays: runs and agents, themselves or by the paths of their files. Imports no JAX."""

import os
from pathlib import Path

from mean_actor_critic.errors import InputError, MissingFileError
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.run import Run

Player = Run | Agent | str | Path  # a run, an agent, or the path of either


def load_player(player: Player) -> Run | Agent:
    """The run or agent that is meant.

    Args:
        player: one of these, or its path: a run folder, or an agent's file.

    Raises:
        InputError: it is neither.
        MissingFileError: there is nothing at the path.
        DamagedFileError: there is something, but it is not what was written.
    """
    if isinstance(player, Run | Agent):
        return player
    if not isinstance(player, str | Path):
        raise InputError("player", player, "a run, an agent, or the path of either")
    if not os.path.lexists(player):  # unlike pathlib's, also an answer where a name is too long
        raise MissingFileError(f"{player}: there is no such run folder or agent file")
    path = Path(player)
    return Run.load(path) if os.path.isdir(path) else Agent.load(path)


def agents_of(player: Run | Agent) -> list[Agent]:
    """An agent alone, or those of all trials of a run."""
    if isinstance(player, Agent):
        return [player]
    return [player.agent(trial) for trial in range(player.experiment.trials)]
