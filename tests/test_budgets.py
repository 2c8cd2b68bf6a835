"""How long a trial trains, what is evaluated meanwhile, how a run goes on beyond its end, and who is told."""

import dataclasses
import inspect
import json
import shutil
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import golden
import mean_actor_critic as mac
from helpers import TINY, arrays_of, message_of, snapshot
from hosted_environments import Tiny
from mean_actor_critic.engines import hosted, hosted_study
from mean_actor_critic.environments import catalogue
from mean_actor_critic.errors import DamagedFileError, InputError, MacError, MissingFileError
from mean_actor_critic.learning import estimators
from mean_actor_critic.runs import store
from mean_actor_critic.runs.players import load_player
from mean_actor_critic.runs.run import AGENTS
from mean_actor_critic.spec.experiment import SOLVED_EVERY, SOLVED_OVER, make_experiment, settings_for_engine
from mean_actor_critic.spec.learners import ENGINES, learners_on
from mean_actor_critic.spec.rules import EpisodeRules
from mean_actor_critic.spec.settings import settings_of
from mean_actor_critic.spec.typed import Settings
from probes import ConstantReward, RewardFromAction

BOTH = pytest.mark.parametrize("engine", ["compiled", "hosted"])
GAME = {
    "environments": 2, "screen_size": 36, "stack": 1, "evaluation_steps": 12, "evaluation_environments": 2,
    "evaluation_episodes": 2, "seed": 3, "workers": 1,
}  # fmt: skip
TRIALS = 3


def train(folder, engine="compiled", **more):
    """A short run: presets of Cart Pole that are not among the settings are general ones."""
    limits = {"workers": 1} if engine == "hosted" else {}
    arguments = {**TINY, "trials": TRIALS, "seed": 5, "critic_target": "expected_sarsa", **limits, **more}
    return mac.train("CartPole-v0", "mac", engine=engine, out=folder, progress=False, **arguments)


def train_on_game(folder, **more):
    return mac.train("ALE/Pong-v5", out=folder, progress=False, **{**GAME, **more})


def resume(run, **more):
    return mac.resume(run, progress=False, **more)


def stop_after(segments):
    """A callback that ends the training after some segments."""
    left = [segments]

    def show(progress):
        left[0] -= 1
        return mac.STOP if left[0] <= 0 else None

    return show


def assert_same_arrays(one, other):
    assert set(one) == set(other)
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def weights_of(agent):
    return [array for layer in (*agent.policy, *agent.critic) for array in layer]


def assert_same_agents(one, other):
    for mine, theirs in zip(weights_of(one), weights_of(other), strict=True):
        np.testing.assert_array_equal(mine, theirs)


# --- budgets in steps ------------------------------------------------------------------------------------------------

STEPS = 120


@pytest.fixture(scope="module", params=["compiled", "hosted"])
def by_steps(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp("steps") / "run", request.param, steps=STEPS)


def test_a_trial_ends_with_the_first_episode_that_reaches_its_steps(by_steps):
    assert by_steps.finished
    assert by_steps.status == ["finished"] * TRIALS
    for trial, episodes in enumerate(by_steps.episodes_done):
        lengths = by_steps.lengths[trial]
        assert lengths[:episodes].sum() == by_steps.steps_done[trial] >= STEPS
        assert lengths[: episodes - 1].sum() < STEPS
        assert not lengths[episodes:].any()
        assert np.isnan(by_steps.returns[trial, episodes:]).all()
        assert np.isfinite(by_steps.returns[trial, :episodes]).all()


def test_a_checkpoint_has_as_many_columns_as_the_trial_with_most_episodes(by_steps):
    shape = (TRIALS, by_steps.episodes_done.max())
    arrays = arrays_of(mac.Run.load(by_steps.path))
    assert arrays["returns"].shape == arrays["lengths"].shape == shape
    np.testing.assert_array_equal(arrays["state/episode"], by_steps.episodes_done)
    assert len(set(by_steps.episodes_done.tolist())) > 1  # else nothing above was tested
    assert (by_steps.experiment.steps, by_steps.experiment.episodes) == (STEPS, None)


