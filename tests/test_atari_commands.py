"""Commands, tables and figures of runs on Atari games. Small screens, short games."""

import copy
import csv
import importlib.util
import io
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import mean_actor_critic as mac
from helpers import assert_refused
from helpers import mac as command
from mean_actor_critic.engines.curves import Evaluations
from mean_actor_critic.reports import plots, tables
from mean_actor_critic.reports.evaluations import last_score
from mean_actor_critic.reports.games import by_game
from mean_actor_critic.reports.sources import RunSource
from mean_actor_critic.spec.checks import settings_as_words
from mean_actor_critic.spec.experiment import make_experiment
from mean_actor_critic.spec.presets import start_from
from mean_actor_critic.spec.rules import PROTOCOLS
from test_atari_runs import GAME, SMALL, STEPS, Stop, finished_run, stopped_after, train

pytestmark = pytest.mark.slow


@pytest.fixture
def finished():
    return finished_run()


def on_games(*runs):
    """Runs as reports have them."""
    return by_game([RunSource(str(run.path), run) for run in runs])


def start_of(algorithm, protocol):
    return start_from(GAME, algorithm, engine="atari", protocol=protocol).settings


def test_table_2_says_what_its_numbers_must_not_be_taken_without(finished):
    sheet = tables.table_2(on_games(finished))
    assert sheet.columns[-1] == "notes"
    (row,) = sheet.rows
    assert "screen_size=36" in row[-1]
    assert "frame_skip" not in row[-1]  # as in the paper
    assert ("cut off" in row[-1]) == bool(finished.evaluations.unfinished[:, -1].sum())


def test_the_command_goes_on_with_a_run_that_was_interrupted_and_says_nothing_if_asked(tmp_path, finished, monkeypatch):
    monkeypatch.setattr("mean_actor_critic.engines.vector_study.SEGMENT_SECONDS", 0.01)
    with pytest.raises(Stop):
        train(tmp_path / "run", on_progress=stopped_after(3))
    outcome = command("resume", tmp_path / "run", "--workers", "1", "--quiet")
    assert (outcome.code, outcome.err) == (0, "")
    assert mac.Run.load(tmp_path / "run").digest == finished.digest


# --- commands --------------------------------------------------------------------------------------------------------


def test_the_commands_on_a_finished_run(tmp_path, finished):
    assert "already finished" in command("resume", finished.path).err
    listed = command("runs", finished.path.parent)
    assert "240/240 steps" in listed.out
    exported = command("export", finished.path, "--out", tmp_path / "agent.safetensors")
    assert exported.code == 0
    agent = tmp_path / "agent.safetensors"
    played = command("evaluate", agent, "--episodes", "2", "--quiet")
    assert (played.code, played.err) == (0, "")
    assert "most probable" in played.out
    few = ["evaluate", agent, "--episodes", "2", "--quiet"]
    assert command(*few, "--set", "sticky_actions=0.5", "max_episode_frames=100").out != played.out
    assert_refused(command(*few, "--set", "discount=0.5"), 2, "discount", "sticky_actions")
    assert_refused(command(*few, "--set", "noop_max=-1"), 2, "noop_max", "-1")
    for words in (["evaluate", agent], ["watch", agent, "--out", tmp_path / "game.mp4"]):
        assert_refused(command(*words, "--env", "ALE/Pong-v5"), 2, "ALE/Pong-v5", GAME)
    watched = command("watch", agent, "--out", tmp_path / "game.mp4")
    assert watched.code == 0, watched
    assert list(tmp_path.glob("game_return_*.mp4"))


def rows_of(file):
    return list(csv.DictReader(file.read_text().splitlines()))


def test_a_game_can_be_checked():
    assert "4 actions, observations of 4 × 84 × 84" in command("check", GAME).out
    assert_refused(command("check", "ALE/Breakot-v5"), 2, "ALE/Breakout-v5")


def test_a_report_has_the_paper_s_numbers_beside_ours(tmp_path, finished):
    outcome = command("report", finished.path, "--out", tmp_path / "report")
    assert outcome.code == 0, outcome
    assert "372.7" in outcome.out
    rows = rows_of(tmp_path / "report" / "curves.csv")
    assert [(row["trial"], row["steps"], row["frames"]) for row in rows[:3]] == [
        ("0", "100", "400"), ("0", "200", "800"), ("0", "240", "960"),
    ]  # fmt: skip
    np.testing.assert_allclose(
        [float(row["mean_score"]) for row in rows], finished.evaluations.means.ravel(), atol=1e-3
    )
    np.testing.assert_allclose([float(row["entropy"]) for row in rows], finished.evaluations.entropy.ravel(), atol=1e-4)
    assert {row["notes"] for row in rows} == {", ".join(settings_as_words(SMALL))}
    assert all(float(row["low"]) <= float(row["mean_score"]) <= float(row["high"]) for row in rows)
    page = (tmp_path / "report" / "index.html").read_text()
    assert "372.7" in page
    assert "<svg" in page
    assert (tmp_path / "report" / "curves.png").stat().st_size > 1000


