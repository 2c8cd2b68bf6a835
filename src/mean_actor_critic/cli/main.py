"""The command line `mac`. Imports JAX only when something is about to be trained or played."""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from mean_actor_critic import terminal
from mean_actor_critic._version import __version__
from mean_actor_critic.cli import gradients, report, results, search, studies, training
from mean_actor_critic.cli.settings import unknown_option
from mean_actor_critic.errors import Interrupted, MacError, shortened
from mean_actor_critic.files import in_words
from mean_actor_critic.terminal import say, tell

COMMANDS = (
    *training.COMMANDS,
    *results.COMMANDS,
    *gradients.COMMANDS,
    *search.COMMANDS,
    *studies.COMMANDS,
    *report.COMMANDS,
)


LONGEST_WORDS = 400  # characters of what argparse says, which repeats what was given


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

    def _print_message(self, message: str, file: Any = None) -> None:  # noqa: ARG002
        """Help and versions. Argparse would keep to itself that they cannot be written."""
        for line in message.splitlines():
            tell(line)

    def error(self, message: str) -> NoReturn:
        """Leave with one line."""
        words = unknown_option(self._words, self._option_string_actions) or message
        _leave(2, f"{self.prog}: {shortened(words, LONGEST_WORDS)} (see {self.prog} --help)")


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
    terminal.prepare()
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
        terminal.finish()
    except MacError as fault:
        _leave(fault.exit_code, f"mac: {fault}")
    except KeyboardInterrupt as fault:
        number = fault.signal_number if isinstance(fault, Interrupted) else signal.SIGINT
        _leave(128 + number, f"mac: {str(fault) or 'interrupted'}")
    except BrokenPipeError:  # the reader of our output, such as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as fault:  # the system refused something that no reader or writer has words for
        _leave(1, f"mac: {in_words(fault)}")


def _run(words: Sequence[str]) -> None:
    """Do what the words of a command line ask for."""
    try:
        options = make_parser(words).parse_args(words)
    except SystemExit:
        terminal.finish()  # help that cannot be written is heard of here, and not when the process ends
        raise
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"mac: warning: {message}")
        try:
            options.run(options)
        except Interrupted as fault:
            if options.command not in ("reproduce", "sweep"):
                raise
            raise Interrupted(fault.signal_number, "the same command goes on from here") from None


def _leave(code: int, line: str) -> NoReturn:
    """Exit at once: a compilation that still runs in a thread is not waited for."""
    say(line)
    os._exit(code)


if __name__ == "__main__":
    main()
