"""Reports of runs on Atari games: the paper's Table 2 with ours beside it, on the page that all reports have."""

import csv
import io
import json
import re

import numpy as np
import pytest
from rich.console import Console

import browser as browsers
import mean_actor_critic as mac
import synthetic
from helpers import message_of
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports import tables
from mean_actor_critic.reports.answer import answer, notes
from mean_actor_critic.reports.evaluations import last_score
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.spec.checks import settings_as_words
from mean_actor_critic.spec.presets import SEARCH_SEEDS, start_from
from mean_actor_critic.spec.rules import PROTOCOLS

GAME = "ALE/Breakout-v5"
FILES = {"table-2.csv", "table-2.tex", "curves.csv", "curves.png", "curves.svg", "files.json", "index.html"}
SMALL = {
    "environments": 2, "screen_size": 36, "stack": 2, "max_episode_frames": 400, "evaluation_interval": 40,
    "evaluation_episodes": 2, "evaluation_steps": 100, "evaluation_environments": 2,
}  # fmt: skip


def read(*paths):
    return contents.read(find_sources(paths))


def cells(content):
    """The rows of Table 2 by column."""
    sheet = tables.table_2(content.games)
    return [dict(zip(sheet.columns, row, strict=True)) for row in sheet.rows]


def rows_of(file):
    return list(csv.DictReader(file.read_text().splitlines()))


def text_of(table, width=300):
    terminal = Console(width=width, file=io.StringIO())
    terminal.print(table)
    return terminal.file.getvalue()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A folder as `mac reproduce atari` leaves it: two algorithms on two games, three trials each."""
    folder = tmp_path_factory.mktemp("atari")
    for name, end in (("Breakout", 370.0), ("Pong", 18.0)):
        for algorithm in ("mac", "advantage_actor_critic"):
            scores = synthetic.playing(algorithm + name, 3, 10, end=end)
            path, cut_off = folder / name.lower() / algorithm, int(name == "Pong")
            synthetic.make_game_run(path, algorithm, scores, environment=f"ALE/{name}-v5", cut_off=cut_off)
    return folder


def run_in(study, game, algorithm="mac"):
    return mac.Run.load(study / game / algorithm)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_table_2_has_the_paper_s_numbers_beside_the_last_evaluations(study):
    rows = cells(read(study))
    assert [(row["Game"], row["Algorithm"]) for row in rows] == [
        ("Breakout", "A2C"), ("Breakout", "MAC"), ("Pong", "A2C"), ("Pong", "MAC"),
    ]  # fmt: skip
    breakout, pong = rows[1], rows[3]
    means = run_in(study, "breakout").evaluations.means[:, -1]
    assert float(breakout["score"]) == pytest.approx(means.mean(), abs=0.5)
    assert breakout["range"] == f"{means.min():.0f} to {means.max():.0f}"
    assert (breakout["n"], breakout["steps"]) == ("3 trials", "50M")
    assert [breakout[name] for name in (tables.PAPER, "random", "TRPO", "ES")] == ["372.7", "1.7", "10.8", "9.5"]
    assert len(pong["score"].partition(".")[2]) == 2  # scores of each game have the digits that fit them
    assert "3 of 24 games cut off" in pong["notes"]
    assert "cut off" not in breakout["notes"]


def test_one_trial_is_summarised_over_its_games(tmp_path):
    run = synthetic.make_game_run(tmp_path, scores=synthetic.playing("mac", 1, 4, games=9), evaluations=10)
    score = last_score(run)
    assert (score.over, score.summary.n, score.moment) == ("games", 9, 20_000_000)
    assert score.summary.mean == pytest.approx(run.evaluations.scores[0, 3].mean())
    (row,) = cells(read(tmp_path))
    assert (row["n"], row["steps"]) == ("9 games", "20M/50M")
    assert row["95 % interval"].startswith("[")
    assert notes(read(tmp_path)) == [
        "The paper’s scores are those after 50M steps.", "MAC: its trials have 20M of 50M steps so far.",
    ]  # fmt: skip


NAMED = {
    "the paper's": ({}, ""),
    "a setting": ({"rollout_steps": 5}, "rollout_steps=5"),
    "another protocol": (PROTOCOLS["machado"], "machado"),
    "and a setting": ({**PROTOCOLS["machado"], "rollout_steps": 5}, "machado, rollout_steps=5"),
    "Baselines'": (start_from(GAME, "a2c", engine="atari").settings, "Baselines' settings"),
    "both": (
        start_from(GAME, "a2c", engine="atari", protocol="machado").settings,
        "machado, Baselines' settings",
    ),
}
PAPERS = {"evaluation_interval": 200_000, "evaluation_episodes": 50, "evaluation_environments": 16}


def paper_run(path, *, scores=((30.0,) * 50,), trials=2, **more):
    """A run with the paper's evaluations, after the first."""
    settings = {**PAPERS, **more.pop("settings", {})}
    return synthetic.make_game_run(path, scores=np.array([scores] * trials), settings=settings, **more)