@pytest.mark.slow
@BOTH
def test_a_trial_with_a_budget_in_steps_does_not_change_with_its_neighbours(engine, tmp_path):
    rates, others = [0.02, 0.02, 0.02], [0.02, 0.9, 0.02]
    run, other = (
        train(tmp_path / name, engine, steps=STEPS, actor_lr=lr) for name, lr in (("one", rates), ("two", others))
    )
    for trial in (0, 2):
        episodes = run.episodes_done[trial]
        assert episodes == other.episodes_done[trial]
        for name, array in arrays_of(run).items():
            theirs = arrays_of(other)[name]
            if name in ("returns", "lengths"):
                array, theirs = array[:, :episodes], theirs[:, :episodes]
            np.testing.assert_array_equal(array[trial], theirs[trial], err_msg=name)
    assert not np.array_equal(arrays_of(run)["state/policy/0/weight"][1], arrays_of(other)["state/policy/0/weight"][1])


@pytest.mark.slow
@pytest.mark.parametrize("segments", [1, 2])
def test_a_run_by_steps_goes_on_where_it_was_stopped(by_steps, segments, tmp_path, monkeypatch):
    engine = by_steps.experiment.engine
    monkeypatch.setattr(hosted_study, "SEGMENT_SECONDS", {1: 1e-6, 2: 0.05}[segments])
    run = train(tmp_path / "run", engine, steps=STEPS, on_progress=stop_after(segments))
    monkeypatch.undo()
    if engine == "hosted" and segments == 1:  # before the first episode has ended
        assert mac.Run.load(run.path).returns.shape == (TRIALS, 0)
    assert not run.finished
    assert resume(run).digest == by_steps.digest


def test_steps_and_episodes_are_not_asked_for_together(tmp_path):
    assert "either steps or episodes" in message_of(lambda: train(tmp_path / "run", steps=5, episodes=5))
    assert not (tmp_path / "run").exists()


# --- until -----------------------------------------------------------------------------------------------------------


def first_look(returns, until):
    """When a trial was first seen to be good enough, one look after the other; 0 if never."""
    for look in range(SOLVED_OVER, len(returns) + 1, SOLVED_EVERY):
        if np.mean(np.float64(returns[look - SOLVED_OVER : look])) >= until:
            return look
    return 0


LEARNING = {
    "trials": 4, "episodes": 400, "until": 24.0, "max_episode_steps": 30, "actor_lr": [0.02, 0.0, 0.05, 0.0],
    "hidden": (16,), "discount": 0.99,
}  # fmt: skip


@pytest.mark.slow
@BOTH
def test_a_trial_that_is_good_enough_ends_at_a_multiple_of_ten_episodes(engine, tmp_path):
    limits = {"workers": 1} if engine == "hosted" else {}
    run = mac.train(
        "CartPole-v0", "reinforce", engine=engine, out=tmp_path / "run", progress=False, **limits, **LEARNING
    )
    solved = [
        first_look(returns[:played], 24.0) for returns, played in zip(run.returns, run.episodes_done, strict=True)
    ]
    assert run.solved_at.tolist() == solved
    assert run.episodes_done.tolist() == [at or 400 for at in solved]
    assert [at > 0 for at in solved] == [True, False, True, False]
    assert run.status == [f"solved at episode {at}" if at else "finished" for at in solved]
    assert run.finished
    assert mac.Run.load(run.path).digest == run.digest == resume(run).digest


@pytest.mark.slow
def test_snapshots_of_a_trial_are_its_own_when_its_neighbour_has_ended(tmp_path):
    arguments = {**LEARNING, "progress": False}
    run = mac.train("CartPole-v0", "reinforce", out=tmp_path / "run", snapshots=[300, 400], **arguments)
    short = mac.train("CartPole-v0", "reinforce", out=tmp_path / "short", **{**arguments, "episodes": 300})
    assert run.solved_at[0] > 0 == run.solved_at[1]
    assert run.manifest.width == 2  # trials 0 and 1 are neighbours
    at_300 = arrays_of(run)["snapshots/300/policy/0/weight"]
    np.testing.assert_array_equal(at_300[1], arrays_of(short)["state/policy/0/weight"][1])
    np.testing.assert_array_equal(
        arrays_of(run)["snapshots/400/policy/0/weight"][1], arrays_of(run)["state/policy/0/weight"][1]
    )


@pytest.mark.slow
@BOTH
def test_with_evaluations_it_is_they_that_must_be_good_enough(engine, tmp_path):
    common = {"engine": engine, "episodes": 12, "evaluate_every": 5, "evaluation_episodes": 3}
    reached, missed = (train(tmp_path / str(until), until=until, **common) for until in (1.0, 21.0))
    assert reached.status == ["solved at evaluation 1"] * TRIALS
    assert reached.episodes_done.tolist() == [5] * TRIALS
    assert reached.evaluations.evaluated.tolist() == [1] * TRIALS
    assert missed.status == ["finished"] * TRIALS
    assert missed.evaluations.evaluated.tolist() == [3] * TRIALS


