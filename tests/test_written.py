"""A report that is written into the folder of another clears away the other's files, and nobody else's."""

import json
import os

import pytest

import synthetic
from mean_actor_critic.reports import content as contents
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import Recording
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.reports.written import LIST, clear_and_list
from mean_actor_critic.studies.sweep import Rung


def write(folder, *names):
    """A report of such files, with their names as content."""
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(name)
    clear_and_list(folder, [folder / name for name in names])


def there(folder):
    return {file.name for file in folder.iterdir()} - {LIST}


def test_files_of_an_earlier_report_that_the_new_one_does_not_write_are_removed(tmp_path):
    write(tmp_path, "index.html", "grid.json")
    write(tmp_path, "index.html", "claims.csv")
    assert there(tmp_path) == {"index.html", "claims.csv"}
    assert set(json.loads((tmp_path / LIST).read_text())["files"]) == {"index.html", "claims.csv"}


def test_what_somebody_else_put_there_or_changed_stays(tmp_path):
    write(tmp_path, "index.html", "changed.csv", "stale.csv")
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "changed.csv").write_text("mine")
    write(tmp_path, "index.html")
    assert there(tmp_path) == {"index.html", "notes.txt", "changed.csv"}


def test_no_link_is_followed(tmp_path):
    kept, folder = tmp_path / "kept.csv", tmp_path / "report"
    write(folder, "index.html", "kept.csv")
    (folder / "kept.csv").rename(kept)
    (folder / "kept.csv").symlink_to(kept)  # to the very bytes that were written
    write(folder, "index.html")
    assert kept.read_text() == "kept.csv"
    assert os.path.islink(folder / "kept.csv")


@pytest.mark.parametrize("name", ["../kept.csv", "deeper/kept.csv", "{}/kept.csv", "..", ".", "", "a\0b", "\ud800"])
def test_a_forged_list_removes_nothing_elsewhere(tmp_path, name):
    folder = tmp_path / "report"
    write(folder, "index.html", "kept.csv")
    document = json.loads((folder / LIST).read_text())
    for place in (tmp_path, folder / "deeper"):
        place.mkdir(exist_ok=True)
        (place / "kept.csv").write_text("kept.csv")
    document["files"] = {name.format(tmp_path): document["files"]["kept.csv"]}
    (folder / LIST).write_text(json.dumps(document))
    write(folder, "index.html")
    assert (tmp_path / "kept.csv").exists()
    assert (folder / "deeper" / "kept.csv").exists()
    assert (folder / "kept.csv").exists()  # no longer listed


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"files": {}}', '{"format": "mean_actor_critic report 1", "files": 3}', "[" * 100_000, "\udcff"],
)
def test_a_list_that_cannot_be_read_removes_nothing_and_is_replaced(tmp_path, text):
    write(tmp_path, "index.html", "kept.csv")
    (tmp_path / LIST).write_bytes(text.encode(errors="surrogateescape"))
    write(tmp_path, "index.html")
    assert there(tmp_path) == {"index.html", "kept.csv"}
    assert set(json.loads((tmp_path / LIST).read_text())["files"]) == {"index.html"}


def test_a_report_of_runs_after_one_of_a_search_leaves_nothing_of_the_search(tmp_path):
    run = synthetic.make_run(tmp_path / "run", returns=synthetic.learning("mac", 3, 20))
    sweep = synthetic.make_sweep(tmp_path / "sweep", synthetic.GRID, (Rung(2, 9),), ("mac",))
    for path in (sweep.path, run.path):
        written = write_report(contents.read(find_sources([path])), Recording("No video here."), tmp_path / "out")
        assert there(tmp_path / "out") == {file.name for file in written} - {LIST}
    assert not (tmp_path / "out" / "winners.csv").exists()
