"""The main process's side of worker processes: start them, hand out turns, notice faults, leave none behind."""

import collections
import contextlib
import io
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple, Self

import cloudpickle
import numpy as np

from mean_actor_critic import machine
from mean_actor_critic.environments.hosted import board as boards
from mean_actor_critic.environments.hosted import guard
from mean_actor_critic.environments.hosted import worker as workers
from mean_actor_critic.environments.hosted.channel import END, TURN, Answer, Answers, ForeignBytesError
from mean_actor_critic.environments.spaces import Spaces, parts_of
from mean_actor_critic.errors import EnvironmentFault, InputError, MacError
from mean_actor_critic.machine import cores
from mean_actor_critic.spec.checks import require_whole
from mean_actor_critic.spec.learners import all_in_bytes
from mean_actor_critic.terminal import say

STEP_SECONDS = 25.0  # an environment may think this long about one step or reset, unless said otherwise
START_SECONDS = 25.0  # a worker may take this long to import what it needs
SHARE_OF_MEMORY = 0.8  # of the machine's, that all workers together may hold before they are taken to leak
SHOWN_LINES = 10  # of what environments print
LONGEST_LINE = 1000  # bytes of it that are taken for a line
_PATIENCE = 2.0  # seconds for a worker to close its environments and go
_GOING = guard.ENDING_SECONDS + 1.0  # seconds for a guard to end all that is left, and itself
_COUNTED = 1.0  # seconds at most between two looks at the workers that count as time they took
_LAST_WORDS = 0.5  # seconds to hear what an ended worker said

# our own path for imports, before anything is imported by it
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); "
    "from mean_actor_critic.environments.hosted.guard import guard; guard(); "
    "from mean_actor_critic.environments.hosted.worker import main; main()"
)


class WorkerLimits(NamedTuple):
    """How many workers there are and what they may take."""

    workers: int | None = None  # None: one per core
    step_seconds: float = STEP_SECONDS
    memory_bytes: int | None = None  # of each worker; None: an even part of SHARE_OF_MEMORY

    def workers_for(self, lanes: int) -> int:
        """How many workers to start."""
        return min(self.workers or cores(), lanes)

    def checked(self) -> Self:
        """These limits, or an InputError."""
        if self.workers is not None:
            require_whole("workers", self.workers, 1, 1024)
        seconds = self.step_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < float("inf"):
            raise InputError("step_seconds", seconds, "a number of seconds above 0")
        return self


class _Child:
    """A worker process below its guard, and its pipes. Nothing here waits for ever, whatever the worker does."""

    def __init__(self, job: Callable[..., None], *arguments: Any, descriptors: Sequence[int] = ()) -> None:
        try:
            blob = cloudpickle.dumps((job, arguments))
        except Exception as fault:  # of a user's object
            raise MacError(f"environment cannot be sent to a worker process: {fault}") from None
        with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
            # as files: one that has been closed is refused, where a number could be another's by then
            command_end, self.commands = _pipe(theirs, ours)
            life_end, self._life = _pipe(theirs, ours)
            self.results, result_end = _pipe(ours, theirs)
            handed_over = theirs.enter_context(_shared_file())
            handed_over.write(blob)
            handed_over.seek(0)
            ends = [str(end.fileno()) for end in (command_end, result_end, handed_over, life_end)]
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-W", "ignore", "-c", _START, json.dumps(sys.path), *ends],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(*map(int, ends), *descriptors),
                start_new_session=True,  # Ctrl-C is for the main process, which then ends its workers
                env={**os.environ, "PYGAME_HIDE_SUPPORT_PROMPT": "1"},
            )
            ours.pop_all()
        self.turns = 0  # that it was let take
        self.last_lines: collections.deque[str] = collections.deque(maxlen=3)
        self._listener = threading.Thread(target=self._listen, daemon=True, name="mac-environment-output")
        self._listener.start()
        self._answers = Answers()

    def _listen(self) -> None:
        """What environments print goes to our standard error, a little of it; standard output is for results."""
        assert self.process.stdout is not None
        with self.process.stdout as output:
            for number, line in enumerate(iter(lambda: output.readline(LONGEST_LINE), b"")):
                text = line.decode(errors="replace").rstrip()
                self.last_lines.append(text)
                if number <= SHOWN_LINES:
                    shown = text if number < SHOWN_LINES else "(more output is not shown)"
                    # whatever a notebook's stream raises: when nobody empties the pipe, the worker stops
                    with contextlib.suppress(Exception):
                        say(f"environment: {shown}")

    def turn(self) -> None:
        """Let it take a turn."""
        self.turns += 1
        with contextlib.suppress(BrokenPipeError):  # it is gone: whoever reads its answers will notice
            self.commands.write(TURN)

    def read(self) -> list[Answer] | None:
        """Answers that have come; None when the process has ended.

        Raises:
            ForeignBytesError: something else has come.
        """
        content = self.results.read(1 << 16)
        return self._answers.of(content) if content else None

    def end_in_words(self) -> str:
        """How the process ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_PATIENCE)
        self._listener.join(_LAST_WORDS)
        code = self.process.returncode
        how = (
            "closed its pipe"
            if code is None
            else f"was killed by {_signal_name(-code)}"
            if code < 0
            else f"ended with code {code}"
        )
        said = [line for line in self.last_lines if line]
        return how + (f" (it last said: {said[-1][:200]})" if said else "")

    def dismiss(self) -> None:
        """Let it close its environments and go."""
        self.commands.close()

    def wait(self, deadline: float) -> bool:
        """Whether it has ended, with all that it has started, before the `deadline`, by time.monotonic()."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.0, deadline - time.monotonic()))
        return self.process.poll() is not None

    def let_go(self) -> None:
        """Let its guard end it, and whatever it has started."""
        self._life.close()

    def kill(self, deadline: float | None = None) -> None:
        """The same, and wait for it: until the `deadline`, or a few seconds."""
        self.let_go()
        if not self.wait(time.monotonic() + _GOING if deadline is None else deadline):
            self.process.kill()  # which the worker does not outlive
            self.wait(time.monotonic() + _LAST_WORDS)

    def close(self, deadline: float) -> None:
        """The end, once it has been let go."""
        self.kill(deadline)
        self.results.close()
        # unless something that it started, and that got away, still holds the pipe
        self._listener.join(max(0.0, min(_LAST_WORDS, deadline - time.monotonic())))


