"""Studies of the paper: from presets or from a search's winners, with what is there taken as it is and said to be."""

import importlib.util

import pytest

import synthetic
from helpers import assert_refused, mac, message_of
from mean_actor_critic.cli import studies
from mean_actor_critic.gradients.exact import Size
from mean_actor_critic.gradients.moments import measure_trial
from mean_actor_critic.gradients.theory import read_theory
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.grid import grid_from_json
from mean_actor_critic.spec.paper import CLASSIC_CONTROL, COMPARED, papers_grid
from mean_actor_critic.spec.presets import PRESETS, settings_of_preset
from mean_actor_critic.studies import theorems
from mean_actor_critic.studies.reproduce import classic, reproduce
from mean_actor_critic.studies.sweep import Rung, Sweep

pytestmark = pytest.mark.slow

CART_POLE = CLASSIC_CONTROL["cart-pole"]
SMALL = {"max_episode_steps": 20, "hidden": (4,)}
TINY_GRID = {"choices": {"hidden": [[4], []], "lr": [0.001, 0.01]}, "fixed": {"minibatches": 2, "batch_size": 4}}


def quiet(_label):
    return lambda _progress: None


def test_winners_are_trained_with_what_they_were_searched_with_and_defaults_not_presets(tmp_path):
    winners = {name: {**SMALL, "actor_lr": 0.02} for name in COMPARED}
    runs = [run for run, reused in reproduce(classic(CART_POLE, tmp_path, 2, 2, 0, winners), quiet) if not reused]
    assert len(runs) == 5
    for run in runs:
        settings = run.experiment.settings()
        assert {name: settings[name] for name in winners["mac"]} == winners["mac"]
        assert settings["activation"] == "relu"  # the default; every preset has tanh
        assert settings["discount"] == 0.9999
    again = [reused for _, reused in reproduce(classic(CART_POLE, tmp_path, 2, 2, 0, winners), quiet)]
    assert again == [True] * 5


@pytest.mark.parametrize("algorithm", COMPARED)
@pytest.mark.parametrize("name", [name for name in PRESETS if name != "tuned"])
def test_the_paper_s_presets_are_settings_of_its_search(algorithm, name):
    for environment in PRESETS[name]:
        found = settings_of_preset(environment, algorithm, name)
        points = grid_from_json(papers_grid(environment)).points(algorithm)
        asked = make_experiment(environment, algorithm, 1, 1, 0, found)
        assert asked in [make_experiment(environment, algorithm, 1, 1, 0, point) for point in points]


def test_presets_are_asked_for_by_name(tmp_path):
    words = ("train", "CartPole-v0", "--trials", "1", "--episodes", "1", "--max-episode-steps", "5")
    assert mac(*words, "--preset", "paper", "--out", tmp_path / "run").code == 0
    settings = Run.load(tmp_path / "run").experiment.settings()
    wanted = settings_of_preset("CartPole-v0", "mac", "paper")
    assert {name: settings[name] for name in wanted} == wanted
    assert_refused(mac("train", "CartPole-v1", "--preset", "paper"), 2, "tuned for CartPole-v1")
    assert_refused(mac("train", "CartPole-v0", "--preset", "any"), 2, "--preset")
    assert_refused(mac("train", "ALE/Pong-v5", "--preset", "paper"), 2, "protocol")
    assert "tuned" in message_of(lambda: settings_of_preset("CartPole-v0", "mac", "any"))
    for study in ("theorems", "atari"):
        assert_refused(mac("reproduce", study, "--preset", "paper"), 2, "--preset")
    assert_refused(mac("reproduce", "cart-pole", "--full", "--preset", "paper"), 2, "--preset")


def test_a_study_with_the_paper_s_presets_says_so(small_study, quick_study, tmp_path, monkeypatch):
    monkeypatch.setattr(studies, "COMPARED", COMPARED)  # the page says how to get the whole study again, not a part
    words = ("reproduce", "cart-pole", "--preset", "paper", "--trials", "1", "--episodes", "1")
    assert mac(*words, "--out", tmp_path / "study").code == 0
    assert " ".join(words) in (tmp_path / "study" / "report" / "index.html").read_text()
    assert "--preset" not in (quick_study / "report" / "index.html").read_text()


@pytest.fixture
def small_study(monkeypatch):
    """The Cart Pole study, small enough for a test."""
    make_small(monkeypatch)


FEW = ("reinforce", "mac")  # each more is a program more to compile


def make_small(monkeypatch):
    monkeypatch.setattr(studies, "COMPARED", FEW)
    monkeypatch.setitem(studies.CLASSIC_CONTROL, "cart-pole", CART_POLE._replace(episodes=4, quick=(2, 3)))
    monkeypatch.setattr(studies, "papers_grid", lambda _environment: TINY_GRID)
    monkeypatch.setattr(studies, "SEARCH_TRIALS", 2)


@pytest.fixture(scope="module")
def quick_study(tmp_path_factory):
    """The folder of the small study by `--quick`, made once for all tests, which only look at it."""
    folder = tmp_path_factory.mktemp("quick") / "study"
    with pytest.MonkeyPatch.context() as monkeypatch:
        make_small(monkeypatch)
        assert mac("reproduce", "cart-pole", "--quick", "--out", folder).code == 0
    return folder


