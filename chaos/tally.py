"""What came of faults: counted, with a line on how to repeat each one that was not survived."""

from collections.abc import Iterable
from typing import NamedTuple

LOST, EXECUTED, HUNG, LEFT, TRACEBACK, MISMATCH = COLUMNS = (
    "lost", "executed", "hung", "left behind", "tracebacks", "digest mismatches",
)  # fmt: skip
EXAMPLES = 3  # of findings of one kind that differ in nothing but their numbers


class Finding(NamedTuple):
    """Something that should not have happened."""

    column: str  # one of COLUMNS
    what: str  # in words that are the same whenever it happens
    kind: str = ""
    seed: int = 0
    number: int = 0
    details: str = ""  # of this time

    @property
    def repeat(self) -> str:
        """The command that does it again."""
        return f"python -m chaos {self.kind} --seed {self.seed} --number {self.number}"


class Tally(NamedTuple):
    """How many faults of a kind there were, and how many were not survived."""

    tried: int = 0
    counts: tuple[int, ...] = (0,) * len(COLUMNS)
    findings: tuple[Finding, ...] = ()  # a few of each
    next_number: int = 0  # of the attempt after the last one
    notes: tuple[str, ...] = ()  # what was left out, and why

    def __add__(self, other: "Tally") -> "Tally":  # type: ignore[override]
        """Both together."""
        return Tally(
            self.tried + other.tried,
            tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)),
            tuple(some_of((*self.findings, *other.findings))),
            max(self.next_number, other.next_number),
            tuple(dict.fromkeys((*self.notes, *other.notes))),
        )

    @property
    def survived(self) -> bool:
        """Whether nothing went wrong."""
        return not any(self.counts)


def tally_of(tried: int, findings: Iterable[Finding], number: int) -> Tally:
    """What came of one attempt."""
    found = tuple(findings)
    counts = tuple(sum(finding.column == column for finding in found) for column in COLUMNS)
    return Tally(tried, counts, tuple(some_of(found)), number + 1)


def some_of(findings: Iterable[Finding]) -> list[Finding]:
    """At most a few of those that are the same but for their numbers."""
    seen: dict[tuple[str, str, str], int] = {}
    kept = []
    for finding in findings:
        same = (finding.kind, finding.column, finding.what)
        seen[same] = seen.get(same, 0) + 1
        if seen[same] <= EXAMPLES:
            kept.append(finding)
    return kept
