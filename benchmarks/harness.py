"""What every part needs: processes of its own for every measurement, and tables."""

import datetime
import importlib.metadata
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parent.parent
HEAD = "# Benchmarks\n\n`python -m benchmarks`; below each title, when and on what its numbers were measured.\n"

_CALL = (
    "import importlib, json, sys; module, name, arguments = sys.argv[1:]; "
    "print(json.dumps(getattr(importlib.import_module(module), name)(**json.loads(arguments))))"
)

Measurement = dict[str, float]
Variants = Mapping[str, tuple[Callable[..., Measurement], Mapping[str, Any]]]
Answer = TypeVar("Answer")


def in_new_process(function: Callable[..., Answer], arguments: Mapping[str, Any]) -> Answer:
    """What the function returns, called in a fresh interpreter: no devices, threads or caches of other measurements.

    Arguments and answer must be plain JSON values.
    """
    command = [sys.executable, "-c", _CALL, function.__module__, function.__name__, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode:
        raise RuntimeError(f"{function.__module__}.{function.__name__} failed:\n{done.stderr}")
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


def alternating(variants: Variants, repeats: int) -> dict[str, list[Measurement]]:
    """Every variant `repeats` times, taking turns, so that whatever else the machine does falls on all of them."""
    results: dict[str, list[Measurement]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, (function, arguments) in variants.items():
            results[name].append(in_new_process(function, arguments))
            log(f"{name}: {', '.join(f'{key} {value:.4g}' for key, value in results[name][-1].items())}")
    return results


def log(line: str) -> None:
    """Say how far it is."""
    print(f"  {line}", file=sys.stderr, flush=True)


def median(values: Iterable[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def mean(values: Iterable[float]) -> float:
    """The average."""
    return statistics.fmean(values)


def rates(measurements: Iterable[Measurement]) -> list[float]:
    """Steps per second of each measurement."""
    return [m["steps"] / m["seconds"] for m in measurements]


def in_turn_ratio(ours: list[Measurement], theirs: list[Measurement]) -> float:
    """Our rate over theirs, each turn's with each other; the median of the turns."""
    return median(a / b for a, b in zip(rates(ours), rates(theirs), strict=True))


def speed_cells(ours: list[Measurement], theirs: list[Measurement]) -> list[str]:
    """Cells of a row of a table: their median rate, its range, and our rate over theirs."""
    speeds = rates(theirs)
    spread = f"{rate(min(speeds))} – {rate(max(speeds))}"
    return [rate(median(speeds)), spread, f"{in_turn_ratio(ours, theirs):.3g}"]


def rate(value: float) -> str:
    """Steps per second for people: three digits."""
    return f"{value / 1e6:.2f} M" if value >= 1e6 else f"{value / 1e3:.3g} k"


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table, the first column left and the others right."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]

    def text(line: list[str]) -> str:
        cells = [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        return "| " + " | ".join(cells) + " |"

    rule = "| " + " | ".join(["-" * widths[0], *("-" * (w - 1) + ":" for w in widths[1:])]) + " |"
    return "\n".join([text(lines[0]), rule, *map(text, lines[1:])])


def write_section(file: Path, section: str, head: str = HEAD) -> None:
    """Put a section in a file of results, in place of the one with the same title or at the end.

    Args:
        file: begun if it is not there.
        section: begins with a line `## Title`.
        head: what the file is begun with.
    """
    title = section.partition("\n")[0]
    head, *others = re.split(r"^(?=## )", file.read_text() if file.exists() else head, flags=re.MULTILINE)
    sections = {other.partition("\n")[0]: other.rstrip() + "\n" for other in others} | {title: section}
    file.write_text("\n".join([head.rstrip() + "\n", *sections.values()]))


def machine() -> str:
    """When, on what and with which versions, in general words."""
    names = ("jax", "numpy", "optax", "gymnasium", "box2d", "ale-py", "torch", "stable-baselines3")
    return (
        f"{datetime.date.today()}; {hardware()}, load average {os.getloadavg()[0]:.1f} before the start.  \n"
        f"{versions(names)}."
    )


def versions(names: Iterable[str]) -> str:
    """Of Python and of packages, in words."""
    found = [f"Python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def hardware() -> str:
    """What kind of machine this is, in general words."""
    return f"{os.cpu_count()} cores, {_processor()}; {platform.system()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2] for line in lines if line.startswith("model name"))
    return " ".join(next(names, platform.machine()).replace("(R)", "").replace("(TM)", "").split())
