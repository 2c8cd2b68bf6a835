"""Workers that cannot be trusted: what comes out of their pipes, what they fork, and what they leave running."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import helpers
import mean_actor_critic as mac
from helpers import BESIDE_TESTS, LONGEST_WAIT, is_running, wait_until
from mean_actor_critic.environments.hosted import channel, checker, fleet
from mean_actor_critic.errors import EnvironmentFault, Interrupted
from mean_actor_critic.runs import loop, signals
from test_faults import HERE, SIZE_WORDS, command, fault_of, kept_what_was_played, train
from test_faults import healthy as healthy  # a fixture

# --- frames ----------------------------------------------------------------------------------------------------------

ANSWERS = st.one_of(
    st.builds(lambda turn: channel.Answer(turn=turn), st.integers(1, 2**60)),
    st.builds(lambda text: channel.Answer(message={"words": text}), st.text(max_size=30)),
    st.just(channel.END),
)


def framed(*answers):
    """The bytes that a worker sends."""
    reader, writer = os.pipe()
    with open(reader, "rb") as sent:
        with open(writer, "wb") as end:
            to = channel.Channel(0, end.fileno())
            for answer in answers:
                if answer.turn is not None:
                    to.turn_done(answer.turn)
                elif answer.message is not None:
                    to.tell(**answer.message)
                else:
                    to.finish()
        return sent.read()


@settings(max_examples=30, deadline=None)
@given(st.lists(ANSWERS, max_size=5), st.integers(1, 30))
def test_answers_arrive_as_they_were_given_however_they_are_cut(answers, piece):
    content, hearer = framed(*answers), channel.Answers()
    pieces = [content[i : i + piece] for i in range(0, len(content), piece)]
    assert [answer for part in pieces for answer in hearer.of(part)] == answers


@settings(max_examples=50, deadline=None)
@given(st.lists(ANSWERS, max_size=2), st.lists(ANSWERS, max_size=2), st.binary(min_size=1, max_size=40))
def test_whatever_else_comes_between_is_noticed(before, after, foreign):
    if channel._MARK.startswith(foreign[: len(channel._MARK)]):
        return
    with pytest.raises(channel.ForeignBytesError, match="cannot be heard"):
        channel.Answers().of(framed(*before) + foreign + framed(*after))


def test_an_altered_message_is_noticed():
    content = framed(channel.Answer(message={"words": "is nan"}))
    for place in (len(channel._MARK), len(content) - 3):  # the kind, and what is said
        altered = bytearray(content)
        altered[place] ^= 0x10
        with pytest.raises(channel.ForeignBytesError):
            channel.Answers().of(bytes(altered))


def test_a_process_that_was_forked_has_no_voice():
    reader, writer = os.pipe()
    own = channel.Channel(0, writer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # JAX's, if it is here: the child only writes and ends
        child = os.fork()
    if child == 0:
        own.turn_done(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
    own.turn_done(2)
    assert channel.Answers().of(os.read(reader, 1000)) == [channel.Answer(turn=2)]
    os.close(reader)
    os.close(writer)


# --- environments that write, close and fork -------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a line", "dots", "JSON"])
def test_an_environment_that_writes_to_its_worker_s_pipe_is_a_fault(tmp_path, healthy, what):
    line = fault_of(tmp_path / "run", fault=f"write {what} to pipes in step")
    assert re.fullmatch(r"faulty:make: worker process cannot be heard: b'.*' was written to its pipe, .*", line)
    run = mac.Run.load(tmp_path / "run")
    for trial, played in enumerate(run.episodes_done.tolist()):
        assert list(run.returns[trial, :played]) == list(healthy.returns[trial, :played])
    assert min(run.episodes_done) >= 1


@pytest.mark.slow
def test_an_environment_that_closes_its_worker_s_pipes_is_a_fault(tmp_path, healthy):
    line = fault_of(tmp_path / "run", fault="close descriptors in step")
    assert re.search(r"worker process ended with code 1 \(it last said: OSError: .*\)", line)
    kept_what_was_played(tmp_path / "run", healthy)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["step", "reset"])
def test_a_forked_process_that_comes_back_takes_no_part(tmp_path, healthy, place, capfd):
    """It played on the same board, took its parent's turns, and answered in its place."""
    with helpers.at_most():
        assert train(tmp_path / "run", fault=f"fork in {place}").digest == healthy.digest
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_an_answer_is_enough_though_a_forked_process_holds_the_pipe_and_closing_hangs():
    def job(channel, name):
        if os.fork():
            channel.tell(name=name)
            channel.finish()
        time.sleep(1000)

    with helpers.at_most(30):
        assert fleet.ask(job, "a name", seconds=20.0) == [{"name": "a name"}]


