"""The command line `mac`. Imports JAX only when something is about to be trained or played."""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from mean_actor_critic._version import __version__
from mean_actor_critic.cli import gradients, report, results, search, studies, training
from mean_actor_critic.cli.settings import unknown_option
from mean_actor_critic.errors import Interrupted, MacError
from mean_actor_critic.progress import say

COMMANDS = (
    *training.COMMANDS,
    *results.COMMANDS,
    *gradients.COMMANDS,
    *search.COMMANDS,
    *studies.COMMANDS,
    *report.COMMANDS,
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and what an option of another library is called here."""

    def __init__(self, **options: Any) -> None:
        # abbreviations would take the options of others for ours: --env for --env-kwargs
        super().__init__(allow_abbrev=False, **options)
        self._words: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does it; but a command itself refuses what it does not know."""
        self._words = sys.argv[1:] if args is None else args
        namespace, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        """Leave with one line."""
        words = unknown_option(self._words, self._option_string_actions) or message
        self.exit(2, f"{self.prog}: {' '.join(words.splitlines())} (see {self.prog} --help)\n")


def make_parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """The whole command line; its words decide which settings `--help` lists."""
    parser = _Parser(prog="mac", description="Mean Actor-Critic and its rivals, whole studies at once.")
    parser.add_argument("--version", action="version", version=f"mac {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    for command in COMMANDS:
        sub = commands.add_parser(
            command.name,
            help=command.help,
            description=command.help,
            epilog=command.epilog(words) if command.epilog else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_options(sub)
        sub.set_defaults(run=command.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: parses, runs, and turns every expected error into one line and an exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    options = make_parser(words).parse_args(words)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: say(f"mac: warning: {message}")
            options.run(options)
        sys.stdout.flush()
    except MacError as fault:
        _leave(fault.exit_code, f"mac: {fault}")
    except Interrupted as fault:
        again = (
            "interrupted; the same command goes on from here" if options.command in ("reproduce", "sweep") else fault
        )
        _leave(128 + fault.signal_number, f"mac: {again}")
    except KeyboardInterrupt:
        _leave(130, "mac: interrupted")
    except BrokenPipeError:  # the reader of our output, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _leave(code: int, line: str) -> NoReturn:
    """Exit at once: a compilation that still runs in a thread is not waited for."""
    say(line)
    os._exit(code)


if __name__ == "__main__":
    main()
