"""Tables: of a campaign, and of all that were added up in a file."""

import datetime
import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from chaos.tally import COLUMNS, Finding, Tally

Row = tuple[str, Tally, float]  # kind, what came of it, seconds
HEAD = ("kind", "tried", *COLUMNS, "seconds")


def table(rows: Iterable[Row]) -> list[str]:
    """Lines of Markdown that line up as text too."""
    lines = [(name, f"{tally.tried:,}", *map(str, tally.counts), f"{seconds:,.0f}") for name, tally, seconds in rows]
    widths = [max(map(len, column)) for column in zip(HEAD, *lines, strict=True)]

    def line(cells: Iterable[str]) -> str:
        padded = (
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if not place else "-" * (width - 1) + ":" for place, width in enumerate(widths)]
    return [line(HEAD), line(rule), *map(line, lines)]


def findings_of(rows: Iterable[Row]) -> list[str]:
    """A line for each finding, with the command that repeats it."""
    return [line for _, tally, _ in rows for finding in tally.findings for line in in_words(finding)]


def in_words(finding: Finding) -> list[str]:
    """A finding in a line, how to repeat it in another."""
    return [f"- {finding.column}: {finding.what}", f"  `{finding.repeat}`"]


# --- what adds up ----------------------------------------------------------------------------------------------------


def records(page: Path) -> list[dict[str, Any]]:
    """What was recorded beside a page: a line for each kind of each campaign."""
    file = page.with_suffix(".jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def next_number(page: Path, kind: str, seed: int) -> int:
    """The first number that no recorded campaign with this seed has tried."""
    return max((r["next_number"] for r in records(page) if (r["kind"], r["seed"]) == (kind, seed)), default=0)


def record(page: Path, row: Row, seed: int, first: int, command: str, versions: Mapping[str, str]) -> None:
    """Add what came of a kind, and write the page anew."""
    name, tally, seconds = row
    line = {
        "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "versions": dict(versions),
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "kind": name,
        "seed": seed,
        "first": first,
        "seconds": round(seconds, 1),
        **tally._asdict(),
    }
    page.parent.mkdir(parents=True, exist_ok=True)
    with page.with_suffix(".jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")
    page.write_text("\n".join(page_of(records(page))) + "\n")


def page_of(lines: list[dict[str, Any]]) -> list[str]:
    """All campaigns added up."""
    totals: dict[str, tuple[Tally, float]] = {}
    for line in lines:
        tally = Tally(
            line["tried"],
            tuple(line["counts"]),
            tuple(Finding(*f) for f in line["findings"]),
            notes=tuple(line["notes"]),
        )
        before, seconds = totals.get(line["kind"], (Tally(), 0.0))
        totals[line["kind"]] = before + tally, seconds + line["seconds"]
    rows = [(name, tally, seconds) for name, (tally, seconds) in totals.items()]
    found = findings_of(rows)
    notes = sorted({note for _, tally, _ in rows for note in tally.notes})
    return [
        "# What the package went through",
        "",
        "Faults that `make chaos` made on purpose, added up over the campaigns below. A number other than 0 in the",
        "middle of the table is something that was not survived.",
        "",
        *table(rows),
        "",
        *(["## Found", "", *found, ""] if found else ["Nothing was found.", ""]),
        *(["## Left out", "", *(f"- {note}" for note in notes), ""] if notes else []),
        "## Campaigns",
        "",
        *(
            f"- {when}, {version}: `{command}` ({machine}): {', '.join(kinds)}"
            for (when, version, command, machine), kinds in _campaigns(lines).items()
        ),
    ]


def _campaigns(lines: list[dict[str, Any]]) -> dict[tuple[str, str, str, str], list[str]]:
    """The kinds of each campaign, by its day, code, command and machine."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for line in lines:
        version = " ".join(f"{name} {text}" for name, text in line["versions"].items())
        key = (line["when"][:10], version, line["command"], line["machine"])
        found.setdefault(key, []).append(f"{line['kind']} {line['tried']:,}")
    return found
