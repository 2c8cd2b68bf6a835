"""The training loop: a study advanced segment by segment, each checkpoint written before the next segment begins."""

import concurrent.futures
import contextlib
import functools
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from mean_actor_critic.engines.memory import memory_faults
from mean_actor_critic.engines.study import Study, make_study
from mean_actor_critic.environments.catalogue import EnvironmentSpec, resume_words
from mean_actor_critic.environments.hosted.fleet import WorkerLimits
from mean_actor_critic.errors import EnvironmentFault, Interrupted
from mean_actor_critic.files import folder_within
from mean_actor_critic.progress import STOP, Answer, Progress
from mean_actor_critic.runs import signals, store
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.run import AGENTS, BEST, Run

PATIENCE_SECONDS = 6.0  # after a signal, for a segment to end; beyond it the last checkpoint must do
GATHERING_SECONDS = 60.0  # after a signal, for what a checkpoint holds to be put together
SHARE_OF_SAVING = 0.05  # of the time, at most, unless there is a reason to write a checkpoint now
KEEP_EVERY = 25  # evaluations: the agent of every such one is kept, besides the best

Result = TypeVar("Result")


class Started(NamedTuple):
    """What is about to be trained, for those who want to say so."""

    path: Path
    environment: EnvironmentSpec
    manifest: store.Manifest


OnStart = Callable[[Started], None]
OnStudy = Callable[[Study], None]


class Watchers(NamedTuple):
    """Who is told of a training. What they return is looked at: STOP ends it."""

    on_start: OnStart | None = None
    on_progress: Callable[[Progress], Answer] | None = None
    on_study: OnStudy | None = None


def carry_on(
    path: Path,
    manifest: store.Manifest,
    environment: EnvironmentSpec,
    limits: WorkerLimits,
    checkpoint_seconds: float,
    watchers: Watchers,
    withdraw: Callable[[], None] | None = None,
) -> Run:
    """Advance the study of a run folder to its end, from its last checkpoint on, and write others on the way.

    Args:
        path: the run folder.
        manifest: its manifest.
        environment: that it is on.
        limits: of worker processes.
        checkpoint_seconds: time between checkpoints.
        watchers: who is told.
        withdraw: takes the folder back where the study is refused before it has begun; None for one that stays.
    """
    words = resume_words(environment)
    command = f"resume({str(path)!r}, environment)" if words is None else f"mac resume {shlex.quote(str(path))}{words}"
    advice = f"continue with: {command}"
    with memory_faults("run"), store.sole_writer(path, AGENTS), signals.listening() as listener:
        try:
            if watchers.on_start:
                watchers.on_start(Started(path, environment, manifest))
            arrays, warned = store.read_checkpoint(path, manifest, set_aside=True)
            begin = functools.partial(
                make_study, manifest.experiment, manifest.width, environment, arrays, limits, manifest.snapshots
            )
            aside = Aside(listener, advice)
            study = aside.begun(begin)
        except Exception:  # a signal is none: that run can go on
            if withdraw is not None:
                withdraw()
            raise
        del arrays, begin  # the study has its own
        saver = Saver(path, manifest, checkpoint_seconds, aside)
        try:
            for progress in _segments(aside, study, saver):
                if _tell(watchers, study, progress, saver) is STOP:
                    saver.save(study)
                    break
                saver.save_if_due(study, listener.received is not None)
                if listener.received is not None:
                    raise Interrupted(listener.received, f"{path} is finished" if study.finished else advice)
            return Run(path, manifest, store.Checkpoint(aside.call(study.arrays, GATHERING_SECONDS), warned))
        finally:
            study.close()
            aside.close()


def _tell(watchers: Watchers, study: Study, progress: Progress, saver: "Saver") -> Answer:
    """Tell who wants to know of a segment. If one of them raises, what was learned is written to disk first."""
    for place in study.newly_evaluated:
        saver.keep_agent(study, place)
    try:
        if watchers.on_study:
            watchers.on_study(study)
        return watchers.on_progress(progress) if watchers.on_progress else None
    except BaseException:
        saver.save(study)
        raise


