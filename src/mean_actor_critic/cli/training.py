"""Commands that train: train, resume; and check, which says beforehand whether that will do."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mean_actor_critic.cli import options as shared_options
from mean_actor_critic.cli.events import Events
from mean_actor_critic.cli.options import Command
from mean_actor_critic.cli.settings import settings_help, settings_to_give
from mean_actor_critic.cli.shared import show_run, warn
from mean_actor_critic.errors import InputError, MacError
from mean_actor_critic.progress import progress_display
from mean_actor_critic.spec.checks import parse_kwargs, parse_settings
from mean_actor_critic.spec.experiment import USUAL_BUDGETS, USUAL_STEPS, Experiment
from mean_actor_critic.spec.learners import ENGINES, GENERAL, learners_on
from mean_actor_critic.terminal import say, tell

if TYPE_CHECKING:
    from mean_actor_critic.runs.loop import Started

_GAMES = USUAL_BUDGETS["atari"].amount
MENTIONED = 10**9  # bytes of memory that are worth a word


# --- mac train -------------------------------------------------------------------------------------------------------


def _add_train_options(parser: argparse.ArgumentParser) -> None:
    shared_options.add_environment(parser)
    parser.add_argument("--algorithm", default="mac", help="one of those below (default: mac)")
    parser.add_argument("--trials", type=int, default=1, help="independent trainings (default: 1)")
    _add_budget(parser, "of each trial", "; by the paper's learner", f" (default: {USUAL_STEPS:_}, Atari {_GAMES:_})")
    parser.add_argument(
        "--until", metavar="R", type=float,
        help="end a trial early when its mean return is that high: over its last 100 episodes, or of its last "
        "evaluation where there are evaluations",
    )  # fmt: skip
    parser.add_argument(
        "--evaluate-every", metavar="N", type=int,
        help="play evaluations that often, in steps, or in episodes where --episodes says how long "
        "(default: never; on Atari games every 200_000 steps)",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=0, help="(default: 0)")
    parser.add_argument(
        "--first-trial", metavar="I", type=int, default=0,
        help="number of the first trial, to add trials or to run one again alone (default: 0)",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=["auto", *ENGINES], default="auto",
        help="compiled: JAX programs; hosted: any Gymnasium environment, in worker processes; atari: ALE's emulators "
        "(default: auto)",
    )  # fmt: skip
    parser.add_argument(
        "--learner", metavar="NAME", help="one of those below (default: replayed; episodic where it is asked for)"
    )
    shared_options.add_settings(parser, "settings, see below")
    shared_options.add_preset(parser)
    shared_options.add_protocol(parser)
    parser.add_argument("--out", metavar="DIR", help="the run folder (default: a new one in runs/)")
    parser.add_argument(
        "--snapshots", metavar="N|E,E", default="0",
        help="keep every trial's networks at N moments from first to last, or after these episodes, for mac gradients",
    )  # fmt: skip
    shared_options.add_workers(parser)
    shared_options.add_keeping(parser)
    shared_options.add_quiet(parser)


def _add_budget(parser: argparse.ArgumentParser, what: str, of_episodes: str = "", of_steps: str = "") -> None:
    """How long, in one unit or the other, with words on each."""
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", metavar="N", type=int, help=f"{what}, agent steps, not frames{of_steps}")
    budget.add_argument("--episodes", metavar="N", type=int, help=f"{what}{of_episodes}")


def train(options: argparse.Namespace) -> None:
    """`mac train`."""
    from mean_actor_critic.environments.catalogue import engine_of

    engine = engine_of(options.environment, options.engine)
    papers = options.episodes is not None or options.preset is not None or options.snapshots != "0"
    known = settings_to_give(engine, options.algorithm, options.learner, papers, options.set)
    settings: dict[str, Any] = parse_settings(options.set, known)
    if options.max_episode_steps is not None:
        settings["max_episode_steps"] = options.max_episode_steps
    kwargs = parse_kwargs(options.env_kwargs)
    snapshots = _parse_snapshots(options.snapshots)
    events = Events(options.tensorboard)
    from mean_actor_critic.runs.train import train

    with progress_display(options.quiet) as watch:
        run = train(
            options.environment,
            options.algorithm,
            trials=options.trials,
            episodes=options.episodes,
            steps=options.steps,
            until=options.until,
            evaluate_every=options.evaluate_every,
            seed=options.seed,
            first_trial=options.first_trial,
            engine=options.engine,
            learner=options.learner,
            env_kwargs=kwargs,
            preset=options.preset,
            protocol=options.protocol,
            workers=options.workers,
            step_seconds=options.step_seconds,
            out=options.out,
            checkpoint_seconds=options.checkpoint_seconds,
            snapshots=snapshots,
            on_progress=watch(f"{options.environment} {options.algorithm}"),
            on_start=lambda started: _begin(started, events, options.quiet, _why_the_papers(options, started)),
            on_study=events.write,
            **settings,
        )
    show_run(run, options.quiet)


def _parse_snapshots(text: str) -> int | list[int]:
    try:
        numbers = [int(word) for word in text.split(",")]
    except ValueError:
        raise InputError("--snapshots", text, "a number such as 5, or episodes such as 0,50,200") from None
    return numbers if len(numbers) > 1 else numbers[0]


def _begin(started: "Started", events: Events, quiet: bool, why: str = "") -> None:
    """Say what is about to be trained, and get ready to write its events."""
    events.begin(started.path, started.manifest.experiment)
    if not quiet:
        for line in filter(None, (*what_runs(started), why)):
            say(line)


def _why_the_papers(options: argparse.Namespace, started: "Started") -> str:
    """Why the paper's learner was chosen where the general one could have been, in words; no text if it was not."""
    experiment = started.manifest.experiment
    if options.learner is not None or experiment.learner == GENERAL or GENERAL not in learners_on(experiment.engine):
        return ""
    asked = {"--episodes": options.episodes, "--preset": options.preset, "--snapshots": options.snapshots != "0"}
    what = next((name for name, given in asked.items() if given), "its own settings or algorithm")
    return f"{experiment.learner}, the paper's learner, because of {what}; without, and with --steps, it is {GENERAL}"


