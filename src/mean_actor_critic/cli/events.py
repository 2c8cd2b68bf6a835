"""TensorBoard events of a run, if they are wanted: whatever is wrong with them is no reason to stop training."""

from pathlib import Path
from typing import TYPE_CHECKING

from mean_actor_critic.spec.experiment import Experiment
from mean_actor_critic.terminal import say

if TYPE_CHECKING:
    from mean_actor_critic.engines.study import Study
    from mean_actor_critic.reports.tensorboard import EventWriter


class Events:
    """Written as a run goes on, and given up with a word if that fails."""

    def __init__(self, wanted: bool) -> None:
        self._wanted = wanted
        self._writer: EventWriter | None = None
        if wanted:
            from mean_actor_critic.reports.tensorboard import require_tensorboard

            require_tensorboard()

    def begin(self, run: Path, experiment: Experiment) -> None:
        """For a run folder that is there."""
        if self._wanted:
            from mean_actor_critic.reports.tensorboard import EventWriter

            self._writer = EventWriter(run, experiment)

    def write(self, study: "Study") -> None:
        """Whatever is new."""
        if self._writer is None:
            return
        try:
            self._writer.write(study.curves, study.evaluations)
        except Exception as fault:  # of a library, too
            self._writer = None
            say(f"mac: warning: no more TensorBoard events: {fault}")
