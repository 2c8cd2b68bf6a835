"""Tables in words, and cells that several of them have."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from mean_actor_critic.reports.digits import with_interval
from mean_actor_critic.reports.statistics import Estimate

OF_PROBABILITIES = 2  # decimals


class Sheet(NamedTuple):
    """A table in words, for pages, papers and the terminal."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1  # columns of words, which stand to the left; numbers stand to the right
    wide: tuple[str, ...] = ()  # further columns of words, which may take several lines

    def only(self, *columns: str) -> "Sheet":
        """The same with fewer columns."""
        places = [self.columns.index(column) for column in columns if column in self.columns]
        rows = [[row[place] for place in places] for row in self.rows]
        return self._replace(columns=[self.columns[place] for place in places], rows=rows)


def filled_sheet(title: str, columns: dict[str, list[str]], left: int = 1) -> Sheet:
    """A table of columns by name. Those without anything are left out; a dash is where a cell has nothing."""
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    rows = [[cell or "–" for cell in row] for row in zip(*shown.values(), strict=True)]
    return Sheet(title, list(shown), rows, left)


def to_threshold(median: Estimate | None, reached: int, trials: int) -> str:
    """When a return was reached, the median over trials; where most never get there, how many do."""
    if median is None:
        return ""
    if not np.isfinite(median.value):
        return f"never; {reached}/{trials} do" if reached else "never"
    return with_interval(median, 0).replace("inf", "never")