def _pipe(of_reader: contextlib.ExitStack, of_writer: contextlib.ExitStack) -> tuple[io.FileIO, io.FileIO]:
    """The ends of a pipe, each closed with its own side."""
    reader, writer = os.pipe()
    return (
        of_reader.enter_context(io.FileIO(reader, "r")),
        of_writer.enter_context(io.FileIO(writer, "w")),
    )


def _end(children: Sequence[_Child]) -> None:
    """End workers, all at once: they may close their environments, and what takes too long is killed."""
    for child in children:
        child.dismiss()
    deadline = time.monotonic() + _PATIENCE
    for child in children:
        child.wait(deadline)
    for child in children:
        child.let_go()
    deadline = time.monotonic() + _GOING
    for child in children:
        child.close(deadline)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def ask(job: Callable[..., None], *arguments: Any, seconds: float) -> list[dict[str, Any]]:
    """All that a job in a process of its own answers, such as `worker.describe`; its first argument is a name for it.

    Raises:
        EnvironmentFault: it ended without an answer, or gave no sign of life for so many seconds.
    """
    name = str(arguments[0])
    child = _Child(job, *arguments)
    try:
        told: list[dict[str, Any]] = []
        with selectors.DefaultSelector() as selector:
            selector.register(child.results, selectors.EVENT_READ)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                ready = selector.select(min(0.25, seconds))
                answers = child.read() if ready else []
                # something that it started may hold its pipes when it is gone
                over = answers is None or END in answers or not (ready or child.process.poll() is None)
                told += [answer.message for answer in answers or [] if answer.message is not None]
                if over and not told:
                    raise EnvironmentFault(name, "", "process", child.end_in_words())
                if over:
                    return told
                if answers:
                    until = time.monotonic() + seconds
        child.kill()
        doing = next((f" while {message['trying']}" for message in reversed(told) if "trying" in message), "")
        raise EnvironmentFault(name, "", "process", f"was silent for {seconds:g} s{doing}")
    except ForeignBytesError as fault:
        raise EnvironmentFault(name, "", "process", str(fault)) from None
    finally:
        _end([child])


