"""The campaign of faults: a small part of it, with fixed seeds; and that it finds what it looks for."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from chaos import (
    configurations,
    crashes,
    environments,
    executions,
    faulty,
    files,
    forgery,
    harness,
    kills,
    neighbours,
    results,
    soak,
    tally,
    workers,
)

import misbehaving
from helpers import BESIDE_TESTS, LONGEST_WAIT, run_python

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def attempt_of(kind, number, folder):
    return harness.Attempt(kind, 0, number, folder, harness.random_of(kind, 0, number))


def budget_of(count, folder, jobs=1):
    return harness.Budget(0, count, time.monotonic() + LONGEST_WAIT, jobs, folder, threading.Event())


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """The folder of a campaign, with a few true files to damage, for all tests."""
    folder = tmp_path_factory.mktemp("campaign")
    files.made(folder, "small")
    return folder


def found_by(module, campaign, count):
    """What a worker would find, in this process."""
    folder = campaign / f"{module.NAME}-here"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    attempt = module.make_try(folder)
    return [f for number in range(count) for f in workers.tried(attempt, attempt_of(module.NAME, number, folder))]


def columns(findings):
    return {finding.column for finding in findings}


# --- a small part of it ----------------------------------------------------------------------------------------------


def test_damaged_and_forged_files_are_refused_in_one_line(campaign):
    assert found_by(files, campaign, 150) == []


def test_a_crash_at_any_file_call_leaves_the_old_or_the_new(campaign):
    done = crashes.KIND.run(budget_of(50, campaign), 0)
    assert (done.tried, done.findings) == (50, ())


def test_drawn_configurations_are_planned_or_refused(campaign):
    done = configurations.KIND.run(budget_of(40, campaign), 0)
    assert (done.tried, done.findings) == (40, ())


def test_a_killed_run_ends_in_the_bits_of_an_undisturbed_one(tmp_path, monkeypatch):
    words = ("CartPole-v0", "--engine", "compiled", "--episodes", "60", "--set", "hidden=4", "minibatches=1")
    monkeypatch.setattr(kills, "VICTIMS", (kills._train("small", *words),))
    monkeypatch.setattr(kills, "KILLS", (1, 1))
    done = kills.KIND.run(budget_of(1, tmp_path), 0)
    assert done.tried >= 1
    assert done.findings == ()


def test_an_attempt_follows_from_its_seed_and_number(campaign):
    content = (campaign / "corpus" / "episodic.safetensors").read_bytes()
    for how in ("damaged", "forged", "foreign", "bloated"):
        one, same = (files.altered(how, content, [content], attempt_of(files.NAME, 5, campaign)) for _ in range(2))
        assert one == same
        assert one != files.altered(how, content, [content], attempt_of(files.NAME, 6, campaign))


# --- that it finds what it looks for ---------------------------------------------------------------------------------


def test_damage_that_nobody_notices_is_found(campaign, monkeypatch):
    """As of readers that compare no checksum: what is changed has a right one."""
    forge = {True: forgery.forged_document, False: forgery.forged_arrays}
    monkeypatch.setattr(forgery, "damaged", lambda content, draw: forge[content[:1] == b"{"](content, draw))
    assert tally.LOST in columns(found_by(files, campaign, 30))


def test_a_reader_that_raises_something_else_is_found(campaign, monkeypatch):
    readers = dict.fromkeys(files.READERS, lambda file: [][1])
    monkeypatch.setattr(files, "READERS", readers)
    with pytest.raises(IndexError):  # true files are read first, and nothing is caught there
        found_by(files, campaign, 1)
    this = attempt_of(files.NAME, 0, campaign)
    file = campaign / "corpus" / "grid.json"
    (finding,) = workers.tried(lambda this: files.read_again(this, "grid", file, None, "damaged"), this)
    assert (finding.column, finding.what) == (tally.TRACEBACK, "IndexError")
    assert finding.repeat == "python -m chaos files --seed 0 --number 0"


WRITES_IN_PLACE = """
import sys
from pathlib import Path
from chaos import crashes, harness, workers
from mean_actor_critic.runs import store

store.write_whole = lambda path, content: path.write_bytes(content)
folder = Path(sys.argv[1])
attempt = crashes.make_try(folder)
for number in range(0, 70, 7):  # of seven things that are written, the first is a checkpoint
    draws = harness.random_of("crashes", 0, number)
    for finding in workers.tried(attempt, harness.Attempt("crashes", 0, number, folder, draws)):
        print(finding.column, finding.what)
