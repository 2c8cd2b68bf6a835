"""Learning curves as TensorBoard events, written while a run goes on."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.errors import MacError
from mean_actor_critic.store import disk_faults

FOLDER = "tensorboard"  # in the run folder
FLUSH_SECONDS = 2  # until what was written can be seen
MOST_TRIALS = 10  # that get curves of their own beside the mean


def require_tensorboard() -> None:
    """Raise a MacError that names the extra, unless events can be written. Ask before long work, not after it."""
    if importlib.util.find_spec("tensorboardX") is None:
        raise MacError("TensorBoard events need tensorboardX: pip install 'mean-actor-critic[tensorboard]'")


class EventWriter:
    """Writes what is new in the curves of a run. The step of an event is the episode, from 1."""

    def __init__(self, run: Path) -> None:
        """Begin an event file in the run folder; what one before it says of the same episodes is replaced."""
        require_tensorboard()
        from tensorboardX import SummaryWriter

        self._folder = run / FOLDER
        self._new_writer = SummaryWriter
        self._writer: Any = None
        self._written = 0  # episodes

    def __call__(self, returns: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> None:
        """Write the episodes that all trials have played since the last call. Both are [trials, episodes]."""
        played = int(np.min(np.sum(lengths > 0, axis=1)))
        with disk_faults(self._folder, "write TensorBoard events"):
            if self._writer is None:  # on a resumed run everything is written again: a few kilobytes
                self._writer = self._new_writer(str(self._folder), purge_step=1, flush_secs=FLUSH_SECONDS)
            for episode in range(self._written, played):
                self._write(episode + 1, returns[:, episode], lengths[:, episode])
        self._written = max(self._written, played)

    def _write(self, step: int, returns: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> None:
        self._writer.add_scalar("return/mean", float(np.mean(returns)), step)
        self._writer.add_scalar(
            "return/interquartile_range", float(np.subtract(*np.percentile(returns, [75, 25]))), step
        )
        self._writer.add_scalar("steps/mean", float(np.mean(lengths)), step)
        for trial, value in enumerate(returns[:MOST_TRIALS] if len(returns) > 1 else ()):
            self._writer.add_scalar(f"return_of_trial/{trial}", float(value), step)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
