"""Cores that stay awake while games are trained, by processes that take nothing and leave nothing behind."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers import at_most, is_running, state_of, wait_until
from mean_actor_critic.training import wakefulness
from mean_actor_critic.training.wakefulness import cores_awake

LONG = 300.0  # on busy cores they hardly get to run, even for ending

PARENT = """
import time
from mean_actor_critic.training import wakefulness
wakefulness.cores, wakefulness._has_quota = (lambda: 2), (lambda: False)
with wakefulness.cores_awake() as pids:
    print(*pids, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def _two_cores_without_a_quota(monkeypatch, tmp_path):
    monkeypatch.setattr(wakefulness, "cores", lambda: 2)
    monkeypatch.setattr(wakefulness, "_OWN_GROUPS", tmp_path / "none")
    monkeypatch.delenv(wakefulness.SWITCH, raising=False)


@pytest.fixture
def parent():
    """A process that keeps cores awake, and the processes by which it does."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in process.stdout.readline().split()]
    assert pids
    yield process, pids
    process.kill()
    process.wait()
    process.stdout.close()


def test_each_core_has_a_process_of_the_lowest_priority_until_the_end():
    with cores_awake() as pids:
        allowed = os.sched_getaffinity(0)
        assert len(pids) == len(allowed)
        groups = [Path(f"/proc/{pid}/autogroup") for pid in pids if os.path.exists("/proc/self/autogroup")]
        wait_until(lambda: all(os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in pids), LONG)
        wait_until(lambda: all(group.read_text().endswith("nice 19\n") for group in groups), LONG)
        assert {core for pid in pids for core in os.sched_getaffinity(pid)} == allowed
        assert all(len(os.sched_getaffinity(pid)) == 1 for pid in pids)
        assert all(os.getsid(pid) == pid for pid in pids)
    wait_until(lambda: not any(map(is_running, pids)), LONG)


def test_nobody_waits_for_one_that_does_not_get_its_turn_to_end(monkeypatch):
    class Starved:
        pid, ended = 0, threading.Event()

        def kill(self):
            pass

        def wait(self):
            self.ended.wait()

    monkeypatch.setattr(wakefulness, "_keep_awake", lambda core: Starved())
    with at_most(30), cores_awake() as pids:
        assert pids
    Starved.ended.set()


def test_they_end_with_a_process_that_is_killed(parent):
    process, pids = parent
    assert all(map(is_running, pids))
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_running, pids)), LONG)


def test_they_sleep_while_their_process_is_stopped(parent):
    process, pids = parent
    wait_until(lambda: all(os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in pids), LONG)
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: all(state_of(pid) == "S" for pid in pids), LONG)
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: all(state_of(pid) == "R" for pid in pids), LONG)


@pytest.mark.parametrize("count", [1, 17])
def test_there_are_none_on_one_core_or_on_very_many(monkeypatch, count):
    monkeypatch.setattr(wakefulness, "cores", lambda: count)
    with cores_awake() as pids:
        assert pids == []


def test_there_are_none_if_they_are_not_wanted(monkeypatch):
    monkeypatch.setenv("MAC_CORES_AWAKE", "0")
    with cores_awake() as pids:
        assert pids == []


@pytest.mark.parametrize(
    ("groups", "file", "text", "expected"),
    [
        ("0::/", "cpu.max", "max 100000", True),
        ("0::/", "cpu.max", "150000 100000", False),
        ("0::/job/step", "job/step/cpu.max", "150000 100000", False),
        ("0::/job/step", "job/cpu.max", "150000 100000", False),
        ("0::/job/step", "another/cpu.max", "150000 100000", True),
        ("5:memory:/\n4:cpu,cpuacct:/job", "cpu/job/cpu.cfs_quota_us", "50000", False),
        ("5:memory:/\n4:cpu,cpuacct:/job", "cpu/job/cpu.cfs_quota_us", "-1", True),
    ],
)
def test_there_are_none_with_a_quota(monkeypatch, tmp_path, groups, file, text, expected):
    (tmp_path / "own").write_text(groups + "\n")
    (tmp_path / "groups" / file).parent.mkdir(parents=True)
    (tmp_path / "groups" / file).write_text(text + "\n")
    monkeypatch.setattr(wakefulness, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(wakefulness, "_GROUPS", tmp_path / "groups")
    assert wakefulness._has_quota() != expected
