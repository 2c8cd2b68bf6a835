"""What the tests of files and commands share: one tiny finished run, forgeries, and ways to call `mac`."""

import atexit
import contextlib
import functools
import io
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from mean_actor_critic.errors import MacError
from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import AGENT_FORMAT, Agent
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import ALGORITHMS

TRIALS, EPISODES = 2, 3
LONGEST_WAIT = 120.0  # seconds, for what takes a few: so that a test fails and does not hang, however busy the machine
EPISODIC = tuple(name for name, algorithm in ALGORITHMS.items() if "episodic" in algorithm.learners)
TINY = {"max_episode_steps": 20, "hidden": (8,), "minibatches": 2, "batch_size": 4, "replay_capacity": 16}
TINY_WORDS = ("--trials", "2", "--episodes", "3", "--set", "max_episode_steps=20", "hidden=8", "minibatches=2",
              "batch_size=4", "replay_capacity=16")  # fmt: skip


# --- a run to damage -------------------------------------------------------------------------------------------------


@functools.cache
def _original() -> Path:
    from mean_actor_critic.runs.train import train

    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    run = train("CartPole-v0", "mac", trials=TRIALS, episodes=EPISODES, seed=0, out=folder / "run", **TINY)
    run.agent(1).save(folder / "agent.safetensors")
    return folder


class Files(NamedTuple):
    """A copy of the tiny run and of an agent exported from it."""

    run: Path
    agent: Path

    @property
    def manifest(self) -> Path:
        return self.run / "manifest.json"

    @property
    def checkpoint(self) -> Path:
        """The newest."""
        return max(self.run.glob("checkpoint-*.safetensors"))


def copy_of_tiny_run(folder: Path) -> Files:
    shutil.copytree(_original(), folder, dirs_exist_ok=True)
    return Files(folder / "run", folder / "agent.safetensors")


def tiny_run(folder: Path, environment: Any, **more: Any) -> Run:
    """A run in a new folder below this one: two trials, short enough for the replay to hold all their steps."""
    from mean_actor_critic.runs.train import train

    short = {**TINY, "max_episode_steps": 10, "replay_capacity": 64, "trials": TRIALS, "episodes": EPISODES}
    return train(environment, out=tempfile.mkdtemp(dir=folder), **{**short, "workers": 1, **more})


def arrays_of(run: Run) -> Mapping[str, np.ndarray]:
    """All that its newest checkpoint holds."""
    return run._arrays


def only_begun(files: Files) -> Path:
    """The run as it is before its first checkpoint."""
    files.checkpoint.unlink()
    return files.run