def variant(run, path="there", algorithm="mac", seed=3, **settings):
    """A run with the same results, all games whole, of another experiment."""
    other = copy.copy(run)
    other.path = Path(path)
    other.experiment = make_experiment(GAME, algorithm, 2, STEPS, seed, settings, engine="atari")
    count = other.experiment.evaluations  # of the same budget: by the paper's interval only one
    arrays = {
        name: x[:, -count:] if x.ndim > 1 else np.minimum(x, count) for name, x in run.evaluations.arrays().items()
    }
    other.evaluations = Evaluations(**arrays)._replace(unfinished=np.zeros((2, count), np.int32))
    return other


NAMED = {
    "the paper's": ({}, "–"),
    "a setting": ({"rollout_steps": 5}, "rollout_steps=5"),
    "another protocol": (PROTOCOLS["machado"], "machado"),
    "and a setting": ({**PROTOCOLS["machado"], "rollout_steps": 5}, "machado, rollout_steps=5"),
    "Baselines'": (start_of("a2c", "paper"), "Baselines' settings"),
    "both": (start_of("a2c", "machado"), "machado, Baselines' settings"),
}


@pytest.mark.parametrize("name", NAMED)
def test_settings_that_are_not_the_paper_s_are_named(finished, name):
    settings, words = NAMED[name]
    (row,) = tables.table_2(on_games(variant(finished, **settings))).rows
    assert row[-1] == words


def test_runs_that_differ_have_different_names(tmp_path, finished):
    paths = [f"run-{i}" for i in range(2)]
    runs = [variant(finished, path, seed=seed) for seed in (3, 4) for path in paths]
    notes = [row[-1] for row in tables.table_2(on_games(*runs)).rows]
    assert notes == [f"seed {seed}, {path}" for seed in (3, 4) for path in paths]


def words_of_figure(folder, runs):
    """The comments of a figure's file, which are the words in it."""
    plots.curves_on_games(on_games(*runs), folder / "curves.svg")
    return re.findall("<!-- (.*?) -->", (folder / "curves.svg").read_text())


def test_a_figure_says_once_what_all_runs_have_and_names_what_differs(tmp_path, finished):
    near_baselines = {**start_of("a2c", "paper"), "schedule": "constant", "entropy_weight": 0.03}
    runs = [variant(finished, **{**near_baselines, "rollout_steps": n}) for n in (1, 5)]
    words = words_of_figure(tmp_path, runs)
    assert "learning_rate=0.0007, policy_weight=1.0, entropy_weight=0.03" in words
    assert {"MAC, 2 trials", "MAC (rollout_steps=5), 2 trials"} <= set(words)
    words = words_of_figure(tmp_path, [variant(finished, seed=seed, noop_max=0) for seed in (3, 4)])
    assert {"noop_max=0", "MAC (seed 3), 2 trials", "MAC (seed 4), 2 trials"} <= set(words)
    many = [variant(finished, discount=0.9 - i / 10, stack=3 + 2 * i, noop_max=i) for i in (0, 1)]
    words = words_of_figure(tmp_path, many)
    assert {"MAC (other settings), 2 trials", "MAC (noop_max=1, stack=5, discount=0.8), 2 trials"} <= set(words)


@pytest.mark.parametrize("width", [80, 100, 140])
def test_table_2_is_whole_in_any_terminal(finished, width):
    runs = [variant(finished, algorithm="advantage_actor_critic"), variant(finished, **SMALL)]
    terminal = Console(width=width, file=io.StringIO())
    terminal.print(tables._table_2_for_terminal(on_games(*runs), width))
    shown = terminal.file.getvalue()
    sheet = tables.table_2(on_games(*runs))
    for row in sheet.rows:
        for column, cell in zip(sheet.columns[:-1], row, strict=False):
            assert cell in shown or (width < tables.WIDE and column in tables.OTHERS), (column, cell)
    assert "372.7" in shown
    assert "evaluation_episodes=3" in shown.replace("\n", " ")
    assert max(map(len, shown.splitlines())) <= width


def test_the_table_of_a_run_says_how_many_games_were_cut_off(finished):
    terminal = Console(width=140, file=io.StringIO())
    terminal.print(tables.run_table(finished))
    (last,) = (line.split() for line in terminal.file.getvalue().splitlines() if "the last evaluation" in line)
    games, cut_off = np.isfinite(finished.evaluations.scores[:, -1]).sum(), finished.evaluations.unfinished[:, -1].sum()
    assert [word for word in last if word != "│"][-4:] == ["2", "trials", str(games), str(cut_off)]


def test_a_damaged_run_is_not_left_out_of_a_report(tmp_path, finished):
    for name in ("whole", "damaged"):
        shutil.copytree(finished.path, tmp_path / name)
    manifest = tmp_path / "damaged" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"seed": 3', '"seed": 4'))
    assert_refused(command("report", tmp_path, "--out", tmp_path / "report"), 2, "damaged")


def test_the_table_says_what_its_interval_is_over(finished):
    score = last_score(finished)
    assert (score.over, score.summary.n, score.moment) == ("trials", 2, 240)
    assert score.summary.mean == pytest.approx(finished.latest.mean())


