"""What a command is, and the options that several commands share."""

import argparse
from collections.abc import Callable, Sequence
from typing import NamedTuple

from mean_actor_critic.environments.hosted.fleet import STEP_SECONDS
from mean_actor_critic.runs.store import CHECKPOINT_SECONDS
from mean_actor_critic.spec.presets import PRESETS
from mean_actor_critic.spec.rules import PROTOCOLS


class Command(NamedTuple):
    """A command of `mac`."""

    name: str
    help: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    epilog: Callable[[Sequence[str]], str] | None = None  # what its help ends with, by the words of the command line


def add_environment(parser: argparse.ArgumentParser) -> None:
    """The environment, and how it is made."""
    text = "a Gymnasium id (CartPole-v0, LunarLander-v3, ALE/Pong-v5, package:Id-v0), or my_module:make_env"
    parser.add_argument("environment", metavar="ENV", help=text)
    parser.add_argument(
        "--env-kwargs", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help="keyword arguments for the environment, values as in JSON: gravity=-5.0 enable_wind=true",
    )  # fmt: skip
    parser.add_argument(
        "--max-episode-steps", metavar="N", type=int, help="time limit (default: the environment's own, else 1000)"
    )


def add_player(parser: argparse.ArgumentParser, text: str, trial: str) -> None:
    """Who plays, and where."""
    parser.add_argument("player", metavar="RUN|AGENT", help=text)
    parser.add_argument("--trial", type=int, help=trial)
    parser.add_argument("--seed", type=int, default=0, help="of the episodes (default: 0)")
    add_env(parser)


def add_env(parser: argparse.ArgumentParser) -> None:
    """The environment of a run or agent that does not say enough of it."""
    text = "the environment, if it is my_module:make_env or package:Id-v0: what a file names is not run by itself"
    parser.add_argument("--env", metavar="ENV", help=text)


def add_settings(parser: argparse.ArgumentParser, text: str) -> None:
    """Settings by name."""
    parser.add_argument("--set", metavar="NAME=VALUE", nargs="+", action="extend", default=[], help=text)


def add_preset(parser: argparse.ArgumentParser) -> None:
    """The settings to start from."""
    parser.add_argument(
        "--preset", choices=PRESETS,
        help="settings to start from: found by searches of our own; the winners of the paper's by its rule, or by area "
        "(default: tuned)",
    )  # fmt: skip


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """The settings of games to start from."""
    parser.add_argument(
        "--protocol", choices=list(PROTOCOLS),
        help="on Atari games: paper, or machado: sticky actions 0.25 and whole games in training (default: paper)",
    )  # fmt: skip


def add_workers(parser: argparse.ArgumentParser) -> None:
    """Who steps environments that are no JAX programs."""
    parser.add_argument(
        "--workers", metavar="N", type=int,
        help="processes for hosted environments, threads for Atari's emulators (default: one per core)",
    )  # fmt: skip
    text = f"a hosted environment that takes longer for a step is taken to hang (default: {STEP_SECONDS:g})"
    parser.add_argument("--step-seconds", metavar="S", type=float, default=STEP_SECONDS, help=text)


def add_keeping(parser: argparse.ArgumentParser) -> None:
    """What a run writes besides its results."""
    usual, on_games = (CHECKPOINT_SECONDS[engine] for engine in ("compiled", "atari"))
    parser.add_argument(
        "--checkpoint-seconds", metavar="S", type=float,
        help="time between checkpoints, which is what a kill -9 can cost "
        f"(default: {usual:g}; on Atari games {on_games:g})",
    )  # fmt: skip
    parser.add_argument(
        "--tensorboard", action="store_true", help="write learning curves to RUN/tensorboard while training"
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Nothing for people."""
    parser.add_argument("--quiet", action="store_true", help="no progress and no table; errors are still shown")
