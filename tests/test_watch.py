"""Videos of agents, and checks of environments."""

import json

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import assert_refused, run_mac, run_python
from mean_actor_critic.environments.catalogue import check_environment

TINY = {"hidden": (8,), "minibatches": 2, "batch_size": 4, "replay_capacity": 16, "max_episode_steps": 30}

# in a process of its own: the library starts ffmpeg by a fork, which JAX's threads forbid
OPEN = """
import imageio_ffmpeg, json, numpy, sys
frames, seconds = imageio_ffmpeg.count_frames_and_secs(sys.argv[1])
reader = imageio_ffmpeg.read_frames(sys.argv[1])
next(reader)
pictures = list(reader)
contrast = float(numpy.frombuffer(pictures[0], numpy.uint8).std())
print(json.dumps(dict(frames=frames, seconds=seconds, different=len(set(pictures)), contrast=contrast)))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return mac.train("CartPole-v0", trials=2, episodes=3, out=tmp_path_factory.mktemp("watch") / "run", **TINY)


def test_a_video_has_a_frame_before_the_first_step_and_one_after_each(run, tmp_path):
    video = mac.watch(run.agent(1), tmp_path / "video.mp4", 2, seed=5)
    assert [file.name for file in tmp_path.iterdir()] == [video.file.name]
    assert video.file.name == f"video_return_{np.mean(video.returns):.1f}.mp4"
    # a Cart Pole's return is its steps
    assert video.frames == sum(video.returns) + 2
    outcome = run_python(OPEN, video.file)
    assert outcome.code == 0, outcome.err
    seen = json.loads(outcome.out)
    assert seen["frames"] == video.frames
    assert seen["seconds"] == pytest.approx(video.frames / video.fps, abs=0.1)
    assert seen["different"] > 1
    assert seen["contrast"] > 1  # not a blank


def test_watching_again_shows_the_same_and_greedy_play_is_not_sampled_play(run, tmp_path):
    returns = [
        mac.watch(run.agent(0), tmp_path / f"{i}.mp4", 3, deterministic=greedy).returns
        for i, greedy in enumerate((False, False, True))
    ]
    assert returns[0] == returns[1] != returns[2]
    assert np.array_equal(returns[2], mac.watch(run.agent(0), tmp_path / "3.mp4", 3, deterministic=True).returns)


def test_the_command_line_names_the_file_and_the_return_last(run, tmp_path):
    outcome = run_mac("watch", run.path, "--trial", "1", "--out", tmp_path / "v.mp4")
    assert outcome.code == 0, outcome
    (file,) = tmp_path.iterdir()
    last = outcome.out.splitlines()[-1]
    assert last.startswith(str(file))
    assert file.stem.rpartition("_")[2] in last


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--out", "video.gif"), ".mp4"),
        (("--out", "nowhere/video.mp4"), "folder"),
        (("--trial", "7", "--out", "video.mp4"), "trial: 7"),
        (("--episodes", "0", "--out", "video.mp4"), "episodes: 0"),
    ],
)
def test_what_cannot_be_recorded_is_refused_in_one_line(run, tmp_path, words, said):
    assert_refused(run_mac("watch", run.path, *words, cwd=tmp_path), 2, said)
    assert not list(tmp_path.iterdir())


def levels(environment, kwargs=None):
    return [finding.level for finding in check_environment(environment, kwargs or {}, None)]


def test_a_sound_environment_has_no_problems():
    assert "problem" not in levels("CartPole-v1")
    outcome = run_mac("check", "Acrobot-v1")
    assert outcome.code == 0
    assert outcome.out.splitlines()[-1] == "Acrobot-v1: can be trained"


def test_a_check_says_what_is_wrong():
    assert_refused(run_mac("check", "Pendulum-v1"), 2, "Pendulum-v1")
    assert "Discrete action space" in run_mac("check", "Pendulum-v1").out
    assert_refused(run_mac("check", "Nothing-v0"), 2, "Nothing-v0")
