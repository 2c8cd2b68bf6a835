"""What can go wrong on the user's side. Each error is one line, and knows the exit code of the command line."""

from typing import Self

from mean_actor_critic.terminal import one_line

LONGEST = 5000  # characters of a message
LONGEST_VALUE = 300  # characters of a value in it


class MacError(Exception):
    """Base of all errors that are shown as one line instead of a traceback."""

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(_shortened(one_line(message), LONGEST))


class InputError(MacError, ValueError):
    """A setting, name or count that cannot be used: names the field, the value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(f"{field}: {_in_brief(value)} cannot be used; allowed: {allowed}")

    def within(self, where: str) -> Self:
        """The same error, and where the value was found."""
        self.args = (f"{where}: {self}",)
        return self


def _in_brief(value: object) -> str:
    """A value as Python writes it, but for the middle of a long one: a file or a user may give megabytes."""
    try:
        return _shortened(repr(value), LONGEST_VALUE)
    except ValueError:  # Python writes no whole number of thousands of digits
        return f"{type(value).__name__} that is too long to show"


def _shortened(words: str, longest: int) -> str:
    """Words without their middle, where they are longer than that."""
    return words if len(words) <= longest else f"{words[: longest // 2]} … {words[-longest // 2 :]}"


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