"""


def test_a_writer_that_writes_in_place_is_found(campaign):
    (campaign / "in-place").mkdir()
    done = run_python(WRITES_IN_PLACE, campaign / "in-place", cwd=ROOT)
    assert f"{tally.LOST} checkpoint: neither the old nor the new" in done.out, done


def test_attempts_that_die_hang_or_raise_are_found_and_the_others_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "STUCK", 1.0)
    monkeypatch.setenv("PYTHONPATH", BESIDE_TESTS["PYTHONPATH"])
    done = workers.in_workers("misbehaving", "files", budget_of(20, tmp_path, jobs=2), 0)
    assert done.tried == 20
    assert {finding.number: finding.column for finding in done.findings} == {
        misbehaving.DIES: tally.TRACEBACK,
        misbehaving.HANGS: tally.HUNG,
        misbehaving.RAISES: tally.TRACEBACK,
    }


def test_memory_and_files_that_grow_are_found_and_noise_is_not(tmp_path):
    def found(megabytes, files):
        rounds = [soak.Round(60.0 * i, 200 + megabytes * i + i % 3, 20 + files * i, "same") for i in range(40)]
        return columns(soak.of_rounds(attempt_of(soak.NAME, 0, tmp_path), rounds))

    assert found(0, 0) == set()
    assert found(1, 0) == {tally.HUNG}
    assert found(0, 1) == {tally.LEFT}


def test_two_writers_of_a_new_folder_or_none_are_found(tmp_path):
    this = attempt_of(neighbours.NAME, 0, tmp_path)
    done, refused = harness.Ended(0, "", "", 1.0), harness.Ended(2, "", "mac: out: is being written by process 1", 1.0)
    assert neighbours.of_writers(this, [done, refused, refused], new=True) == []
    for ends in ([done, done, refused], [refused, refused], [done, refused._replace(err="mac: another reason")]):
        assert columns(neighbours.of_writers(this, ends, new=True)) == {tally.LOST}


def test_every_fault_of_an_environment_is_one_that_it_knows(tmp_path):
    deeds = [fault for fault in environments.faults() if " in " in fault and fault.endswith(environments.PLACES)]
    assert len(deeds) == (len(faulty.DEEDS) - 1) * len(environments.PLACES)
    assert len(set(environments.faults())) == len(environments.faults())


def test_modules_that_are_run_leave_a_mark(tmp_path):
    mark = tmp_path / "executed"
    executions.plant(tmp_path, mark, ["flax"])
    subprocess.run([sys.executable, "-c", "import flax"], cwd=tmp_path, check=True)
    assert mark.read_text().startswith("flax\t")


def test_processes_that_hang_or_are_left_are_found_and_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(harness, "PATIENCE", 0.2)
    monkeypatch.setattr(harness, "GOODBYE", 0.2)
    child = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True); print(1 / 0)"

    def attempt(this):
        parent = harness.ran(this, [sys.executable, "-c", child], 60)
        found = [*harness.complaints(this, parent, (0,), "a parent"), *harness.left_behind(this)]
        hanging = harness.ran(this, ["sleep", "1000"], 0.1)
        return harness.Outcome(2, [*found, *harness.complaints(this, hanging, (0,), "sleep")])

    done = harness.one_by_one("kills", attempt, budget_of(2, tmp_path), 0)
    assert (done.tried, columns(done.findings)) == (2, {tally.TRACEBACK, tally.LEFT, tally.HUNG})
    assert not harness.marked(f"{os.getpid()}/")


def test_an_interrupt_ends_with_the_table_so_far_and_nothing_is_left():
    command = [sys.executable, "-m", "chaos", "kills", "--jobs", "2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while not harness.marked(f"{process.pid}/"):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LONGEST_WAIT)
    assert process.returncode == 130, err
    assert "| kills |     0 |" in out
    assert "Traceback" not in err
    assert not harness.marked(f"{process.pid}/")


# --- tables ----------------------------------------------------------------------------------------------------------


def test_campaigns_add_up_in_a_file_and_numbers_go_on(tmp_path):
    page = tmp_path / "results" / "chaos.md"
    finding = tally.Finding(tally.HUNG, "did not end", "kills", 3, 7, "details")
    versions = {"mean_actor_critic": "0", "commit": "abc"}
    results.record(page, ("kills", tally.tally_of(5, [finding], 11), 2.0), 3, 0, "python -m chaos", versions)
    results.record(page, ("kills", tally.tally_of(4, [], 20), 3.0), 3, 12, "python -m chaos", versions)
    assert "| kills |     9 |    0 |        0 |    1 |" in page.read_text()
    assert "`python -m chaos kills --seed 3 --number 7`" in page.read_text()
    assert (results.next_number(page, "kills", 3), results.next_number(page, "kills", 4)) == (21, 0)


def test_of_the_same_finding_a_few_are_shown_and_all_are_counted():
    findings = [tally.Finding(tally.LOST, "gone", "files", 0, number) for number in range(100)]
    total = tally.tally_of(100, findings, 99)
    assert sum(total.counts) == 100
    assert len(total.findings) == tally.EXAMPLES
