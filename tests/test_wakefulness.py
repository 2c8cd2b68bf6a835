"""Cores that stay awake while games are trained, by processes that take nothing and leave nothing behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mean_actor_critic.training import wakefulness
from mean_actor_critic.training.wakefulness import cores_awake

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="a priority of Linux")


@pytest.fixture(autouse=True)
def two_cores_without_a_quota(monkeypatch):
    monkeypatch.setattr(wakefulness, "cores", lambda: 2)
    monkeypatch.setattr(wakefulness, "_QUOTAS", {})


def eventually(holds):
    for _ in range(30_000):  # on busy cores they hardly get to run, even for ending
        if holds():
            return True
        time.sleep(0.01)
    return False


def is_running(pid):
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False


def test_each_core_has_a_process_of_the_lowest_priority_until_the_end():
    with cores_awake() as pids:
        allowed = os.sched_getaffinity(0)
        assert len(pids) == len(allowed)
        assert eventually(lambda: all(os.sched_getscheduler(pid) == os.SCHED_IDLE for pid in pids))
        assert {core for pid in pids for core in os.sched_getaffinity(pid)} == allowed
        assert all(len(os.sched_getaffinity(pid)) == 1 for pid in pids)
        assert all(os.getsid(pid) == pid for pid in pids)
    assert not any(map(is_running, pids))


def test_they_end_with_a_process_that_is_killed():
    script = """
import time
from mean_actor_critic.training import wakefulness
wakefulness.cores, wakefulness._QUOTAS = (lambda: 2), {}
with wakefulness.cores_awake() as pids:
    print(*pids, flush=True)
    time.sleep(600)
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    pids = [int(word) for word in parent.stdout.readline().split()]
    assert pids
    assert all(map(is_running, pids))
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert eventually(lambda: not any(map(is_running, pids)))


def test_there_are_none_on_one_core_or_on_very_many_or_with_a_quota(monkeypatch, tmp_path):
    for text, expected in (("max 100000", True), ("150000 100000", False)):
        (tmp_path / "cpu.max").write_text(text)
        monkeypatch.setattr(wakefulness, "_QUOTAS", {str(tmp_path / "cpu.max"): "max", str(tmp_path / "none"): "-1"})
        with cores_awake() as pids:
            assert bool(pids) == expected
    monkeypatch.setattr(wakefulness, "_QUOTAS", {})
    for count in (1, 17):
        monkeypatch.setattr(wakefulness, "cores", lambda count=count: count)
        with cores_awake() as pids:
            assert pids == []
