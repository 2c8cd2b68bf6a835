"""TensorBoard events hold the learning curves of the run that they lie in."""

import os
import shlex
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.record_writer import masked_crc32c

from helpers import LONGEST_WAIT, TINY_WORDS, assert_one_line, assert_refused, mac, mac_within, run_python, running
from mean_actor_critic.engines.curves import Curves, Evaluations
from mean_actor_critic.reports import tensorboard
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.experiment import make_experiment


def events_in(folder):
    """Scalars by tag, as {step: value}, read record by record; a later file replaces what an earlier one said."""
    found = {}
    for file in sorted((folder / "tensorboard").iterdir()):
        content, at = file.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            event = Event.FromString(content[at + 12 : at + 12 + length])
            for part, checksum in (
                (content[at : at + 8], at + 8),
                (content[at + 12 : at + 12 + length], at + 12 + length),
            ):
                assert struct.unpack_from("<I", content, checksum) == (masked_crc32c(part),)
            at += 12 + length + 4  # length and its checksum before, a checksum after
            for value in event.summary.value:
                found.setdefault(value.tag, {})[event.step] = value.simple_value
    return found


def test_events_are_the_run_s_curves(tmp_path):
    outcome = mac("train", "CartPole-v0", "--out", tmp_path / "run", "--tensorboard", *TINY_WORDS)
    assert outcome.code == 0
    run, events = Run.load(tmp_path / "run"), events_in(tmp_path / "run")
    assert list(events["return/mean"]) == [1, 2, 3]
    np.testing.assert_allclose(list(events["return/mean"].values()), run.returns.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(list(events["steps/mean"].values()), run.lengths.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(list(events["return_of_trial/1"].values()), run.returns[1], rtol=1e-6)


def test_events_come_while_training_goes_on_and_only_of_whole_episodes(tmp_path):
    experiment = make_experiment("CartPole-v0", "mac", 2, 3, 0, {})
    writer, nothing = tensorboard.EventWriter(tmp_path, experiment), Evaluations.empty(experiment)
    returns = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]])
    writer.write(Curves(returns, np.array([[1, 1, 0], [1, 0, 0]])), nothing)
    assert events_in(tmp_path)["return/mean"] == {1: 2.0}
    returns[1, 1] = 4.0
    writer.write(Curves(returns, np.array([[1, 1, 0], [1, 1, 0]])), nothing)
    assert events_in(tmp_path)["return/mean"] == {1: 2.0, 2: 3.0}


def test_trials_of_different_lengths_have_all_their_episodes_and_the_mean_those_of_all(tmp_path):
    words = ("--trials", "2", "--steps", "100", "--set", "max_episode_steps=40", "hidden=8")
    assert mac("train", "CartPole-v0", "--out", tmp_path / "run", "--tensorboard", *words).code == 0
    run, events = Run.load(tmp_path / "run"), events_in(tmp_path / "run")
    played = run.episodes_done
    assert played.min() < played.max()
    assert list(events["return/mean"]) == list(range(1, played.min() + 1))
    for trial, count in enumerate(played):
        own = events[f"return_of_trial/{trial}"]
        np.testing.assert_array_equal(list(own.values()), run.returns[trial, :count])


def test_evaluations_of_any_learner_are_events_at_their_moments(tmp_path):
    words = ("--evaluate-every", "2", "--tensorboard", *TINY_WORDS, "evaluation_episodes=2")
    assert mac("train", "CartPole-v0", "--out", tmp_path / "run", *words).code == 0
    run, events = Run.load(tmp_path / "run"), events_in(tmp_path / "run")
    assert list(events["score/mean"]) == [2, 3]
    np.testing.assert_allclose(list(events["score/mean"].values()), run.evaluations.means.mean(axis=0), rtol=1e-6)
    assert list(events["return/mean"]) == [1, 2, 3]
    assert not [tag for tag in events if tag.startswith(("entropy", "training_score"))]


def test_a_missing_extra_is_named_before_anything_is_trained(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard.importlib.util, "find_spec", lambda name: None)
    outcome = mac("train", "CartPole-v0", "--out", tmp_path / "run", "--tensorboard", *TINY_WORDS)
    assert_refused(outcome, 2, "mean-actor-critic[tensorboard]")
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_has_all_its_events(tmp_path):
    mac("train", "CartPole-v0", "--out", tmp_path / "run", *TINY_WORDS)
    checkpoint = next((tmp_path / "run").glob("checkpoint-*"))
    checkpoint.unlink()
    assert mac("resume", tmp_path / "run", "--tensorboard").code == 0
    assert list(events_in(tmp_path / "run")["return/mean"]) == [1, 2, 3]


