"""Learning curves as TensorBoard events, written while a run goes on."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from mean_actor_critic.engines.curves import AtariCurves, mean_scores
from mean_actor_critic.errors import MacError
from mean_actor_critic.files import disk_faults

FOLDER = "tensorboard"  # in the run folder
FLUSH_SECONDS = 2  # until what was written can be seen
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
        from tensorboardX import SummaryWriter

        self._folder = run / FOLDER
        self._new_writer = SummaryWriter
        self._writer: Any = None
        self._written = 0  # episodes, or evaluations

    def episodes(self, returns: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any]) -> None:
        """Write the episodes that all trials have played since the last call. Both are [trials, episodes].

        The step of an event is the episode, from 1.
        """
        for episode in self._new(int(np.min(np.sum(lengths > 0, axis=1)))):
            spread = float(np.subtract(*np.percentile(returns[:, episode], [75, 25])))
            self._write(episode + 1, "return", returns[:, episode])
            self._add("return/interquartile_range", spread, episode + 1)
            self._add("steps/mean", np.mean(lengths[:, episode]), episode + 1)

    def evaluations(self, curves: AtariCurves, steps: np.ndarray[Any, Any]) -> None:
        """Write the evaluations that all trials have had since the last call.

        The step of an event is the agent step.

        Args:
            curves: of the run so far.
            steps: agent steps at each [evaluations].
        """
        scores = mean_scores(curves)
        for number in self._new(int(curves.evaluated.min())):
            step = int(steps[number])
            self._write(step, "score", scores[:, number])
            self._add("entropy/mean", np.mean(curves.entropy[:, number]), step)
            training_scores = curves.training_score[:, number]
            if np.isfinite(training_scores).any():
                self._add("training_score/mean", np.nanmean(training_scores), step)

    def _new(self, there: int) -> range:
        """Places beyond those written, up to so many."""
        new = range(self._written, there)
        self._written = max(self._written, there)
        return new

    def _write(self, step: int, name: str, values: np.ndarray[Any, Any]) -> None:
        """The mean of a value of each trial [trials], and some of them."""
        self._add(f"{name}/mean", np.mean(values), step)
        for trial, value in enumerate(values[:MOST_TRIALS] if len(values) > 1 else ()):
            self._add(f"{name}_of_trial/{trial}", value, step)

    def _add(self, name: str, value: Any, step: int) -> None:
        with disk_faults(self._folder, "write TensorBoard events"):
            if self._writer is None:  # on a resumed run everything is written again: a few kilobytes
                self._writer = self._new_writer(str(self._folder), purge_step=1, flush_secs=FLUSH_SECONDS)
            self._writer.add_scalar(name, float(value), step)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
