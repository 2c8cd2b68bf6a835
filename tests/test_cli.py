"""The command line: what it prints, and what it leaves behind."""

import os
import pty
import re
import subprocess
import sys

import numpy as np
import pytest

import mean_actor_critic
from helpers import (
    TINY_WORDS,
    assert_one_line,
    copy_of_tiny_run,
    mac,
    only_begun,
    run_mac,
    run_python,
    snapshot,
)
from mean_actor_critic import progress
from mean_actor_critic.cli.main import COMMANDS
from mean_actor_critic.learning.native import compiler
from mean_actor_critic.runs import store
from mean_actor_critic.runs.run import Run
from mean_actor_critic.spec.algorithms import ALGORITHMS
from mean_actor_critic.spec.experiment import settings_for_engine
from mean_actor_critic.spec.learners import learners_on

pytestmark = pytest.mark.usefixtures("in_tmp_path")

# --- what works ------------------------------------------------------------------------------------------------------


def test_train_export_and_evaluate_follow_each_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = mac("train", "CartPole-v0", "--out", "new", *TINY_WORDS)
    assert trained.code == 0
    assert "run folder: new" in trained.err
    assert "CartPole-v0, MAC, seed 0" in trained.out
    exported = mac("export", "new", "--trial", "1", "--out", "one.safetensors")
    assert (exported.code, exported.err) == (0, "")
    assert exported.out == "one.safetensors: trial 1 of new, finished\n"
    for words in (("new",), ("one.safetensors",)):
        evaluated = mac("evaluate", *words, "--episodes", "4")
        assert (evaluated.code, evaluated.err) == (0, "")
        assert "sampled" in evaluated.out
        assert "most probable" in evaluated.out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "one.safetensors"]


def test_a_run_and_the_agent_exported_from_it_play_alike(files):
    of_run = mac("evaluate", "run", "--trial", "1", "--episodes", "4")
    of_agent = mac("evaluate", "agent.safetensors", "--episodes", "4")
    assert of_run.out.splitlines()[1:] == of_agent.out.splitlines()[1:]


def test_the_run_folder_is_below_runs_unless_said_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert mac("train", "CartPole-v0", *TINY_WORDS, "--quiet").code == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("CartPole-v0-mac-seed0-")
    assert Run.load(folder).finished


def test_the_command_line_trains_as_the_library_does(files):
    assert mac("train", "CartPole-v0", "--out", "again", *TINY_WORDS, "--quiet").code == 0
    assert np.array_equal(Run.load("again").returns, Run.load("run").returns)


def test_a_quiet_training_prints_nothing(tmp_path):
    outcome = run_mac("train", "CartPole-v0", "--out", tmp_path / "run", *TINY_WORDS, "--quiet")
    assert outcome == (0, "", "")
    assert Run.load(tmp_path / "run").finished


def test_a_finished_run_is_said_to_be_finished(files):
    before = snapshot(files.run)
    resumed = mac("resume", "run")
    assert (resumed.code, resumed.err) == (0, "run: already finished\n")
    assert mac("resume", "run", "--quiet") == (0, "", "")
    assert snapshot(files.run) == before


def test_a_run_that_has_only_begun_is_resumed_to_the_same_end(files):
    expected = Run.load(files.run).returns
    only_begun(files)
    assert mac("resume", "run", "--quiet") == (0, "", "")
    assert np.array_equal(Run.load(files.run).returns, expected)


def test_a_damaged_checkpoint_is_warned_of_in_one_line(files):
    manifest = store.read_manifest(files.run)
    (files.run / "checkpoint-000000000007.safetensors").write_bytes(b"damaged")
    for words in (("export", "run", "--out", "one.safetensors"), ("resume", "run", "--quiet")):
        outcome = mac(*words)
        assert outcome.code == 0
        assert_one_line(outcome.err)
        assert outcome.err.startswith("mac: warning: run/checkpoint-000000000007.safetensors")
    assert store.read_manifest(files.run) == manifest


