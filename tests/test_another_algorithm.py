"""An algorithm more breaks no report: neither those of what was stored without it, nor those with it."""

import csv

import pytest

import synthetic
from mean_actor_critic.gradients.theory import read_theory, write_theory
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports import theory as theories
from mean_actor_critic.reports.answer import answer
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.plots import colour_of, dashes
from mean_actor_critic.reports.protocol import run_commands
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.tables import results_tables, runs_table
from mean_actor_critic.spec.algorithms import ALGORITHMS, Algorithm
from mean_actor_critic.spec.paper import CLASSIC_CONTROL
from mean_actor_critic.spec.presets import settings_of_preset
from mean_actor_critic.studies.sweep import Rung

NEW = "another_actor_critic"
ANOTHER = Algorithm("Another", "something else", ("episodic",), frozenset({"critic"}), "#8C510A", "#D9A566")


@pytest.fixture
def another(monkeypatch):
    """As if ALGORITHMS had one more."""
    monkeypatch.setitem(ALGORITHMS, NEW, ANOTHER)


def report(folder, *paths):
    content = contents.read(find_sources(paths))
    write_report(content, Recording("No video here."), folder)
    return content, (folder / "index.html").read_text()


@pytest.mark.slow
def test_what_was_stored_before_is_reported_as_before(tmp_path, monkeypatch):
    synthetic.make_study(tmp_path / "all", trials=2, episodes=5)
    write_theory(tmp_path / "all", synthetic.make_theory(trials=1))
    _, before = report(tmp_path / "before", tmp_path / "all")
    monkeypatch.setitem(ALGORITHMS, NEW, ANOTHER)
    _, after = report(tmp_path / "after", tmp_path / "all")
    assert after.partition("</style>")[2] == before.partition("</style>")[2]
    assert "Another" not in after
    for file in (tmp_path / "before").glob("*.png"):
        assert (tmp_path / "after" / file.name).read_bytes() == file.read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("another")
def test_everything_is_shown_with_it(tmp_path):
    folder = tmp_path / "all"
    synthetic.make_study(folder, trials=2, episodes=5)
    synthetic.make_run(folder / NEW, NEW, synthetic.learning(NEW, 2, 5))
    synthetic.make_sweep(folder / "sweep", synthetic.GRID, (Rung(2, 9),), ("mac", NEW))
    write_theory(folder, synthetic.make_theory(estimators=[*synthetic.ENDS, NEW]))
    content, page = report(tmp_path / "out", folder)
    assert page.count("Another") > 10
    assert f"--{NEW}: {colour_of(NEW)}" in page
    rows = list(csv.DictReader((tmp_path / "out" / "results.csv").read_text().splitlines()))
    assert [row["paper_mean"] == "" for row in rows if row["algorithm"] == NEW] == [True]
    said = "".join(answer(content))
    assert "against Another" in said
    assert "the order is the paper’s" in said or "the paper’s order (" in said
    assert len(results_tables(content, 140)) == 1
    assert [theories.estimators_of(trial) for trial in read_theory(folder).trials] == [[*synthetic.ENDS, NEW]] * 2
    assert NEW in [str(cell) for cell in runs_table(folder)[0].columns[2].cells]


@pytest.mark.usefixtures("another")
def test_it_may_be_all_that_there_is(tmp_path):
    synthetic.make_run(tmp_path / "run" / NEW, NEW, synthetic.learning(NEW, 2, 5))
    write_theory(tmp_path / "run", synthetic.make_theory(estimators=["mac", NEW]))
    content, _ = report(tmp_path / "out", tmp_path / "run")
    assert "".join(answer(content)).startswith("On Cart Pole, Another reaches a mean return of ")


@pytest.mark.usefixtures("another")
def test_a_study_of_the_paper_is_still_one_command(tmp_path):
    for name in CLASSIC_CONTROL["cart-pole"].scores:
        settings = {"max_episode_steps": 200, **settings_of_preset("CartPole-v0", name)}
        synthetic.make_run(tmp_path / name, name, synthetic.learning(name, 2, 5), settings=settings)
    assert len(run_commands(find_sources([tmp_path]).runs)) == 1


# --- algorithms that this version does not know ----------------------------------------------------------------------

GIVEN = "my.module:clipped"


def test_runs_of_estimators_from_python_are_shown_last_by_their_function_s_name(tmp_path):
    for name, path in ((GIVEN, "a"), ("my.module:other", "b"), ("mac", "c")):
        synthetic.make_run(tmp_path / "runs" / path, name, synthetic.learning(name, 3, 8))
    content, page = report(tmp_path / "out", tmp_path / "runs")
    assert [entry.label for entry in content.entries] == ["MAC", "clipped", "other"]
    assert "--my\\2e module\\3a clipped: #56B4E9;" in page.partition("</style>")[0]
    assert dashes(content.entries) == ["solid", "solid", "dash"]  # the last two have one colour


def test_measurements_of_estimators_of_a_later_version_are_shown(tmp_path):
    write_theory(tmp_path, synthetic.make_theory(estimators=["mac", "of_a_later_version"]))
    _, page = report(tmp_path / "out", tmp_path)
    assert page.count("of_a_later_version") > 3
    assert f"--of_a_later_version: {colour_of('of_a_later_version')}" in page


def test_algorithms_have_the_colours_that_their_list_gives_them():
    for name, algorithm in ALGORITHMS.items():
        assert (colour_of(name), colour_of(name, dark=True)) == (algorithm.colour, algorithm.dark_colour)
