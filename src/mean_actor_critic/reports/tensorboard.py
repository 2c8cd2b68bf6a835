"""Learning curves as TensorBoard events, written while a run goes on.

The events are tensorboardX's, but not the writer: that one hands them to a thread, and when a full disk has ended the
thread, everybody waits for it without end. Here they are written, or the disk's refusal is known, when a call returns.
"""

import importlib.util
import socket
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.engines.curves import Evaluations
from mean_actor_critic.errors import MacError
from mean_actor_critic.files import disk_faults

FOLDER = "tensorboard"  # in the run folder
MOST_TRIALS = 10  # that get curves of their own beside the mean


def require_tensorboard() -> None:
    """Raise a MacError that names the extra, unless events can be written. Ask before long work, not after it."""
    if importlib.util.find_spec("tensorboardX") is None:
        raise MacError("TensorBoard events need tensorboardX: pip install 'mean-actor-critic[tensorboard]'")


class EventWriter:
    """Writes what is new in the curves of a run."""

    def __init__(self, run: Path) -> None:
        """Begin an event file in the run folder; what one before it says of the same steps is replaced."""
        require_tensorboard()
        from tensorboardX.proto.event_pb2 import SessionLog

        self._file = run / FOLDER / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self._unwritten = b""  # records
        self._record(file_version="brain.Event:2")
        # on a resumed run everything is written again: a few kilobytes
        self._record(step=1, session_log=SessionLog(status=SessionLog.START))
        self._episodes = self._evaluations = 0  # that were written

    def episodes(self, returns: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> None:
        """Write the episodes that all trials have played since the last call. Both are [trials, episodes].

        The step of an event is the episode, from 1.

        Raises:
            DiskError: they cannot be written.
        """
        played = int(np.min(np.sum(lengths > 0, axis=1)))
        for episode in range(self._episodes, played):
            spread = float(np.subtract(*np.percentile(returns[:, episode], [75, 25])))
            self._write(episode + 1, "return", returns[:, episode])
            self._add("return/interquartile_range", spread, episode + 1)
            self._add("steps/mean", np.mean(lengths[:, episode]), episode + 1)
        self._episodes = max(self._episodes, played)
        self._flush()

    def evaluations(self, evaluations: Evaluations, moments: np.ndarray[Any, Any]) -> None:
        """Write the evaluations that all trials have had since the last call.

        The step of an event is the agent step, or the episode where the budget is in episodes.

        Args:
            evaluations: of the run so far.
            moments: when each takes place [evaluations], in the unit of the budget.

        Raises:
            DiskError: they cannot be written.
        """
        scores, evaluated = evaluations.means, int(evaluations.evaluated.min())
        for number in range(self._evaluations, evaluated):
            step = int(moments[number])
            self._write(step, "score", scores[:, number])
            for name in ("entropy", "training_score"):  # which only evaluations of games have
                of_all = getattr(evaluations, name)
                if of_all is not None and np.isfinite(of_all[:, number]).any():
                    self._add(f"{name}/mean", np.nanmean(of_all[:, number]), step)
        self._evaluations = max(self._evaluations, evaluated)
        self._flush()

    def _write(self, step: int, name: str, values: np.ndarray[Any, Any]) -> None:
        """The mean of a value of each trial [trials], and some of them."""
        self._add(f"{name}/mean", np.mean(values), step)
        for trial, value in enumerate(values[:MOST_TRIALS] if len(values) > 1 else ()):
            self._add(f"{name}_of_trial/{trial}", value, step)

    def _add(self, name: str, value: Any, step: int) -> None:
        from tensorboardX.summary import scalar

        self._record(step=step, summary=scalar(name, float(value)))

    def _record(self, **content: Any) -> None:
        """Add an event as TensorBoard frames it: length and content, each with its checksum."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import masked_crc32c

        event = Event(wall_time=time.time(), **content).SerializeToString()
        for part in (struct.pack("<Q", len(event)), event):
            self._unwritten += part + struct.pack("<I", masked_crc32c(part))

    def _flush(self) -> None:
        """Nothing is kept open, so that nothing has to be closed."""
        with disk_faults(self._file.parent, "write TensorBoard events"):
            self._file.parent.mkdir(exist_ok=True)
            with self._file.open("ab") as file:
                file.write(self._unwritten)
        self._unwritten = b""
