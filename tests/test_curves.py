"""Learning curves by episodes and by agent steps, of trials that have played as much as each other or not."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mean_actor_critic as mac
import synthetic
from mean_actor_critic.engines.curves import Curves
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports import curves
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.tables import run_table

NAN = float("nan")


def by_steps(returns, lengths):
    return curves.by_steps(Curves(np.asarray(returns, np.float32), np.asarray(lengths)))


def test_a_curve_by_steps_by_hand():
    returns = np.array([[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, NAN]])
    lengths = np.array([[4, 4, 4, 4], [2, 9, 1, 0]])  # ends: 4 8 12 16, and 2 11 12
    curve = by_steps(returns, lengths)
    assert (curve.unit, curve.n, curve.end, curve.together) == ("steps", 2, 12, 4)
    np.testing.assert_allclose(curve.x, [2, 6, 10])
    # the second trial ended no episode within steps 5 to 8, and two within 9 to 12
    np.testing.assert_allclose(curve.values, [[1, 2, 3], [10, 10, 25]])


def test_a_curve_by_steps_begins_when_every_trial_has_ended_an_episode():
    curve = by_steps([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]], [[1] * 4, [3, 1, 1, 1]])
    assert curve.end == 4
    np.testing.assert_allclose(curve.x, [3])
    np.testing.assert_allclose(curve.values, [[3.5], [5.5]])


def test_there_is_no_curve_by_steps_where_a_trial_ended_no_episode_within_the_steps_of_all():
    assert by_steps([[1.0], [2.0]], [[5], [200]]) is None


@settings(max_examples=100, deadline=None)
@given(data=st.data(), trials=st.integers(1, 4), most=st.integers(1, 12))
def test_a_point_by_steps_is_the_mean_of_the_episodes_that_ended_there(data, trials, most):
    played = data.draw(st.lists(st.integers(1, most), min_size=trials, max_size=trials))
    lengths = np.array([
        data.draw(st.lists(st.integers(1, 30), min_size=n, max_size=n)) + [0] * (most - n) for n in played
    ])  # fmt: skip
    returns = np.where(lengths > 0, np.arange(lengths.size).reshape(lengths.shape) ** 1.5, NAN)
    curve = by_steps(returns, lengths)
    if curve is None:
        return
    assert curve.end == lengths.sum(axis=1).min()
    assert np.isfinite(curve.values).all()
    for trial, row in enumerate(curve.values):
        ends = np.cumsum(lengths[trial])
        for x, found in zip(curve.x, row, strict=True):
            until = x + curve.together / 2
            assert until <= curve.end
            there = (ends > until - curve.together) & (ends <= until) & (lengths[trial] > 0)
            if there.any():
                latest = found
                assert found == pytest.approx(returns[trial][there].mean(), rel=1e-6)
            elif x > curve.x[0]:
                assert found == latest  # carried forward
            latest = found


def test_long_runs_have_few_points():
    lengths = np.random.default_rng(0).integers(1, 200, (3, 5000))
    curve = by_steps(lengths, lengths)
    assert 250 < len(curve.x) <= curves.MOST_POINTS
    assert len(curves.by_episodes(lengths).x) <= curves.MOST_POINTS


@pytest.mark.parametrize("n", [1, 2, 5, 6, 20])
def test_bands_lie_within_what_was_seen_and_are_the_range_of_a_few(n):
    values = np.clip(np.random.default_rng(0).normal(190, 20, (n, 100)), 0, 200)
    curve = curves.by_episodes(values)
    bands = curve.bands
    assert curve.is_range == (1 < n < 6)
    if n == 1:
        assert all(np.isnan(getattr(bands, end)).all() for end in ("mean_low", "mean_high", "iqm_low", "iqm_high"))
        return
    for low, middle, high in (("mean_low", "mean", "mean_high"), ("iqm_low", "iqm", "iqm_high")):
        low, middle, high = (getattr(bands, name) for name in (low, middle, high))
        assert np.all((values.min(axis=0) <= low) & (low <= middle) & (middle <= high) & (high <= values.max(axis=0)))
        if curve.is_range:
            np.testing.assert_array_equal((low, high), (values.min(axis=0), values.max(axis=0)))


# --- runs with a budget of steps -------------------------------------------------------------------------------------


@pytest.fixture
def unequal(tmp_path):
    """Trials that have played 30, 20 and 25 of 30 episodes: they had equal numbers of steps, and unequal episodes."""
    returns = synthetic.learning("mac", 3, 30)
    lengths = np.where(np.arange(30) < np.array([[30], [20], [25]]), 7, 0)
    return synthetic.make_run(tmp_path / "runs" / "mac", returns=returns, lengths=lengths)


def test_numbers_over_episodes_are_over_those_that_all_trials_have(unequal, tmp_path):
    mac.report(tmp_path / "runs", tmp_path / "out", video=False)
    content = contents.read(find_sources([tmp_path / "runs"]))
    assert content.answer_at == 20
    (entry,) = content.entries
    assert entry.curve.end == 20
    assert entry.curves["training", "steps"].end == 140
    (result,) = content.answer
    assert result.mean.mean == pytest.approx(unequal.returns[:, :20].mean(dtype=np.float64))
    rows = list(csv.DictReader((tmp_path / "out" / "learning-curves.csv").read_text().splitlines()))
    assert {row["unit"] for row in rows} == {"episodes", "steps"}
    assert [float(row["at"]) for row in rows if row["unit"] == "steps"] == [7 * i + 3.5 for i in range(20)]
    for row in rows:  # all episodes are equally long, so that both curves are the same
        episode = round(float(row["at"]) / 7 + 0.5 if row["unit"] == "steps" else float(row["at"]))
        assert float(row["mean"]) == pytest.approx(unequal.returns[:, episode - 1].mean(dtype=np.float64), rel=1e-6)


def test_the_table_of_a_run_is_over_the_episodes_that_all_trials_have(unequal):
    table = run_table(unequal)
    first, mean = (str(next(iter(column.cells))) for column in table.columns[:2])
    assert first == "all 20 episodes"
    assert float(mean) == pytest.approx(unequal.returns[:, :20].mean(), rel=1e-3)
