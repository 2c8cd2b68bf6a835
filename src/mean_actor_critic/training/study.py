"""A study in memory: all trials of an experiment, advanced a segment at a time, by whichever engine plays it."""

from typing import Protocol

from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.fleet import WorkerLimits
from mean_actor_critic.experiment import Setup
from mean_actor_critic.progress import Progress
from mean_actor_critic.store import Arrays, Manifest
from mean_actor_critic.training import compiled, hosted
from mean_actor_critic.training.compiled_study import CompiledStudy
from mean_actor_critic.training.hosted_study import HostedStudy
from mean_actor_critic.training.records import Curves


class Study(Protocol):
    """What the training loop needs of an engine."""

    curves: Curves

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""

    @property
    def episodes_done(self) -> int:
        """Episodes played so far, over all trials."""

    def advance(self) -> Progress:
        """Play and learn for about half a second."""

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""

    def close(self) -> None:
        """End whatever processes there are."""


def choose_width(setup: Setup, trials: int, engine: str) -> int:
    """Trials that one compiled call works on (on each device, where there are several)."""
    if engine == "hosted":
        return hosted.choose_width(trials)
    return compiled.choose_width(setup, trials, compiled.device_count())


def make_study(
    manifest: Manifest, environment: EnvironmentSpec, saved: Arrays | None, limits: WorkerLimits
) -> CompiledStudy | HostedStudy:
    """The study of a run, at its beginning or where the arrays of a checkpoint left off."""
    experiment, width = manifest.experiment, manifest.width
    if experiment.engine == "hosted":
        return HostedStudy(experiment, environment, width, saved, limits, manifest.snapshots)
    return CompiledStudy(experiment, environment, width, saved, snapshots=manifest.snapshots)