@pytest.mark.parametrize("trials", [1, 3])
def test_one_trial_is_its_own_mean(trials, tmp_path):
    experiment = make_experiment("CartPole-v0", "mac", trials, 1, 0, {})
    curves = Curves(np.ones((trials, 1)), np.ones((trials, 1), int))
    tensorboard.EventWriter(tmp_path, experiment).write(curves, Evaluations.empty(experiment))
    assert ("return_of_trial/0" in events_in(tmp_path)) == (trials > 1)


@pytest.mark.slow
def test_events_of_a_game_are_its_evaluations(tmp_path):
    words = ["train", "ALE/Pong-v5", "--steps", "24", "--out", tmp_path / "run", "--tensorboard", "--trials", "2"]
    settings = [
        "environments=2",
        "screen_size=36",
        "stack=1",
        "evaluation_interval=8",
        "evaluation_environments=2",
        "evaluation_episodes=2",
    ]
    assert mac(*words, "--set", *settings, "evaluation_steps=4").code == 0
    run, events = Run.load(tmp_path / "run"), events_in(tmp_path / "run")
    means, entropy = run.evaluations.means, run.evaluations.entropy
    assert list(events["score/mean"]) == [8, 16, 24]
    np.testing.assert_allclose(list(events["score/mean"].values()), means.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(list(events["score_of_trial/1"].values()), means[1], rtol=1e-6)
    np.testing.assert_allclose(list(events["entropy/mean"].values()), entropy.mean(axis=0), rtol=1e-6)
    assert "return/mean" not in events


# --- disks that are full ---------------------------------------------------------------------------------------------

LONG = ("--trials", "2", "--set", "max_episode_steps=20", "hidden=4", "minibatches=1", "batch_size=4",
        "replay_capacity=16", "--tensorboard")  # fmt: skip
ROOM = 20_000  # bytes of a file: enough for checkpoints, and for the events of some eighty episodes
# no cache, whose files are larger; and since everything is compiled then, as fast as may be
NO_CACHE = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", "JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}


@pytest.mark.slow
def test_events_that_cannot_be_written_are_given_up_with_a_word_and_training_goes_on(tmp_path):
    words = ("train", "CartPole-v0", "--episodes", "200", "--out", tmp_path / "run", *LONG)
    outcome = run_python(mac_within("RLIMIT_FSIZE", ROOM), *words, env=NO_CACHE)
    assert outcome.code == 0, outcome
    assert Run.load(tmp_path / "run").finished
    *_start, warning = outcome.err.splitlines()
    assert warning.startswith("mac: warning: no more TensorBoard events: ")
    assert "File too large" in warning


@pytest.mark.slow
def test_a_signal_is_heard_and_a_checkpoint_written_when_events_could_not_be(tmp_path):
    words = ["train", "CartPole-v0", "--episodes", "50000", "--out", str(tmp_path / "run"), *LONG]
    script = mac_within("RLIMIT_FSIZE", 900_000)  # a checkpoint of so many episodes has 0.8 megabytes
    command = [sys.executable, "-c", script, *words, "--set", "max_episode_steps=1", "--quiet"]
    with running(command, env=NO_CACHE) as process:
        assert "no more TensorBoard events" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LONGEST_WAIT)
        assert process.returncode == 130
        assert "continue with" in errors
    assert Run.load(tmp_path / "run").episodes_done.min() > 0, errors


def test_a_resumed_run_whose_events_have_no_folder_goes_on_without(files):
    files.checkpoint.unlink()
    (files.run / "tensorboard").write_text("in the way")
    outcome = mac("resume", files.run, "--tensorboard", "--quiet")
    assert outcome.code == 0
    assert_one_line(outcome.err)
    assert "no more TensorBoard events" in outcome.err


def test_a_log_that_cannot_be_written_holds_up_nobody(tmp_path):
    command = [sys.executable, "-m", "mean_actor_critic", "train", "CartPole-v0", "--out", tmp_path / "run"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, *TINY_WORDS], stderr=full, stdout=subprocess.PIPE, timeout=LONGEST_WAIT, check=False
        )
    assert done.returncode == 0
    assert Run.load(tmp_path / "run").finished


@pytest.mark.parametrize("engine", ["compiled", "hosted"])
def test_neither_does_one_that_is_closed(engine, tmp_path):
    words = [sys.executable, "-m", "mean_actor_critic", "train", "CartPole-v0", "--engine", engine]
    command = shlex.join([*words, "--out", str(tmp_path / "run"), *TINY_WORDS])
    done = subprocess.run(
        f"{command} 2>&-", shell=True, stdout=subprocess.PIPE, text=True, timeout=LONGEST_WAIT, check=False
    )
    assert done.returncode == 0
    assert "run folder" not in done.stdout
    assert Run.load(tmp_path / "run").finished