# --- what runs, and for how long -------------------------------------------------------------------------------------

SMALL = ("--set", "max_episode_steps=20", "hidden=8", "minibatches=2", "batch_size=4", "replay_capacity=16")
GAME = ("--set", "environments=2", "screen_size=36", "evaluation_episodes=2", "evaluation_steps=4",
        "evaluation_environments=2")  # fmt: skip


def test_a_training_says_what_it_is():
    outcome = mac("train", "CartPole-v1", "--out", "new", "--steps", "1_00", "--until", "1000", *SMALL)
    assert outcome.code == 0
    what, settings, where, why = outcome.err.splitlines()
    for words in ("CartPole-v1: mac by the episodic learner", "compiled engine", "1 trial of 100 steps",
                  "until the mean return is 1000", "at most 20 steps"):  # fmt: skip
        assert words in what
    given = "hidden=8 replay_capacity=16 minibatches=2 batch_size=4"
    assert settings == f"settings: tuned for CartPole-v0; given: {given}"
    assert where == "run folder: new"
    assert why.startswith("episodic, the paper's learner, because of its own settings")
    run = Run.load("new")
    assert run.experiment.budget == ("steps", 100)
    assert run.steps_done.min() >= 100


def test_a_training_without_tuned_settings_says_that_they_are_general(files):
    outcome = mac(
        "train", "Acrobot-v1", "--engine", "hosted", "--out", "new", "--episodes", "1", "--trials", "2", *SMALL
    )
    what, settings, _, why = outcome.err.splitlines()
    assert why.startswith("episodic, the paper's learner, because of --episodes")
    assert "hosted engine; 2 trials of 1 episode;" in what
    assert settings.startswith("settings: general: ")


@pytest.mark.slow
def test_a_training_on_a_game_says_more():
    outcome = mac("train", "ALE/Pong-v5", "--out", "new", "--steps", "8", "--evaluate-every", "4", *GAME)
    assert outcome.code == 0
    what, settings, _ = outcome.err.splitlines()
    assert "mac by the rollout learner; atari engine; 1 trial of 8 steps" in what
    assert "settings: the paper's for Atari games" in settings
    assert "agent steps, not frames" in settings
    assert f"convolutions: {compiler() or 'XLA'}" in settings
    assert Run.load("new").experiment.evaluation_moments().tolist() == [4, 8]


def test_a_trial_ends_when_its_mean_return_is_high_enough():
    words = ("--until", "0", "--episodes", "400", "--quiet", *SMALL)
    assert mac("train", "CartPole-v0", "--out", "new", *words) == (0, "", "")
    run = Run.load("new")
    assert run.experiment.until == 0
    assert run.status == ["solved at episode 100"]


def test_evaluations_come_as_often_as_asked_for():
    words = ("--evaluate-every", "2", "--episodes", "5", "--learner", "episodic", "--quiet", *SMALL)
    assert mac("train", "CartPole-v0", "--out", "new", *words, "evaluation_episodes=3") == (0, "", "")
    run = Run.load("new")
    assert run.experiment.evaluation_moments().tolist() == [2, 4, 5]
    assert run.evaluations.scores.shape == (1, 3, 3)


def test_a_finished_run_goes_on_for_longer_and_says_what_it_is(files):
    mac("train", "CartPole-v0", "--out", "long", *TINY_WORDS, "--episodes", "5", "--quiet")
    outcome = mac("resume", "run", "--episodes", "5")
    assert outcome.code == 0
    what, _settings, where = outcome.err.splitlines()
    assert "2 trials of 5 episodes" in what
    assert where == "run folder: run"
    assert np.array_equal(Run.load("run").returns, Run.load("long").returns)
    assert mac("resume", "run").err == "run: already finished\n"


def test_a_run_by_steps_goes_on_for_longer():
    for folder, steps in (("short", "60"), ("long", "120")):
        mac("train", "CartPole-v0", "--out", folder, "--steps", steps, "--quiet", *SMALL)
    assert mac("resume", "short", "--steps", "1_20", "--quiet") == (0, "", "")
    assert Run.load("short").digest == Run.load("long").digest