def _segments(aside: "Aside", study: Study, saver: "Saver") -> Iterator[Progress]:
    """Advance a study to its end, and yield after every segment.

    Raises:
        EnvironmentFault: an environment failed; whole episodes are on disk.
        Interrupted: a signal came, and a segment did not end in time.
    """
    while not study.finished:
        # nothing to save, perhaps because it is compiling; or a segment so long that it is given up
        patience = PATIENCE_SECONDS if saver.unsaved else 0.0
        try:
            progress = aside.call(study.advance, patience)
        except EnvironmentFault as fault:
            saver.save(study)
            raise fault.with_advice(f"whole episodes are kept; {aside.advice}") from None
        except Exception:  # of a learner of the user's own, of the machine, or ours
            with contextlib.suppress(Exception):  # states that are lost, such as those given to a call that failed
                saver.save(study)
            raise
        saver.unsaved = True
        yield progress


class Saver:
    """Writes checkpoints and agents of a study."""

    def __init__(self, path: Path, manifest: store.Manifest, seconds: float, aside: "Aside") -> None:
        self._path, self._manifest, self._seconds, self._aside = path, manifest, seconds, aside
        self._saved_at = time.monotonic()
        self._took = 0.0  # seconds, the last checkpoint
        self.unsaved = False  # whether there is anything that no checkpoint has

    def save_if_due(self, study: Study, now: bool) -> None:
        """Write a checkpoint if the time has come, trials were evaluated, or `now`; a large one not all the time."""
        waited = time.monotonic() - self._saved_at
        due = bool(study.newly_evaluated) or waited >= self._seconds
        if now or study.finished or (due and waited * SHARE_OF_SAVING >= self._took):
            self.save(study)

    def save(self, study: Study) -> None:
        """Write a checkpoint."""
        began = time.monotonic()
        # first: with it, what was still being learned begins to count
        arrays = self._aside.call(study.arrays, GATHERING_SECONDS)
        store.write_checkpoint(self._path, self._manifest, study.position, arrays)
        self._saved_at, self.unsaved = time.monotonic(), False
        self._took = self._saved_at - began

    def keep_agent(self, study: Study, place: int) -> None:
        """Write the agent of a trial's last evaluation if it is the best so far, or one of those always kept."""
        experiment, number = self._manifest.experiment, int(study.evaluations.evaluated[place])
        means = study.evaluations.deciding_means[place, :number]
        names = [f"{BEST}-{place}"] if means.argmax() == number - 1 else []
        if number % KEEP_EVERY == 0 or number == experiment.evaluations:
            unit = experiment.budget.unit.removesuffix("s")
            names.append(f"{unit}-{experiment.moment_of_evaluation(number - 1):012d}-{place}")
        if not names:
            return
        folder = folder_within(self._path, AGENTS)
        agent = Agent(experiment, self._manifest.spaces, place, study.networks(place))
        for name in names:
            agent.save(folder / f"{name}.safetensors")


class Aside:
    """A thread for all that a study does: Python hears signals only while its main thread is not inside JAX."""

    def __init__(self, listener: signals.Listener, advice: str) -> None:
        """`advice` is what to say to who interrupts it."""
        self.listener, self.advice = listener, advice
        self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="mac-training")

    def call(self, do: Callable[[], Result], patience: float = 0.0) -> Result:
        """What a call gives.

        Raises:
            Interrupted: a signal came so many seconds ago, and the call is not over yet.
        """
        return self._awaited(self._thread.submit(do), patience)

    def begun(self, begin: Callable[[], Study]) -> Study:
        """A new study.

        Raises:
            Interrupted: a signal came.
        """
        beginning = self._thread.submit(begin)
        try:
            return self._awaited(beginning, 0.0)
        except Interrupted:  # whatever it becomes is not left behind
            beginning.add_done_callback(lambda done: None if done.exception() else done.result().close())
            raise

    def _awaited(self, future: "concurrent.futures.Future[Result]", patience: float) -> Result:
        while not future.done():
            concurrent.futures.wait([future], timeout=0.2)
            received = self.listener.received
            if received is not None and not future.done() and time.monotonic() - self.listener.received_at > patience:
                self.close()
                raise Interrupted(received, self.advice)
        return future.result()

    def close(self) -> None:
        """Nothing more will be done; what is under way is not waited for."""
        self._thread.shutdown(wait=False)
