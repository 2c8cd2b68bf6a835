"""What is shown: names, files and environments bring text, which is shown in one line each and never obeyed."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest
from rich.table import Table

from helpers import TINY_WORDS, assert_one_line, forge_arrays, forge_manifest, mac, only_begun
from mean_actor_critic import terminal
from mean_actor_critic.errors import EnvironmentFault, MacError
from mean_actor_critic.progress import Progress, progress_display
from mean_actor_critic.runs.run import Run
from test_architecture import MODULES, tree_of

EVIL = "\x1b]0;owned\x07\x1b[2J\r\nmac: all is well\u202e\x9b31m\ud800\t."
SAFE = "�]0;owned��[2J mac: all is well��31m� ."  # what becomes of it in a line


def assert_harmless(text: str) -> None:
    assert all(sign.isprintable() or sign == "\n" for sign in text), repr(text)


# --- one place prints ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"terminal"}))
def test_nobody_else_prints(module):
    """But for the bar of progress, which rich draws on a terminal."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call)]
    assert "print" not in calls
    assert not [call for call in calls if call.startswith(("sys.stdout.w", "sys.stderr.w", "traceback.print"))]
    assert "Console" not in calls or module == "progress"


@pytest.mark.parametrize(("show", "stream"), [(terminal.say, "err"), (terminal.tell, "out")])
def test_a_line_is_one_line_without_control_characters(capsys, show, stream):
    show(EVIL)
    assert getattr(capsys.readouterr(), stream) == f"{SAFE}\n"


def test_a_table_shows_control_characters_of_its_cells_and_keeps_its_own_colours(capsys, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table(title="T", title_style="bold")
    table.add_column(EVIL)
    table.add_row("[/x] " + EVIL)
    terminal.show(Table(title="plain"))
    with pytest.raises(Exception, match="closing tag"):  # markup in a cell is the business of who makes the table
        terminal.show(table)
    table = Table(title="T", title_style="bold red")
    table.add_column("cell")
    table.add_row("\x1b]0;owned\x07")
    terminal.show(table)
    shown = capsys.readouterr().out
    assert "\x1b[1;31m" in shown
    assert "�]0;owned" in shown
    assert "\x1b]" not in shown


def test_errors_and_progress_are_one_line_too(capsys):
    assert str(MacError(EVIL)) == SAFE
    assert str(EnvironmentFault("e", "", "step()", EVIL)).endswith(SAFE)
    with progress_display(quiet=False) as watch:
        watch(EVIL)(Progress(1, 2, 0.0, 0))
    assert_harmless(capsys.readouterr().err)


# --- from files and environments -------------------------------------------------------------------------------------


def _evil(document):
    document["versions"]["jax"] = EVIL
    document["origin"] = EVIL


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.filterwarnings("default")
def test_what_manifests_say_is_shown_as_text(files):
    forge_manifest(files, _evil)
    only_begun(files)
    resumed = mac("resume", "run")
    assert resumed.code == 0
    assert "may change with" in resumed.err
    assert SAFE in resumed.err
    for text in (resumed.out, resumed.err, mac("runs", ".").out, repr(Run.load(files.run))):
        assert_harmless(text)


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize(
    "words", [("runs", "."), ("resume", "run"), ("evaluate", "run"), ("report", "run", "--out", "o")]
)
def test_a_forged_environment_s_name_is_shown_as_text(files, words):
    name = "CartPole-v0" + EVIL
    forge_manifest(files, lambda document: document["experiment"].update({"environment": name, "engine": "hosted"}))
    if words[0] == "resume":
        only_begun(files)
    outcome = mac(*words)
    assert_harmless(outcome.out + outcome.err)
    assert_one_line(outcome.err or "-")


@pytest.mark.usefixtures("in_tmp_path")
def test_a_forged_array_s_name_is_shown_as_text(files):
    forge_arrays(files.agent, {EVIL.replace("\ud800", ""): np.zeros(1, np.float32)})
    outcome = mac("evaluate", files.agent)
    assert_harmless(outcome.err)
    assert_one_line(outcome.err)


@pytest.mark.usefixtures("in_tmp_path")
def test_what_environments_raise_and_print_is_shown_as_text(tmp_path):
    (tmp_path / "evil_environment.py").write_text(
        f"def make():\n    print({EVIL.replace(chr(0xD800), '')!a})\n    raise ValueError({EVIL!a})\n"
    )
    outcome = mac("train", "evil_environment:make", "--out", "new", *TINY_WORDS)
    assert outcome.code == 2
    assert "all is well" in outcome.err
    assert_harmless(outcome.out + outcome.err)


@pytest.mark.usefixtures("in_tmp_path")
def test_words_of_the_command_line_are_shown_as_text():
    for words in (("train", "CartPole-v0", f"--{EVIL}"), (EVIL,), ("runs", EVIL), ("resume", EVIL)):
        assert_harmless(mac(*words).err)


# --- streams that take nothing ---------------------------------------------------------------------------------------

MAC = f"{sys.executable} -P -m mean_actor_critic"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    where = {**os.environ, **environment}
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=120, check=False, env=where)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_results_that_cannot_be_written_are_said_in_one_line(unbuffered):
    for words in ("runs .", "--help", "--version"):
        done = shell(f"{MAC} {words} >/dev/full", PYTHONUNBUFFERED=unbuffered)
        assert (done.returncode, done.stderr) == (1, "mac: standard output: No space left on device\n")


@pytest.mark.parametrize(
    ("words", "code"),
    [("runs . >&-", 0), ("nothing 2>&-", 2), ("nothing 2>/dev/full", 2), ("runs nowhere 2>/dev/full", 2)],
)
def test_a_stream_that_is_closed_or_full_changes_no_exit_code(words, code):
    done = shell(f"{MAC} {words}")
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.usefixtures("in_tmp_path")
@pytest.mark.parametrize("words", ["runs .", "train --help", "check CartPole-v1"])
def test_an_encoding_without_our_characters_is_no_reason_to_fail(files, words):
    (files.run.parent / "ü\udcff").symlink_to(files.run)
    done = shell(f"{MAC} {words}", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (done.returncode, done.stderr) == (0, "")