def test_a_check_of_a_game_is_like_any_other():
    outcome = mac("check", "ALE/Pong-v5")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines() == [
        "ok      6 actions, observations of 4 × 84 × 84 pixels",
        "ALE/Pong-v5: can be trained",
    ]


# --- lists of runs ---------------------------------------------------------------------------------------------------


def test_runs_are_listed_with_the_damaged_and_the_unfinished(tmp_path):
    copy_of_tiny_run(tmp_path / "whole")
    only_begun(copy_of_tiny_run(tmp_path / "begun"))
    copy_of_tiny_run(tmp_path / "broken").manifest.write_bytes(b"{}")
    outcome = mac("runs", tmp_path)
    assert (outcome.code, outcome.err) == (0, "")
    rows = {line.split()[1]: line for line in outcome.out.splitlines() if line.startswith("│ ") and "/run" in line}
    assert re.search(r"CartPole-v0 .* mac .* finished .* 2 .* 3/3", rows["whole/run"])
    assert re.search(r"unfinished .* 0/3", rows["begun/run"])
    assert "damaged:" in rows["broken/run"]


def test_a_folder_without_runs_is_said_to_have_none(tmp_path):
    assert mac("runs", tmp_path) == (0, f"no runs in {tmp_path}\n", "")


@pytest.mark.parametrize("name", ["study[mac]", "[bold]", "[", "[link=x]y"])
def test_runs_are_listed_under_their_full_names_whatever_they_are(tmp_path, name):
    copy_of_tiny_run(tmp_path / name)
    (tmp_path / name / "run").rename(tmp_path / name / "x]")
    outcome = mac("runs", tmp_path)
    assert outcome.code == 0
    assert f"{name}/x]" in outcome.out


def test_a_long_name_is_folded_and_not_cut(tmp_path):
    names = [f"{'long-' * 30}{end}" for end in "ab"]
    for name in names:
        copy_of_tiny_run(tmp_path / name)
    lines = [line for line in mac("runs", tmp_path).out.splitlines() if line.startswith("│")]
    listed = "".join(line.split("│")[1].strip() for line in lines)
    assert listed == "".join(f"{name}/run" for name in names)


# --- first impressions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("--version",),
        ("train", "--help"),
        ("train", "ALE/Pong-v5", "--help"),
        ("runs", "."),
        ("export", "run", "--out", "a.safetensors"),
    ],
)
def test_what_does_not_train_does_not_wait_for_jax(files, words):
    script = """
import sys
from mean_actor_critic.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print(sorted({"jax", "jaxlib", "optax"} & set(sys.modules)))
"""
    outcome = run_python(script, *words)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.splitlines()[-1] == "[]"


def test_importing_the_package_does_not_wait_for_anything_large():
    script = "import sys, mean_actor_critic; print({'jax', 'numpy', 'rich', 'gymnasium'} & set(sys.modules) or 'none')"
    assert run_python(script).out == "none\n"


def test_every_public_name_is_there_and_no_other():
    assert mean_actor_critic.__all__ == sorted(mean_actor_critic.__all__)
    assert {"train", "resume", "evaluate", "Run", "Agent", "MacError"} <= set(mean_actor_critic.__all__)
    for name in mean_actor_critic.__all__:
        assert getattr(mean_actor_critic, name) is not None
    assert dir(mean_actor_critic) == mean_actor_critic.__all__
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        mean_actor_critic.trian  # noqa: B018


def test_the_help_names_every_command():
    outcome = mac("--help")
    assert outcome.code == 0
    for command in (command.name for command in COMMANDS):
        assert command in outcome.out
        assert mac(command, "--help").code == 0