def test_a_full_study_searches_first_and_says_what_it_found_there(small_study, tmp_path):
    words = (
        "reproduce",
        "cart-pole",
        "--full",
        "--search",
        tmp_path / "s",
        "--trials",
        "2",
        "--out",
        tmp_path / "study",
    )
    first = mac(*words)
    assert first.code == 0
    sweep = Sweep.load(tmp_path / "s")
    assert sweep.finished
    for algorithm, winner in sweep.winners().items():
        settings = Run.load(tmp_path / "study" / algorithm).experiment.settings()
        assert {name: settings[name] for name in winner.settings} == winner.settings
    assert "taken as it is" not in (tmp_path / "study" / "report" / "index.html").read_text()
    again = mac(*words)
    assert again.code == 0
    assert "cells were already there and taken as they are" in again.out
    assert again.err.count("already finished, taken as it is") == len(FEW)
    page = tmp_path / "study" / "report" / "index.html"
    assert str(page) in again.out
    assert page.read_text().count("finished before, taken as it is") == len(FEW) + 1  # the runs and the search
    assert sweep.created in page.read_text()
    assert "Nothing was trained" not in page.read_text()
    other = ("--episodes", "6", "--rule", "area", "--out", tmp_path / "other")  # a search serves many studies
    longer = mac(*words[:-2], *other)
    assert longer.code == 0
    assert "cells were already there" in longer.out
    assert "Best by area" in longer.out
    assert "Best by area" in (tmp_path / "other" / "report" / "index.html").read_text()
    for algorithm, winner in sweep.by("area").winners().items():
        settings = Run.load(tmp_path / "other" / algorithm).experiment.settings()
        assert {name: settings[name] for name in winner.settings} == winner.settings


def test_a_search_that_will_not_do_is_refused(small_study, tmp_path):
    synthetic.make_sweep(tmp_path / "s", TINY_GRID, (Rung(1, 2),), ("mac",))
    refused = mac("reproduce", "cart-pole", "--full", "--search", tmp_path / "s", "--out", tmp_path / "study")
    assert_refused(refused, 2, "a search of reinforce")
    assert_refused(mac("reproduce", "cart-pole", "--search", tmp_path / "s"), 2, "--full")
    assert_refused(mac("reproduce", "cart-pole", "--rule", "area"), 2, "--full")
    synthetic.make_sweep(tmp_path / "short", {**TINY_GRID, "fixed": {"max_episode_steps": 20}}, (Rung(1, 2),))
    refused = mac("reproduce", "cart-pole", "--full", "--search", tmp_path / "short", "--out", tmp_path / "study")
    assert_refused(refused, 2, "200 steps an episode")


def test_a_folder_that_will_not_do_is_refused_before_the_search(small_study, quick_study, tmp_path):
    words = ("reproduce", "cart-pole", "--full", "--search", tmp_path / "s", "--out")
    assert_refused(mac(*words, quick_study, "--trials", "3"), 2, "another study")
    (tmp_path / "file").write_text("")
    assert_refused(mac(*words, tmp_path / "file"), 2, "a folder")
    assert not (tmp_path / "s").exists()


def test_a_quick_study_is_a_small_one(quick_study):
    run = Run.load(quick_study / "mac")
    assert (run.experiment.trials, run.experiment.episodes) == (2, 3)


def test_a_study_without_the_report_s_extra_has_all_but_the_page(small_study, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "plotly" else find(name))
    outcome = mac("reproduce", "cart-pole", "--quick", "--out", tmp_path / "study")
    assert outcome.code == 0
    assert "mean-actor-critic[report]" in outcome.err
    assert (tmp_path / "study" / "table.csv").exists()
    assert not (tmp_path / "study" / "report").exists()


def test_quick_and_full_exclude_each_other(tmp_path):
    assert_refused(mac("reproduce", "cart-pole", "--quick", "--full"), 2, "--full")


def test_the_theorems_come_with_verdicts_and_a_page_and_what_is_there_is_taken(tmp_path, monkeypatch):
    monkeypatch.setattr("mean_actor_critic.gradients.survey.SIZES", (Size(3, 2), Size(3, 2, 1)))
    monkeypatch.setattr("mean_actor_critic.studies.theorems.PROBLEMS", 20)
    monkeypatch.setattr("mean_actor_critic.gradients.deep.RESAMPLES", 100)
    monkeypatch.setitem(measure_trial.__kwdefaults__, "samples", 0)
    monkeypatch.setitem(theorems.reproduce.__kwdefaults__, "replicates", 100)
    words = ("reproduce", "theorems", "--trials", "1", "--episodes", "4", "--out", tmp_path / "study")
    outcome = mac(*words)
    assert outcome.code == 0, outcome.err
    assert "✓ HOLDS: Theorem 1" in outcome.out
    assert "✗ FAILS: Theorem 2 on whole trajectories" in outcome.out
    theory = read_theory(tmp_path / "study")
    assert [moment.episode for moment in theory.trials[0].moments] == [0, 1, 4]
    assert (theory.problems, len(theory.claims)) == (20, 7)
    assert "The theory, measured" in (tmp_path / "study" / "report" / "index.html").read_text()
    assert_refused(mac(*words[:4], "--episodes", "3", "--out", tmp_path / "study"), 2, "another study")
    assert_refused(mac("reproduce", "theorems", "--full"), 2, "--full")
