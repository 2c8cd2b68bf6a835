"""What Python gives to a training and is told of it: callbacks, estimators, environments, names and errors."""

import inspect

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import TINY, arrays_of, message_of, snapshot
from hosted_environments import Tiny
from mean_actor_critic.engines import hosted_study
from mean_actor_critic.environments import catalogue
from mean_actor_critic.errors import DamagedFileError, InputError, MacError, MissingFileError
from mean_actor_critic.learning import estimators
from mean_actor_critic.runs.players import load_player
from mean_actor_critic.spec.experiment import settings_for_engine
from mean_actor_critic.spec.learners import ENGINES, learners_on
from mean_actor_critic.spec.typed import Settings
from probes import ConstantReward, RewardFromAction
from short_runs import BOTH, assert_same_arrays, resume, stop_after, train

# --- who is told -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@BOTH
def test_a_callback_that_says_stop_ends_the_training_with_a_checkpoint(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(hosted_study, "SEGMENT_SECONDS", 0.05)
    started = []
    common = {"on_start": started.append, "checkpoint_seconds": 3600}
    run = train(tmp_path / "run", engine, episodes=40, on_progress=stop_after(2), **common)
    assert [(one.path, one.environment.engine) for one in started] == [(tmp_path / "run", engine)]
    assert started[0].manifest == run.manifest
    assert not run.finished
    loaded = mac.Run.load(run.path)
    assert_same_arrays(arrays_of(loaded), arrays_of(run))
    assert resume(run).digest == train(tmp_path / "whole", engine, episodes=40).digest


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("who", ["on_progress", "on_study"])
def test_a_callback_that_raises_ends_the_training_with_a_checkpoint_and_its_exception(
    engine, who, tmp_path, monkeypatch
):
    monkeypatch.setattr(hosted_study, "SEGMENT_SECONDS", 0.05)

    def fail(_):
        raise RuntimeError("somebody's own")

    with pytest.raises(RuntimeError, match="somebody's own"):
        train(tmp_path / "run", engine, episodes=40, checkpoint_seconds=3600, **{who: fail})
    run = mac.Run.load(tmp_path / "run")
    assert list(run.path.glob("checkpoint-*"))
    assert not run.finished
    assert resume(run).finished


def test_whatever_else_a_callback_returns_means_nothing(tmp_path):
    assert train(tmp_path / "run", episodes=3, on_progress=lambda progress: "stop").finished


def test_what_a_callback_is_told_adds_up(tmp_path):
    told, seen = [], []
    run = train(
        tmp_path / "run",
        episodes=30,
        on_progress=told.append,
        on_study=lambda study: seen.append((int(study.curves.played.sum()), study.steps_taken)),
    )
    assert [progress.done for progress in told] == [done for done, _ in seen]
    assert [progress.steps for progress in told] == [steps for _, steps in seen]
    assert (told[-1].done, told[-1].total, told[-1].steps) == (90, 90, run.steps_done.sum())


# --- an estimator of one's own ---------------------------------------------------------------------------------------


def my_mac(evidence):
    return evidence.policy * evidence.q


def my_other(evidence):
    return -evidence.policy * evidence.q


def test_a_function_in_the_place_of_an_algorithm(tmp_path, files):
    common = {"episodes": 6, **TINY, "trials": 2, "progress": False, "preset": None}
    common |= mac.Run.load(files.run).experiment.settings()
    named = mac.train("CartPole-v0", "mac", out=tmp_path / "named", **common)
    own = mac.train("CartPole-v0", my_mac, out=tmp_path / "own", **common)
    other = mac.train("CartPole-v0", my_other, out=tmp_path / "other", **common)
    assert own.digest == named.digest != other.digest
    assert own.experiment.algorithm == f"{__name__}:my_mac"
    assert estimators.estimator_of(own.experiment.setup) is my_mac
    loaded = mac.Run.load(own.path)
    assert loaded.experiment.setup.estimator is None  # no file says which function runs here
    assert "my_mac" in repr(loaded)
    assert mac.evaluate(loaded, 2).shape == (2, 2)  # playing needs no estimator


def test_a_run_by_a_function_goes_on_with_that_function_only(tmp_path):
    def train_by(name, **more):
        return mac.train("CartPole-v0", my_mac, out=tmp_path / name, progress=False, **{**TINY, "episodes": 12, **more})

    run = train_by("run", on_progress=stop_after(1))
    before = snapshot(run.path)
    for refused, word in (
        ({}, "given from Python"),
        ({"algorithm": my_other}, "my_mac"),
        ({"algorithm": "mac"}, "mac"),
    ):
        assert word in message_of(lambda refused=refused: resume(run, **refused))
        assert word in message_of(lambda refused=refused: resume(run, episodes=20, **refused))
    assert snapshot(run.path) == before
    assert resume(run, algorithm=my_mac).digest == train_by("whole").digest


# --- environments that only this process has -------------------------------------------------------------------------


def test_an_environment_that_was_given_is_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})
    probe = ConstantReward()
    small = {"max_episode_steps": 5, "hidden": (4,), "episodes": 3, "progress": False}
    run = mac.train(probe, "reinforce", out=tmp_path / "run", **small)
    assert np.all(mac.evaluate(run, 4) == 1)
    assert np.all(mac.evaluate(run.path, 4) == 1)  # by its path as well
    assert resume(run).digest == run.digest
    assert np.all(mac.evaluate(run.agent(), 4) == 1)
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})  # as in another process
    assert "given" in message_of(lambda: mac.evaluate(run, 4))
    assert np.all(mac.evaluate(run, 4, environment=probe) == 1)