def snapshot(folder: Path) -> dict[str, bytes | None]:
    """Everything below a folder: names, and the content of files."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# --- reading it back -------------------------------------------------------------------------------------------------

KINDS = ("manifest", "checkpoint", "agent")


def file_of(files: Files, kind: str) -> Path:
    return getattr(files, kind)


def content_of(files: Files, kind: str) -> Any:
    """All that a reader gets from a file, comparable bit for bit."""
    if kind == "manifest":
        return store.read_manifest(files.run)
    if kind == "checkpoint":
        arrays = store.read_checkpoint(files.run, store.read_manifest(files.run)).arrays
        assert arrays is not None
        return _bits(arrays)
    agent = Agent.load(files.agent)
    layers = {
        f"{part}{i}{name}": array
        for part, network in (("policy", agent.policy), ("critic", agent.critic))
        for i, layer in enumerate(network)
        for name, array in layer._asdict().items()
    }
    return agent.experiment, agent.trial, _bits(layers)


def _bits(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    return {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in arrays.items()}


def message_of(read: Callable[[], Any]) -> str:
    """The message of the error that `read` must raise, which must be one of ours and one line."""
    try:
        outcome = read()
    except MacError as fault:
        assert_one_line(str(fault))
        return str(fault)
    raise AssertionError(f"was accepted: {outcome!r}")


def assert_one_line(message: str) -> None:
    assert message
    assert len(message.splitlines()) == 1, message


# --- forgeries -------------------------------------------------------------------------------------------------------


def forge_manifest(files: Files, change: Callable[[dict[str, Any]], object]) -> None:
    """Alter the manifest and give it a right checksum."""
    document = json.loads(files.manifest.read_bytes())
    del document["sha256"]
    change(document)
    document["sha256"] = store.digest_of_document(document)
    files.manifest.write_text(json.dumps(document))


def forge_arrays(file: Path, arrays: Mapping[str, Any] = {}, words: Mapping[str, str | None] = {}) -> None:
    """Replace arrays and words of a checkpoint or agent (None: remove) and give it a right checksum."""
    kind = AGENT_FORMAT if file.name == "agent.safetensors" else store.CHECKPOINT_FORMAT
    old_arrays, old_words = store.read_arrays(file, kind)
    new_arrays = {name: array for name, array in {**old_arrays, **arrays}.items() if array is not None}
    new_words = {name: word for name, word in {**old_words, **words}.items() if word is not None}
    store.write_arrays(file, new_arrays, new_words)


_BOX = {"kind": "Box", "shape": [4], "dtype": "float32"}
_TWO = {"kind": "Discrete", "n": 2, "start": 0}


def _observation(space: Any) -> dict[str, Any]:
    return {"observation": space, "action": _TWO}


def _within_tuples(depth: int) -> Any:
    space: Any = _BOX
    for _ in range(depth):
        space = {"kind": "Tuple", "parts": [space]}
    return space


# Descriptions of spaces that no run or agent has.
FORGED_SPACES = {
    "spaces that are null": None,
    "spaces that are a list": [_BOX, _TWO],
    "spaces without an action": {"observation": _BOX},
    "spaces with something else": {**_observation(_BOX), "reward": _BOX},
    "a space that is a number": _observation(4),
    "a space without a kind": _observation({"shape": [4], "dtype": "float32"}),
    "a space of an unknown kind": _observation({"kind": "Sphere", "shape": [4]}),
    "a space of an unsupported kind": _observation({"kind": "Text", "n": 4}),
    "a space whose kind is a list": _observation({"kind": []}),
    "continuous actions": {"observation": _BOX, "action": _BOX},
    "several actions at once": {"observation": _BOX, "action": {"kind": "MultiDiscrete", "n": [2, 2], "start": [0, 0]}},
    "no actions at all": {"observation": _BOX, "action": {"kind": "Discrete", "n": 0, "start": 0}},
    "half an action": {"observation": _BOX, "action": {"kind": "Discrete", "n": 1.5, "start": 0}},
    "actions beyond any integer": {"observation": _BOX, "action": {"kind": "Discrete", "n": 10**30, "start": 0}},
    "actions that start beyond any integer": {
        "observation": _BOX,
        "action": {"kind": "Discrete", "n": 2, "start": 10**30},
    },
    "a shape that is a word": _observation({"kind": "Box", "shape": "four", "dtype": "float32"}),
    "a shape below zero": _observation({"kind": "Box", "shape": [-4], "dtype": "float32"}),
    "a shape that is not whole": _observation({"kind": "Box", "shape": [4.5], "dtype": "float32"}),
    "no numbers at all": _observation({"kind": "Box", "shape": [0], "dtype": "float32"}),
    "a dictionary of nothing": _observation({"kind": "Dict", "parts": {}}),
    "a dictionary that is a list": _observation({"kind": "Dict", "parts": [_BOX]}),
    "a tuple that is a number": _observation({"kind": "Tuple", "parts": 2}),
    "numbers of no type": _observation({"kind": "Box", "shape": [4], "dtype": "real"}),
    "numbers that are objects": _observation({"kind": "Box", "shape": [4], "dtype": "object"}),
    "numbers of a type that is half a tuple": _observation({"kind": "Box", "shape": [4], "dtype": "(1,f4"}),
    "choices below zero": _observation({"kind": "MultiDiscrete", "n": [2, -2], "start": [0, 0]}),
    "choices of different depth": _observation({"kind": "MultiDiscrete", "n": [2, [2]], "start": [0, 0]}),
    "a box too large": _observation({"kind": "Box", "shape": [10**6, 10**6], "dtype": "float32"}),
    "a choice too large": _observation({"kind": "Discrete", "n": 10**12, "start": 0}),
    "choices too large": _observation({"kind": "MultiDiscrete", "n": [10**12], "start": [0]}),
    "binaries too large": _observation({"kind": "MultiBinary", "shape": [10**12]}),
    "parts too large together": _observation({"kind": "Tuple", "parts": [{**_BOX, "shape": [600_000]}] * 2}),
    "spaces too deep": _observation(_within_tuples(21)),
    "spaces much too deep": _observation(_within_tuples(200)),
}


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return open, (str(self.marker), "w")


def pickle_that_makes(marker: Path) -> bytes:
    return pickle.dumps(Bomb(marker))


def numpy_file_that_makes(marker: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Bomb(marker)], dtype=object), allow_pickle=True)
    return file.getvalue()


def safetensors_of(header: Any, data: bytes = b"") -> bytes:
    """A file with this header, right or wrong."""
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


# --- the command line ------------------------------------------------------------------------------------------------


# for processes that import what lies beside the tests; what is tested is found there as it is here
BESIDE_TESTS = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
}


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


def mac(*words: str | Path) -> Outcome:
    """`mac` in this process. Only the last step of an error differs: it raises instead of ending the process."""
    from mean_actor_critic.cli import main as cli  # here, so that most tests do without it

    def leave(code: int, line: str) -> None:
        cli.say(line)
        raise SystemExit(code)

    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), mock.patch.object(cli, "_leave", leave):
        try:
            cli.main([str(word) for word in words])
        except SystemExit as left:
            code = left.code
    return Outcome(code, out.getvalue(), err.getvalue())


def run_python(script: str, *words: str | Path, **options: Any) -> Outcome:
    """A script in a process of its own."""
    return _process([sys.executable, "-c", script, *map(str, words)], **options)


def run_mac(*words: str | Path, **options: Any) -> Outcome:
    """`mac` in a process of its own."""
    return _process([sys.executable, "-m", "mean_actor_critic", *map(str, words)], **options)


@contextlib.contextmanager
def started(*words: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`mac` in a process of its own that is still running."""
    with running([sys.executable, "-m", "mean_actor_critic", *map(str, words)], **options) as process:
        yield process


