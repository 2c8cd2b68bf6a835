"""Options and set-up shared by all tests."""

import collections
import contextlib
import gc
import os
from pathlib import Path

os.environ.setdefault("NO_COLOR", "1")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "2")  # what users get on a machine of two cores, whatever machine this is

import jax
import pytest

import browser as browsers
from helpers import Files, copy_of_tiny_run, started
from mean_actor_critic.engines import devices

devices.prepare()  # before any test module uses JAX


def pytest_addoption(parser):
    parser.addoption("--n", type=int, default=3, help="how many times the kill -9 test kills a run")


def pytest_collection_modifyitems(items):
    """Without a browser, tests that use one are left out; not in CI, where nobody reads that they were."""
    if browsers.find_program() or os.environ.get("CI") == "true":
        return
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker(pytest.mark.skip("no browser (chromium) could be found or installed"))


def pytest_terminal_summary(terminalreporter):
    """One line for each reason to leave tests out, so that nobody takes them for passed."""
    reports = terminalreporter.getreports("skipped")
    reasons = collections.Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    for reason, count in reasons.items():
        terminalreporter.line(f"{count} test{'s were' if count > 1 else ' was'} left out: {reason}", yellow=True)


MOST_MAPPINGS = 20_000  # of memory; the system allows 65,530, a compiled program takes about a hundred of them


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """A process that runs many tests lets go of what they compiled before it has no more room for mappings."""
    yield
    if len(Path("/proc/self/maps").read_bytes().splitlines()) > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def files(tmp_path) -> Files:
    """The tiny run as `run` and its agent as `agent.safetensors`, in a folder of the test's own."""
    return copy_of_tiny_run(tmp_path)


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch):
    """The current folder is the test's own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def start():
    """Starts `mac` in a process of its own: as `helpers.started`, until the test is over."""
    with contextlib.ExitStack() as processes:
        yield lambda *words, **options: processes.enter_context(started(*words, **options))


@pytest.fixture(scope="module")
def browser():
    """A running browser."""
    with browsers.running() as running:
        yield running
