"""The command report; and what studies need for a page of their own."""

import argparse
from pathlib import Path

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.options import Command
from mean_actor_critic.errors import MacError
from mean_actor_critic.terminal import say, tell


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="RUN", nargs="+",
        help="a run folder, a folder of runs as mac reproduce makes, or a sweep folder",
    )  # fmt: skip
    parser.add_argument("--out", metavar="DIR", required=True, help="where to write index.html and the files beside it")
    parser.add_argument("--no-video", action="store_true", help="do not record the best agent at play")
    shared_options.add_env(parser)


def report(options: argparse.Namespace) -> None:
    """`mac report`."""
    from mean_actor_critic.reports.answer import answer, notes
    from mean_actor_critic.reports.write import make_report

    content, written = make_report(options.paths, Path(options.out), options.env, not options.no_video)
    tell("".join(answer(content)))
    for line in notes(content):
        tell(line)
    size = written[-1].stat().st_size / 2**20
    tell(f"{written[-1]}: {size:.1f} MB, and {len(written) - 1} files beside it")


def can_make_page() -> bool:
    """Whether the report's extra is installed; if not, that is said now, before long work."""
    from mean_actor_critic.reports.page import require_page

    try:
        require_page()
    except MacError as fault:
        say(f"mac: there will be no page: {fault}")
        return False
    return True


COMMANDS = (
    Command("report", "Make a page, figures and tables of runs and sweeps on one task.", _add_report_options, report),
)
