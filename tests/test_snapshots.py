"""Networks as they were at moments of training."""

import numpy as np
import pytest

from helpers import TINY, assert_refused, forge_manifest, mac, message_of
from hosted_environments import Tiny
from mean_actor_critic import Run, train
from mean_actor_critic.runs.store import read_manifest
from mean_actor_critic.spec.experiment import checked_moments


def weights_of(agent):
    return [array for network in (agent.policy, agent.critic) for layer in network for array in layer]


def assert_same(one, other):
    assert all(map(np.array_equal, weights_of(one), weights_of(other)))


@pytest.mark.parametrize(
    ("asked", "moments"),
    [(0, ()), (1, (7,)), (2, (0, 7)), (4, (0, 2, 5, 7)), (50, tuple(range(8))), ([3, 0, 3], (0, 3))],
)
def test_moments_are_evenly_spaced_or_as_named(asked, moments):
    assert checked_moments(asked, 7) == moments


@pytest.mark.parametrize("asked", [-1, 101, [8], [0.5], "all", None])
def test_other_moments_are_refused(asked):
    assert "snapshots" in message_of(lambda: checked_moments(asked, 7))


def test_snapshots_are_what_a_shorter_run_ends_with_and_change_no_bit(tmp_path):
    plain = train("CartPole-v0", trials=3, episodes=5, out=tmp_path / "plain", **TINY)
    train("CartPole-v0", trials=3, episodes=5, out=tmp_path / "kept", snapshots=[0, 2, 5], **TINY)
    short = train("CartPole-v0", trials=3, episodes=2, out=tmp_path / "short", **TINY)
    kept = Run.load(tmp_path / "kept")
    assert kept.snapshots == (0, 2, 5)
    assert kept.digest == plain.digest
    for trial in range(3):
        assert_same(kept.agent(trial, 2), short.agent(trial))
        assert_same(kept.agent(trial, 5), kept.agent(trial))
    assert "one that was kept: 0, 2, 5" in message_of(lambda: kept.agent(0, 3))
    assert "without snapshots" in message_of(lambda: plain.agent(0, 0))


def test_hosted_trials_are_kept_too(tmp_path):
    settings = {**TINY, "max_episode_steps": 10}
    kept = train(Tiny, trials=2, episodes=3, out=tmp_path / "kept", snapshots=4, workers=1, **settings)
    short = train(Tiny, trials=2, episodes=1, out=tmp_path / "short", workers=1, **settings)
    for trial in range(2):
        assert_same(kept.agent(trial, 1), short.agent(trial))


def test_the_command_line_takes_a_number_or_episodes(tmp_path):
    words = (
        "train",
        "CartPole-v0",
        "--trials",
        "1",
        "--episodes",
        "2",
        "--quiet",
        "--set",
        "hidden=4",
        "minibatches=1",
    )
    assert mac(*words, "--out", tmp_path / "a", "--snapshots", "2").code == 0
    assert Run.load(tmp_path / "a").snapshots == (0, 2)
    assert_refused(mac(*words, "--out", tmp_path / "b", "--snapshots", "0,9"), 2, "snapshots", "from 0 to 2")
    assert_refused(mac(*words, "--out", tmp_path / "b", "--snapshots", "some"), 2, "--snapshots")
    assert not (tmp_path / "b").exists()


def test_a_forged_list_of_moments_is_refused(tmp_path):
    from helpers import copy_of_tiny_run

    files = copy_of_tiny_run(tmp_path)
    forge_manifest(files, lambda document: document.update(snapshots=[99]))
    assert "snapshots" in message_of(lambda: read_manifest(files.run))
