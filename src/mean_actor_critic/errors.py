"""What can go wrong on the user's side. Each error is one line, and knows the exit code of the command line."""

from typing import Self

from mean_actor_critic.terminal import one_line

LONGEST_MESSAGE, LONGEST_VALUE = 5000, 1000  # characters that are shown


def shortened(text: str, most: int) -> str:
    """Text with what is in the middle left out where it is longer than so many characters."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - most // 2 :]}"


def shown(value: object) -> str:
    """A value as Python writes it, if that is short and can be had; else what it is."""
    try:
        return shortened(one_line(shortened(repr(value), LONGEST_MESSAGE)), LONGEST_VALUE)
    except Exception:  # a whole number of thousands of digits, a list within itself, or an object of a user's own
        return f"a {type(value).__name__} that cannot be shown"


class MacError(Exception):
    """Base of all errors that are shown as one line instead of a traceback."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(one_line(shortened(message, LONGEST_MESSAGE)))


class InputError(MacError, ValueError):
    """A setting, name or count that cannot be used: names the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {shown(value)} cannot be used; allowed: {allowed}")

    def within(self, where: str) -> Self:
        """The same error, and where the value was found."""
        self.args = (f"{where}: {self}",)
        return self


class DamagedFileError(MacError):
    """A file that is truncated, altered, forged or not ours."""


class MissingFileError(MacError, FileNotFoundError):
    """A file that is not there."""


class RunBusyError(MacError):
    """The run folder already has a writer."""


class DiskError(MacError):
    """The disk refused: full, read-only, or failing."""

    exit_code = 1


class OutOfMemoryError(MacError):
    """The machine has less memory than the run needs."""

    exit_code = 1


class LimitError(MacError):
    """The system has a limit on open files or processes that the run meets."""

    exit_code = 1


class Interrupted(KeyboardInterrupt):
    """Training stopped on a signal; what is on disk is whole.

    A KeyboardInterrupt, so that notebooks and scripts behave as they would with any other library.
    """

    def __init__(self, signal_number: int, advice: str) -> None:
        super().__init__(f"interrupted; {advice}")
        self.signal_number = signal_number


NO_LEGAL_ACTION = "has no legal action"  # in a state where one has to be chosen


class EnvironmentFault(MacError):  # noqa: N818
    """An environment that failed while it was being played: names it, the trial, episode, step and field."""

    exit_code = 1

    def __init__(self, environment: str, where: str, field: str, words: str) -> None:
        super().__init__(f"{environment}: {where}{field} {words}")
        self.environment, self.field = environment, field

    @classmethod
    def no_legal_action(cls, environment: str, trial: int, when: str, step: int) -> Self:
        """That nothing can be done in a step of an episode, counted from 1: named by what came before."""
        before = "reset" if step == 1 else f"step {step - 1}"
        return cls(environment, f"trial {trial}, {when}, {before}: ", "action_mask", NO_LEGAL_ACTION)

    def with_advice(self, advice: str) -> Self:
        """The same fault, and what to do now."""
        self.args = (f"{self}; {advice}",)
        return self
