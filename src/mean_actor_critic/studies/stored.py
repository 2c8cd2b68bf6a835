"""Runs of a study that may be on disk already, whole or in part."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mean_actor_critic.errors import InputError
from mean_actor_critic.files import require_own
from mean_actor_critic.progress import Watch
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.train import resume, train
from mean_actor_critic.spec.experiment import Experiment


def stored(path: Path) -> Run | None:
    """The run in a folder of a study, if there is one."""
    return Run.load(path) if os.path.lexists(path / "manifest.json") else None


def require_asked(path: Path, asked: bool) -> None:
    """Refuse the run in a folder if it is not the one that a study asks for."""
    if not asked:
        raise InputError("out", str(path), "a folder without another study; this one was run with other settings")


def completed(
    path: Path, experiment: Experiment, watch: Watch, name: str, fresh: Callable[[], Run] | None = None
) -> tuple[Run, bool]:
    """A finished run of an experiment: from the beginning, from where it stands, or as it is.

    Args:
        path: of its run folder.
        experiment: that it is to be of, but for its snapshots.
        watch: shows progress.
        name: to show it under.
        fresh: trains it from the beginning; None for `train` with the experiment's own arguments.

    Returns:
        The run, and whether it was finished already.
    """
    there = stored(path)
    require_asked(path, there is None or there.experiment == experiment)
    if there is not None and there.finished:
        return there, True
    require_own(path)
    if there is not None:
        return resume(path, _named(experiment), on_progress=watch(name)), False
    return (fresh() if fresh else trained(path, experiment, watch, name)), False


def _named(experiment: Experiment) -> str | None:
    """The environment, if a run folder alone may not say which program it is: the study says so."""
    return experiment.environment if ":" in experiment.environment else None


def trained(path: Path, experiment: Experiment, watch: Watch, name: str, **more: object) -> Run:
    """Train an experiment from the beginning, with all of its settings, so that no preset fills in any."""
    arguments: dict[str, Any] = {
        "trials": experiment.trials,
        experiment.budget.unit: experiment.budget.amount,
        "seed": experiment.seed,
        "first_trial": experiment.first_trial,
        "engine": experiment.engine,
        "learner": experiment.learner,
        "until": experiment.until,
        "env_kwargs": dict(experiment.environment_kwargs),
        **experiment.settings(),
        **more,
    }
    return train(experiment.environment, experiment.algorithm, out=path, on_progress=watch(name), **arguments)
