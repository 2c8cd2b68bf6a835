"""Every part of the benchmarks runs and writes its section. At toy size: what it measures then means nothing."""

import pytest
from benchmarks import __main__ as benchmarks
from benchmarks import harness

from mean_actor_critic.learning import native

pytestmark = pytest.mark.slow


@pytest.fixture
def cheap(monkeypatch):
    """Processes that are started do not take long to make programs fast which run for a moment only."""
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # PyTorch's threads would wait for cores that other tests have


@pytest.mark.parametrize("part", benchmarks.PARTS)
def test_a_part_writes_its_section(part, cheap, tmp_path, capsys):
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
