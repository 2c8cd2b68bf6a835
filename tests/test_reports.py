"""Statistics, tables and figures say what the data say."""

import csv

import numpy as np
import pytest
from scipy import stats

import mean_actor_critic as mac
from mean_actor_critic.experiment import ALGORITHMS
from mean_actor_critic.reports import classic_control as report
from mean_actor_critic.reports.statistics import summarise, trial_scores
from mean_actor_critic.reports.tables import diverged_line
from mean_actor_critic.studies.paper import CLASSIC_CONTROL

CART_POLE = CLASSIC_CONTROL["cart-pole"]


def test_a_summary_is_mean_sd_and_an_interval_that_covers():
    values = np.random.default_rng(0).normal(50, 10, 100)
    summary = summarise(values)
    assert summary.mean == pytest.approx(values.mean())
    assert summary.sd == pytest.approx(stats.tstd(values))
    assert summary.n == 100
    # for a hundred normal values the bootstrap is close to Student's interval
    low, high = stats.t.interval(0.95, 99, loc=values.mean(), scale=stats.sem(values))
    assert summary.low == pytest.approx(low, abs=0.3)
    assert summary.high == pytest.approx(high, abs=0.3)
    assert summarise(values) == summary


def test_one_value_has_no_interval_and_equal_ones_a_point():
    assert summarise([3.0]).interval == "–"
    assert summarise([3.0, 3.0]).interval == "[3.0, 3.0]"


def test_intervals_cover_the_true_mean_about_as_often_as_they_say():
    random = np.random.default_rng(0)
    studies = 300
    covered = 0
    for _ in range(studies):
        summary = summarise(200 - random.gamma(2.0, 10.0, 40))  # skewed, as returns near a ceiling are
        covered += summary.low <= 180 <= summary.high
    # 95 % nominal; five standard errors of a binomial proportion below
    assert covered / studies > 0.95 - 5 * np.sqrt(0.95 * 0.05 / studies)


def test_a_trial_scores_its_mean_over_the_first_episodes():
    returns = np.array([[1.0, 3.0, 100.0], [2.0, 4.0, 100.0]])
    np.testing.assert_allclose(trial_scores(returns, 2), [2.0, 3.0])


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: mac.train("CartPole-v0", name, trials=3, episodes=4, out=folder / name, hidden=(4,), max_episode_steps=20)
        for name in ("reinforce", "advantage_reinforce")
    }


def test_the_study_writes_its_table_and_figure(runs, tmp_path):
    table, curves, figure = report.write(CART_POLE, runs, tmp_path)
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["algorithm"] for row in rows] == list(runs)
    for row in rows:
        assert float(row["mean"]) == pytest.approx(runs[row["algorithm"]].returns.mean(), abs=1e-3)
        assert row["trials"] == "3"
    points = list(csv.DictReader(curves.read_text().splitlines()))
    assert len(points) == 2 * 4
    last = points[-1]
    expected = runs[last["algorithm"]].returns[:, -1]
    assert float(last["mean"]) == pytest.approx(expected.mean(), abs=0.01)
    assert float(last["sd"]) == pytest.approx(expected.std(ddof=1), abs=0.01)
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_verdict_gives_the_order_found(runs):
    sentence = report.verdict(CART_POLE, runs)
    best = max(runs, key=lambda name: runs[name].returns.mean())
    assert sentence.startswith(f"Over 4 episodes: {ALGORITHMS[best].title}")


def test_diverged_trials_are_named(tmp_path):
    run = mac.train(
        "CartPole-v0", "reinforce", trials=3, episodes=3, out=tmp_path / "run", hidden=(4,), max_episode_steps=20,
        actor_lr=[0.01, 1e8, 0.01],
    )  # fmt: skip
    assert diverged_line(run).startswith("1 of 3 trials diverged")
    assert "1 (episode 1)" in diverged_line(run)
