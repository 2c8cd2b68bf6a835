"""What a report of a whole search costs: the paper's grid, 51,800 trainings that were never trained."""

import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.harness import in_new_process, log, table
from mean_actor_critic.spec import paper
from mean_actor_critic.spec.grid import grid_from_json
from mean_actor_critic.spec.paper import SEARCH_TRIALS, papers_grid
from mean_actor_critic.spec.presets import SEARCH_SEEDS
from mean_actor_critic.studies.sweep import CellResult, Plan, Rung, create_sweep

ENVIRONMENT = "CartPole-v0"


class Size(NamedTuple):
    """How much is measured."""

    trials: int = SEARCH_TRIALS
    episodes: int = 200
    grid: Mapping[str, Any] = papers_grid(ENVIRONMENT)


TOY = Size(2, 10, {"choices": {"hidden": [[], [8]], "lr": [0.001, 0.01]}})


def make_search(size: Size, folder: Path) -> int:
    """A finished sweep with made-up returns; the number of its trainings."""
    rungs = (Rung(size.trials, size.episodes),)
    grid = grid_from_json(size.grid)
    plan = Plan(ENVIRONMENT, paper.COMPARED, grid, rungs, 1.0, "asymptotic", SEARCH_SEEDS.start)
    sweep = create_sweep(folder, plan, {"made": "up"})
    random = np.random.default_rng(0)
    trainings = 0
    for cell in (cell for algorithm in plan.algorithms for cell in sweep.cells(algorithm)):
        shape = (len(cell.points), cell.trials, cell.episodes)
        returns = np.minimum(200, random.gamma(2.0, 40.0, shape)).astype(np.float32)
        sweep.write(cell, CellResult(returns, np.zeros(shape[:2], np.int32), seconds=0.0))
        trainings += shape[0] * shape[1]
    return trainings


def make_page(sweep: str, out: str) -> dict[str, float]:
    """Seconds that the report takes, and mebibytes of its page."""
    from mean_actor_critic.reports import content, files, page, sources

    started = time.perf_counter()
    numbers = content.read(sources.find_sources([sweep]))
    written = files.write_report(numbers, page.Recording("none"), Path(out))
    return {"seconds": time.perf_counter() - started, "MiB": written[-1].stat().st_size / 2**20}


def measure(size: Size) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        log("making a search up")
        trainings = make_search(size, folder / "sweep")
        made = in_new_process(make_page, {"sweep": str(folder / "sweep"), "out": str(folder / "out")})
    rows = [[f"{trainings}", f"{made['seconds']:.0f}", f"{made['MiB']:.1f}"]]
    return f"""## Report

`mac report` of a finished search over the paper's grid, all files included.

{table(["trainings", "seconds", "page, MiB"], rows)}
"""
