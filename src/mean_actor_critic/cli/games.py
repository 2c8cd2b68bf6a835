"""What the commands of `mac` do with Atari games. Imports JAX only when something is about to be trained."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mean_actor_critic.cli.shared import Events, memory_words
from mean_actor_critic.errors import InputError, MacError
from mean_actor_critic.progress import progress_display, say
from mean_actor_critic.runs.store import RUNS, read_manifest
    ATARI_ALGORITHMS,
    ATARI_SETTINGS,
    ENGINE,
    GAME,
    OF_PLAY,
    PAPERS_STEPS,
    PROTOCOLS,
    AnyExperiment,
    AtariExperiment,
    AtariSetup,
    preset,
)
from mean_actor_critic.spec.checks import parse_settings, settings_as_words, unknown_name
from mean_actor_critic.spec.paper import ATARI, ATARI_TRIALS

if TYPE_CHECKING:
    from mean_actor_critic.environments.atari import Game

STUDY = "atari"  # what `mac reproduce` calls it
PAPERS = ("advantage_actor_critic", "mac")  # what Table 2 compares
EVALUATED_GAMES = 16  # by `mac evaluate`, unless said otherwise: one batch, because games can be long


# --- mac train, mac resume -------------------------------------------------------------------------------------------


def add_train_options(parser: argparse.ArgumentParser) -> None:
    """What only games take."""
    games = parser.add_argument_group("Atari games (ALE/Pong-v5 and so on)")
    games.add_argument(
        "--steps", type=int, help=f"agent steps of each trial, not frames (default: the paper's {PAPERS_STEPS:_})"
    )
    games.add_argument(
        "--protocol", choices=list(PROTOCOLS),
        help="paper, or machado: sticky actions 0.25 and whole games in training (default: paper)",
    )  # fmt: skip


def add_evaluate_options(parser: argparse.ArgumentParser) -> None:
    """What only games take."""
    parser.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help=f"on Atari games, rules that differ from training's: {', '.join(OF_PLAY)}",
    )  # fmt: skip


def settings_of_play(options: argparse.Namespace) -> dict[str, Any]:
    """The rules that `mac evaluate` was asked for."""
    return parse_settings(options.set, ATARI_SETTINGS)


def settings_help() -> str:
    """The settings of games, for `mac train --help`."""
    others = " ".join(settings_as_words(preset("a2c", "paper")))
    lines = [f"settings on Atari games (the defaults are the paper's; those of a2c are Baselines': {others}):"]
    for name, setting in ATARI_SETTINGS.items():
        lines.append(f"  {name}={str(setting.default).lower()}\n      {setting.limits.help}: {setting.limits.allowed}")
    lines.append("\nalgorithms on Atari games:")
    lines += [f"  {name:23s} {algorithm.title}: {algorithm.help}" for name, algorithm in ATARI_ALGORITHMS.items()]
    return "\n".join(lines)


def is_name_of_game(environment: str) -> bool:
    """Whether an environment's name is that of a game, there or not."""
    return environment.startswith(GAME)


def check(options: argparse.Namespace) -> str:
    """`mac check` of a game: what it shows and takes with the paper's settings.

    Raises:
        MacError: it cannot be played here.
    """
    from mean_actor_critic.environments.atari import find_game

    if options.env_kwargs or options.max_episode_steps is not None:
        raise InputError(
            "mac check", options.environment, "nothing besides a game: what there is to choose are settings"
        )
    spaces = find_game(AtariSetup(options.environment)).spaces
    shape = " × ".join(map(str, spaces.observation.shape or ()))
    return f"{options.environment}: can be trained; {spaces.actions} actions, observations of {shape} pixels"


def is_game(options: argparse.Namespace) -> bool:
    """Whether `mac train` is about a game; an InputError if it is not, but was asked for what only games have."""
    if is_name_of_game(options.environment):
        if options.engine not in ("auto", ENGINE):
            raise InputError("--engine", options.engine, f"{ENGINE} for {options.environment}")
        return True
    for name in ("steps", "protocol"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name}", getattr(options, name), "an Atari game, ALE/…-v5, before it")
    return False