def test_reproduce_goes_on_and_fills_its_table(tmp_path):
    words = ["reproduce", "atari", "--game", "breakout", "--steps", "200", "--trials", "1", "--out", tmp_path,
             "--set", *settings_as_words(SMALL)]  # fmt: skip
    first = command(*words, "--algorithm", "mac", "--quiet")
    assert (first.code, first.out) == (0, "")
    digest = mac.Run.load(tmp_path / "breakout" / "mac").digest
    second = command(*words)
    assert second.code == 0, second
    assert "breakout/mac: already finished, taken as it is" in second.err
    assert mac.Run.load(tmp_path / "breakout" / "mac").digest == digest
    rows = rows_of(tmp_path / "report" / "table-2.csv")
    assert [row["Algorithm"] for row in rows] == ["A2C", "MAC"]
    assert_refused(command(*words, "discount=0.5"), 2, "other settings")


def test_reproduce_goes_on_with_a_run_that_was_interrupted(tmp_path, monkeypatch):
    monkeypatch.setattr("mean_actor_critic.engines.vector_study.SEGMENT_SECONDS", 0.01)
    one = {"trials": 1, "evaluation_steps": 60}
    whole = train(tmp_path / "whole", **one)
    folder = tmp_path / "study"
    with pytest.raises(Stop):
        train(folder / "breakout" / "mac", checkpoint_seconds=0, on_progress=stopped_after(6), **one)
    assert not mac.Run.load(folder / "breakout" / "mac").finished
    outcome = command(
        "reproduce", "atari", "--game", "breakout", "--algorithm", "mac", "--steps", STEPS, "--trials", 1, "--seed", 3,
        "--out", folder, "--set", *settings_as_words({**SMALL, "evaluation_steps": 60}),
    )  # fmt: skip
    assert outcome.code == 0, outcome
    assert mac.Run.load(folder / "breakout" / "mac").digest == whole.digest


REFUSED = {
    "a ROM that ALE cannot play": (["train", "ALE/Combat-v5"], ["ALE/Combat-v5", "games"]),
    "nothing added within the root": (["train", GAME, "--set", "rms_epsilon=0"], ["rms_epsilon", "1e-30"]),
    "an unknown game": (["train", "ALE/Pongg-v5"], ["ALE/Pongg-v5", "ALE/Pong-v5"]),
    "an unknown setting": (["train", GAME, "--set", "minibatches=3"], ["minibatches"]),
    "a setting out of its limits": (["train", GAME, "--set", "sticky_actions=1.5"], ["sticky_actions", "1.5"]),
    "a setting of another type": (["train", GAME, "--set", "frame_skip=few"], ["frame_skip", "few", "whole number"]),
    "one number for each of other trials": (["train", GAME, "--set", "discount=0.9,0.8"], ["discount", "1 trials"]),
    "an algorithm without a critic": (["train", GAME, "--algorithm", "reinforce"], ["algorithm", "reinforce", "mac"]),
    "episodes": (["train", GAME, "--episodes", "5"], ["episodes: 5", "steps"]),
    "steps and episodes": (["train", "CartPole-v0", "--steps", "5", "--episodes", "5"], ["--steps", "--episodes"]),
    "no steps": (["train", GAME, "--steps", "0"], ["steps", "0"]),
    "more updates than are counted": (
        ["train", GAME, "--steps", "4_294_967_295", "--set", "environments=1"],
        ["steps", "updates of 1"],
    ),
    "evaluations within an update": (["train", GAME, "--set", "evaluation_interval=8"], ["evaluation_interval", "16"]),
    "snapshots": (["train", GAME, "--snapshots", "5"], ["snapshots", "episodes"]),
    "an unknown game of the paper": (["reproduce", "atari", "--game", "tetris"], ["tetris", "pong"]),
    "games of another study": (["reproduce", "cart-pole", "--game", "pong"], ["--games", "atari"]),
    "a game by half of its name": (["train", "Pong-v5"], ["Pong-v5", "did you mean ALE/Pong-v5?"]),
    "a game in small letters": (["check", "pong"], ["did you mean ALE/Pong-v5?"]),
    "a search on a game": (["sweep", GAME], [GAME, "episodes"]),
    "another engine": (["train", GAME, "--engine", "hosted"], ["engine", "hosted", "atari"]),
    "arguments of a game": (["check", GAME, "--env-kwargs", "a=1"], [GAME, "settings"]),
    "sticky actions by trial": (["train", GAME, "--set", "sticky_actions=0.1,0.2"], ["sticky_actions", "from 0 to 1"]),
    "an unknown protocol": (["train", GAME, "--protocol", "mine"], ["mine", "machado"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, name, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words, expected = REFUSED[name]
    assert_refused(command(*words), 2, *expected)
    assert not list(tmp_path.iterdir())


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    from mean_actor_critic.environments import atari

    atari.games.cache_clear()
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "ale_py" else find(name))
    assert_refused(command("train", GAME, "--out", tmp_path / "run"), 2, "mean-actor-critic[atari]")
    assert not (tmp_path / "run").exists()
