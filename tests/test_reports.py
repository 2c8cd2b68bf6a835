"""Tables and figures say what the data say."""

import csv

import pytest

import mean_actor_critic as mac
from mean_actor_critic.experiment import ALGORITHMS
from mean_actor_critic.reports import classic_control as report
from mean_actor_critic.reports.answer import answer
from mean_actor_critic.reports.tables import diverged_line
from mean_actor_critic.studies.paper import CLASSIC_CONTROL

CART_POLE = CLASSIC_CONTROL["cart-pole"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return {
        name: mac.train("CartPole-v0", name, trials=3, episodes=4, out=folder / name, hidden=(4,), max_episode_steps=20)
        for name in ("reinforce", "advantage_reinforce")
    }


@pytest.mark.slow
def test_the_study_writes_its_table_and_figure(runs, tmp_path):
    table, curves, figure = report.write(report.study(CART_POLE, [*runs.values()], [], {}), tmp_path)
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


def test_the_answer_says_who_is_best(runs):
    sentence = "".join(answer(report.study(CART_POLE, [*runs.values()], [], {})))
    best = max(runs, key=lambda name: runs[name].returns.mean())
    assert sentence.startswith(f"On Cart Pole, {ALGORITHMS[best].title} has the highest mean return")
    assert f"{runs[best].returns.mean():.1f} (95 % interval" in sentence
    assert "over 4 episodes" in sentence
    assert ("the order is the paper’s" in sentence) == (best == "advantage_reinforce")


def test_diverged_trials_are_named(tmp_path):
    run = mac.train(
        "CartPole-v0", "reinforce", trials=3, episodes=3, out=tmp_path / "run", hidden=(4,), max_episode_steps=20,
        actor_lr=[0.01, 1e8, 0.01],
    )  # fmt: skip
    assert diverged_line(run).startswith("1 of 3 trials diverged")
    assert "1 (episode 1)" in diverged_line(run)
