"""TensorBoard events hold the learning curves of the run that they lie in."""

import struct
import time

import numpy as np
import pytest
from tensorboardX.proto.event_pb2 import Event

from helpers import TINY_WORDS, assert_refused, mac
from mean_actor_critic.atari_run import AtariRun
from mean_actor_critic.reports import tensorboard
from mean_actor_critic.run import Run


def events_in(folder):
    """Scalars by tag, as {step: value}, read record by record; a later file replaces what an earlier one said."""
    found = {}
    for file in sorted((folder / "tensorboard").iterdir()):
        content, at = file.read_bytes(), 0
        while at < len(content):
            (length,) = struct.unpack_from("<Q", content, at)
            event = Event.FromString(content[at + 12 : at + 12 + length])
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
    write = tensorboard.EventWriter(tmp_path)
    returns = np.array([[1.0, 2.0, np.nan], [3.0, np.nan, np.nan]])
    write.episodes(returns, np.array([[1, 1, 0], [1, 0, 0]]))
    while "return/mean" not in events_in(tmp_path):  # which may take a few seconds
        time.sleep(0.1)
    assert events_in(tmp_path)["return/mean"] == {1: 2.0}
    returns[1, 1] = 4.0
    write.episodes(returns, np.array([[1, 1, 0], [1, 1, 0]]))
    write.close()
    assert events_in(tmp_path)["return/mean"] == {1: 2.0, 2: 3.0}


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
    write = tensorboard.EventWriter(tmp_path)
    write.episodes(np.ones((trials, 1)), np.ones((trials, 1), int))
    write.close()
    assert ("return_of_trial/0" in events_in(tmp_path)) == (trials > 1)


@pytest.mark.slow
def test_events_of_a_game_are_its_evaluations(tmp_path):
    words = ["train", "ALE/Pong-v5", "--steps", "24", "--out", tmp_path / "run", "--tensorboard", "--trials", "2"]
    settings = ["environments=2", "evaluation_interval=8", "evaluation_environments=2", "evaluation_games=2"]
    assert mac(*words, "--set", *settings, "evaluation_steps=4").code == 0
    run, events = AtariRun.load(tmp_path / "run"), events_in(tmp_path / "run")
    assert list(events["score/mean"]) == [8, 16, 24]
    np.testing.assert_allclose(list(events["score/mean"].values()), run.means.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(list(events["score_of_trial/1"].values()), run.means[1], rtol=1e-6)
    np.testing.assert_allclose(list(events["entropy/mean"].values()), run.curves.entropy.mean(axis=0), rtol=1e-6)