def what_runs(started: "Started") -> list[str]:
    """The lines that say what a training is: all that decides how it goes and how long it takes."""
    from mean_actor_critic.engines.memory import in_words, need

    manifest, experiment = started.manifest, started.manifest.experiment
    trials = "1 trial" if experiment.trials == 1 else f"{experiment.trials} trials"
    until = "" if experiment.until is None else f" or until the mean return is {experiment.until:g}"
    what = [
        f"{experiment.environment}: {experiment.algorithm} by the {experiment.learner} learner",
        f"{experiment.engine} engine",
        f"{trials} of {experiment.budget}{until}",
        f"episodes of at most {experiment.rules.max_episode_steps:_} steps",
        *_evaluations_in_words(experiment),
    ]
    if manifest.spaces.masked:
        what.append("legal actions only, by the environment's masks")
    settings = [f"settings: {manifest.origin or 'as given'}"]
    if experiment.engine == "atari":
        from mean_actor_critic.learning.native import compiler

        settings += ["steps are agent steps, not frames", f"convolutions: {compiler() or 'XLA'}"]
    size = need(experiment, manifest.spaces, manifest.snapshots).size
    if size >= MENTIONED:
        settings.append(f"takes {in_words(size)} of memory")
    return ["; ".join(what), "; ".join(settings), f"run folder: {started.path}"]


def _evaluations_in_words(experiment: Experiment) -> list[str]:
    """When evaluations are played, and how."""
    rules = experiment.evaluation
    if not rules.evaluation_interval:
        return []
    ways = "sampled and most probable" if len(experiment.evaluation_ways) > 1 else "sampled"
    every, played = (
        f"{rules.evaluation_interval:_} {experiment.budget.unit}",
        "games" if experiment.is_game else "episodes",
    )
    return [f"an evaluation every {every}: {rules.evaluation_episodes} {played} by {ways} actions"]


# --- mac resume ------------------------------------------------------------------------------------------------------


def _add_resume_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="RUN", help="a run folder")
    _add_budget(parser, "train each trial for so many in all, more than before")
    shared_options.add_env(parser)
    shared_options.add_workers(parser)
    shared_options.add_keeping(parser)
    shared_options.add_quiet(parser)


def resume(options: argparse.Namespace) -> None:
    """`mac resume`."""
    from mean_actor_critic.runs.run import Run

    run = Run.load(options.path)
    warn(run)
    if run.finished and options.episodes is None and options.steps is None:
        if not options.quiet:
            say(f"{options.path}: already finished")
        return show_run(run, options.quiet)
    del run  # which may be large, and is read again
    events = Events(options.tensorboard)
    from mean_actor_critic.runs.train import resume

    def begin(started: "Started") -> None:
        _begin(started, events, options.quiet)
        if started.environment.engine == "atari" and not options.quiet:
            say("the emulators go back to where they were: seconds, or minutes if games are long")

    with progress_display(options.quiet) as watch:
        resumed = resume(
            Path(options.path),
            options.env,
            episodes=options.episodes,
            steps=options.steps,
            workers=options.workers,
            step_seconds=options.step_seconds,
            checkpoint_seconds=options.checkpoint_seconds,
            on_progress=watch(str(options.path)),
            on_start=begin,
            on_study=events.write,
        )
    return show_run(resumed, options.quiet)


# --- mac check -------------------------------------------------------------------------------------------------------


def check(options: argparse.Namespace) -> None:
    """`mac check`."""
    from mean_actor_critic.environments.catalogue import check

    signs = {"ok": "ok     ", "note": "note   ", "problem": "PROBLEM"}
    problems = 0
    kwargs = parse_kwargs(options.env_kwargs)
    for finding in check(options.environment, env_kwargs=kwargs, max_episode_steps=options.max_episode_steps):
        problems += finding.level == "problem"
        tell(f"{signs[finding.level]} {finding.text}")
    if problems:
        raise MacError(f"{options.environment}: {problems} problem{'s' if problems > 1 else ''}, see above")
    tell(f"{options.environment}: can be trained")


COMMANDS = (
    Command("train", "Train an algorithm on an environment.", _add_train_options, train, settings_help),
    Command("resume", "Continue an interrupted run to its end, or beyond it.", _add_resume_options, resume),
    Command(
        "check", "Say in plain words what would go wrong with an environment.", shared_options.add_environment, check
    ),
)
