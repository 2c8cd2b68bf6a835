"""Progress of long work, for people: a bar on a terminal, a line now and then elsewhere, nothing if asked."""

import contextlib
import enum
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from mean_actor_critic.terminal import one_line, say, standard_error

SECONDS_BETWEEN_LINES = 30.0


class Progress(NamedTuple):
    """Where a study stands after a segment."""

    done: int  # over all trials, in the budget's unit: episodes or agent steps
    total: int
    mean_return: float  # of the segment's episodes; NaN if none ended
    diverged: int  # trials
    more: str = ""  # words to show beside these
    steps: int = 0  # agent steps so far, over all trials


class Stop(enum.Enum):
    """What somebody who is told of progress may answer."""

    STOP = "stop"


STOP = Stop.STOP  # end the training now, with a checkpoint
Answer = Stop | None
Show = Callable[[Progress], None]
Watch = Callable[[str], Show]  # a label, to what shows its progress


@contextlib.contextmanager
def progress_display(quiet: bool) -> Iterator[Watch]:
    """Within the block, `watch(label)` gives a function to call with each `Progress`."""
    if quiet:
        yield lambda _label: lambda _progress: None
    elif ((errors := standard_error()) is not None and errors.isatty()) or _is_notebook():
        with _bars() as watch:
            yield watch
    else:
        yield _lines


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, where a bar can be drawn without a terminal."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and "IPKernelApp" in shell.config


@contextlib.contextmanager
def _bars() -> Iterator[Watch]:
    from rich import progress as rich  # slow to import
    from rich.console import Console
    from rich.markup import escape

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("return {task.fields[mean]}"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("ETA"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=not _is_notebook())) as bars:

        def watch(label: str) -> Show:
            task = bars.add_task(escape(one_line(label)), total=None, mean="–")
            speed = _Speed()

            def show(now: Progress) -> None:
                speed.note(now)
                bars.update(
                    task, total=now.total, completed=now.done, mean=escape(one_line(_mean_in_words(now, speed)))
                )

            return show

        yield watch


class _Speed:
    """Agent steps a second, an average that forgets."""

    def __init__(self) -> None:
        self.per_second = 0.0
        self._last: tuple[float, int] | None = None

    def note(self, now: Progress) -> None:
        """Take in how far it is now."""
        time_now = time.monotonic()
        if self._last is not None and now.steps > self._last[1]:
            speed = (now.steps - self._last[1]) / max(time_now - self._last[0], 1e-9)
            self.per_second = 0.9 * self.per_second + 0.1 * speed if self.per_second else speed
        self._last = (time_now, now.steps)


def _mean_in_words(now: Progress, speed: _Speed) -> str:
    mean = "–" if math.isnan(now.mean_return) else f"{now.mean_return:.4g}"
    diverged = f"{now.diverged} diverged" if now.diverged else ""
    fast = f"{speed.per_second:,.0f} steps/s".replace(",", "_") if speed.per_second else ""
    return ", ".join(words for words in (mean, diverged, fast, now.more) if words)


def _lines(label: str) -> Show:
    last = time.monotonic()
    speed = _Speed()
    first: tuple[float, int] | None = None  # when and how much was done, at the first report: a resumed run is not at 0

    def show(now: Progress) -> None:
        nonlocal first, last
        time_now = time.monotonic()
        speed.note(now)
        first = first or (time_now, now.done)
        if time_now - last < SECONDS_BETWEEN_LINES or now.done == first[1]:
            return
        last = time_now
        eta = (time_now - first[0]) * (now.total - now.done) / (now.done - first[1])
        share = now.done / now.total
        words = f"{label}: {share:.1%}, return {_mean_in_words(now, speed)}, ETA {duration(eta)}"
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
