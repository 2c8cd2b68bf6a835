"""Whatever is given from Python in the place of an argument is used, or refused in one line."""

import ast
import functools
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import mean_actor_critic as mac
from helpers import (
    LONGEST_WAIT,
    TINY_WORDS,
    assert_one_line,
    assert_refused,
    forge_manifest,
    mac_within,
    message_of,
    run_mac,
    run_python,
)
from helpers import mac as command
from mean_actor_critic.errors import LONGEST_MESSAGE, InputError, MacError
from mean_actor_critic.runs import store
from mean_actor_critic.runs.agent import Agent
from mean_actor_critic.runs.run import Run
from test_architecture import MODULES, tree_of


class Unspeakable:
    def __repr__(self):
        raise RuntimeError


WITHIN_ITSELF: list = []
WITHIN_ITSELF.append(WITHIN_ITSELF)
WEIRD = {
    "an array": np.array([1, 2]),
    "an array of names": np.array(["compiled", "hosted"]),
    "an array that is one number": np.array(5),
    "not a number": float("nan"),
    "an object": object(),
    "an object that cannot be shown": Unspeakable(),
    "a list of nothing": [],
    "a list within itself": WITHIN_ITSELF,
    "bytes": b"x",
    "a number of 5000 digits": 10**5000,
    "half a character": "\ud800",
    "nothing that ends a word": "a\0b",
    "arrays by name": {"a": np.zeros(2)},
}


class Used(Exception):  # noqa: N818
    """It was not refused."""


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch, files, in_tmp_path):
    def stop(*_, **__):
        raise Used

    for place in ("runs.train.carry_on", "studies.search.search", "runs.evaluate.environment_of"):
        monkeypatch.setattr(f"mean_actor_critic.{place}", stop)
    monkeypatch.setattr("mean_actor_critic.reports.write.read", stop)
    monkeypatch.setattr("mean_actor_critic.runs.watch.environment_of", stop)


def assert_used_or_refused(call, **argument):
    try:
        call(**argument)
    except (MacError, Used) as fault:
        message = str(fault)
        assert not message or len(message.splitlines()) == 1


TRAIN = [
    name
    for name, parameter in inspect.signature(mac.train).parameters.items()
    if parameter.kind is parameter.KEYWORD_ONLY
    and name not in {"progress", "on_progress", "on_start", "on_study", "network"}
]


@pytest.mark.parametrize("value", WEIRD.values(), ids=WEIRD)
def test_every_argument_of_train(value):
    for name in TRAIN:
        assert_used_or_refused(lambda **more: mac.train("CartPole-v0", progress=False, **more), **{name: value})


@pytest.mark.parametrize("value", WEIRD.values(), ids=WEIRD)
def test_arguments_of_everything_else(files, value):
    run, agent = Run.load(files.run), Agent.load(files.agent)
    for call, words, names in (
        (mac.resume, [files.run], ("episodes", "steps", "checkpoint_seconds", "workers", "step_seconds", "algorithm")),
        (mac.evaluate, [files.run], ("episodes", "seed", "settings", "workers", "step_seconds")),
        (mac.watch, [files.run, "v.mp4"], ("episodes", "trial", "seed")),
        (mac.watch, [files.run], ("out",)),
        (mac.report, [files.run], ("out",)),
        (run.curve, [], ("unit", "of")),
        (run.agent, [], ("trial", "episode")),
        (agent.seed, [], ("seed",)),
        (agent.save, [], ("path",)),
        (Run.load, [], ("path",)),
        (Agent.load, [], ("path",)),
        (Run.load, [files.run], ("network",)),
        (Agent.load, [files.agent], ("seed", "network")),
    ):
        for name in names:
            assert_used_or_refused(functools.partial(call, *words), **{name: value})
    for name in ("algorithm", "trials", "episodes", "rule", "halving", "seed", "out", "grid"):
        small = {"grid": {"actor_lr": [0.1]}, "trials": 1, "episodes": 1, "progress": False}
        assert_used_or_refused(lambda **more: mac.sweep("CartPole-v0", **more), **{**small, name: value})
    for call in (mac.resume, mac.evaluate, mac.check, mac.train):
        if not isinstance(value, str):
            assert_used_or_refused(lambda *, c=call: c(value))
    assert_used_or_refused(lambda: mac.report(value, "o"))