@pytest.mark.parametrize("name", NAMED)
def test_settings_that_are_not_the_paper_s_are_named(tmp_path, name):
    settings, words = NAMED[name]
    paper_run(tmp_path, settings=settings)
    assert cells(read(tmp_path))[0]["notes"] == (words or "–")


def test_runs_that_differ_have_different_names(tmp_path):
    for seed in (3, 4):
        for place in ("a", "b"):
            paper_run(tmp_path / f"{seed}{place}", seed=seed)
    content = read(tmp_path)
    assert [row["notes"] for row in cells(content)] == [
        f"seed {seed}, {tmp_path / f'{seed}{place}'}" for seed in (3, 4) for place in ("a", "b")
    ]
    assert len({entry.label for entry in content.entries}) == 4


def words_of_figure(folder, *paths):
    """The comments of a figure's file, which are the words in it."""
    mac.report(paths, folder, video=False)
    return re.findall("<!-- (.*?) -->", (folder / "curves.svg").read_text())


def test_a_figure_says_once_what_all_runs_have_and_names_what_differs(tmp_path):
    near_baselines = {**NAMED["Baselines'"][0], "schedule": "constant", "entropy_weight": 0.03}
    for n in (1, 5):
        paper_run(tmp_path / "a" / str(n), settings={**near_baselines, "rollout_steps": n})
    words = words_of_figure(tmp_path / "out", tmp_path / "a")
    assert "learning_rate=0.0007, policy_weight=1.0, entropy_weight=0.03" in words
    assert {"MAC, 2 trials", "MAC (rollout_steps=5), 2 trials"} <= set(words)
    for i in (0, 1):
        settings = {"discount": 0.9 - i / 10, "stack": 3 + 2 * i, "noop_max": i}
        paper_run(tmp_path / "b" / str(i), settings=settings)
    words = words_of_figure(tmp_path / "out", tmp_path / "b")
    assert {"MAC (other settings), 2 trials", "MAC (noop_max=1, stack=5, discount=0.8), 2 trials"} <= set(words)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_table_2_is_whole_in_any_terminal(study, width):
    content = read(study)
    (table,) = tables.results_tables(content, width)
    shown = text_of(table, width)
    sheet = tables.table_2(content.games)
    for row in sheet.rows:
        for column, cell in zip(sheet.columns[:-1], row, strict=False):
            assert cell in shown or (width < tables.WIDE and column in tables.OTHERS), (column, cell)
    assert "evaluation_episodes=8" in shown.replace("\n", " ")
    assert max(map(len, shown.splitlines())) <= width


def test_the_table_of_a_run_has_its_last_and_its_best_evaluation(tmp_path):
    scores = np.array([[[1.0, 3.0], [8.0, 10.0], [4.0, 6.0]]] * 2)
    run = synthetic.make_game_run(tmp_path, scores=scores, evaluations=5, cut_off=1)
    shown = text_of(tables.run_table(run))
    assert "30M of 50M steps, which are agent steps of a trial, 4 frames each" in shown
    last, best = ([word for word in line.split() if word != "│"] for line in shown.splitlines() if "evaluation" in line)
    assert last[3:5] == ["30M", "5.00"]
    assert best[7:9] == ["20M", "9.00"]
    assert last[-4:] == best[-4:] == ["2", "trials", "4", "2"]
    assert tables.extent_and_mean(run) == ("30M/50M steps", "5.00")


# --- what is taken, and what is refused ------------------------------------------------------------------------------


