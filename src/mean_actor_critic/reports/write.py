"""Reports: from the paths of runs to the files of a page."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mean_actor_critic.errors import InputError, MacError
from mean_actor_critic.files import as_path
from mean_actor_critic.reports.content import Content, best_agent, read
from mean_actor_critic.reports.files import write_report
from mean_actor_critic.reports.page import MOST_VIDEO, Recording, require_page
from mean_actor_critic.reports.plots import require_matplotlib
from mean_actor_critic.reports.sources import find_sources
from mean_actor_critic.runs.run import Run
from mean_actor_critic.runs.store import folder_for_results

Place = str | Path | Run  # a run, or the path of a run, a sweep, or a folder of these
NO_VIDEO = Recording("No video was asked for.")


def report(
    paths: Place | Sequence[Place], out: str | Path, *, environment: Any = None, video: bool = True
) -> list[Path]:
    """Write a report about runs and sweeps: a page that needs nothing else, and tables and figures beside it.

    Args:
        paths: run folders, sweep folders, folders of these, or runs; or one of them.
        out: the folder of the report. What an earlier report wrote there is replaced or removed.
        environment: what the best agent was trained on, if it cannot be found by name.
        video: record the best agent at play.

    Returns:
        The files, with the page last.

    Raises:
        InputError: there is nothing to report, or it is neither about one task nor of runs only that are judged by
            their evaluations.
        DamagedFileError: a file is not what was written.
        MacError: an extra is not installed.
        DiskError: the disk refuses.
    """
    return make_report(paths, out, environment, video)[1]


def make_report(
    paths: Place | Sequence[Place], out: str | Path, environment: Any = None, video: bool = True
) -> tuple[Content, list[Path]]:
    """The same as `report`; also returns what the report says."""
    require_matplotlib()
    require_page()
    given = [paths] if isinstance(paths, str | Path | Run) else paths
    if not isinstance(given, Sequence):
        raise InputError("paths", given, "the path of a run, a run, or a list of these")
    sources = find_sources([place.path if isinstance(place, Run) else as_path("paths", place) for place in given])
    folder = as_path("out", out)
    with folder_for_results(folder):  # what cannot be written is said before the work
        content = read(sources)
        return content, write_report(content, record_best(content, environment) if video else NO_VIDEO, folder)


def record_best(content: Content, environment: Any = None) -> Recording:
    """A short video of the best agent, or the reason why there is none: a report does without.

    Args:
        content: of the report.
        environment: what the agent was trained on, if it cannot be found by name.
    """
    from mean_actor_critic.runs.watch import watch

    best = best_agent(content)
    if best is None:
        return Recording("Searches keep no agents.")
    entry, trial = best
    try:
        with tempfile.TemporaryDirectory() as folder:
            video = watch(entry.run.agent(trial), Path(folder) / "best.mp4", environment=environment)
            recorded = video.file.read_bytes()
    except MacError as fault:
        return Recording(f"No video: {fault}.")
    if len(recorded) > MOST_VIDEO:
        size = f"{len(recorded) / 2**20:.1f} MB"
        return Recording(f"No video: an episode takes {size}; mac watch records it into a file.")
    where = f" on {content.panels[0].title}" if content.panels else ""
    came_to = f"{'score' if content.games else 'return'} {video.returns[0]:.1f}"
    words = f"{entry.label}{where}, trial {trial}: one episode with sampled actions after training, {came_to}."
    return Recording(words, recorded)
