"""The study of the replayed learner: what it trains, what it says of made-up numbers, and the page that shows it."""

import csv
import dataclasses
import importlib.util
import re

import numpy as np
import pytest

import browser as browsers
import mean_actor_critic as mac_package
import synthetic
from helpers import assert_refused, mac, message_of
from mean_actor_critic.environments.programs import PROGRAMS
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports import variants
from mean_actor_critic.reports.answer import answer, notes
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.protocol import run_commands
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.tasks import AHEAD, BEHIND, EVEN
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.experiment import applicable_settings, settings_for_engine
from mean_actor_critic.spec.modern import PARTS, TASKS, TUNED_FROM, TWINS, VARIANTS, Extent, place_of
from mean_actor_critic.studies.reproduce import modern

LAKE, CLIFF, POLE = "frozen-lake-not-slippery", "cliff-walking", "cart-pole"


def read(*paths):
    return contents.read(find_sources(paths))


def noise(trials, evaluations, seed=0):
    """Differences between trials, and between a trial's evaluations, of about 1."""
    random = np.random.default_rng(seed)
    return random.normal(0, 1, (trials, 1)) + random.normal(0, 1, (trials, evaluations))


def make(folder, task, variant, mean, spread=0.01, trials=8, seed=0, **more):
    """A run whose evaluations are about that good: all of them, by greedy actions; `sampled` is that of the others."""
    evaluations = -(-TASKS[task].steps // TASKS[task].every)
    greedy = mean + spread * noise(trials, evaluations, seed)
    if "sampled" in more:
        more["sampled"] = more["sampled"] + spread * noise(trials, evaluations, seed + 50)
    return synthetic.make_variant_run(folder, task, variant, greedy, **more)


# --- what it is ------------------------------------------------------------------------------------------------------


def test_a_part_is_a_setting_of_mac_that_is_usually_on():
    settings = settings_for_engine("compiled", "replayed")
    assert set(PARTS) <= set(applicable_settings("mac", "compiled", "replayed"))
    for name, value in PARTS.items():
        assert value != settings[name].default, name


def test_every_task_is_compiled_or_says_which_package_it_needs():
    for task in TASKS.values():
        compiled = task.environment in PROGRAMS and PROGRAMS[task.environment].can_be(task.kwargs)
        assert compiled == (task.package is None), task
        assert 10 <= -(-task.steps // task.every) <= 15


@pytest.mark.parametrize("extent", [Extent(), Extent(trials=2, share=0.1, seed=7)])
def test_what_a_run_is_a_part_of_is_seen_from_its_experiment(tmp_path, extent):
    for name, parts in modern([LAKE, POLE], VARIANTS, tmp_path, extent).items():
        for variant, part in zip(VARIANTS, parts, strict=True):
            assert place_of(part.experiment) == (name, variant, extent)
            assert part.path == tmp_path / name / variant
            asked = TASKS[name]
            assert part.experiment.trials == (extent.trials or asked.trials)
            assert part.experiment.steps == round(asked.steps * extent.share)
            changed = dataclasses.replace(part.experiment, first_trial=1)
            assert place_of(changed) is None


def test_twins_differ_in_nothing_but_their_algorithm(tmp_path):
    ((mac_part, *others),) = modern([POLE], TWINS, tmp_path, Extent()).values()
    ours = mac_part.experiment.settings()
    for part in others:
        theirs = part.experiment.settings()
        assert {name for name in theirs if theirs[name] != ours[name]} <= {"exploration"}


# --- what it says ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "verdict", "words"),
    [
        (0.5, AHEAD, "is better on 1 of 1 task (Frozen Lake, not slippery), worse on 0 and no different on 0"),
        (0.8, EVEN, "makes no difference that shows on any of 1 task"),
        (0.9, BEHIND, "is better on 0 of 1 task, worse on 1 (Frozen Lake, not slippery) and no different on 0"),
    ],
)
def test_the_answer_is_what_the_numbers_say_whichever_it_is(tmp_path, theirs, verdict, words):
    make(tmp_path, LAKE, "mac", 0.8)
    make(tmp_path, LAKE, "advantage_actor_critic", theirs, seed=1)
    content = read(tmp_path)
    assert content.tasks[0].twins[1].against[0].verdict == verdict
    lead, _ = answer(content)
    assert lead.endswith(words)
    assert lead.startswith("By greedy returns over training, averaging over all actions")


def test_a_difference_by_sampled_actions_alone_is_not_one_by_greedy_ones(tmp_path):
    make(tmp_path, LAKE, "mac", 0.8, sampled=0.7)
    make(tmp_path, LAKE, "advantage_actor_critic", 0.8, seed=1, sampled=0.3)
    lead, rest = answer(read(tmp_path))
    assert "no difference that shows" in lead
    assert "better on 0 and worse on 0 (greedy, at the end)" in rest
    assert "better on 1 and worse on 0 (sampled, over training)" in rest


def test_tasks_and_parts_are_counted(tmp_path):
    for task, gain in ((LAKE, 0.2), (CLIFF, 0.0)):
        make(tmp_path, task, "mac", 0.5)
        make(tmp_path, task, "advantage_actor_critic", 0.5 - gain, seed=1)
        make(tmp_path, task, "q_learning", 0.5 + gain, seed=2)
        make(tmp_path, task, "novelty", 0.5 - gain, seed=3)
        make(tmp_path, task, "critics", 0.5, seed=4)
    content = read(tmp_path)
    lead, rest = answer(content)
    assert "better on 1 of 2 tasks (Frozen Lake, not slippery), worse on 0 and no different on 1" in lead
    assert "against Q-learning, MAC is better on 0 of 2 tasks, worse on 1 (Frozen Lake, not slippery)" in rest
    assert "MAC is worse on 1 and better on 0 of 2 tasks with novelty=false and no different with critics=1" in rest
    sheet = variants.parts_sheet(content.tasks)
    assert list(sheet.columns) == ["Task", "critics=1", "novelty=false"]
    assert list(sheet.rows[-1])[1:] == ["0 / 2 / 0", "1 / 1 / 0"]
    assert variants.counts_sheet(content.tasks).rows == [["critics=1", "0", "2", "0"], ["novelty=false", "1", "1", "0"]]
    assert "Of 8 such comparisons by one measure, 0.4 would" in notes(content)[0]


def test_mac_alone_is_told_as_it_is(tmp_path):
    make(tmp_path, LAKE, "mac", 0.5)
    make(tmp_path, CLIFF, "mac", -20.0)
    lead, rest = answer(read(tmp_path))
    assert re.match(r"On 2 tasks, MAC reaches 0.5\d* \[.*\] on Frozen Lake, not slippery \(8 trials\)", lead)
    assert re.search(r"MAC reaches -(19.9|20.0)\d* \[.*\] on Cliff Walking", lead)
    assert rest == "."


def test_numbers_are_those_of_the_evaluations_that_were_written(tmp_path):
    run = make(tmp_path / "study", LAKE, "mac", 0.9, spread=0.1, sampled=0.6, diverged=(2,))
    make(tmp_path / "study", LAKE, "q_learning", 0.3)
    content = read(tmp_path / "study")
    write_report(content, Recording("No video here."), tmp_path / "report")
    rows = list(csv.DictReader((tmp_path / "report" / "tasks.csv").read_text().splitlines()))
    ours = {row["measure"]: row for row in rows if row["algorithm"] == "mac"}
    greedy, sampled = run.evaluations.greedy_means, run.evaluations.means
    for measure, values in {
        "greedy, over training": greedy.mean(axis=1), "greedy, at the end": greedy[:, -1],
        "sampled, over training": sampled.mean(axis=1), "sampled, at the end": sampled[:, -1],
    }.items():  # fmt: skip
        assert float(ours[measure]["mean"]) == pytest.approx(values.mean(), abs=1e-5)
        assert float(ours[measure]["worst"]) == pytest.approx(values.min(), abs=1e-5)
        assert (ours[measure]["trials"], ours[measure]["diverged"]) == ("8", "1")
    reached = (greedy >= TASKS[LAKE].goal).any(axis=1)
    assert ours["greedy, over training"]["reached"] == str(reached.sum())
    first = np.where(reached, run.experiment.evaluation_moments()[(greedy >= 1).argmax(axis=1)], np.inf)
    assert float(ours["greedy, over training"]["steps_to_goal"]) == np.median(first)
    (row, _) = variants.twins_sheet(content.tasks).rows
    assert row[:2] == ["Frozen Lake, not slippery", "MAC"]
    assert "7/8" in row
    every = list(csv.DictReader((tmp_path / "report" / "evaluations.csv").read_text().splitlines()))
    ours = [line for line in every if line["algorithm"] == "mac" and line["trial"] == "2"]
    assert [int(line["steps"]) for line in ours] == run.experiment.evaluation_moments().tolist()
    for name, means in (("greedy", greedy), ("sampled", sampled)):
        np.testing.assert_allclose([float(line[name]) for line in ours], means[2], atol=1e-5)


def test_runs_that_are_not_as_far_as_the_finished_ones_are_left_out_and_named(tmp_path):
    make(tmp_path, LAKE, "mac", 0.5)
    half = np.full((8, 5), 0.9)
    run = synthetic.make_variant_run(tmp_path, LAKE, "q_learning", half)
    assert not run.finished
    content = read(tmp_path)
    assert [result.entry.algorithm for result in content.tasks[0].results] == ["mac"]
    assert any("q_learning is not far enough" in line for line in notes(content))


def test_what_all_runs_have_in_common_is_told_once(tmp_path):
    for variant in ("mac", "q_learning", "novelty"):
        make(tmp_path, LAKE, variant, 0.5, hyper={"discount": 0.5})
    content = read(tmp_path)
    assert [entry.label for entry in content.entries] == ["MAC", "Q-learning", "MAC, novelty=false"]
    assert any("discount=0.5, which is not usual" in line for line in notes(content))


# --- the command -----------------------------------------------------------------------------------------------------


def test_a_study_goes_on_where_it_was_and_keeps_what_is_there(tmp_path):
    trained = [(LAKE, "q_learning"), (CLIFF, "novelty")]
    for task in (LAKE, CLIFF):
        for variant in ("mac", "q_learning", "novelty"):
            if (task, variant) not in trained:
                make(tmp_path, task, variant, 0.5, trials=2)
    kept = Run.load(tmp_path / LAKE / "mac").digest
    ((part,),) = modern([LAKE], ["q_learning"], tmp_path, Extent(2, 0.01)).values()
    settings = part.experiment.settings()
    mac_package.train(  # the first of them was interrupted
        "FrozenLake-v1", "q_learning", trials=2, steps=part.experiment.steps, learner="replayed", out=part.path,
        env_kwargs={"is_slippery": False}, on_progress=lambda _: mac_package.STOP, **settings,
    )  # fmt: skip
    words = ("reproduce", "modern", "--task", LAKE, CLIFF, "--variant", "mac", "q_learning", "novelty")
    words += ("--trials", "2", "--steps-share", "0.01", "--out", tmp_path)
    outcome = mac(*words)
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("already finished, taken as it is") == 4
    for task, variant in trained:
        assert Run.load(tmp_path / task / variant).finished
    assert Run.load(tmp_path / LAKE / "mac").digest == kept
    assert "Frozen Lake, not slippery" in outcome.out
    page = (tmp_path / "report" / "index.html").read_text()
    command = f"mac reproduce modern --task {LAKE} {CLIFF} --variant mac q_learning novelty --trials 2"
    assert f"{command} --steps-share 0.01 --seed 0" in page
    assert mac(*words, "--quiet").err == ""
    assert_refused(mac(*words, "--seed", "3"), 2, "another study")


def test_the_whole_study_is_one_command(tmp_path):
    for variant in TWINS:
        make(tmp_path, LAKE, variant, 0.5, trials=3)
    commands = run_commands(find_sources([tmp_path]).runs)
    assert commands == [
        f"mac reproduce modern --task {LAKE} --variant {' '.join(TWINS)} --trials 3 --steps-share 0.01 --seed 0"
    ]
    make(tmp_path, CLIFF, "mac", 0.5, trials=3)  # not all of them on this one
    assert all(command.startswith("mac train") for command in run_commands(find_sources([tmp_path]).runs))


def test_a_task_without_its_package_is_left_out_in_one_line(tmp_path, monkeypatch):
    make(tmp_path, LAKE, "mac", 0.5, trials=2)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "minigrid" else find(name))
    words = ("reproduce", "modern", "--variant", "mac", "--trials", "2", "--steps-share", "0.01", "--out", tmp_path)
    outcome = mac(*words, "--task", LAKE, "minigrid-empty-5x5")
    assert outcome.code == 0, outcome.err
    assert "minigrid-empty-5x5 is left out, because minigrid is not installed" in outcome.err
    assert_refused(mac(*words, "--task", "minigrid-empty-5x5"), 2, "a task that can be trained here")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("modern", "--task", "cart-pol"), "--task"),
        (("modern", "--variant", "critic"), "--variant"),
        (("modern", "--steps-share", "0"), "--steps-share"),
        (("modern", "--episodes", "3"), "--episodes"),
        (("modern", "--game", "pong"), "--games"),
        (("modern", "--task", LAKE, "--seed", str(TUNED_FROM)), "seed"),
        (("cart-pole", "--task", LAKE), "--tasks"),
        (("theorems", "--steps-share", "0.5"), "--steps-share"),
    ],
)
def test_what_does_not_belong_to_a_study_is_refused(tmp_path, words, said):
    assert_refused(mac("reproduce", *words, "--out", tmp_path / "study"), 2, said)
    assert not (tmp_path / "study").exists()


