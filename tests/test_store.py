"""Run folders: whatever lies in them is read as it was written, or refused in one line; nothing is executed."""

import contextlib
import errno
import functools
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers import (
    KINDS,
    Files,
    assert_one_line,
    at_most,
    content_of,
    copy_of_tiny_run,
    failing_fsync,
    file_of,
    message_of,
    numpy_file_that_makes,
    only_begun,
    pickle_that_makes,
    room_for_files_of,
    run_python,
    running,
    safetensors_of,
    snapshot,
)
from mean_actor_critic.errors import DiskError, InputError, MacError, RunBusyError
from mean_actor_critic.runs import store
from mean_actor_critic.runs.run import Run

# --- damage ----------------------------------------------------------------------------------------------------------


@functools.cache
def _whole(kind: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return file_of(copy_of_tiny_run(Path(folder)), kind).read_bytes()


def assert_names(file: Path, message: str) -> None:
    assert_one_line(message)
    assert str(file) in message


def assert_read_as_written_or_refused(kind: str, damaged: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = copy_of_tiny_run(Path(folder))
        written = content_of(files, kind)
        file = file_of(files, kind)
        file.write_bytes(damaged)
        try:
            read = content_of(files, kind)
        except MacError as fault:
            assert_names(file, str(fault))
        else:
            assert read == written


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7), beginning=st.booleans())
def test_a_flipped_bit_anywhere_is_noticed(kind, place, bit, beginning):
    damaged = bytearray(_whole(kind))
    # half of the flips go to the header, where they can do more than spoil a number
    damaged[int(place * (min(1000, len(damaged)) if beginning else len(damaged)))] ^= 1 << bit
    assert_read_as_written_or_refused(kind, bytes(damaged))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True))
@example(share=0.0)
def test_a_truncated_file_is_refused(kind, share):
    whole = _whole(kind)
    with tempfile.TemporaryDirectory() as folder:
        files = copy_of_tiny_run(Path(folder))
        file_of(files, kind).write_bytes(whole[: int(share * len(whole))])
        assert str(file_of(files, kind)) in message_of(lambda: content_of(files, kind))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(tail=st.binary(min_size=1, max_size=50))
@example(tail=b"\n")
def test_bytes_added_at_the_end_change_nothing_or_are_refused(kind, tail):
    assert_read_as_written_or_refused(kind, _whole(kind) + tail)


# --- foreign and forged files ----------------------------------------------------------------------------------------

