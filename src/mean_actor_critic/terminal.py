"""The one place that prints. Whatever names, files and environments bring is shown as text and never obeyed."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

REPLACED = "�"  # stands for what cannot be shown
WIDTH = 140  # columns of tables that go to a file or a pipe, which have no width of their own


def printable(text: object) -> str:
    """As something that can be shown and written everywhere, in one line: no control characters, no half characters."""
    words = str(text)
    # names of files that are not UTF-8 come as lone surrogates, and forged files have others that no file system has
    with contextlib.suppress(UnicodeEncodeError):
        words = os.fsencode(words).decode("utf-8", "replace")
    return "".join(sign if sign.isprintable() else REPLACED for sign in words)


def one_line(text: object) -> str:
    """The same for text that may have several lines, or tabs."""
    return printable(" ".join(str(text).expandtabs(1).splitlines()))


def say(line: str) -> None:
    """A line for people, on standard error. Where nobody can read it, nothing stops for that."""
    errors = standard_error()
    with contextlib.suppress(OSError, ValueError):  # a log file on a full disk, a pipe that nobody reads, or closed
        if errors is not None:
            print(one_line(line), file=errors, flush=True)


def tell(line: str) -> None:
    """A line of results, on standard output."""
    with _writing():
        print(one_line(line))


def show(table: "Table") -> None:
    """A table of results, on standard output. Colours are ours; what cells hold is shown as it is."""
    from rich.segment import Segments

    to = console()
    segments = [
        part if part.control else part._replace(text="\n".join(map(printable, part.text.split("\n"))))
        for part in to.render(table)
    ]
    with _writing():
        to.print(Segments(segments), end="")


def finish() -> None:
    """Write what is still to be written on standard output."""
    with _writing():
        sys.stdout.flush()


@contextlib.contextmanager
def _writing() -> Iterator[None]:
    """Name what cannot be written. A reader that has enough, such as head, is no fault."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise OSError(fault.errno, fault.strerror, "standard output") from None


def console() -> "Console":
    """Where tables are shown."""
    from rich.console import Console

    width = None if sys.stdout.isatty() else WIDTH
    return Console(width=width, color_system=None if os.environ.get("NO_COLOR") else "auto")


def standard_error() -> TextIO | None:
    """None where a process was started without (2>&-), which Python's types do not know of."""
    return sys.stderr


def prepare() -> None:
    """Make the standard streams take whatever is written to them.

    A stream that was closed (2>&-) goes nowhere: workers would lose what else got its number, and Python has nothing
    in its place that could be written to. A character that a stream's encoding does not have is replaced.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = standard_error() or os.fdopen(2, "w", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