def test_a_seed_that_found_the_setting_is_for_no_result():
    assert "below 1000" in message_of(lambda: modern([LAKE], ["mac"], None, Extent(seed=TUNED_FROM)))


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modern")
    for task, best in ((LAKE, 0.9), (CLIFF, -15.0)):
        for place, variant in enumerate(("mac", "advantage_actor_critic", "novelty", "critics")):
            make(folder / "study", task, variant, best * (1 - 0.1 * place), seed=place)
    content = read(folder / "study")
    write_report(content, Recording("No video here."), folder / "report")
    return folder / "report" / "index.html"


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 360])
def test_the_page_shows_every_task_and_its_switches_work(browser, page, width):
    shown = browsers.Page(browser, page, width, 900, False)
    shown.wait_for("document.querySelectorAll('.js-plotly-plot').length === 4")
    assert shown.complaints() == []
    assert shown.requests() == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width

    def lines(chart):
        return set(shown.evaluate(f"document.getElementById('{chart}').data.map(t => t.name).filter(n => n)"))

    assert lines("curves-chart") == lines("tile-0") == {"MAC", "Adv. Actor-Critic"}
    shown.evaluate("document.querySelector('input[name=group][value=parts]').click()")
    assert lines("curves-chart") == lines("tile-1") == {"MAC", "MAC, critics=1", "MAC, novelty=false"}
    mean = "document.getElementById('results-chart').data[0].x[0]"
    assert shown.evaluate(mean) == pytest.approx(0.9, abs=0.02)
    shown.evaluate("document.querySelector('input[name=budget][value=\"1\"]').click()")
    shown.evaluate("document.querySelector('input[name=measure][value=\"3\"]').click()")
    assert shown.evaluate(mean) == pytest.approx(-15 * 0.7, abs=0.1)  # the highest comes first
    shown.close()


def test_the_figures_and_tables_lie_beside_the_page(page):
    names = {"tasks.csv", "tasks.tex", "curves.csv", "evaluations.csv", "files.json", "index.html"}
    names |= {f"curves-{group}.{kind}" for group in ("twins", "parts") for kind in ("png", "svg")}
    assert {file.name for file in page.parent.iterdir()} == names
    assert re.search(r"Frozen Lake, not slippery & MAC & 0\.9", (page.parent / "tasks.tex").read_text())
