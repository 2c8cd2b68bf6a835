"""Progress of long work, for people: a bar on a terminal, a line now and then elsewhere, nothing if asked."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

SECONDS_BETWEEN_LINES = 30.0


class Progress(NamedTuple):
    """Where a study stands after a segment."""

    done: int  # episodes over all trials; where studies are measured in steps, agent steps
    total: int
    mean_return: float  # of the segment's episodes; NaN if none ended
    diverged: int  # trials
    more: str = ""  # words to show beside these


Show = Callable[[Progress], None]
Watch = Callable[[str], Show]  # a label, to what shows its progress


def say(line: str) -> None:
    """A line for people, on standard error. Where nobody can read it, nothing stops for that."""
    with contextlib.suppress(OSError, ValueError):  # a log file on a full disk, a pipe that nobody reads, or closed
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def progress_display(quiet: bool) -> Iterator[Watch]:
    """Within the block, `watch(label)` gives a function to call with each `Progress`."""
    if quiet:
        yield lambda _label: lambda _progress: None
    elif sys.stderr.isatty():
        with _bars() as watch:
            yield watch
    else:
        yield _lines


@contextlib.contextmanager
def _bars() -> Iterator[Watch]:
    from rich import progress as rich  # slow to import
    from rich.console import Console

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("return {task.fields[mean]}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("ETA"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True)) as bars:

        def watch(label: str) -> Show:
            task = bars.add_task(label, total=None, mean="–")

            def show(now: Progress) -> None:
                bars.update(task, total=now.total, completed=now.done, mean=_mean_in_words(now))

            return show

        yield watch


def _mean_in_words(now: Progress) -> str:
    mean = "–" if math.isnan(now.mean_return) else f"{now.mean_return:.1f}"
    diverged = f"{now.diverged} diverged" if now.diverged else ""
    return ", ".join(words for words in (mean, diverged, now.more) if words)


def _lines(label: str) -> Show:
    last = time.monotonic()
    first: tuple[float, int] | None = None  # when and how much was done, at the first report: a resumed run is not at 0

    def show(now: Progress) -> None:
        nonlocal first, last
        time_now = time.monotonic()
        first = first or (time_now, now.done)
        if time_now - last < SECONDS_BETWEEN_LINES or now.done == first[1]:
            return
        last = time_now
        eta = (time_now - first[0]) * (now.total - now.done) / (now.done - first[1])
        share = now.done / now.total
        words = f"{label}: {share:.1%}, return {_mean_in_words(now)}, ETA {duration(eta)}"
        say(words)

    return show


def duration(seconds: float) -> str:
    """Seconds in the two largest units, for people."""
    left = round(seconds)
    words: list[str] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or words:
            words.append(f"{count} {unit}")
    return " ".join(words[:2]) or "0 s"
