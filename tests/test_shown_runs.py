"""A run for people: in words, as a table, plotted, and as curves."""

import dataclasses

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import message_of
from short_runs import TRIALS, stop_after, train


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