@pytest.mark.slow
def test_a_game_that_is_good_enough_ends_too(tmp_path):
    run = train_on_game(tmp_path / "run", steps=96, evaluate_every=40, until=-30.0)
    assert (run.status, run.steps_done.tolist()) == (["solved at evaluation 1"], [40])
    assert resume(run).digest == run.digest


# --- evaluations in training -----------------------------------------------------------------------------------------

EVALUATED = {"episodes": 7, "evaluate_every": 3, "evaluation_episodes": 4}  # after 3, 6 and 7 episodes


@pytest.fixture(scope="module", params=["compiled", "hosted"])
def evaluated(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp("evaluated") / "run", request.param, **EVALUATED)


def of_training(run):
    return {name: array for name, array in arrays_of(run).items() if name not in ("scores", "evaluated")}


def test_evaluations_change_no_bit_of_the_training(evaluated, tmp_path):
    plain = train(tmp_path / "run", evaluated.experiment.engine, episodes=7)
    assert_same_arrays(of_training(evaluated), arrays_of(plain))


def test_evaluations_come_at_every_interval_and_at_the_end(evaluated):
    assert evaluated.experiment.evaluation_moments().tolist() == [3, 6, 7]
    assert evaluated.evaluations.scores.shape == (TRIALS, 3, 4)
    assert evaluated.evaluations.evaluated.tolist() == [3] * TRIALS
    assert np.all((evaluated.evaluations.scores >= 1) & (evaluated.evaluations.scores <= 20))
    assert len(np.unique(evaluated.evaluations.scores)) > 5
    curve = evaluated.curve(of="evaluations")
    np.testing.assert_array_equal(curve.x, [3, 6, 7])
    np.testing.assert_allclose(curve.values, evaluated.evaluations.scores.mean(axis=-1), rtol=1e-6)
    assert evaluated.finished


def test_the_best_agents_and_the_last_are_kept(evaluated):
    for trial in range(TRIALS):
        kept = {file.stem for file in (evaluated.path / AGENTS).glob(f"*-{trial}.safetensors")}
        assert kept == {f"best-{trial}", f"episode-000000000007-{trial}"}
        last = mac.Agent.load(evaluated.path / AGENTS / f"episode-000000000007-{trial}.safetensors")
        assert_same_agents(last, evaluated.agent(trial))
        best = mac.Agent.load(evaluated.path / AGENTS / f"best-{trial}.safetensors")
        if evaluated.evaluations.means[trial].argmax() == 2:
            assert_same_agents(best, last)
        else:
            assert not np.array_equal(weights_of(best)[0], weights_of(last)[0])


@pytest.mark.slow
def test_a_run_that_was_stopped_at_its_first_evaluation_comes_to_the_same_scores(evaluated, tmp_path):
    seen = []
    run = train(
        tmp_path / "run",
        evaluated.experiment.engine,
        on_study=lambda study: seen.extend(study.newly_evaluated),
        on_progress=lambda progress: mac.STOP if seen else None,
        **EVALUATED,
    )
    assert 1 <= run.evaluations.evaluated.max() < 3
    again = resume(run)
    assert_same_arrays(arrays_of(again), arrays_of(evaluated))


@pytest.mark.slow
@BOTH
def test_evaluations_by_steps(engine, tmp_path):
    common = {"steps": STEPS, "evaluation_episodes": 2}
    run = train(tmp_path / "run", engine, evaluate_every=50, **common)
    assert run.experiment.evaluation_moments().tolist() == [50, 100, 120]
    assert run.evaluations.evaluated.tolist() == [3] * TRIALS
    assert np.isfinite(run.evaluations.scores).all()
    assert_same_arrays(of_training(run), arrays_of(train(tmp_path / "plain", engine, steps=STEPS)))
    stopped = train(tmp_path / "stopped", engine, evaluate_every=50, on_progress=stop_after(4), **common)
    assert resume(stopped).digest == run.digest