@contextlib.contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the block.

    However a test ends: left to the garbage collector, its pipes would be complained of in whatever test runs then.
    """
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **{**pipes, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def mac_within(limit: str, size: int, before: str = "") -> str:
    """A script that is `mac` below a limit such as RLIMIT_AS; `before` are lines to run first."""
    return f"""
import resource, sys
resource.setrlimit(resource.{limit}, ({size}, {size}))
{before}
from mean_actor_critic.cli.main import main
main(sys.argv[1:])
"""


def _process(command: list[str], **options: Any) -> Outcome:
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_WAIT, check=False, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)


def assert_refused(outcome: Outcome, code: int, *words: str) -> None:
    """The exit code, and exactly one line of complaint that has all the words."""
    assert outcome.code == code, outcome
    assert_one_line(outcome.err)
    assert outcome.err.startswith("mac")
    for word in words:
        assert word in outcome.err


# --- a hostile machine -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def at_most(seconds: float = LONGEST_WAIT) -> Iterator[None]:
    """Fail instead of hanging."""

    def too_long(*_: Any) -> None:
        raise AssertionError(f"took more than {seconds} s")

    previous = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextlib.contextmanager
def room_for_files_of(size: int) -> Iterator[None]:
    """No file can grow beyond `size` bytes: writing more fails as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def failing_fsync(error: int, name: str) -> Callable[[int], None]:
    """An `os.fsync` that fails for files whose name contains `name`."""
    true_fsync = os.fsync

    def fsync(descriptor: int) -> None:
        if name in os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")):
            raise OSError(error, os.strerror(error))
        true_fsync(descriptor)

    return fsync


# --- other processes -------------------------------------------------------------------------------------------------


def state_of(process: int) -> str:
    """What Linux says of a process in one letter: R runs, S sleeps, T is stopped, Z has ended; X if it is gone."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def is_running(process: int) -> bool:
    return state_of(process) not in "ZX"


def wait_until(condition: Callable[[], bool], seconds: float = LONGEST_WAIT) -> None:
    with at_most(seconds):
        while not condition():
            time.sleep(0.02)