DEEP = b"[" * 200_000
FOREIGN = {
    "an empty file": b"",
    "a PNG": b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(100),
    "text": b"returns,lengths\n1,2\n",
    "other JSON": b'{"format": "something else"}',
    "a JSON list": b"[1, 2, 3]",
    "deeply nested JSON": DEEP,
    "deeply nested JSON in a safetensors header": len(DEEP).to_bytes(8, "little") + DEEP,
    "a safetensors that declares a huge header": (2**62).to_bytes(8, "little") + b"{}",
    "a safetensors that declares the largest header": b"\xff" * 8 + b"{}",
    "a safetensors without words": safetensors_of({}),
    "a safetensors whose words are null": safetensors_of({"__metadata__": None}),
    "a safetensors whose words are a list": safetensors_of({"__metadata__": ["format"]}),
    "a safetensors with arrays beyond memory": safetensors_of(
        {"returns": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 4]}}, bytes(4)
    ),
    "a safetensors of another program": safetensors_of(
        {"__metadata__": {"format": "pt"}, "weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, bytes(4)
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("content", FOREIGN.values(), ids=FOREIGN)
def test_a_foreign_file_is_refused_by_name(files, kind, content):
    file_of(files, kind).write_bytes(content)
    assert str(file_of(files, kind)) in message_of(lambda: content_of(files, kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("forge", [pickle_that_makes, numpy_file_that_makes])
def test_nothing_in_a_file_is_executed(files, tmp_path, kind, forge):
    marker = tmp_path / "executed"
    file_of(files, kind).write_bytes(forge(marker))
    message_of(lambda: content_of(files, kind))
    assert not marker.exists()


def _directory(path: Path) -> None:
    path.mkdir()


def _link_to_a_true_one(path: Path) -> None:
    true = path.with_name("elsewhere")
    true.write_bytes(_whole(next(kind for kind in KINDS if path.name.startswith(kind))))
    path.symlink_to(true)


def _dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [_directory, os.mkfifo, _link_to_a_true_one, _dangling_link])
def test_what_is_not_a_regular_file_is_refused_without_waiting(files, kind, make):
    file = file_of(files, kind)
    file.unlink()
    make(file)
    with at_most():
        assert str(file) in message_of(lambda: content_of(files, kind))


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_that_somebody_holds_open_is_refused_without_waiting(files, kind):
    file = file_of(files, kind)
    file.unlink()
    os.mkfifo(file)
    holder = os.open(file, os.O_RDWR)
    with contextlib.closing(os.fdopen(holder, "rb", buffering=0)), at_most():
        assert str(file) in message_of(lambda: content_of(files, kind))


def test_a_device_without_end_is_refused_before_it_fills_the_memory():
    script = """
import resource
from mean_actor_critic.runs import store
from mean_actor_critic.errors import DamagedFileError
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
try:
    store.read_arrays(Path("/dev/zero"), "any")
except DamagedFileError:
    print("refused")
"""
    assert run_python(script).out == "refused\n"


def test_reading_refused_files_leaves_no_descriptor_open(files):
    files.manifest.unlink()
    files.manifest.mkdir()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        message_of(lambda: store.read_manifest(files.run))
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_without_a_run_is_said_to_be_none(tmp_path):
    assert "a run folder" in message_of(lambda: Run.load(tmp_path))
    assert "a run folder" in message_of(lambda: Run.load(tmp_path / "missing"))


def test_messages_are_one_line_whatever_the_files_are_called(tmp_path):
    files = copy_of_tiny_run(tmp_path / "two\nlines")
    files.manifest.write_bytes(b"")
    message_of(lambda: Run.load(files.run))


# --- generations -----------------------------------------------------------------------------------------------------


def add_generation(files: Files, episodes_done: int, returns: float) -> Path:
    """Write one more checkpoint, told apart by its returns."""
    manifest = store.read_manifest(files.run)
    arrays = store.read_checkpoint(files.run, manifest).arrays
    store.write_checkpoint(
        files.run, manifest, episodes_done, {**arrays, "returns": np.full_like(arrays["returns"], returns)}
    )
    return files.checkpoint


def spoil(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def test_the_newest_of_two_generations_is_read_and_older_ones_are_dropped(files):
    add_generation(files, 7, returns=7)
    add_generation(files, 8, returns=8)
    assert np.all(Run.load(files.run).returns == 8)
    assert [file.name[-14:] for file in sorted(files.run.glob("checkpoint*"))] == ["07.safetensors", "08.safetensors"]


def test_a_damaged_newest_checkpoint_is_passed_over_with_a_warning(files):
    expected = Run.load(files.run).returns
    newest = add_generation(files, 7, returns=7)
    spoil(newest)
    before = snapshot(files.run)
    run = Run.load(files.run)
    assert np.array_equal(run.returns, expected)
    (warning,) = run.warnings
    assert_one_line(warning)
    assert str(newest) in warning
    assert snapshot(files.run) == before  # a reader changes nothing


def test_a_resume_sets_a_damaged_checkpoint_aside(files):
    from mean_actor_critic.runs.train import resume

    expected = Run.load(files.run).returns
    newest = add_generation(files, 7, returns=7)
    spoil(newest)
    content = newest.read_bytes()
    run = resume(files.run)
    assert np.array_equal(run.returns, expected)
    assert len(run.warnings) == 1
    assert not newest.exists()
    assert newest.with_name(newest.name + ".damaged").read_bytes() == content
    assert Run.load(files.run).warnings == []


def test_with_every_checkpoint_damaged_the_run_is_refused_and_each_is_named(files):
    older, newest = files.checkpoint, add_generation(files, 7, returns=7)
    spoil(older)
    spoil(newest)
    message = message_of(lambda: Run.load(files.run))
    assert str(older) in message
    assert str(newest) in message


def test_a_run_that_has_only_begun_has_empty_curves_and_no_agents(files):
    run = Run.load(only_begun(files))
    assert np.all(np.isnan(run.returns))
    assert run.status == ["episode 0"] * 2
    assert not run.finished
    assert "only begun" in message_of(run.agent)


@pytest.mark.parametrize("trial", [-1, 2])
def test_a_trial_out_of_range_is_refused(files, trial):
    with pytest.raises(InputError, match=f"trial: {trial} cannot be used; allowed: a whole number from 0 to 1"):
        Run.load(files.run).agent(trial)


# --- the disk --------------------------------------------------------------------------------------------------------


def assert_a_failed_checkpoint_leaves_no_trace(files: Files) -> None:
    manifest = store.read_manifest(files.run)
    arrays = store.read_checkpoint(files.run, manifest).arrays
    before = snapshot(files.run)
    with pytest.raises(DiskError, match="could not write") as caught:
        store.write_checkpoint(files.run, manifest, 7, arrays)
    assert_one_line(str(caught.value))
    assert caught.value.exit_code == 1
    assert snapshot(files.run) == before
    assert content_of(files, "checkpoint")


def test_a_disk_that_fills_up_amid_a_checkpoint_leaves_the_earlier_one(files):
    with room_for_files_of(files.checkpoint.stat().st_size - 1):
        assert_a_failed_checkpoint_leaves_no_trace(files)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_refuses_to_sync_leaves_the_earlier_checkpoint(files, monkeypatch, error):
    monkeypatch.setattr(os, "fsync", failing_fsync(error, "checkpoint"))
    assert_a_failed_checkpoint_leaves_no_trace(files)


def test_a_full_disk_leaves_no_folder_of_a_run_that_could_not_begin(files, tmp_path, monkeypatch):
    experiment, spaces = store.read_manifest(files.run)[:2]
    monkeypatch.setattr(os, "fsync", failing_fsync(errno.ENOSPC, "manifest"))
    with pytest.raises(DiskError):
        store.create_run(tmp_path / "new", experiment, spaces, 1, {})
    assert not (tmp_path / "new").exists()


def test_what_a_killed_writer_left_half_written_is_no_obstacle(files):
    manifest = store.read_manifest(files.run)
    arrays = store.read_checkpoint(files.run, manifest).arrays
    # in a container the next process often has the same number
    stale = files.run / f".checkpoint-000000000007.safetensors.{os.getpid()}.tmp"
    stale.write_bytes(b"half")
    with store.sole_writer(files.run):
        store.write_checkpoint(files.run, manifest, 7, arrays)
    assert store.read_checkpoint(files.run, manifest).warnings == []
    assert not stale.exists()


def test_a_new_run_does_not_take_a_folder_in_use(files, tmp_path):
    experiment, spaces = store.read_manifest(files.run)[:2]
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("elsewhere")
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "thesis.tex").touch()
    before = snapshot(tmp_path)
    assert "mac resume" in message_of(lambda: store.create_run(files.run, experiment, spaces, 1, {}))
    for name in ("file", "link", "used"):
        assert name in message_of(lambda name=name: store.create_run(tmp_path / name, experiment, spaces, 1, {}))
    assert snapshot(tmp_path) == before


# --- the lock --------------------------------------------------------------------------------------------------------

HOLD = """
import sys, pathlib
from mean_actor_critic.runs import store
with store.sole_writer(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(files):
    """A process that holds the run folder."""
    command = [sys.executable, "-c", HOLD, str(files.run)]
    with running(command, stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_second_writer_is_told_who_holds_the_folder(files, holder):
    with pytest.raises(RunBusyError, match=rf"process {holder.pid} ") as caught, store.sole_writer(files.run):
        pass
    assert_one_line(str(caught.value))
    assert str(files.run) in str(caught.value)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_folder_is_free_when_its_holder_is_gone(files, holder, number):
    holder.send_signal(number)
    holder.wait()
    with store.sole_writer(files.run):
        assert f"process {os.getpid()} " in (files.run / "lock").read_text()


def test_a_folder_that_is_being_written_can_be_read(files, holder):
    assert holder.poll() is None
    assert Run.load(files.run).finished


def test_a_refused_writer_does_not_disturb_the_lock(files, holder):
    for _ in range(2):
        with pytest.raises(RunBusyError, match=str(holder.pid)), store.sole_writer(files.run):
            pass


def test_a_lock_that_is_a_link_is_not_followed(files, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (files.run / "lock").unlink()
    (files.run / "lock").symlink_to(victim)
    with pytest.raises(DiskError), store.sole_writer(files.run):
        pass
    assert victim.read_text() == "precious"