@pytest.mark.parametrize(
    ("words", "engine", "learner"),
    [
        ((), "compiled", "replayed"),
        (("CartPole-v0",), "compiled", "replayed"),
        (("CartPole-v0", "--episodes", "3"), "compiled", "episodic"),
        (("CartPole-v0", "--preset=paper"), "compiled", "episodic"),
        (("Acrobot-v1", "--engine", "hosted", "--learner", "episodic"), "hosted", "episodic"),
        (("ALE/Pong-v5",), "atari", "rollout"),
        (("--trials", "3", "ALE/Pong-v5"), "atari", "rollout"),
        (("--engine=atari",), "atari", "rollout"),
    ],
)
def test_the_help_of_training_is_about_the_task_at_hand(words, engine, learner):
    text = mac("train", *words, "--help").out
    settings = settings_for_engine(engine, learner)
    listed = re.findall(r"^    (\w+)=(\S*)$", text, re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(settings)
    for name, default in listed:
        limits = settings[name].limits
        assert limits.parse(default) == settings[name].default
        assert f"{limits.help}: {limits.allowed}" in text
    algorithms = text[text.index("\nalgorithms there") :]
    for name, algorithm in ALGORITHMS.items():
        assert (f"\n  {name} " in algorithms) == bool(set(algorithm.learners) & set(learners_on(engine)))
    assert ("mac train ALE/Pong-v5 --help" in text) == (engine != "atari")


def test_the_help_of_training_groups_settings_by_their_roles():
    groups = {
        "learner": "hidden",
        "critic, .*": "critic_target",
        "baseline, .*": "baseline_decay",
        "environment": "max_episode_steps",
        "evaluation": "evaluation_interval",
    }
    text = mac("train", "--learner", "episodic", "--help").out
    places = [re.search(rf"\n  {role}:\n    {first}=", text).start() for role, first in groups.items()]
    assert places == sorted(places)
    assert "\n  game:\n    environments=16\n" in mac("train", "ALE/Pong-v5", "--help").out


def test_the_help_of_training_says_what_was_tuned_for_the_environment():
    assert "on CartPole-v0 these algorithms start from" in mac("train", "CartPole-v0", "--help").out
    assert "start from" not in mac("train", "Acrobot-v1", "--help").out.partition("settings on")[2]
    assert "a2c (Baselines' own):" in mac("train", "ALE/Pong-v5", "--help").out


def test_the_version_is_that_of_the_package():
    assert mac("--version") == (0, f"mac {mean_actor_critic.__version__}\n", "")


def on_a_terminal(*words: str, **environment: str) -> bytes:
    """What `mac` writes to a terminal."""
    terminal, end = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    command = [sys.executable, "-m", "mean_actor_critic", *words]
    with os.fdopen(terminal, "rb", buffering=0) as reader:
        with os.fdopen(end, "wb") as writer:
            subprocess.run(
                command, stdout=writer, stderr=writer, env={**kept, "TERM": "xterm", **environment}, check=True
            )
        return reader.read(65536)


def test_a_terminal_gets_no_escape_codes_if_it_asks_for_none(files):
    assert b"\x1b[" in on_a_terminal("runs", ".")
    plain = on_a_terminal("runs", ".", NO_COLOR="1")
    assert b"run" in plain
    assert b"\x1b" not in plain


def test_progress_of_a_segment_without_an_end_has_no_mean(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    with progress.progress_display(quiet=False) as watch:
        show = watch("run")
        for done, mean in ((1, 5.0), (2, float("nan")), (3, 7.25)):
            show(progress.Progress(done, 9, mean, diverged=0))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(", ")[:2] for line in lines] == [["run: 22.2%", "return –"], ["run: 33.3%", "return 7.25"]]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (59.6, "1 min 0 s"), (3725, "1 h 2 min"), (357_083, "4 d 3 h"), (86_399.9, "1 d 0 h")],
)
def test_time_to_come_is_said_in_words(seconds, words):
    assert progress.duration(seconds) == words


def test_a_pipe_gets_no_escape_codes(files):
    for words in (("runs", "."), ("resume", "run")):
        outcome = mac(*words)
        assert "\x1b" not in outcome.out + outcome.err
