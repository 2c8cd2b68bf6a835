"""A run on an Atari game, as its readers see it: evaluations by steps instead of episodes. Imports no JAX."""

from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import Agent, networks_from_arrays
from mean_actor_critic.spec.atari_experiment import AtariExperiment
from mean_actor_critic.engines.curves import AtariCurves, mean_scores
from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.spec.experiment import require_whole
from mean_actor_critic.runs.run import Run, StoredRun

BEST, KEPT = "best", "step"  # how agents in AGENTS are called
AGENTS = "agents"  # folder in the run folder


class AtariRun(StoredRun):
    """Trials of one experiment on a game.

    Attributes:
        experiment: what was run.
        curves: the evaluations so far.
        updates: [trials] so far.
        diverged_at: [trials] the update, from 1, whose gradient was not finite; 0 for none.
    """

    def __init__(self, path: Path, manifest: store.Manifest, checkpoint: store.Checkpoint) -> None:
        super().__init__(path, manifest, checkpoint)
        if not isinstance(manifest.experiment, AtariExperiment):
            raise InputError("run", str(path), "a run on an Atari game; Run.load reads those that count episodes")
        self.experiment = manifest.experiment
        self.curves = AtariCurves.empty(self.experiment)
        self.updates = self.diverged_at = np.zeros(self.experiment.trials, np.int32)
        if checkpoint.arrays is not None:
            self.curves = AtariCurves(*(self._array(name, like) for name, like in self.curves._asdict().items()))
            number = np.zeros((), np.int32)
            self.updates, self.diverged_at = (
                np.array([self._array(f"trial/{i}/state/{name}", number) for i in range(self.experiment.trials)])
                for name in ("update", "diverged_at")
            )

    @property
    def steps_done(self) -> np.ndarray[Any, Any]:
        """Agent steps of each trial [trials]; times `frame_skip` these are frames."""
        return np.asarray(self.updates, np.int64) * self.experiment.setup.steps_per_update

    @property
    def steps(self) -> np.ndarray[Any, Any]:
        """Agent steps at each evaluation [evaluations], those to come included."""
        return self.experiment.evaluation_steps()

    @property
    def means(self) -> np.ndarray[Any, Any]:
        """The mean score of each evaluation [trials, evaluations]; NaN for those to come."""
        return mean_scores(self.curves)

    @property
    def final_scores(self) -> np.ndarray[Any, Any]:
        """The mean score of each trial's last evaluation so far [trials]; NaN before the first."""
        last = self.curves.evaluated - 1
        return np.where(last >= 0, self.means[np.arange(len(last)), np.maximum(last, 0)], np.nan)

    @property
    def finished(self) -> bool:
        """Whether every trial has had its last evaluation."""
        return bool(np.all(self.curves.evaluated == self.experiment.evaluations))

    @property
    def digest(self) -> str:
        """SHA-256 of everything learned: curves, weights, optimiser, emulators. Equal digests are equal bits."""
        return store.digest_of_arrays(self._arrays or {}, {})

    @property
    def status(self) -> list[str]:
        """One for each trial: `finished`, `step N` or `diverged at step N`."""
        per_update, last = self.experiment.setup.steps_per_update, self.experiment.evaluations
        return [
            f"diverged at step {diverged * per_update}" if diverged else ("finished" if n == last else f"step {steps}")
            for diverged, n, steps in zip(self.diverged_at, self.curves.evaluated, self.steps_done, strict=True)
        ]

    def agent(self, trial: int = 0) -> Agent:
        """The agent of one trial as it is at the last checkpoint."""
        trial = require_whole("trial", trial, 0, self.experiment.trials - 1)
        if self._arrays is None:
            raise InputError("run", str(self.path), "a run with a checkpoint; this one has only begun")
        prefix = f"trial/{trial}/state/"
        learned = {
            name.removeprefix(prefix): array
            for name, array in self._arrays.items()
            if name.startswith(prefix + "network/")
        }
        try:
            networks = networks_from_arrays(self.experiment, self.manifest.spaces, learned)
        except (KeyError, ValueError) as fault:
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {fault}") from None
        return Agent(self.experiment, self.manifest.spaces, trial, networks)

    def _array(self, name: str, like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        assert self._arrays is not None
        array = self._arrays.get(name)
        if array is None or array.shape != like.shape or array.dtype != like.dtype:
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {name}")
        return array


def load_run(path: str | Path) -> Run | AtariRun:
    """The run in a folder, whatever it counts."""
    folder = Path(path)
    manifest = store.read_manifest(folder)
    kind = AtariRun if isinstance(manifest.experiment, AtariExperiment) else Run
    return kind(folder, manifest, store.read_checkpoint(folder, manifest))
