"""The command report; and what studies need for a page of their own."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.options import Command
from mean_actor_critic.errors import MacError
from mean_actor_critic.progress import say

if TYPE_CHECKING:
    from mean_actor_critic.reports.content import Content
    from mean_actor_critic.reports.page import Recording


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
    from mean_actor_critic.reports.write import report

    written = report(options.paths, Path(options.out), environment=options.env, video=not options.no_video)
    size = written[-1].stat().st_size / 2**20
    print(f"{written[-1]}: {size:.1f} MB, and {len(written) - 1} files beside it")


def can_make_page() -> bool:
    """Whether the report's extra is installed; if not, that is said now, before long work."""
    from mean_actor_critic.reports.page import require_page

    try:
        require_page()
    except MacError as fault:
        say(f"mac: there will be no page: {fault}")
        return False
    return True


def record_best(numbers: "Content", environment: str | None) -> "Recording":
    """A short video of the best agent, or the reason why there is none: a report does without."""
    import tempfile

    from mean_actor_critic.reports.content import best_agent
    from mean_actor_critic.reports.page import MOST_VIDEO, Recording
    from mean_actor_critic.runs.watch import watch

    best = best_agent(numbers)
    if best is None:
        return Recording("Searches keep no agents.")
    entry, trial = best
    try:
        with tempfile.TemporaryDirectory() as folder:
            video = watch(entry.source.run.agent(trial), Path(folder) / "best.mp4", environment=environment)
            recorded = video.file.read_bytes()
    except MacError as fault:
        return Recording(f"No video: {fault}.")
    if len(recorded) > MOST_VIDEO:
        return Recording(
            f"No video: an episode takes {len(recorded) / 2**20:.1f} MB; mac watch records it into a file."
        )
    words = (
        f"{entry.label}, trial {trial}: one episode with sampled actions after training, return {video.returns[0]:.1f}."
    )
    return Recording(words, recorded)


COMMANDS = (
    Command("report", "Make a page, figures and tables of runs and sweeps on one task.", _add_report_options, report),
)
