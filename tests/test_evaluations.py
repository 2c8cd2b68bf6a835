"""Evaluations in training: when they come, what they leave, and that training does not notice them."""

import time

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import arrays_of
from mean_actor_critic.engines import hosted, hosted_study
from mean_actor_critic.engines.curves import Ends
from mean_actor_critic.reports.evaluations import scores_in_words
from mean_actor_critic.runs.run import AGENTS
from short_runs import (
    BOTH,
    EVALUATED,
    STEPS,
    TRIALS,
    assert_same_agents,
    assert_same_arrays,
    evaluated_run,
    resume,
    run_by_steps,
    stop_after,
    train,
    weights_of,
)


@pytest.fixture(params=["compiled", "hosted"])
def evaluated(request):
    return evaluated_run(request.param)


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
    assert_same_arrays(of_training(run), arrays_of(run_by_steps(engine)))
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


# --- by the most probable actions as well ----------------------------------------------------------------------------

# nothing in it is random: by the most probable actions, an agent comes to the same in every episode
CLIFF = {"trials": 2, "seed": 4, "max_episode_steps": 12, "evaluation_episodes": 3, "progress": False}
LEARNERS = {
    "episodic": {"episodes": 5, "evaluate_every": 3, "evaluation_greedy": True, "critic_target": "expected_sarsa"},
    "replayed": {"steps": 100, "evaluate_every": 60, "warm_up": 96, "hidden": (8,), "sequences": 2, "environments": 2},
}


@pytest.mark.parametrize("learner", LEARNERS)
@BOTH
def test_the_most_probable_actions_are_played_beside_sampled_ones(engine, learner, tmp_path):
    limits = {"workers": 1} if engine == "hosted" else {}
    settings = {**CLIFF, **LEARNERS[learner], **limits, "engine": engine, "learner": learner}
    run = mac.train("CliffWalking-v1", "mac", out=tmp_path / "run", **settings)
    done = run.evaluations
    assert done.greedy_scores.shape == done.scores.shape == (2, 2, 3)
    assert len(np.unique(done.scores)) > 2
    np.testing.assert_array_equal(done.greedy_scores.min(-1), done.greedy_scores.max(-1))
    now = mac.evaluate(run, 3, deterministic=True, workers=1)
    np.testing.assert_array_equal(done.greedy_scores[:, -1], now)
    np.testing.assert_array_equal(run.curve(of="greedy evaluations").values, done.greedy_means)


def test_the_most_probable_actions_change_no_other_bit(evaluated, tmp_path):
    run = train(tmp_path / "run", evaluated.experiment.engine, **EVALUATED, evaluation_greedy=True)
    others = {name: array for name, array in arrays_of(run).items() if name != "greedy_scores"}
    assert_same_arrays(arrays_of(evaluated), others)


def test_the_most_probable_actions_decide_where_they_are_played(tmp_path):
    run = train(tmp_path / "run", **EVALUATED, evaluation_greedy=True, until=1000.0)
    sampled = np.full((TRIALS, 3, 4), 5.0, np.float32)
    greedy = np.stack([np.full((3, 4), trial, np.float32) for trial in (0, 999, 1000)])
    done = run.evaluations._replace(scores=sampled, greedy_scores=greedy)
    assert Ends(run.experiment).solved_at(run.curves, done).tolist() == [0, 0, 1]
    assert Ends(run.experiment).solved_at(run.curves, done._replace(greedy_scores=None)).tolist() == [0, 0, 0]
    for trial in range(TRIALS):
        kept = {file.stem for file in (run.path / AGENTS).glob(f"*-{trial}.safetensors")}
        best = mac.Agent.load(run.path / AGENTS / f"best-{trial}.safetensors")
        last = run.evaluations.greedy_means[trial].argmax() == 2
        assert kept == {f"best-{trial}", f"episode-000000000007-{trial}"}
        assert np.array_equal(weights_of(best)[0], weights_of(run.agent(trial))[0]) == last


def test_evaluations_are_named_by_their_actions(tmp_path):
    run = train(tmp_path / "run", **EVALUATED, evaluation_greedy=True)
    table = run.to_pandas("evaluations")
    np.testing.assert_allclose(table["greedy_mean_score"], run.evaluations.greedy_means.ravel())
    np.testing.assert_allclose(table["mean_score"], run.evaluations.means.ravel())
    assert run.plot(of="greedy evaluations").axes[0].get_ylabel() == "Return of evaluations, most probable actions"
    found = dict(scores_in_words(run))
    assert (
        found["the last evaluation, most probable actions"].summary.mean == run.evaluations.greedy_means[:, -1].mean()
    )
    assert found["the last evaluation, sampled actions"].summary.mean == run.evaluations.means[:, -1].mean()
    with pytest.raises(mac.InputError, match="evaluation_greedy"):
        evaluated_run("compiled").curve(of="greedy evaluations")