def is_on_game(experiment: AnyExperiment) -> bool:
    """Whether an experiment is on an Atari game."""
    return isinstance(experiment, AtariExperiment)


def train(options: argparse.Namespace) -> AtariRun:
    """`mac train` on a game."""
    refused = {
        "--episodes": (options.episodes, "--steps, which Atari runs are measured in"),
        "--env-kwargs": (options.env_kwargs or None, "--set: everything about the emulators is a setting"),
        "--max-episode-steps": (options.max_episode_steps, "--set max_episode_frames=…"),
        "--preset": (options.preset, "--protocol, with Atari games"),
        "--snapshots": (None if options.snapshots == "0" else options.snapshots, "runs that count episodes"),
    }
    for name, (value, allowed) in refused.items():
        if value is not None:
            raise InputError(name, value, allowed)
    settings = parse_settings(options.set, ATARI_SETTINGS)
    from mean_actor_critic.learning.native import compiler
    from mean_actor_critic.runs.train_atari import CHECKPOINT_SECONDS, train_atari

    def started(path: Path, game: "Game") -> None:
        events.begin(path)
        if not options.quiet:
            words = f"steps are agent steps, not frames; convolutions: {compiler() or 'XLA'}{memory_words(path)}"
            say(f"{game.name}: {words}; run folder: {path}")

    events = Events(options.tensorboard)
    with progress_display(options.quiet) as watch:
        return train_atari(
            options.environment,
            options.algorithm,
            trials=options.trials,
            steps=PAPERS_STEPS if options.steps is None else options.steps,
            seed=options.seed,
            first_trial=options.first_trial,
            protocol=options.protocol or "paper",
            threads=options.workers,
            out=options.out,
            checkpoint_seconds=_seconds(options, CHECKPOINT_SECONDS),
            on_progress=watch(f"{options.environment} {options.algorithm}"),
            on_start=started,
            on_evaluations=events.evaluations,
            **settings,
        )


def resume(options: argparse.Namespace, run: AtariRun) -> AtariRun:
    """`mac resume` of a run on a game."""
    if run.finished:
        if not options.quiet:
            say(f"{options.path}: already finished")
        return run
    from mean_actor_critic.runs.train_atari import CHECKPOINT_SECONDS, resume_atari

    events = Events(options.tensorboard)
    with progress_display(options.quiet) as watch:
        events.begin(Path(options.path))
        if not options.quiet:
            say(f"{options.path}: the emulators go back to where they were: seconds, or minutes if games are long")
        return resume_atari(
            options.path,
            options.env,
            threads=options.workers,
            checkpoint_seconds=_seconds(options, CHECKPOINT_SECONDS),
            on_progress=watch(str(options.path)),
            on_evaluations=events.evaluations,
        )


def _seconds(options: argparse.Namespace, usual: float) -> float:
    return usual if options.checkpoint_seconds is None else options.checkpoint_seconds


# --- mac reproduce atari, mac report ---------------------------------------------------------------------------------


def add_reproduce_options(parser: argparse.ArgumentParser) -> None:
    """What only the Atari study takes."""
    games = parser.add_argument_group("atari")
    games.add_argument(
        "--game", "--games", metavar="NAME", nargs="+", dest="games",
        help=f"{', '.join(ATARI)}, or all (default: all)",
    )  # fmt: skip
    games.add_argument("--steps", type=int, help=f"agent steps of each trial, not frames (default: {PAPERS_STEPS:_})")
    games.add_argument(
        "--algorithm", metavar="NAME", nargs="+", choices=list(ATARI_ALGORITHMS), dest="algorithms",
        help=f"of {', '.join(ATARI_ALGORITHMS)} (default: {' '.join(PAPERS)})",
    )  # fmt: skip
    games.add_argument("--protocol", choices=list(PROTOCOLS), help="(default: paper)")
    games.add_argument(
        "--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[], help="settings as in mac train"
    )


