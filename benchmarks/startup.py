"""How long a user waits: from the start of Python to the first finished segment of `mean_actor_critic.train`."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.engine import ENVIRONMENT, REFERENCE
from benchmarks.harness import log, median, table

_PROGRAM = f"""
import sys
import mean_actor_critic
show = lambda _: print("a segment is done", flush=True)
mean_actor_critic.train({ENVIRONMENT!r}, trials=int(sys.argv[2]), episodes=1, out=sys.argv[1], on_progress=show,
                        **{REFERENCE!r})
"""


class Size(NamedTuple):
    """How much is measured."""

    repeats: int = 3
    trials: int = 100


TOY = Size(1, 2)


def seconds_to_first_segment(trials: int, cache: Path, out: Path) -> float:
    """Of a fresh process, with compiled programs kept below `cache` and results in `out`."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    started = time.perf_counter()
    command = [sys.executable, "-c", _PROGRAM, str(out), str(trials)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        elapsed = time.perf_counter() - started
    if not line:
        raise RuntimeError("mean_actor_critic.train did not finish a segment")
    return elapsed


def measure(size: Size) -> str:
    first, again = [], []
    for _ in range(size.repeats):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            first.append(seconds_to_first_segment(size.trials, folder, folder / "first"))
            again.append(seconds_to_first_segment(size.trials, folder, folder / "again"))
            log(f"empty cache {first[-1]:.2f} s, again {again[-1]:.2f} s")
    rows = [
        [name, f"{median(times):.1f}", f"{min(times):.1f} – {max(times):.1f}"]
        for name, times in (("empty compilation cache", first), ("the same again", again))
    ]
    return f"""## Start

Seconds from the start of Python to the first finished segment of `mean_actor_critic.train`, {size.trials} trials at
the settings above; median and range of {size.repeats}.

{table(["", "seconds", "range"], rows)}
"""
