"""Commands about runs and agents: train, resume, list, evaluate, watch, check, export."""

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from mean_actor_critic.cli import games
from mean_actor_critic.cli.shared import Events, console, is_run, load_player, memory_words, show_run, warn
from mean_actor_critic.errors import InputError, MacError
from mean_actor_critic.progress import progress_display, say
from mean_actor_critic.runs.store import CHECKPOINT_SECONDS, RUNS
from mean_actor_critic.spec.checks import parse_kwargs, parse_settings
from mean_actor_critic.spec.presets import TUNED

if TYPE_CHECKING:
    from mean_actor_critic.environments.catalogue import EnvironmentSpec

EPISODES = 200  # of a trial, unless said otherwise


def train(options: argparse.Namespace) -> None:
    """`mac train`."""
    if games.is_game(options):
        return show_run(games.train(options), options.quiet)
    if options.engine == "atari":
        raise InputError("ENV", options.environment, "an Atari game, such as ALE/Pong-v5, for this engine")
    settings = parse_settings(options.set)
    kwargs = parse_kwargs(options.env_kwargs)
    if options.max_episode_steps is not None:
        settings["max_episode_steps"] = options.max_episode_steps
    from mean_actor_critic.runs.train import train

    def started(path: Path, environment: "EnvironmentSpec") -> None:
        events.begin(path)
        if not options.quiet:
            words = f"{environment.engine} engine, episodes of at most {environment.max_episode_steps} steps"
            say(f"{environment.name}: {words}{memory_words(path)}; run folder: {path}")

    events = Events(options.tensorboard)
    with progress_display(options.quiet) as watch:
        run = train(
            options.environment,
            options.algorithm,
            trials=options.trials,
            episodes=EPISODES if options.episodes is None else options.episodes,
            seed=options.seed,
            first_trial=options.first_trial,
            engine=options.engine,
            env_kwargs=kwargs,
            preset=options.preset or TUNED,
            workers=options.workers,
            step_seconds=options.step_seconds,
            out=options.out,
            checkpoint_seconds=_checkpoint_seconds(options),
            snapshots=_parse_snapshots(options.snapshots),
            on_progress=watch(f"{options.environment} {options.algorithm}"),
            on_start=started,
            on_curves=events.episodes,
            **settings,
        )
    return show_run(run, options.quiet)


def _checkpoint_seconds(options: argparse.Namespace) -> float:
    return CHECKPOINT_SECONDS if options.checkpoint_seconds is None else options.checkpoint_seconds


def _parse_snapshots(text: str) -> int | list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError("--snapshots", text, "a number such as 5, or episodes such as 0,50,200") from None
    return numbers if len(numbers) > 1 else numbers[0]


def resume(options: argparse.Namespace) -> None:
    """`mac resume`."""
    from mean_actor_critic.runs.atari_run import AtariRun, load_run

    run = load_run(options.path)
    warn(run)
    if isinstance(run, AtariRun):
        return show_run(games.resume(options, run), options.quiet)
    from mean_actor_critic.runs.train import resume

    if run.finished:
        if not options.quiet:
            say(f"{options.path}: already finished")
    else:
        events = Events(options.tensorboard)
        with progress_display(options.quiet) as watch:
            events.begin(Path(options.path))
            show = watch(str(options.path))
            run = resume(
                options.path,
                options.env,
                workers=options.workers,
                step_seconds=options.step_seconds,
                checkpoint_seconds=_checkpoint_seconds(options),
                on_progress=show,
                on_curves=events.episodes,
            )
    return show_run(run, options.quiet)


def runs(options: argparse.Namespace) -> None:
    """`mac runs`."""
    from mean_actor_critic.reports.tables import runs_table

    folder = Path(options.folder)
    there = os.path.isdir(folder)
    if not there and options.folder != RUNS:
        raise InputError("DIR", options.folder, "a folder")
    table, count = runs_table(folder) if there else (None, 0)
    if count:
        console().print(table)
    else:
        print(f"no runs in {folder}")


def evaluate(options: argparse.Namespace) -> None:
    """`mac evaluate`."""
    from mean_actor_critic.reports.statistics import summarise
    from mean_actor_critic.reports.tables import plain_table, summary_cells

    player = load_player(options.player, options.trial)
    usual = games.EVALUATED_GAMES if games.is_on_game(player.experiment) else 100
    episodes = usual if options.episodes is None else options.episodes
    settings = games.settings_of_play(options)
    from mean_actor_critic.runs.evaluate import evaluate

    table = plain_table(
        f"{options.player}: {episodes} episodes{' of each trial' if is_run(player) else ''}",
        ["Actions", "mean return", "SD", "95 % interval", "trials" if is_run(player) else "episodes"],
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
            table.add_row(name, *summary_cells(summarise(returns.mean(axis=1) if is_run(player) else returns[0])))
    console().print(table)


def watch(options: argparse.Namespace) -> None:
    """`mac watch`."""
    from mean_actor_critic.runs.watch import watch

    player = load_player(options.player, options.trial)
    agent = player.agent(0) if is_run(player) else player
    video = watch(
        agent,
        options.out,
        options.episodes,
        deterministic=options.deterministic,
        seed=options.seed,
        environment=options.env,
    )
    each = f" ({', '.join(f'{value:.1f}' for value in video.returns)})" if len(video.returns) > 1 else ""
    what = f"{len(video.returns)} episodes, mean return" if each else "return"
    mean = sum(video.returns) / len(video.returns)
    print(f"{video.file}: {video.frames} pictures, {what} {mean:.1f}{each}")


def check(options: argparse.Namespace) -> None:
    """`mac check`."""
    if games.is_name_of_game(options.environment):
        return print(games.check(options))
    from mean_actor_critic.environments.catalogue import check_environment

    signs = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
    problems = 0
    kwargs = parse_kwargs(options.env_kwargs)
    for finding in check_environment(options.environment, kwargs, options.max_episode_steps):
        problems += finding.level == "problem"
        print(f"{signs[finding.level]} {finding.text}")
    if problems:
        raise MacError(f"{options.environment}: {problems} problem{'s' if problems > 1 else ''}, see above")
    return print(f"{options.environment}: can be trained")


def export(options: argparse.Namespace) -> None:
    """`mac export`."""
    from mean_actor_critic.runs.atari_run import load_run

    run = load_run(options.path)
    warn(run)
    run.agent(options.trial).save(options.out)
    print(f"{options.out}: trial {options.trial} of {options.path}, {run.status[options.trial]}")