@pytest.mark.slow
def test_agents_are_kept_while_other_trials_learn(tmp_path, monkeypatch):
    """Five trials, two of which learn together: an evaluation of one ends in the middle of a lesson of others."""
    teach, in_a_lesson = hosted_study.HostedStudy._teach, []

    def slow(study, which, batch):
        lesson = teach(study, which, batch)
        time.sleep(0.1)  # what trials carried before is gone, and what they carry now is not there yet
        return lesson

    def note(study):
        in_a_lesson.append(bool(study.newly_evaluated) and study._lesson is not None)

    monkeypatch.setattr(hosted_study.HostedStudy, "_teach", slow)
    monkeypatch.setattr(hosted, "WIDEST_LESSON", 2)
    run = train(
        tmp_path / "run", "hosted", trials=5, episodes=4, evaluate_every=1, evaluation_episodes=1, on_study=note
    )
    assert any(in_a_lesson)
    assert run.evaluations.evaluated.tolist() == [4] * 5
    for trial in range(5):
        last = mac.Agent.load(run.path / AGENTS / f"episode-000000000004-{trial}.safetensors")
        assert_same_agents(last, run.agent(trial))


# --- beyond the end --------------------------------------------------------------------------------------------------


def assert_extended(run, longer, whole):
    assert longer.digest == whole.digest == mac.Run.load(run.path).digest
    assert_same_arrays(arrays_of(longer), arrays_of(whole))
    assert longer.finished
    assert longer.experiment == whole.experiment
    assert longer.manifest.extended == ((run.manifest.digest, run.experiment.budget.amount),)
    assert not longer.warnings


@pytest.mark.slow
def test_a_finished_run_that_goes_on_is_the_longer_run(evaluated, tmp_path):
    """An evaluation that only the end of the shorter budget asked for is not in it."""
    engine = evaluated.experiment.engine
    run = train(tmp_path / "run", engine, **EVALUATED)
    whole = train(tmp_path / "whole", engine, **{**EVALUATED, "episodes": 13})
    assert_extended(run, resume(run, episodes=13), whole)
    assert len(list(run.path.glob("checkpoint-*"))) == store.GENERATIONS


@pytest.mark.slow
def test_so_does_a_run_by_steps(by_steps, tmp_path):
    engine = by_steps.experiment.engine
    run = train(tmp_path / "run", engine, steps=STEPS)
    whole = train(tmp_path / "whole", engine, steps=200)
    assert_extended(run, resume(run, steps=200), whole)


@pytest.mark.slow
@pytest.mark.parametrize("pipelined", [False, True])
def test_so_does_a_run_on_a_game(tmp_path, pipelined):
    run, whole = (
        train_on_game(tmp_path / str(steps), steps=steps, evaluate_every=40, pipelined=pipelined) for steps in (96, 150)
    )
    assert run.experiment.evaluation_moments().tolist() == [40, 80, 96]
    assert_extended(run, resume(run, steps=150), whole)
    assert whole.experiment.evaluation_moments().tolist() == [40, 80, 120, 150]


def test_an_unfinished_run_may_get_a_longer_budget_too_and_twice(tmp_path):
    whole = train(tmp_path / "whole", episodes=12)
    run = train(tmp_path / "run", episodes=5, on_progress=stop_after(2))
    assert not run.finished
    middle = resume(run, episodes=8)
    longer = resume(middle, episodes=12)
    assert longer.digest == whole.digest
    assert [amount for _, amount in longer.manifest.extended] == [5, 8]


def test_a_crash_between_extending_and_the_next_checkpoint_loses_nothing(tmp_path):
    run = train(tmp_path / "run", **EVALUATED)
    whole = train(tmp_path / "whole", **{**EVALUATED, "episodes": 13})
    store.extend_run(run.path, run.manifest, run.experiment.extended(13))
    there = mac.Run.load(run.path)
    assert (there.finished, there.episodes_done.tolist()) == (False, [7] * TRIALS)
    np.testing.assert_array_equal(there.returns[:, :7], run.returns)
    np.testing.assert_array_equal(there.evaluations.scores[:, :2], run.evaluations.scores[:, :2])
    assert there.evaluations.evaluated.tolist() == [2] * TRIALS
    assert_same_agents(there.agent(1), run.agent(1))
    assert resume(there).digest == whole.digest


