"""A run goes on beyond its end: it becomes the run that it would have been with the longer budget."""

import dataclasses
import functools

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import arrays_of, message_of, snapshot
from mean_actor_critic.runs import store
from mean_actor_critic.spec.experiment import make_experiment
from short_runs import (
    EVALUATED,
    TRIALS,
    assert_same_agents,
    assert_same_arrays,
    copy_of,
    evaluated_run,
    resume,
    run_by_steps,
    stop_after,
    train,
    train_on_game,
)


@pytest.fixture(params=["compiled", "hosted"])
def by_steps(request):
    return run_by_steps(request.param)


@pytest.fixture(params=["compiled", "hosted"])
def evaluated(request):
    return evaluated_run(request.param)


@pytest.fixture(scope="module")
def longer_run(tmp_path_factory):
    """What the run with evaluations becomes with a longer budget: trained from the start, once for all tests."""

    @functools.cache
    def of(engine):
        return train(tmp_path_factory.mktemp("longer") / "run", engine, **{**EVALUATED, "episodes": 13})

    return of


def assert_extended(run, longer, whole):
    assert longer.digest == whole.digest == mac.Run.load(run.path).digest
    assert_same_arrays(arrays_of(longer), arrays_of(whole))
    assert longer.finished
    assert longer.experiment == whole.experiment
    assert longer.manifest.extended == ((run.manifest.digest, run.experiment.budget.amount),)
    assert not longer.warnings


@pytest.mark.slow
def test_a_finished_run_that_goes_on_is_the_longer_run(evaluated, longer_run, tmp_path):
    """An evaluation that only the end of the shorter budget asked for is not in it."""
    run = copy_of(evaluated, tmp_path / "run")
    whole = longer_run(evaluated.experiment.engine)
    assert_extended(run, resume(run, episodes=13), whole)
    assert len(list(run.path.glob("checkpoint-*"))) == store.GENERATIONS


@pytest.mark.slow
def test_so_does_a_run_by_steps(by_steps, tmp_path):
    run = copy_of(by_steps, tmp_path / "run")
    whole = train(tmp_path / "whole", by_steps.experiment.engine, steps=200)
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


def test_a_crash_between_extending_and_the_next_checkpoint_loses_nothing(longer_run, tmp_path):
    run, whole = copy_of(evaluated_run("compiled"), tmp_path / "run"), longer_run("compiled")
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
    run = copy_of(evaluated_run("compiled"), tmp_path / "run")
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
