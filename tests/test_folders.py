"""Run folders and what lies beside and below them: nothing leads out of one, and nobody's files are taken for ours."""

import pytest

from helpers import TINY_WORDS, assert_one_line, copy_of_tiny_run, mac, message_of, only_begun, snapshot
from mean_actor_critic.errors import DiskError
from mean_actor_critic.files import folder_within
from mean_actor_critic.runs import store
from mean_actor_critic.spec.grid import grid_from_json
from mean_actor_critic.studies.search import make_plan, search
from mean_actor_critic.studies.sweep import create_sweep

pytestmark = pytest.mark.usefixtures("in_tmp_path")

LEFTOVERS = (".manifest.json.1.tmp", ".best-0.safetensors.1.tmp", ".theory.json.1.tmp", ".summary.csv.1.tmp")


@pytest.fixture
def victim(tmp_path):
    """A folder of somebody else's."""
    folder = tmp_path / "victim"
    folder.mkdir()
    for name in (*LEFTOVERS, ".notes.tmp", "precious"):
        (folder / name).write_text(name)
    return folder


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "code"), [("agents", 1), ("tensorboard", 0), ("x", 0)])
def test_nothing_is_removed_or_written_through_a_linked_sub_folder_of_a_run(files, victim, part, code):
    (only_begun(files) / part).symlink_to(victim)
    before = snapshot(victim)
    outcome = mac("resume", "run", "--tensorboard", "--quiet")
    assert snapshot(victim) == before
    assert (outcome.code, "symbolic link" in outcome.err) == (code, part != "x")
    assert_one_line(outcome.err or "-")


def test_a_search_does_not_write_through_a_link(tmp_path, victim):
    plan = make_plan("CartPole-v0", ("mac",), grid_from_json({"choices": {"hidden": [[]]}}), 1, 2)
    create_sweep(tmp_path / "s", plan, {})
    (tmp_path / "s" / "cells").symlink_to(victim)
    before = snapshot(victim)
    with pytest.raises(DiskError, match="symbolic link"):
        next(search(tmp_path / "s", plan))
    assert snapshot(victim) == before


def test_a_study_does_not_write_through_a_link(tmp_path, victim):
    words = ("reproduce", "cart-pole", "--trials", "1", "--episodes", "2", "--out", "study", "--quiet")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "report").symlink_to(victim)
    before = snapshot(tmp_path)
    assert "symbolic link" in mac(*words).err
    assert snapshot(tmp_path) == before


def test_events_are_not_written_through_a_link(tmp_path, victim, monkeypatch):
    from mean_actor_critic.reports import tensorboard

    monkeypatch.setattr(tensorboard.time, "time", lambda: 7.0)
    monkeypatch.setattr(tensorboard.socket, "gethostname", lambda: "host")
    copy_of_tiny_run(tmp_path)
    (tmp_path / "run" / "tensorboard").mkdir()
    (tmp_path / "run" / "tensorboard" / "events.out.tfevents.0000000007.host").symlink_to(victim / "precious")
    run = store.read_manifest(tmp_path / "run")
    writer = tensorboard.EventWriter(tmp_path / "run", run.experiment)
    from mean_actor_critic.runs.run import Run

    loaded = Run.load(tmp_path / "run")
    message_of(lambda: writer.write(loaded.curves, loaded.evaluations))
    assert (victim / "precious").read_text() == "precious"


@pytest.mark.parametrize("make", [lambda path, _: path.touch(), lambda path, victim: path.symlink_to(victim)])
def test_a_sub_folder_that_is_something_else_is_refused(tmp_path, victim, make):
    make(tmp_path / "part", victim)
    assert "could not be used" in message_of(lambda: folder_within(tmp_path, "part"))


# --- files that others write -----------------------------------------------------------------------------------------


def test_a_lock_clears_what_its_own_writer_left_and_nothing_else(tmp_path):
    for folder in ("", "agents", "cells", "run", "report"):
        (tmp_path / folder).mkdir(exist_ok=True)
        for name in (*LEFTOVERS, ".notes.tmp", ".draft.1.tmp", ".x.json.tmp"):
            (tmp_path / folder / name).touch()
    (tmp_path / ".folder.json.1.tmp").mkdir()
    before = set(snapshot(tmp_path))
    with store.sole_writer(tmp_path, "agents"):
        cleared = before - set(snapshot(tmp_path))
    assert cleared == {*LEFTOVERS, *(f"agents/{name}" for name in LEFTOVERS)}


@pytest.mark.parametrize("name", [".notes.tmp", ".sweep.json.1.tmp", ".thesis.1.tmp", ".manifest.json.tmp"])
def test_a_folder_with_somebody_s_hidden_file_is_not_taken_for_empty(tmp_path, name):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / name).write_text("precious")
    outcome = mac("train", "CartPole-v0", "--out", "new", *TINY_WORDS)
    assert (outcome.code, "an empty or new folder" in outcome.err) == (2, True)
    assert snapshot(tmp_path / "new") == {name: b"precious"}