def test_what_is_learned_right_after_extending_is_kept(tmp_path):
    """The last checkpoint before counted an evaluation that there is not any more: it must not be taken for newer."""
    run = train(tmp_path / "run", **EVALUATED)
    longer = resume(run, episodes=13, on_progress=stop_after(1))
    assert longer.episodes_done.sum() > run.episodes_done.sum()
    assert_same_arrays(arrays_of(mac.Run.load(run.path)), arrays_of(longer))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"episodes": 2}, "more than the run has, 3 episodes"),
        ({"steps": 500}, "episodes, which this run counts"),
        ({"episodes": 0}, "a whole number"),
        ({"episodes": 2.5}, "a whole number"),
        ({"episodes": 10_000_000}, "a smaller"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_and_nothing_is_written(files, asked, words, monkeypatch):
    if asked == {"episodes": 10_000_000}:  # the tiny run has too few trials for it to be too much
        monkeypatch.setattr("mean_actor_critic.spec.experiment.EPISODES_IN_ALL", 10**6)
        words = "trials × episodes"
    before = snapshot(files.run)
    assert words in message_of(lambda: resume(files.run, **asked))
    assert snapshot(files.run) == before


def test_the_same_budget_once_more_is_no_change(files):
    run = mac.Run.load(files.run)
    again = resume(run, episodes=3)
    assert (again.digest, again.manifest.digest) == (run.digest, run.manifest.digest)


def test_a_learning_rate_that_has_fallen_to_nothing_cannot_go_on():
    experiment = make_experiment("ALE/Pong-v5", "a2c", 1, 1000, 0, {"schedule": "linear"}, engine="atari")
    assert "fallen to 0" in message_of(lambda: experiment.extended(2000))
    constant = dataclasses.replace(experiment, setup=dataclasses.replace(experiment.setup, schedule="constant"))
    assert constant.extended(2000).budget.amount == 2000


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


# --- names -----------------------------------------------------------------------------------------------------------


def test_the_typed_settings_are_those_that_exist():
    known = {name for engine in ENGINES for one in learners_on(engine) for name in settings_for_engine(engine, one)}
    # the time limit is an argument of its own
    assert set(Settings.__annotations__) == known - set(settings_of(EpisodeRules))


def test_the_signature_of_train_lists_every_setting_with_its_default():
    parameters = inspect.signature(mac.train).parameters
    assert set(Settings.__annotations__) <= set(parameters)
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    for name, setting in settings_for_engine("compiled").items():
        if name != "max_episode_steps":
            assert parameters[name].default == setting.default, name
    assert {"episodes", "steps", "until", "evaluate_every", "learner", "max_episode_steps"} <= set(parameters)
    assert parameters["max_episode_steps"].default is None


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


# --- for people ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    return train(tmp_path_factory.mktemp("shown") / "run", episodes=20)


def test_a_run_says_what_it_is(shown, tmp_path):
    words = repr(shown)
    latest = shown.returns.mean(axis=1)
    for part in ("CartPole-v0", "MAC", "20 episodes", "seed 5", "finished", f"{latest.mean():.4g}", str(shown.path)):
        assert part in words
    begun = repr(train(tmp_path / "begun", episodes=40, on_progress=stop_after(1)))
    assert "0 of 3 trials have ended" in begun


def test_a_notebook_shows_a_run_as_a_table_without_letting_names_in(shown):
    page = shown._repr_html_()
    assert page.startswith("<table")
    for part in ("CartPole-v0", "MAC", "20 episodes", str(shown.path)):
        assert part in page
    strange = mac.Run.load(shown.path)
    strange.experiment = dataclasses.replace(strange.experiment, environment="<script>")
    assert "<script>" not in strange._repr_html_()


def test_a_run_is_plotted_with_every_trial_and_their_mean(shown):
    (axes,) = shown.plot().axes
    assert len(axes.lines) == TRIALS + 1
    np.testing.assert_allclose(axes.lines[-1].get_ydata(), shown.returns.mean(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(axes.lines[-1].get_xdata(), np.arange(1, 21))
    assert (axes.get_xlabel(), axes.get_title()) == ("Episode", "CartPole-v0")
    assert shown.plot("steps").axes[0].get_xlabel() == "Agent steps"


def test_a_run_as_a_table_of_episodes(shown):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    table = shown.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert len(table) == TRIALS * 20
    row = table[(table["trial"] == 1) & (table["episode"] == 7)].iloc[0]
    assert (row["return"], row["length"]) == (shown.returns[1, 6], shown.lengths[1, 6])
    assert row["steps"] == shown.lengths[1, :7].sum()


def test_a_curve_by_steps_is_the_mean_of_the_episodes_that_ended_in_each_part(shown):
    curve = shown.curve("steps")
    assert (curve.unit, curve.of, curve.n) == ("steps", "training", TRIALS)
    assert len(curve.x) > 10
    (width,) = set(np.diff(curve.x).tolist())
    assert shown.steps_done.min() - width < curve.x[-1] + width / 2 <= shown.steps_done.min()
    for trial in range(TRIALS):
        ends, found = np.cumsum(shown.lengths[trial]), dict(zip(curve.x, curve.values[trial], strict=True))
        now = np.nan
        for middle in np.arange(width / 2, curve.x[-1] + 1, width):  # from the first step on: `now` is carried forward
            within = shown.returns[trial][(ends > middle - width / 2) & (ends <= middle + width / 2)]
            now = np.mean(within, dtype=np.float64) if len(within) else now
            if middle in found:
                np.testing.assert_allclose(found[middle], now, rtol=1e-12)
        assert set(found) <= set(np.arange(width / 2, curve.x[-1] + 1, width))


def test_curves_that_there_are_not_are_refused(shown):
    for asked in ({"of": "evaluations"}, {"unit": "frames"}, {"of": "play"}):
        assert "curve" in message_of(lambda asked=asked: shown.curve(**asked))


# --- files of format 2 -----------------------------------------------------------------------------------------------

OLD = Path(__file__).parent / "data" / "format-2"
EXPECTED = json.loads((OLD / "expected.json").read_text())
OLD_RUNS = {  # the status of each trial, and an observation
    "cart-pole": (["episode 2", "episode 2"], np.zeros(4, np.float32)),
    "frozen-lake": (["episode 135", "episode 135"], 3),
    "pong": (["step 200"], np.zeros((4, 36, 36), np.uint8)),
}
of_old_runs = pytest.mark.parametrize("name", OLD_RUNS)


@of_old_runs
def test_a_run_of_format_2_is_read(name):
    run = mac.Run.load(OLD / name)
    status, observation = OLD_RUNS[name]
    assert "run 2" in (OLD / name / "manifest.json").read_text()
    assert not run.warnings
    assert not run.finished
    assert run.status == status
    assert run.steps_done.min() > 0
    if name == "pong":
        assert run.experiment.evaluation.evaluation_episodes == 2  # which was called evaluation_games
        assert run.evaluations.evaluated.tolist() == [1]
        assert np.isfinite(run.latest).all()
    else:
        assert np.all(run.episodes_done > 0)
    probabilities = run.agent(run.experiment.trials - 1).action_probabilities(observation)
    assert probabilities.sum() == pytest.approx(1, rel=1e-5)
    assert name.split("-")[0] in repr(run).lower()


@pytest.mark.slow
@of_old_runs
def test_a_run_of_format_2_goes_on_to_the_bits_that_it_would_have_come_to(name, tmp_path):
    shutil.copytree(OLD / name, tmp_path / "run")
    if golden.kind() != EXPECTED["kind"]:
        pytest.skip("the digests of old files were recorded on a machine of another kind")
    run = resume(tmp_path / "run")
    assert run.finished
    assert run.digest == EXPECTED["digests"][name]
    if name == "cart-pole":
        assert run.snapshots == (0, 2, 5, 9, 40)


def test_a_run_of_format_2_can_get_a_longer_budget(tmp_path):
    shutil.copytree(OLD / "cart-pole", tmp_path / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other versions than those that it was begun with
        run = resume(tmp_path / "run", episodes=45)
    assert run.finished
    assert run.episodes_done.tolist() == [45, 45]
    assert json.loads((run.path / "manifest.json").read_text())["format"] == store.RUN_FORMAT
    assert [amount for _, amount in run.manifest.extended] == [40]


@of_old_runs
def test_an_agent_of_format_2_plays(name, tmp_path):
    agent = mac.Agent.load(OLD / f"{name}.safetensors")
    observation = OLD_RUNS[name][1]
    action, _ = agent.predict(observation, deterministic=True)
    assert int(action) == np.argmax(agent.action_probabilities(observation))
    agent.save(tmp_path / "agent.safetensors")
    again = mac.Agent.load(tmp_path / "agent.safetensors")
    assert again.experiment == agent.experiment
    assert_same_agents(again, agent)


def test_a_sweep_of_before_has_its_winners():
    found = mac.Sweep.load(OLD / "sweep")
    assert found.finished
    winners = found.winners()
    assert set(winners) == {"mac", "reinforce"}
    assert all(winner.returns.shape == (2, 4) for winner in winners.values())
    assert {winner.settings["hidden"] for winner in winners.values()} <= {(4,), ()}
    assert len(found.outcomes()) == 8
