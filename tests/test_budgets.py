"""How long a trial trains: as many episodes or steps as it may, or until it is good enough."""

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import arrays_of, message_of
from mean_actor_critic.engines import hosted_study
from mean_actor_critic.spec.experiment import SOLVED_EVERY, SOLVED_OVER
from short_runs import BOTH, STEPS, TRIALS, resume, run_by_steps, stop_after, train, train_on_game

# --- budgets in steps ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["compiled", "hosted"])
def by_steps(request):
    return run_by_steps(request.param)


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
@pytest.mark.parametrize("played", [False, True])
def test_a_run_by_steps_goes_on_where_it_was_stopped(by_steps, played, tmp_path, monkeypatch):
    """At once, which in the hosted engine is before the first episode has ended, or as soon as one has."""
    engine = by_steps.experiment.engine
    monkeypatch.setattr(hosted_study, "SEGMENT_SECONDS", 1e-6)
    stop = stop_after(1) if not played else lambda progress: mac.STOP if progress.done else None
    run = train(tmp_path / "run", engine, steps=STEPS, on_progress=stop)
    monkeypatch.undo()
    if engine == "hosted":
        assert bool(mac.Run.load(run.path).returns.shape[1]) == played
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
