"""An algorithm more breaks no report: neither those of what was stored without it, nor those with it."""

import csv

import pytest

import synthetic
from helpers import mac
from mean_actor_critic.gradients.theory import read_theory, write_theory
from mean_actor_critic.reports import classic_control
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports import theory as theories
from mean_actor_critic.reports.answer import answer
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.plots import COLOURS, DARK_COLOURS, colour_of
from mean_actor_critic.reports.protocol import run_commands
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.spec.algorithms import ALGORITHMS, Algorithm
from mean_actor_critic.spec.paper import CLASSIC_CONTROL
from mean_actor_critic.spec.presets import preset
from mean_actor_critic.studies.sweep import Rung

NEW = "another_actor_critic"


@pytest.fixture
def another(monkeypatch):
    """As if ALGORITHMS had one more."""
    monkeypatch.setitem(ALGORITHMS, NEW, Algorithm("Another", "something else", frozenset({"critic"})))


def report(folder, *paths):
    content = contents.read(find_sources(paths))
    write_report(content, Recording("No video here."), folder)
    return content, (folder / "index.html").read_text()


def test_what_was_stored_before_is_reported_as_before(tmp_path, monkeypatch):
    synthetic.make_study(tmp_path / "all", trials=2, episodes=5)
    write_theory(tmp_path / "all", synthetic.make_theory())
    _, before = report(tmp_path / "before", tmp_path / "all")
    monkeypatch.setitem(ALGORITHMS, NEW, Algorithm("Another", "something else", frozenset({"critic"})))
    _, after = report(tmp_path / "after", tmp_path / "all")
    assert after.partition("</style>")[2] == before.partition("</style>")[2]
    assert "Another" not in after
    for file in (tmp_path / "before").glob("*.png"):
        assert (tmp_path / "after" / file.name).read_bytes() == file.read_bytes()


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
    assert len(classic_control.tables(content)) == 1
    assert [theories.estimators_of(trial) for trial in read_theory(folder).trials] == [[*synthetic.ENDS, NEW]] * 2
    outcome = mac("runs", folder)
    assert outcome.code == 0
    assert NEW in outcome.out


@pytest.mark.usefixtures("another")
def test_it_may_be_all_that_there_is(tmp_path):
    synthetic.make_run(tmp_path / "run" / NEW, NEW, synthetic.learning(NEW, 2, 5))
    write_theory(tmp_path / "run", synthetic.make_theory(estimators=["mac", NEW]))
    content, _ = report(tmp_path / "out", tmp_path / "run")
    assert "".join(answer(content)).startswith("On Cart Pole, Another reaches a mean return of ")


@pytest.mark.usefixtures("another")
def test_a_study_of_the_paper_is_still_one_command(tmp_path):
    for name in CLASSIC_CONTROL["cart-pole"].scores:
        settings = {"max_episode_steps": 200, **preset("CartPole-v0", name)}
        synthetic.make_run(tmp_path / name, name, synthetic.learning(name, 2, 5), settings=settings)
    assert len(run_commands(find_sources([tmp_path]).runs)) == 1


def test_further_algorithms_have_colours_of_their_own(monkeypatch):
    for name in ("a", "b", "c"):
        monkeypatch.setitem(ALGORITHMS, name, Algorithm(name, "", frozenset()))
    for dark, own in ((False, COLOURS), (True, DARK_COLOURS)):
        assert len({*own.values(), *(colour_of(name, dark) for name in "abc")}) == len(own) + 3
    assert colour_of("mac") == COLOURS["mac"]
    assert colour_of("of a later version").startswith("#")
