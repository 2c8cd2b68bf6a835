"""A run: a study on disk, as its readers see it. Reads the store only; imports no JAX."""

from pathlib import Path
from typing import Any, Self

import numpy as np

from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import Agent, networks_from_arrays
from mean_actor_critic.engines.curves import NETWORKS, SNAPSHOTS, STATE
from mean_actor_critic.errors import DamagedFileError, InputError
from mean_actor_critic.spec.experiment import Experiment, require_whole



class StoredRun:
    """A run folder as it was read, whatever was run.

    Attributes:
        path: the run folder.
        manifest: what was run, and what the bits of the results depend on.
        warnings: lines about damaged files that were passed over.
    """

    def __init__(self, path: Path, manifest: store.Manifest, checkpoint: store.Checkpoint) -> None:
        self.path = path
        self.manifest = manifest
        self.warnings = checkpoint.warnings
        self._arrays = checkpoint.arrays

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The run in a folder, finished or not, also while another process writes it."""
        folder = Path(path)
        manifest = store.read_manifest(folder)
        return cls(folder, manifest, store.read_checkpoint(folder, manifest))


class Run(StoredRun):
    """Trials of one experiment: learning curves, the status of each, and agents.

    Attributes:
        experiment: what was run.
        returns: undiscounted returns [trials, episodes]; NaN for episodes not played yet.
        lengths: agent steps [trials, episodes]; 0 for episodes not played yet.
        diverged_at: [trials] the episode, from 1, whose update was not finite; 0 for none.
    """

    def __init__(self, path: Path, manifest: store.Manifest, checkpoint: store.Checkpoint) -> None:
        super().__init__(path, manifest, checkpoint)
        if not isinstance(manifest.experiment, Experiment):
            raise InputError("run", str(path), "a run that counts episodes; AtariRun.load reads those on Atari games")
        self.experiment = manifest.experiment
        shape = (self.experiment.trials, self.experiment.episodes)
        if checkpoint.arrays is None:
            self.returns: np.ndarray[Any, Any] = np.full(shape, np.nan, np.float32)
            self.lengths: np.ndarray[Any, Any] = np.zeros(shape, np.int32)
            self.diverged_at: np.ndarray[Any, Any] = np.zeros(shape[0], np.int32)
        else:
            self.returns = self._array("returns", shape, np.float32)
            self.lengths = self._array("lengths", shape, np.int32)
            self.diverged_at = self._array(STATE + "diverged_at", shape[:1], np.int32)

    @property
    def episodes_done(self) -> np.ndarray[Any, Any]:
        """Episodes played by each trial [trials]."""
        return np.sum(self.lengths > 0, axis=1)

    @property
    def finished(self) -> bool:
        """Whether every trial has played all its episodes."""
        return bool(np.all(self.episodes_done == self.experiment.episodes))

    @property
    def digest(self) -> str:
        """SHA-256 of everything learned: curves, weights, optimiser states, replay. Equal digests are equal bits."""
        learned = {name: x for name, x in (self._arrays or {}).items() if not name.startswith(SNAPSHOTS)}
        return store.digest_of_arrays(learned, {})

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The moments, after so many episodes, from which `agent` has the networks of every trial."""
        done = -1 if self._arrays is None else int(self.episodes_done.min())
        return tuple(episode for episode in self.manifest.snapshots if episode <= done)

    @property
    def status(self) -> list[str]:
        """One for each trial: `finished`, `episode N` or `diverged at episode N`."""
        return [
            f"diverged at episode {diverged}"
            if diverged
            else ("finished" if done == self.experiment.episodes else f"episode {done}")
            for diverged, done in zip(self.diverged_at, self.episodes_done, strict=True)
        ]

    def agent(self, trial: int = 0, episode: int | None = None) -> Agent:
        """The agent of one trial as it is at the last checkpoint, or as it was after one of the `snapshots`."""
        trial = require_whole("trial", trial, 0, self.experiment.trials - 1)
        if episode is not None and episode not in self.snapshots:
            kept = ", ".join(map(str, self.snapshots)) or "none, because the run was started without snapshots"
            raise InputError("episode", episode, f"one that was kept: {kept}")
        if self._arrays is None:
            raise InputError("run", str(self.path), "a run with a checkpoint; this one has only begun")
        prefix = STATE if episode is None else f"{SNAPSHOTS}{episode}/"
        parts = tuple(prefix + part for part in NETWORKS)
        learned = {name.removeprefix(prefix): array for name, array in self._arrays.items() if name.startswith(parts)}
        if any(array.shape[:1] != (self.experiment.trials,) for array in learned.values()):
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: networks of other trials")
        of_trial = {name: array[trial] for name, array in learned.items()}
        try:
            networks = networks_from_arrays(self.experiment, self.manifest.spaces, of_trial)
        except (KeyError, ValueError) as fault:
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {fault}") from None
        return Agent(self.experiment, self.manifest.spaces, trial, networks)

    def _array(self, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        assert self._arrays is not None
        array = self._arrays.get(name)
        if array is None or array.shape != shape or array.dtype != dtype:
            raise DamagedFileError(f"{self.path}: its checkpoint does not fit its manifest: {name}")
        return array
