"""Every part of the benchmarks runs and writes its section. At toy size: what it measures then means nothing."""

import inspect
import shutil
from functools import partial

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import harness
from benchmarks.suite import command, jobs
from benchmarks.suite.methods import METHODS, TOY, sb3_arguments
from benchmarks.suite.tasks import TASKS

from mean_actor_critic.learning import native

pytestmark = pytest.mark.slow


@pytest.fixture
def one_thread(monkeypatch):
    """For PyTorch, whose threads would wait for cores that other tests have."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@pytest.mark.parametrize("part", benchmarks.PARTS)
def test_a_part_writes_its_section(part, one_thread, tmp_path, capsys):
    if part == "atari" and native.compiler() is None:
        pytest.skip("this machine has no C++ compiler")
    failed = benchmarks.measure([part], toy=True, results=tmp_path / "RESULTS.md")
    out, err = capsys.readouterr()
    assert not failed, err
    written = (tmp_path / "RESULTS.md").read_text()
    assert written.startswith(harness.HEAD + "\n## ")
    assert out.strip() in written
    assert written.count(" cores, ") == 1
    assert "\n| " in written


class Part:
    """Stands for a part of the benchmarks."""

    def __init__(self, section):
        self._section = section
        self.Size = self.TOY = object

    def measure(self, size):
        return self._section or [][0]


def test_a_part_that_fails_costs_no_other_its_results(monkeypatch, tmp_path, capsys):
    results = tmp_path / "RESULTS.md"
    results.write_text("# Head\n\n## Second\n\nold\n\n## Broken\n\nstill here\n")
    machines = iter(["this run", "never asked for again"])
    monkeypatch.setattr(benchmarks, "machine", lambda: next(machines))
    sections = {"first": "## First\n\nnew\n", "broken": None, "second": "## Second\n\nnew\n"}
    monkeypatch.setattr(benchmarks, "PARTS", {name: Part(section) for name, section in sections.items()})
    assert benchmarks.measure(list(sections), toy=False, results=results) == ["broken"]
    assert "IndexError" in capsys.readouterr().err
    assert results.read_text() == (
        "# Head\n\n## Second\n\nthis run\n\nnew\n\n## Broken\n\nstill here\n\n## First\n\nthis run\n\nnew\n"
    )


def test_a_function_that_fails_in_its_process_says_why():
    with pytest.raises(RuntimeError, match=r"(?s)harness.table failed:.*TypeError"):
        harness.in_new_process(harness.table, {"header": None, "rows": []})


def test_the_comparison_on_tasks_is_taken_up_where_it_stopped(one_thread, monkeypatch, tmp_path, capsys):
    methods = ["mac", "ppo-zoo", "dqn"]
    there = [name for name in methods if METHODS[name].installed]
    out, results = tmp_path / "out", tmp_path / "results"
    compare = partial(
        command.compare, ["CartPole-v1"], methods, seeds=1, at_once=2, out=out, commit_to=results, size=TOY
    )
    assert compare() == []
    page = (results / "README.md").read_text()
    assert all(METHODS[name].title in page for name in there)
    head, *lines = (results / "evaluations.csv").read_text().splitlines()
    assert head == "task,method,seed,steps,greedy,sampled,cpu_seconds"
    assert [line.split(",")[:4] for line in lines] == [
        ["CartPole-v1", name, "0", str(steps)] for name in there for steps in TOY.moments
    ]
    assert all(1 <= float(score) <= 500 for line in lines for score in line.split(",")[4:6])
    monkeypatch.setattr(jobs, "in_new_process", None)  # cannot be called: everything is done
    capsys.readouterr()
    assert compare() == []
    assert capsys.readouterr().out.strip() in (results / "README.md").read_text()
    written = (results / "evaluations.csv").read_bytes()
    shutil.rmtree(out)  # as on another machine, with nothing but what was written for good
    assert compare() == []
    assert (results / "evaluations.csv").read_bytes() == written


def test_a_job_that_fails_stops_no_other(monkeypatch, tmp_path):
    looks = [[10, 1.0, 2.0, 0.5], [20, 3.0, 4.0, 1.0]]

    def learn(function, arguments):
        if arguments["method"] == "dqn":
            raise RuntimeError("out of luck")
        return looks

    monkeypatch.setattr(jobs, "in_new_process", learn)
    planned = list(jobs.planned(["Taxi-v4", "CartPole-v1"], ["ppo", "dqn", "ppo-zoo"], seeds=2))
    failed = jobs.run(planned, tmp_path, 2, TOY)
    assert sorted(failed) == sorted(job for job in planned if job.method == "dqn")
    done = dict(jobs.done(tmp_path))
    assert set(done) == set(planned) - set(failed)
    assert all([list(look) for look in found] == looks for found in done.values())


def test_tuned_settings_are_for_tasks_that_have_some():
    tuned = {job.task for job in jobs.planned(TASKS, ["qrdqn-zoo"], seeds=1)}
    assert tuned == {name for name in TASKS if name.startswith(("CartPole", "Acrobot", "Mountain", "Lunar", "MinAtar"))}


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if method.tuned])
def test_published_settings_are_arguments_that_the_packages_take(name):
    made = getattr(pytest.importorskip(METHODS[name].package), METHODS[name].algorithm)
    for task in TASKS.values():
        settings = dict(METHODS[name].settings(task) or {})
        for ours in ("environments", "normalised"):
            settings.pop(ours, None)
        arguments = sb3_arguments(settings, 1000)
        inspect.signature(made).bind("MlpPolicy", None, **arguments)
        assert arguments.get("buffer_size", 0) <= 1000