def require_no_game_options(options: argparse.Namespace) -> None:
    """Raise an InputError if another study is asked for what only games have."""
    for name in ("games", "steps", "algorithms", "protocol"):
        if getattr(options, name) is not None:
            raise InputError(f"--{name}", getattr(options, name), f"mac reproduce {STUDY}")
    if options.set:
        raise InputError("--set", " ".join(options.set), f"mac reproduce {STUDY}")


class Reproduced(NamedTuple):
    """What `mac reproduce atari` has to show."""

    runs: list[AtariRun]
    files: list[Path]


def reproduce(options: argparse.Namespace) -> Reproduced:
    """The study, its table and curves written anew whenever a run has finished."""
    from mean_actor_critic.reports import atari as report
    from mean_actor_critic.reports.plots import require_matplotlib

    for name in ("quick", "full", "episodes", "search", "rule", "preset"):
        if getattr(options, name):
            raise InputError(f"--{name}", getattr(options, name), "--steps and --trials, with Atari games")
    require_matplotlib()
    named = options.games or ["all"]
    names = list(ATARI) if "all" in named else named
    for name in named:
        if name not in (*ATARI, "all"):
            raise unknown_name("--game", name, [*ATARI, "all"])
    settings = parse_settings(options.set, ATARI_SETTINGS)
    trials = ATARI_TRIALS if options.trials is None else options.trials
    steps = PAPERS_STEPS if options.steps is None else options.steps
    kind = "" if options.protocol in (None, "paper") else f"-{options.protocol}"
    folder = Path(options.out or f"{RUNS}/{STUDY}{kind}-{trials}x{steps}-seed{options.seed}")
    from mean_actor_critic.studies.atari import reproduce as study

    files: list[Path] = []
    with progress_display(options.quiet) as watch:
        games = {name: ATARI[name] for name in names}
        algorithms = options.algorithms or PAPERS
        for run, reused in study(
            games, algorithms, folder, trials, steps, options.seed, watch, options.protocol or "paper", None, settings
        ):
            if not reused:
                files = report.write(_runs_in(folder), folder / "report")
            if not options.quiet:
                state = "already finished, taken as it is" if reused else "finished"
                say(f"{run.path}: {state}")
    found = _runs_in(folder)
    return Reproduced(found, files or report.write(found, folder / "report"))


def _runs_in(folder: Path) -> list[AtariRun]:
    """All runs of a study's folder, those of other games and unfinished ones too."""
    return [AtariRun.load(file.parent) for file in sorted(folder.glob("*/*/manifest.json"))]


def runs_to_report(paths: Sequence[str]) -> list[AtariRun]:
    """The runs on games in some folders, for `mac report`; none if there are none.

    Raises:
        InputError: there are runs of both kinds.
    """
    found: dict[Path, AtariRun] = {}  # by where they really are: what is named twice counts once
    others: list[Path] = []
    damaged: list[MacError] = []
    patterns = ("manifest.json", "*/manifest.json", "*/*/manifest.json")
    for file in (file for path in paths for pattern in patterns for file in sorted(Path(path).glob(pattern))):
        folder = file.parent
        try:
            on_game = is_on_game(read_manifest(folder).experiment)
        except MacError as fault:
            damaged.append(fault)
            continue
        if on_game:
            found[folder.resolve()] = AtariRun.load(folder)
        else:
            others.append(folder)
    if found and others:
        raise InputError("RUN", str(others[0]), "runs on Atari games, or runs that count episodes, but not both")
    if found and damaged:
        raise damaged[0]  # if there are no games, whoever reads it next says what is wrong
    return list(found.values())


def report(runs: Sequence[AtariRun], folder: Path) -> list[Path]:
    """`mac report` on games."""
    from mean_actor_critic.reports import atari as pages
    from mean_actor_critic.reports.plots import require_matplotlib

    require_matplotlib()
    pages.require_reportable(runs)
    return pages.write(runs, folder)
