"""The code in docs/extending.md runs as it stands there."""

import re
from pathlib import Path

import pytest

from helpers import run_python

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
BLOCKS = re.findall(r"^```python( file=(\S+))?\n(.*?)^```$", PAGE.read_text(), re.M | re.S)


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path):
    script = []
    for _, file, code in BLOCKS:
        if file:
            (tmp_path / file).write_text(code)
        else:
            script.append(code)
    assert len(script) == 5, "all blocks are found"
    assert [file for _, file, _ in BLOCKS if file] == ["hill_climbing.py"]
    told = """
from mean_actor_critic.runs.run import Run
assert Run.load("optimistic").experiment.episodes == 25 and Run.load("optimistic").finished
assert Run.load("named").experiment.algorithm == "optimistic_mac"
assert longer.finished and longer.returns.shape == (20, 120)
assert longer.returns[:, -20:].mean() > 1.5 * longer.returns[:, :20].mean(), "it learns"
"""
    outcome = run_python("\n".join([*script, told]), cwd=tmp_path)
    assert (outcome.code, outcome.err) == (0, ""), outcome