def test_games_and_other_runs_are_not_in_one_report(tmp_path):
    synthetic.make_game_run(tmp_path / "game")
    synthetic.make_run(tmp_path / "run", returns=synthetic.learning("mac", 2, 5))
    assert "runs on Atari games, or runs that count episodes, but not both" in message_of(
        lambda: mac.report(tmp_path, tmp_path / "out")
    )
    sweep = synthetic.make_sweep(tmp_path / "sweep", synthetic.GRID, algorithms=("mac",), most_cells=1)
    assert "but not both" in message_of(lambda: mac.report([tmp_path / "game", sweep.path], tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_runs_that_were_not_evaluated_are_refused_alone_and_named_beside_others(tmp_path):
    synthetic.make_game_run(tmp_path / "begun", scores=np.zeros((2, 0, 4)))
    assert "evaluated once" in message_of(lambda: mac.report(tmp_path / "begun", tmp_path / "out"))
    synthetic.make_game_run(tmp_path / "other")
    content = read(tmp_path)
    assert content.begun == [str(tmp_path / "begun")]
    assert len(content.entries) == 1


def test_seeds_of_searches_are_refused(tmp_path):
    run = synthetic.make_game_run(tmp_path / "run", seed=SEARCH_SEEDS.start)
    assert "searched with" in message_of(lambda: mac.report(run, tmp_path / "out"))


def test_a_damaged_run_is_not_left_out(tmp_path):
    for name in ("whole", "damaged"):
        synthetic.make_game_run(tmp_path / name)
    manifest = tmp_path / "damaged" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 0', '"seed": 4'))
    assert "damaged" in message_of(lambda: mac.report(tmp_path, tmp_path / "out"))


# --- the answer and the files ----------------------------------------------------------------------------------------


def test_the_answer_on_one_game(study):
    said = "".join(answer(read(study / "breakout")))
    means = {name: run_in(study, "breakout", name).latest.mean() for name in ("mac", "advantage_actor_critic")}
    best, other = sorted(means, key=means.get, reverse=True)
    titles = {"mac": "MAC", "advantage_actor_critic": "A2C"}
    assert said.startswith(
        f"On Breakout, {titles[best]} has the highest mean score: {means[best]:.0f} (3 trials, which "
    )
    assert "at its last evaluation, after 50M steps" in said
    assert f"{titles[other]} has {means[other]:.0f} after 50M steps" in said
    assert said.endswith("the paper reports 370.9 for A2C and 372.7 for MAC.")


def test_the_answer_on_several_games(tmp_path):
    better = {"breakout": "mac", "pong": "mac"}
    for game, name in (("breakout", "Breakout"), ("pong", "Pong")):
        for algorithm in ("mac", "advantage_actor_critic"):
            scores = np.full((2, 1, 4), 3.0 if better[game] == algorithm else 2.0)
            synthetic.make_game_run(tmp_path / game / algorithm, algorithm, scores, environment=f"ALE/{name}-v5")
    said = "".join(answer(read(tmp_path)))
    assert said == (
        "The highest mean score at the last evaluation is that of MAC on Breakout (3.00 after 5M steps) and MAC on "
        "Pong (3.00 after 5M steps); the paper’s order holds on Breakout and does not hold on Pong."
    )


def test_every_evaluation_is_in_a_file(study, tmp_path):
    written = mac.report(study, tmp_path / "out", video=False)
    assert {file.name for file in written} == {file.name for file in (tmp_path / "out").iterdir()} == FILES
    assert written[-1].name == "index.html"
    rows = rows_of(tmp_path / "out" / "curves.csv")
    run = run_in(study, "breakout", "advantage_actor_critic")
    own = rows[:30]
    assert {(row["environment"], row["algorithm"]) for row in own} == {(GAME, "advantage_actor_critic")}
    assert [(row["trial"], row["steps"], row["frames"]) for row in own[9:11]] == [
        ("0", "50000000", "200000000"), ("1", "5000000", "20000000"),
    ]  # fmt: skip
    np.testing.assert_allclose([float(row["mean_score"]) for row in own], run.evaluations.means.ravel(), rtol=1e-6)
    assert {(row["entropy"], row["training_score"], row["training_games"]) for row in own} == {("1.25", "", "7")}
    assert all(float(row["low"]) <= float(row["mean_score"]) <= float(row["high"]) for row in rows)
    asked = {"evaluation_interval": 5_000_000, "evaluation_episodes": 8}
    assert {row["notes"] for row in own} == {", ".join(["evaluation_environments=1", *settings_as_words(asked)])}
    latex = (tmp_path / "out" / "table-2.tex").read_text()
    assert r"Breakout & A2C & 50M" in latex
    assert r"\begin{tabular}{llrrrrrrrrl}" in latex


def test_a_report_of_games_after_another_leaves_nothing_of_the_other(study, tmp_path):
    run = synthetic.make_run(tmp_path / "run", returns=synthetic.learning("mac", 3, 20))
    mac.report(run, tmp_path / "out", video=False)
    mac.report(study, tmp_path / "out", video=False)
    assert {file.name for file in (tmp_path / "out").iterdir()} == FILES


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(study, tmp_path_factory):
    return mac.report(study, tmp_path_factory.mktemp("page"), video=False)[-1]


@pytest.fixture
def visit(browser, page):
    """A function that opens the page; it is closed after the test."""
    opened = []

    def open_page(width=1280, dark=False, file=page):
        opened.append(browsers.Page(browser, file, width, 900, dark))
        opened[-1].wait_for("document.querySelectorAll('.js-plotly-plot').length === 2")
        return opened[-1]

    yield open_page
    for shown in opened:
        shown.close()


def drawn(shown, chart="curves-chart"):
    """The lines of a chart by name; bands have none."""
    traces = shown.evaluate(f"document.getElementById('{chart}').data.map(t => [t.name ?? null, t.x, t.y])")
    return {name: (np.array(x), np.array(y)) for name, x, y in traces if name}


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (360, True)])
def test_the_page_opens_alone_without_complaints_and_fits_the_window(visit, width, dark):
    shown = visit(width, dark)
    assert shown.complaints() == []
    assert shown.requests() == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_the_page_shows_each_game_s_curves_by_steps(visit, study):
    shown = visit()
    for place, game in enumerate(("breakout", "pong"), 1):
        shown.click(f"#game label:nth-of-type({place})")
        lines = drawn(shown)
        assert set(lines) == {"A2C", "MAC"}
        x, y = lines["MAC"]
        np.testing.assert_allclose(x, np.arange(1, 11) * 5_000_000)
        np.testing.assert_allclose(y, run_in(study, game).evaluations.means.mean(axis=0), rtol=1e-4)
        legend = shown.evaluate("[...document.querySelectorAll('#curves-legend button')].map(b => b.textContent)")
        assert sorted(legend) == ["A2C", "MAC"]
        references = shown.evaluate("document.getElementById('curves-chart').layout.annotations.map(a => a.text)")
        assert references == ["A2C in the paper", "MAC in the paper", "random play in the paper"]
    layout = "document.getElementById('curves-chart')._fullLayout"
    assert shown.evaluate(f"[{layout}.xaxis.title.text, {layout}.yaxis.title.text]") == ["Step", "Score"]
    assert shown.evaluate("document.getElementById('values').textContent").count("range") == 2
    assert shown.complaints() == []


