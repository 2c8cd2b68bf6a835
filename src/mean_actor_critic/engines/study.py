"""A study in memory: all trials of an experiment, advanced a segment at a time, by whichever engine plays it."""

from collections.abc import Sequence
from typing import Protocol

from mean_actor_critic.engines import compiled, hosted
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.engines.curves import Curves
from mean_actor_critic.engines.hosted_study import HostedStudy
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import Experiment, Setup
from mean_actor_critic.trees import Arrays


class Advancing(Protocol):
    """What the training loop needs of any study."""

    @property
    def finished(self) -> bool:
        """Whether every trial has done all that it should."""

    @property
    def position(self) -> int:
        """How far it is, over all trials: what its checkpoints are numbered by."""

    def advance(self) -> Progress:
        """Play and learn for about half a second."""

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""

    def close(self) -> None:
        """End whatever processes there are."""


class Study(Advancing, Protocol):
    """A study of episodes, by whichever engine."""

    curves: Curves


def choose_width(setup: Setup, trials: int, engine: str) -> int:
    """Trials that one compiled call works on (on each device, where there are several)."""
    if engine == "hosted":
        return hosted.choose_width(trials)
    return compiled.choose_width(setup, trials, compiled.device_count())


def make_study(
    experiment: Experiment,
    width: int,
    environment: EnvironmentSpec,
    saved: Arrays | None,
    limits: WorkerLimits,
    snapshots: Sequence[int],
) -> CompiledStudy | HostedStudy:
    """The study of a run, at its beginning or where the arrays of a checkpoint left off."""
    if experiment.engine == "hosted":
        return HostedStudy(experiment, environment, width, saved, limits, snapshots)
    return CompiledStudy(experiment, environment, width, saved, snapshots=snapshots)
