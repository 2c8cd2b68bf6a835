"""Commands about what was trained: runs, evaluate, watch, export."""

import argparse
import os
from pathlib import Path

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.options import Command
from mean_actor_critic.cli.shared import player_at, warn
from mean_actor_critic.errors import InputError
from mean_actor_critic.progress import progress_display
from mean_actor_critic.runs.store import RUNS
from mean_actor_critic.spec.checks import parse_settings
from mean_actor_critic.spec.rules import CHANGEABLE, GameRules
from mean_actor_critic.spec.settings import settings_of
from mean_actor_critic.terminal import show, tell

# Played by `mac evaluate`, by engine, unless said otherwise. Games can be long: one batch of them.
EPISODES = {"compiled": 100, "hosted": 100, "atari": 16}
PLAYER = "a run folder or an agent's .safetensors file"


def _add_runs_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR", nargs="?", default=RUNS, help=f"where to look (default: {RUNS})")


def runs(options: argparse.Namespace) -> None:
    """`mac runs`."""
    from mean_actor_critic.reports.tables import runs_table

    folder = Path(options.folder)
    there = os.path.isdir(folder)
    if not there and options.folder != RUNS:
        raise InputError("DIR", options.folder, "a folder")
    table, count = runs_table(folder) if there else (None, 0)
    if table is not None and count:
        show(table)
    else:
        tell(f"no runs in {folder}")


def _add_evaluate_options(parser: argparse.ArgumentParser) -> None:
    shared_options.add_player(parser, PLAYER, "only this trial of the run")
    usual = f"{EPISODES['compiled']}; of Atari games {EPISODES['atari']}"
    parser.add_argument("--episodes", type=int, help=f"of each trial (default: {usual})")
    shared_options.add_settings(
        parser, f"on Atari games, rules that are to be others than in training: {', '.join(CHANGEABLE)}"
    )
    shared_options.add_workers(parser)
    parser.add_argument("--quiet", action="store_true", help="no progress, only the table")


def evaluate(options: argparse.Namespace) -> None:
    """`mac evaluate`."""
    from mean_actor_critic.reports.statistics import summarise
    from mean_actor_critic.reports.tables import plain_table, summary_cells
    from mean_actor_critic.runs.run import Run

    known = {name: setting for name, setting in settings_of(GameRules).items() if name in CHANGEABLE}
    settings = parse_settings(options.set, known)
    player = player_at(options.player, options.trial)
    episodes = EPISODES[player.experiment.engine] if options.episodes is None else options.episodes
    from mean_actor_critic.runs.evaluate import evaluate

    several = isinstance(player, Run)
    table = plain_table(
        f"{options.player}: {episodes} episodes{' of each trial' if several else ''}",
        ["Actions", "mean return", "SD", "95 % interval", "trials" if several else "episodes"],
    )
    with progress_display(options.quiet) as watch:
        for name, deterministic in (("sampled", False), ("most probable", True)):
            returns = evaluate(
                player,
                episodes,
                deterministic=deterministic,
                seed=options.seed,
                environment=options.env,
                settings=settings,
                workers=options.workers,
                step_seconds=options.step_seconds,
                on_progress=watch(name),
            )
            # the independent unit: trials of a run, episodes of one agent
            table.add_row(name, *summary_cells(summarise(returns.mean(axis=1) if several else returns[0])))
    show(table)


def _add_watch_options(parser: argparse.ArgumentParser) -> None:
    shared_options.add_player(parser, PLAYER, "which trial of the run (default: 0)")
    parser.add_argument("--episodes", type=int, default=1, help="one after the other (default: 1)")
    parser.add_argument("--deterministic", action="store_true", help="take the most probable actions, do not sample")
    parser.add_argument(
        "--out", metavar="FILE", required=True, help="such as video.mp4; the return is added to its name"
    )


def watch(options: argparse.Namespace) -> None:
    """`mac watch`."""
    from mean_actor_critic.runs.watch import watch

    video = watch(
        player_at(options.player, options.trial),
        options.out,
        options.episodes,
        deterministic=options.deterministic,
        seed=options.seed,
        environment=options.env,
    )
    each = f" ({', '.join(f'{value:.1f}' for value in video.returns)})" if len(video.returns) > 1 else ""
    what = f"{len(video.returns)} episodes, mean return" if each else "return"
    mean = sum(video.returns) / len(video.returns)
    tell(f"{video.file}: {video.frames} pictures, {what} {mean:.1f}{each}")


def _add_export_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="a run folder")
    parser.add_argument("--trial", type=int, default=0, help="which (default: 0)")
    parser.add_argument("--out", metavar="FILE", required=True, help="such as agent.safetensors")


def export(options: argparse.Namespace) -> None:
    """`mac export`."""
    from mean_actor_critic.runs.run import Run

    run = Run.load(options.path)
    warn(run)
    run.agent(options.trial).save(options.out)
    tell(f"{options.out}: trial {options.trial} of {options.path}, {run.status[options.trial]}")


COMMANDS = (
    Command("runs", "List runs and sweeps.", _add_runs_options, runs),
    Command("evaluate", "Play a run's agents, or one agent, without learning.", _add_evaluate_options, evaluate),
    Command("watch", "Record an agent playing as a video; needs no display.", _add_watch_options, watch),
    Command("export", "Save one trial of a run as an agent, a single file.", _add_export_options, export),
)