def test_so_is_a_callable_that_makes_one(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})
    small = {"hidden": (4,), "episodes": 3, "max_episode_steps": 5, "workers": 1, "progress": False}
    run = mac.train(Tiny, "reinforce", out=tmp_path / "run", **small)
    found = mac.evaluate(run, 3, workers=1)
    np.testing.assert_array_equal(found, mac.evaluate(run, 3, workers=1, environment=Tiny))
    assert resume(run, episodes=5).finished
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})
    assert "no file may say which program runs here" in message_of(lambda: mac.evaluate(run, 3))


def test_of_two_environments_with_one_name_none_is_taken_for_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(catalogue, "_REMEMBERED", {})
    small = {"max_episode_steps": 5, "hidden": (4,), "episodes": 3, "progress": False}
    first, second = ConstantReward(), type("ConstantReward", (RewardFromAction,), {})()
    run = mac.train(first, "reinforce", out=tmp_path / "first", **small)
    mac.train(second, "reinforce", out=tmp_path / "second", **small)
    assert "given" in message_of(lambda: mac.evaluate(run, 4))
    assert np.all(mac.evaluate(run, 4, environment=first) == 1)


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_typed_settings_are_those_that_exist():
    known = {name for engine in ENGINES for one in learners_on(engine) for name in settings_for_engine(engine, one)}
    # the time limit is an argument of its own
    assert set(Settings.__annotations__) == known - {"max_episode_steps"}


def test_the_signature_of_train_lists_every_setting_with_its_default():
    parameters = inspect.signature(mac.train).parameters
    assert set(Settings.__annotations__) <= set(parameters)
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for name, setting in settings_for_engine("compiled", "replayed").items():
        if name != "max_episode_steps":
            assert parameters[name].default == setting.default, name
    assert {"episodes", "steps", "until", "evaluate_every", "learner", "max_episode_steps"} <= set(parameters)
    assert parameters["max_episode_steps"].default is None


# --- errors ----------------------------------------------------------------------------------------------------------


def test_input_errors_are_value_errors():
    with pytest.raises(ValueError, match="trials: 0 cannot be used"):
        mac.train("CartPole-v0", trials=0)
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, MacError)


@pytest.mark.parametrize("read", [mac.Agent.load, mac.evaluate, load_player], ids=["load", "evaluate", "load_player"])
def test_a_file_that_is_not_there_is_missing_not_damaged(read, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no such ") as caught:
        read(tmp_path / "agent.safetensors")
    assert isinstance(caught.value, MissingFileError)
    assert not isinstance(caught.value, DamagedFileError)
    assert "damaged" not in str(caught.value)


def test_what_is_no_player_is_refused():
    assert "a run, an agent, or the path of either" in message_of(lambda: mac.evaluate(5))
