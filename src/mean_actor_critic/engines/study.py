"""A study in memory: all trials of an experiment, advanced a segment at a time, by whichever engine plays it."""

from collections.abc import Sequence
from typing import Protocol

from mean_actor_critic.engines import compiled, hosted, stepped_study
from mean_actor_critic.engines.compiled_study import CompiledStudy
from mean_actor_critic.engines.curves import Curves, Evaluations
from mean_actor_critic.engines.hosted_study import HostedStudy
from mean_actor_critic.engines.stepped_study import SteppedStudy
from mean_actor_critic.engines.vector_study import VectorStudy
from mean_actor_critic.environments.catalogue import EnvironmentSpec
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.learning.networks import Networks
from mean_actor_critic.progress import Progress
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Arrays


class Study(Protocol):
    """What the training loop needs of any study."""

    curves: Curves
    evaluations: Evaluations
    newly_evaluated: list[int]  # trials that were evaluated in the last segment, by their places

    @property
    def finished(self) -> bool:
        """Whether every trial has done all that it should."""

    @property
    def position(self) -> int:
        """How far it is, over all trials: what its checkpoints are numbered by."""

    @property
    def steps_taken(self) -> int:
        """Agent steps of training so far, over all trials."""

    def advance(self) -> Progress:
        """Play and learn for about half a second."""

    def arrays(self) -> Arrays:
        """Everything that a checkpoint holds."""

    def networks(self, trial: int) -> Networks:
        """What an agent of one trial, by its place, keeps, on the host."""

    def close(self) -> None:
        """End whatever processes there are."""


def choose_width(experiment: Experiment, trials: int | None = None) -> int:
    """Trials that one compiled call works on (on each device, where there are several), of so many in all."""
    trials = experiment.trials if trials is None else trials
    if experiment.engine == "atari":
        return 1
    if experiment.counts_updates:
        return stepped_study.choose_width(experiment, trials)
    if experiment.engine == "hosted":
        return hosted.choose_width(trials)
    return compiled.choose_width(experiment.setup, trials, compiled.device_count())


def make_study(
    experiment: Experiment,
    width: int,
    environment: EnvironmentSpec,
    saved: Arrays | None,
    limits: WorkerLimits,
    snapshots: Sequence[int],
) -> Study:
    """The study of a run, at its beginning or where the arrays of a checkpoint left off."""
    if experiment.engine == "atari":
        return VectorStudy(experiment, environment.build(), saved, limits.workers or 0)
    if experiment.counts_updates:
        return SteppedStudy(experiment, environment, width, saved, limits)
    if experiment.engine == "hosted":
        return HostedStudy(experiment, environment, width, saved, limits, snapshots)
    return CompiledStudy(experiment, environment, width, saved, snapshots=snapshots)
