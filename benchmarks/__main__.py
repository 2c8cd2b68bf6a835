"""`python -m benchmarks` measures all parts, `python -m benchmarks PART …` only those.

Each part writes its section of RESULTS.md as soon as it is done, so that whatever happens to another one loses nothing.
The comparison on tasks takes days and is a command of its own: `python -m benchmarks suite --help`.
"""

import argparse
import sys
import traceback
from pathlib import Path
from typing import Any

from benchmarks import atari, cart_pole, growth, lunar_lander, memory, replayed, report, startup, updates
from benchmarks.harness import ROOT, log, machine, write_section
from benchmarks.suite import command as suite

RESULTS = ROOT / "benchmarks" / "RESULTS.md"
# Each has a `Size` (by default that of the published numbers), a `TOY` one, and `measure`, from size to section.
PARTS: dict[str, Any] = {
    "cart_pole": cart_pole,
    "growth": growth,
    "updates": updates,
    "replayed": replayed,
    "startup": startup,
    "lunar_lander": lunar_lander,
    "atari": atari,
    "memory": memory,
    "report": report,
}


def measure(names: list[str], toy: bool, results: Path | None) -> list[str]:
    """Measure parts, print their sections and write them to a file; those that failed, which do not stop the others."""
    where = machine()  # once, so that sections of one run can be told by it
    failed = []
    for name in names:
        log(f"measuring {name} …")
        part = PARTS[name]
        try:
            title, _, numbers = part.measure(part.TOY if toy else part.Size()).partition("\n")
        except Exception:
            traceback.print_exc()
            failed.append(name)
            continue
        section = f"{title}\n\n{where}\n{numbers}"
        print(section, flush=True)
        if results:
            write_section(results, section)
    return failed


def main() -> None:
    if sys.argv[1:2] == ["suite"]:
        suite.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=["all", *PARTS], default="all")
    parser.add_argument("--toy", action="store_true", help="too little to mean anything; tries it out, writes nothing")
    chosen = parser.parse_args()
    names = list(PARTS) if "all" in chosen.part else chosen.part
    if failed := measure(names, chosen.toy, None if chosen.toy else RESULTS):
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