def test_an_engine_is_a_name():
    with pytest.raises(InputError, match="engine"):
        mac.train("CartPole-v0", engine=np.array(["compiled", "hosted"]))


def test_what_cannot_be_shown_is_named_by_its_type():
    assert "a Unspeakable that cannot be shown" in message_of(lambda: mac.train("CartPole-v0", trials=Unspeakable()))
    assert "a int that cannot be shown" in message_of(lambda: mac.train("CartPole-v0", trials=10**5000))


# --- words of the command line ---------------------------------------------------------------------------------------

DIGITS = "9" * 4301
NUMBERS = (
    *((("train", "CartPole-v0"), option) for option in (
        "--trials", "--steps", "--episodes", "--until", "--evaluate-every", "--seed", "--first-trial", "--workers",
        "--step-seconds", "--snapshots", "--max-episode-steps",
    )),
    *((("evaluate", "run"), option) for option in ("--episodes", "--trial", "--seed")),
    *((("sweep", "CartPole-v0"), option) for option in ("--trials", "--episodes", "--seed")),
    *((("reproduce", "cart-pole"), option) for option in ("--trials", "--episodes", "--seed")),
    *((("gradients", "run"), option) for option in ("--batch-sizes", "--replicates", "--seed")),
    (("reproduce", "modern"), "--steps-share"),
    (("reproduce", "atari"), "--steps"),
    (("resume", "run"), "--episodes"),
    (("watch", "run", "--out", "v.mp4"), "--episodes"),
    (("export", "run", "--out", "a.safetensors"), "--trial"),
)  # fmt: skip


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("words", "option"), NUMBERS)
def test_a_number_of_more_digits_than_python_reads_is_refused(words, option):
    outcome = command(*words, option, DIGITS)
    assert outcome.code == 2
    assert_one_line(outcome.err)
    assert len(outcome.err) < LONGEST_MESSAGE


DEEP = {"lists": "[" * 5000 + "]" * 5000, "dictionaries": '{"a":' * 5000 + "1" + "}" * 5000, "open": "[" * 5000}


@pytest.mark.parametrize("text", [*DEEP.values(), DIGITS], ids=[*DEEP, "digits"])
@pytest.mark.parametrize("words", [("train", "CartPole-v0"), ("check", "CartPole-v0")])
def test_keyword_arguments_are_not_deeper_or_longer_than_json_is_read(words, text):
    outcome = command(*words, "--env-kwargs", f"x={text}")
    assert outcome.code == 2
    assert_one_line(outcome.err)
    assert "--env-kwargs" in outcome.err


GRIDS = {
    **DEEP,
    "digits": '{"choices": {"actor_lr": [' + DIGITS + "]}}",
    "not a number": '{"choices": {"actor_lr": [NaN]}}',
    "infinite": '{"choices": {"actor_lr": [1e999]}}',
    "beyond any number": '{"choices": {"actor_lr": [' + "9" * 4000 + "]}}",
    "deep values": '{"choices": {"hidden": ' + "[" * 900 + "]" * 900 + "}}",
    "half a character": '{"choices": {"\\ud800": [1]}}',
}


@pytest.mark.parametrize("text", GRIDS.values(), ids=GRIDS)
def test_a_grid_that_is_no_grid_is_refused(tmp_path, text):
    (tmp_path / "grid.json").write_text(text)
    outcome = command("sweep", "CartPole-v0", "--grid", "grid.json")
    assert outcome.code == 2
    assert_one_line(outcome.err)
    assert "grid" in outcome.err


# --- paths -----------------------------------------------------------------------------------------------------------

PATHS = {
    "a name too long": "a" * 300,
    "a path too long": "/".join(["b" * 200] * 30),
    "within a file": "agent.safetensors/x",
}
WITH_PATHS = (
    ("report", "PATH", "--out", "o"), ("report", "run", "--out", "PATH"), ("watch", "PATH", "--out", "v.mp4"),
    ("watch", "run", "--out", "PATH/v.mp4"), ("sweep", "CartPole-v0", "--grid", "PATH"), ("resume", "PATH"),
    ("evaluate", "PATH"), ("runs", "PATH"), ("export", "run", "--out", "PATH.safetensors"), ("gradients", "PATH"),
    ("reproduce", "cart-pole", "--quick", "--out", "PATH"), ("train", "CartPole-v0", "--out", "PATH", "--quiet"),
    ("gradients", "run", "--out", "PATH"),
)  # fmt: skip


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
@pytest.mark.parametrize("words", WITH_PATHS, ids=" ".join)
def test_a_path_that_no_disk_has_is_refused_in_one_line(words, path):
    outcome = command(*(word.replace("PATH", path) for word in words))
    assert outcome.code in (1, 2)
    assert_one_line(outcome.err)
    assert outcome.err.startswith("mac")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS)