class Fleet:
    """Worker processes, each with a cohort of lanes: `begin` episodes, `send` a cohort's turn, `receive` those done."""

    def __init__(
        self,
        name: str,
        factory: Callable[..., Any],
        spaces: Spaces,
        max_episode_steps: int,
        cohorts: Sequence[np.ndarray[Any, Any]],
        limits: WorkerLimits,
        whole: bool = True,
    ) -> None:
        """Start a worker for each of `cohorts`, which are arrays of lanes.

        All observations of an episode stay on the board, as float32, if `whole` episodes are wanted; else the last one
        does, as bytes where it is of these.
        """
        lanes = sum(map(len, cohorts))
        memory_each = limits.memory_bytes or int(SHARE_OF_MEMORY * machine.memory_bytes() / len(cohorts))
        in_bytes = not whole and all_in_bytes(parts_of(spaces.observation))
        actions = spaces.actions if spaces.masked else 0
        size = boards.Size(lanes, max_episode_steps, spaces.observation_size, len(cohorts), whole, in_bytes, actions)
        self.name = name
        self._limits = limits
        self._playing = [(lane, 0) for lane in range(lanes)]  # trial and episode of each lane, for messages
        self._children: list[_Child] = []
        self._waiting: set[int] = set()  # cohorts whose turn is not done
        self._last_call = [(0, 0.0)] * len(cohorts)  # into an environment that we know of: its number, and since when
        self._last_look = 0.0  # at what the workers do, by time.monotonic()
        self._fault_in_hand: EnvironmentFault | None = None
        self._selector = selectors.DefaultSelector()
        with _shared_file() as memory:
            os.ftruncate(memory.fileno(), boards.bytes_of(size))
            self.board = boards.board_on(memory.fileno(), size)
            self.board.lane_in_hand[:] = -1
            try:
                for worker, cohort in enumerate(cohorts):
                    share = workers.Share(worker, cohort.tolist(), size, memory.fileno(), memory_each)
                    child = _Child(workers.serve, factory, spaces, share, descriptors=[memory.fileno()])
                    self._children.append(child)
                    self._selector.register(child.results, selectors.EVENT_READ, worker)
            except BaseException:
                self.close()
                raise

    @property
    def process_ids(self) -> list[int]:
        """Of the workers that have begun."""
        return [int(process) for process in self.board.process if process]

    def begin(self, lane: int, trial: int, episode: int, seed: int) -> None:
        """Reset the lane's environment in its next turn. `episode` counts from 0."""
        self._playing[lane] = (trial, episode)
        self.board.seed[lane] = seed
        self.board.command[lane] = boards.RESET

    def send(self, cohort: int) -> None:
        """Let a worker do what the board commands for its lanes."""
        self._waiting.add(cohort)
        self._last_call[cohort] = (int(self.board.beat[cohort]), time.monotonic())
        self._children[cohort].turn()

    @property
    def in_flight(self) -> bool:
        """Whether any turn is not done yet."""
        return bool(self._waiting)

    def is_waiting(self, cohort: int) -> bool:
        """Whether the cohort's turn is not done yet."""
        return cohort in self._waiting

    def receive(self) -> list[int]:
        """Wait until some turns are done; returns their cohorts.

        Raises:
            EnvironmentFault: an environment failed, hung, or took its worker with it.
        """
        if self._fault_in_hand is not None:
            raise self._fault_in_hand
        pause = min(0.25, self._limits.step_seconds / 4)
        while True:
            ready = self._selector.select(pause)
            if time.monotonic() >= self._last_look + pause:  # also while others are ready all the time
                self._look_at(self._waiting - {key.data for key, _ in ready})
            if ready:
                break
        done: list[int] = []
        try:
            for key, _ in ready:
                done += self._read(key.data)
        except EnvironmentFault as fault:
            if not done:
                raise
            self._fault_in_hand = fault  # for the next call: episodes that others have ended come first
        return done

    def _read(self, worker: int) -> list[int]:
        """The worker, if its turn is done; nothing while its message is not complete."""
        child = self._children[worker]
        try:
            answers = child.read()
        except ForeignBytesError as fault:
            raise self._fault(-1, "worker process", str(fault)) from None
        if answers is None:
            raise self._end_of(worker)
        for answer in answers:
            if answer.message is not None:
                raise self._fault(answer.message["lane"], answer.message["field"], answer.message["words"])
            if answer.turn != child.turns or worker not in self._waiting:
                raise self._fault(-1, "worker process", "answered to a turn that it was not to take")
            self._waiting.discard(worker)
        return [worker] * len(answers)

    def _look_at(self, silent: set[int]) -> None:
        """Give up a worker that has been in the same call for too long; before its first it has imports to do."""
        now = time.monotonic()
        unseen = max(0.0, now - self._last_look - _COUNTED)
        if unseen:  # we were stopped or busy, and perhaps all of them were
            self._last_call = [(beat, min(now, since + unseen)) for beat, since in self._last_call]
        self._last_look = now
        for worker in silent:
            beat, since = self._last_call[worker]
            if self.board.beat[worker] != beat:
                self._last_call[worker] = (int(self.board.beat[worker]), time.monotonic())
                continue
            if self._children[worker].process.poll() is not None:  # and something that it started has its pipes
                raise self._end_of(worker)
            lane = int(self.board.lane_in_hand[worker])
            allowed = self._limits.step_seconds if lane >= 0 else max(START_SECONDS, self._limits.step_seconds)
            if time.monotonic() - since > allowed:
                self._children[worker].kill()
                field = "step()" if lane >= 0 else "worker process"
                raise self._fault(lane, field, f"took more than {allowed:g} s")

    def _end_of(self, worker: int) -> EnvironmentFault:
        words = self._children[worker].end_in_words()
        return self._fault(int(self.board.lane_in_hand[worker]), "worker process", words)

    def _fault(self, lane: int, field: str, words: str) -> EnvironmentFault:
        if lane < 0:
            return EnvironmentFault(self.name, "", field, words)
        trial, episode = self._playing[lane]
        starting = self.board.command[lane] == boards.RESET
        step = "reset" if starting else f"step {int(self.board.time[lane])}"
        if field == "step()" and starting:
            field = "reset()"
        return EnvironmentFault(self.name, f"trial {trial}, episode {episode + 1}, {step}: ", field, words)

    def close(self) -> None:
        """End all workers."""
        children, self._children = self._children, []
        _end(children)
        self._selector.close()


def _shared_file() -> IO[bytes]:
    """A file without a name, which is gone when the last process that has it open is; in memory where that can be."""
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("mac-board"), "r+b")
    return tempfile.TemporaryFile()