@pytest.mark.slow
def test_the_page_shows_each_game_s_results_beside_the_paper_s(visit, study):
    shown = visit()
    for place, (game, paper) in enumerate((("breakout", {370.9, 372.7}), ("pong", {18.0, 10.6})), 1):
        shown.click(f"#budget label:nth-of-type({place})")
        points = drawn(shown, "results-chart")
        assert points["MAC"][0][0] == pytest.approx(run_in(study, game).latest.mean(), rel=1e-4)
        assert set(points["paper"][0]) == paper
    assert shown.complaints() == []


@pytest.mark.slow
def test_the_games_are_switched_with_the_keyboard(visit):
    shown = visit()
    shown.evaluate("document.querySelector('input[name=game]').focus()")
    shown.press("ArrowRight", 39)
    assert shown.evaluate("document.querySelector('input[name=game]:checked').value") == "1"
    assert max(drawn(shown)["MAC"][1]) < 30  # Pong


def test_the_page_has_the_table_the_protocol_and_no_other_look(page, study):
    text = page.read_text()
    for words in (
        "The highest mean score at the last evaluation is that of", "372.7", "3 of 24 games cut off",
        "Breakout: MAC", "the paper&#39;s for Atari games", "50M of 50M steps", "run, MAC on Pong, atari engine",
        "mac train ALE/Pong-v5 --algorithm mac --trials 3 --steps 50000000 --seed 0 --engine atari --learner rollout",
        "default-src &#39;none&#39;; script-src", 'class="skip"',
    ):  # fmt: skip
        assert words in text, words
    assert "<svg" not in text.partition("<script")[0]
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    assert len(data["tasks"]) == 2


@pytest.mark.slow
def test_the_best_agent_plays_on_the_page(tmp_path, visit):
    run = mac.train(GAME, trials=1, steps=40, out=tmp_path / "run", progress=False, **SMALL)
    page = mac.report(run, tmp_path / "out")[-1]
    shown = visit(file=page)
    assert shown.wait_for("document.querySelector('video').readyState >= 1")
    assert "MAC on Breakout, trial 0: one episode" in shown.evaluate(
        "document.querySelector('video + figcaption').textContent"
    )
    assert shown.complaints() == []
