"""`python -m benchmarks` runs all parts and writes RESULTS.md; `python -m benchmarks PART …` only prints those."""

import argparse

from benchmarks import atari, cart_pole, growth, lunar_lander, memory, report, startup, updates
from benchmarks.harness import ROOT, log, machine

PARTS = {
    "cart_pole": cart_pole.report,
    "growth": growth.report,
    "updates": updates.report,
    "startup": startup.report,
    "lunar_lander": lunar_lander.report,
    "atari": atari.report,
    "memory": memory.report,
    "report": report.report,
}


def main() -> None:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("part", nargs="*", choices=["all", *PARTS], default="all")
    named = parser.parse_args().part
    chosen = list(PARTS) if "all" in named else named
    head = f"# Benchmarks\n\n`python -m benchmarks`, {machine()}\n"
    print(head)
    sections = []
    for name in chosen:
        log(f"measuring {name} …")
        sections.append(PARTS[name]())
        print(sections[-1], flush=True)
    if chosen == list(PARTS):
        (ROOT / "benchmarks" / "RESULTS.md").write_text("\n".join([head, *sections]))


main()