def test_the_same_from_python_is_an_error_of_ours(path):
    for call in (
        Run.load,
        Agent.load,
        mac.resume,
        mac.evaluate,
        lambda p: mac.report(p, "o"),
        lambda p: mac.watch(p, "v.mp4"),
    ):
        message_of(lambda c=call: c(path))
    message_of(lambda: mac.train("CartPole-v0", out=path))
    message_of(lambda: mac.report("run", path))
    message_of(lambda: mac.Run.load("run").agent(0).save(f"{path}.safetensors"))


# --- limits of the system --------------------------------------------------------------------------------------------


def test_a_limit_on_open_files_is_named_and_leaves_nothing(tmp_path):
    words = (
        "train",
        "CartPole-v0",
        *TINY_WORDS,
        "--quiet",
        "--engine=hosted",
        "--workers=8",
        "--trials=8",
        "--out=new",
    )
    outcome = run_python(mac_within("RLIMIT_NOFILE", 40), *words, cwd=tmp_path)
    assert_refused(outcome, 1, "Too many open files", "ulimit -n")
    assert not (tmp_path / "new").exists()


def test_a_working_folder_that_is_gone_is_named(files, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    script = "import os, sys; from mean_actor_critic.cli.main import main; os.rmdir(os.getcwd()); main(sys.argv[1:])"
    for words in (("report", "../run", "--out", "x"), ("train", "CartPole-v0", *TINY_WORDS, "--quiet")):
        gone.mkdir(exist_ok=True)
        outcome = run_python(script, *words, cwd=gone)
        assert outcome.code in (1, 2)
        assert_one_line(outcome.err)
        assert outcome.err.startswith("mac: ")


def test_training_without_standard_error_goes_on(tmp_path):
    command = f"{sys.executable} -P -m mean_actor_critic train CartPole-v0 --out new 2>&- >&- <&- "
    done = subprocess.run(command + " ".join(TINY_WORDS), shell=True, cwd=tmp_path, timeout=LONGEST_WAIT, check=False)
    assert done.returncode == 0
    assert Run.load(tmp_path / "new").finished


@pytest.mark.usefixtures("files")
def test_names_that_are_not_utf_8_are_used(tmp_path):
    folder = tmp_path / os.fsdecode(b"not\xffutf")
    (tmp_path / "run").rename(folder)
    assert Run.load(folder).finished
    Run.load(folder).agent(0).save(folder / "agent.safetensors")
    assert Agent.load(folder / "agent.safetensors").trial == 0
    assert command("resume", folder).code == command("runs", folder).code == 0


def calls_in(module):
    calls = (node for node in ast.walk(tree_of(module)) if isinstance(node, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Attribute)]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_paths_are_looked_at_by_what_does_not_raise_and_text_has_an_encoding(module):
    """`Path.exists` and its like raise where a name is too long; the encoding of a locale may be ASCII."""
    for call in calls_in(module):
        place = f"{module}:{call.lineno}"
        whose = ast.unparse(call.func.value)
        assert call.func.attr not in {"exists", "is_dir", "is_file", "is_symlink", "resolve"} or whose == "os.path", (
            place
        )
        named = {keyword.arg for keyword in call.keywords}
        assert call.func.attr not in {"read_text", "write_text"} or "encoding" in named, place


def test_a_report_is_written_in_a_locale_of_ascii_and_of_what_is_no_text(files, tmp_path):
    forge_manifest(files, lambda document: document.update(origin="\udcff\ud800"))
    arrays, words = store.read_arrays(files.checkpoint, store.CHECKPOINT_FORMAT)
    digest = store.read_manifest(files.run).digest
    store.write_arrays(files.checkpoint, arrays, {**words, "run": digest})
    ascii_only = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    outcome = run_mac("report", files.run, "--out", "r", "--no-video", cwd=tmp_path, env=ascii_only)
    assert (outcome.code, outcome.err) == (0, "")
    assert not (tmp_path / "r" / "index.html").read_text(encoding="utf-8").isascii()
