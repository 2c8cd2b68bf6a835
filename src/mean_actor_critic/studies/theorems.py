"""The paper's theorems, checked: exactly in random problems, and in a network at moments of its training."""

import functools
from pathlib import Path

from mean_actor_critic.engines import devices
from mean_actor_critic.gradients.claims import claims
from mean_actor_critic.gradients.moments import BATCHES, measure_trial
from mean_actor_critic.gradients.survey import survey
from mean_actor_critic.gradients.theory import UPDATE, Theory
from mean_actor_critic.progress import Watch
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.train import plan
from mean_actor_critic.spec.checks import require_whole
from mean_actor_critic.spec.paper import Task
from mean_actor_critic.spec.presets import require_reporting_seed
from mean_actor_critic.studies.stored import completed, require_asked, stored, trained

MOMENTS = (0.0, 0.05, 0.1, 0.25, 1.0)  # of the training: most of them early, where a policy changes most
PROBLEMS = 1000
TRIALS = (1, 100)


def reproduce(
    task: Task,
    folder: Path,
    trials: int,
    episodes: int,
    seed: int,
    watch: Watch,
    command: str,
    *,
    replicates: int = 1000,
) -> Theory:
    """Train MAC on a task with snapshots, and measure the estimators exactly and in its networks.

    Args:
        task: whose preset to train by.
        folder: of the run, which goes on where it was interrupted.
        trials: to train and to measure.
        episodes: of each trial.
        seed: of the training; not one that searches use.
        watch: shows progress.
        command: that asked for this, to be kept with it.
        replicates: estimates of each kind.
    """
    require_reporting_seed(seed)
    trials = require_whole("trials", trials, *TRIALS)
    run = _trained(task, folder / "mac", trials, episodes, seed, watch)
    healthy = [trial for trial in range(trials) if not run.diverged_at[trial]]
    measured = tuple(
        measure_trial(
            run, trial, batches=(*BATCHES, UPDATE), replicates=replicates, on_progress=watch(f"trial {trial}")
        )
        for trial in healthy
    )
    found = survey(PROBLEMS)
    return Theory(
        command=command,
        versions=devices.versions(run.experiment.engine),
        trials=measured,
        curves=found.curves,
        problems=found.problems,
        claims=claims(found, measured),
    )


def _trained(task: Task, path: Path, trials: int, episodes: int, seed: int, watch: Watch) -> Run:
    """The run, from the beginning, from where it stands, or as it is."""
    experiment = plan(task.environment, "mac", trials=trials, episodes=episodes, seed=seed, settings={}).experiment
    there = stored(path)
    require_asked(path, there is None or bool(there.manifest.snapshots))
    moments = [round(share * episodes) for share in MOMENTS]
    fresh = functools.partial(trained, path, experiment, watch, "mac", snapshots=moments)
    return completed(path, experiment, watch, "mac", fresh)[0]