# --- what is left running --------------------------------------------------------------------------------------------


def noted(file):
    """The process that an environment has written down."""
    wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text().split()[0])


@pytest.mark.slow
@pytest.mark.parametrize("end", ["leave a daemon in step", "leave a daemon in close"])
def test_a_process_in_a_session_of_its_own_ends_with_the_run(tmp_path, end):
    note = tmp_path / "daemon"
    train(tmp_path / "run", workers=1, fault=end, note=str(note), at_seed=HERE["at_seed"])
    daemon = noted(note)
    try:
        wait_until(lambda: not is_running(daemon), 30)
    finally:
        if is_running(daemon):
            os.kill(daemon, signal.SIGKILL)


@pytest.mark.slow
def test_it_ends_with_a_main_process_that_is_killed(tmp_path):
    note = tmp_path / "daemon"
    words = command("train", "faulty:make", "--out", tmp_path / "run", *SIZE_WORDS,
                    fault="leave a daemon and hang in step", note=str(note), **HERE)  # fmt: skip
    with helpers.started(*words, env=BESIDE_TESTS) as process:
        wait_until(lambda: process.poll() is not None or note.exists())
        daemon = noted(note)
        assert is_running(daemon)
        process.kill()
        process.communicate(timeout=LONGEST_WAIT)
    try:
        wait_until(lambda: not is_running(daemon), 30)
    finally:
        if is_running(daemon):
            os.kill(daemon, signal.SIGKILL)


# --- nothing is waited for without an end ----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_never_reads_its_job_is_given_up(monkeypatch):
    """A job that is larger than a pipe."""
    monkeypatch.setattr(fleet, "_START", "import time; time.sleep(1000)")
    with helpers.at_most(30), pytest.raises(EnvironmentFault, match="was silent for 1 s"):
        fleet.ask(checker.check, "large", b"x" * 10_000_000, seconds=1.0)


def test_a_process_that_cannot_be_ended_is_left(monkeypatch):
    """As one that waits for a file system that is gone."""
    monkeypatch.setattr(fleet, "_GOING", 0.1)
    monkeypatch.setattr(fleet, "_LAST_WORDS", 0.1)

    def wait(timeout=None):
        assert timeout is not None, "this would wait for ever"
        raise subprocess.TimeoutExpired("worker", timeout)

    child = object.__new__(fleet._Child)
    child._life = SimpleNamespace(close=lambda: None)
    child.process = SimpleNamespace(wait=wait, poll=lambda: None, kill=lambda: None)
    with helpers.at_most(30):
        child.kill()


def below(process):
    """A process and all that it has started."""
    children = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(folder.name))
    found = [process]
    for one in found:
        found += children.get(one, [])
    return found


@pytest.mark.slow
def test_a_run_that_was_stopped_with_its_workers_goes_on(tmp_path):
    """Nobody has looked meanwhile: the time does not count as a step's."""
    words = command("train", "faulty:make", "--out", tmp_path / "run", "--step-seconds", "2", "--trials", "1",
                    "--episodes", "1", "--max-episode-steps", "20", "--set", "hidden=8", "minibatches=2",
                    "batch_size=4", "replay_capacity=16", fault="dawdle in step",
                    note=str(tmp_path / "note"))  # fmt: skip
    with helpers.started(*words, env=BESIDE_TESTS) as process:
        wait_until(lambda: process.poll() is not None or (tmp_path / "note").exists())
        time.sleep(0.7)  # so that the main process has seen it in the step
        everybody = below(process.pid)
        for one in everybody:
            os.kill(one, signal.SIGSTOP)
        time.sleep(3)
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(0.6)
        for one in everybody:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)
        _, errors = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 0, errors


@pytest.fixture
def interrupted():
    """A listener that has heard a signal."""
    listener = signals.Listener()
    listener.handle(signal.SIGTERM, None)
    return listener


def test_a_signal_is_heard_while_a_checkpoint_is_put_together(interrupted, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "GATHERING_SECONDS", 0.1)
    for_ever = threading.Event()
    study = SimpleNamespace(arrays=for_ever.wait, position=0)
    saver = loop.Saver(tmp_path, None, 1.0, loop.Aside(interrupted, "advice"))
    with helpers.at_most(30), pytest.raises(Interrupted, match="advice"):
        saver.save(study)
    for_ever.set()


def test_what_is_done_in_time_is_not_interrupted(interrupted):
    aside = loop.Aside(interrupted, "advice")
    assert aside.call(lambda: 3, patience=60.0) == 3
    aside.close()
