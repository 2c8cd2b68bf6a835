"""Learning curves as TensorBoard events, written while a run goes on.

The events are tensorboardX's, but not the writer: that one hands them to a thread, and when a full disk has ended the
thread, everybody waits for it for ever. Here they are written, or the disk's refusal is known, when a call returns.
"""

import importlib.util
import socket
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.engines.curves import Curves, Evaluations
from mean_actor_critic.errors import MacError
from mean_actor_critic.files import append, folder_within
from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.trees import Array

FOLDER = "tensorboard"  # in the run folder
MOST_TRIALS = 10  # that get curves of their own beside the mean


def require_tensorboard() -> None:
    """Raise a MacError that names the extra, unless events can be written. Ask before long work, not after it."""
    if importlib.util.find_spec("tensorboardX") is None:
        raise MacError("TensorBoard events need tensorboardX: pip install 'mean-actor-critic[tensorboard]'")


class EventWriter:
    """Writes what is new in the curves and evaluations of a run."""

    def __init__(self, run: Path, experiment: Experiment) -> None:
        """Begin an event file in the run folder; what one before it says of the same steps is replaced."""
        require_tensorboard()
        from tensorboardX.proto.event_pb2 import SessionLog

        self._run, self._experiment = run, experiment
        self._file = run / FOLDER / f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}"
        self._unwritten = b""  # records
        self._record(file_version="brain.Event:2")
        # on a resumed run everything is written again: a few kilobytes
        self._record(step=1, session_log=SessionLog(status=SessionLog.START))
        self._written: dict[str, int] = {}  # points of each curve

    def write(self, curves: Curves, evaluations: Evaluations) -> None:
        """Write the episodes and evaluations that are new since the last call.

        The step of an event is the episode, from 1, or the moment of the evaluation, in the unit of the budget.

        Raises:
            DiskError: they cannot be written.
        """
        if not self._experiment.is_game:
            self._write_episodes(curves)
        if self._experiment.evaluations:
            self._write_evaluations(evaluations)
        folder_within(self._run, FOLDER)
        append(self._file, self._unwritten)  # nothing is kept open, so that nothing has to be closed
        self._unwritten = b""

    def _write_episodes(self, curves: Curves) -> None:
        returns, lengths = curves.returns, curves.lengths
        for episode in self._write_trials("return", returns, curves.played, range(1, returns.shape[1] + 1)):
            spread = float(np.subtract(*np.percentile(returns[:, episode], [75, 25])))
            self._add("return/interquartile_range", spread, episode + 1)
            self._add("steps/mean", np.mean(lengths[:, episode]), episode + 1)

    def _write_evaluations(self, evaluations: Evaluations) -> None:
        moments = self._experiment.evaluation_moments()
        for number in self._write_trials("score", evaluations.means, evaluations.evaluated, moments):
            if evaluations.entropy is not None:
                self._add("entropy/mean", np.mean(evaluations.entropy[:, number]), moments[number])
            if evaluations.training_score is not None and np.isfinite(evaluations.training_score[:, number]).any():
                self._add("training_score/mean", np.nanmean(evaluations.training_score[:, number]), moments[number])
        if evaluations.greedy_means is not None:
            self._write_trials("greedy_score", evaluations.greedy_means, evaluations.evaluated, moments)

    def _write_trials(self, name: str, values: Array, done: Array, steps: Sequence[int] | Array) -> range:
        """Write a curve [trials, points] of which each trial has so many points [trials]: some trials, and the mean.

        Returns:
            The points that all trials have and that are new: of fewer trials, a mean would be of others each time.
        """
        new = self._new(name, int(done.min()))
        for point in new:
            self._add(f"{name}/mean", np.mean(values[:, point]), steps[point])
        for trial in range(min(len(values), MOST_TRIALS) if len(values) > 1 else 0):
            tag = f"{name}_of_trial/{trial}"
            for point in self._new(tag, int(done[trial])):
                self._add(tag, values[trial, point], steps[point])
        return new

    def _new(self, name: str, there: int) -> range:
        """Points of a curve beyond those written, up to so many."""
        new = range(self._written.get(name, 0), there)
        self._written[name] = max(new.start, there)
        return new

    def _add(self, name: str, value: Any, step: Any) -> None:
        from tensorboardX.summary import scalar

        self._record(step=int(step), summary=scalar(name, float(value)))

    def _record(self, **content: Any) -> None:
        """Add an event as TensorBoard frames it: length and content, each with its checksum."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import masked_crc32c

        event = Event(wall_time=time.time(), **content).SerializeToString()
        for part in (struct.pack("<Q", len(event)), event):
            self._unwritten += part + struct.pack("<I", masked_crc32c(part))
