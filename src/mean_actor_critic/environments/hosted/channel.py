"""The pipes between the main process and a worker: one byte for a turn to take, and frames for what is answered.

An environment may write to any descriptor of its process, and a process that it forks has all of them. So nothing that
comes out of the pipe is taken for an answer unless it is framed as one: with a mark in front, a length, and a checksum.
"""

import json
import os
import struct
import zlib
from typing import Any, NamedTuple

TURN = b"."  # to be taken
_MARK = b"\x8fmac\r\n\x1a\n"  # nothing that a program would print
_HEAD = struct.Struct("<8sBQI")  # mark, kind, number, checksum of what follows
_TURN_DONE, _MESSAGE, _END = range(3)  # the number is that of the turn, or the length of the message
_LONGEST = 1 << 26  # bytes of a message: the description of the largest spaces has fewer


class Channel:
    """A worker's ends of its pipes."""

    def __init__(self, commands: int, results: int) -> None:
        """On the descriptors `commands` to read from and `results` to write to."""
        self.commands, self._results = commands, results
        self._process = os.getpid()

    def tell(self, **message: Any) -> None:
        """Send a message."""
        content = json.dumps(message).encode()
        self._write(_HEAD.pack(_MARK, _MESSAGE, len(content), zlib.crc32(content)) + content)

    def turn_done(self, number: int) -> None:
        """Say that a turn has been taken; they are counted from 1."""
        self._write(_HEAD.pack(_MARK, _TURN_DONE, number, 0))

    def finish(self) -> None:
        """Say that this is all: nobody need wait for what follows."""
        self._write(_HEAD.pack(_MARK, _END, 0, 0))

    def _write(self, frame: bytes) -> None:
        if os.getpid() != self._process:
            os._exit(1)  # a process that an environment has forked and that came back to us: it has no part in this
        while frame:
            frame = frame[os.write(self._results, frame) :]


class Answer(NamedTuple):
    """One of: a turn done, a message, the end of all messages."""

    turn: int | None = None
    message: dict[str, Any] | None = None


END = Answer()


class ForeignBytesError(Exception):
    """Something that is no answer came out of the pipe; the message says what."""


class Answers:
    """Makes answers of the bytes that come from a worker."""

    def __init__(self) -> None:
        self._unread = b""

    def of(self, content: bytes) -> list[Answer]:
        """The answers that are complete with these bytes.

        Raises:
            ForeignBytesError: somebody else has written to the pipe.
        """
        self._unread += content
        answers: list[Answer] = []
        while self._unread:
            answer, size = self._first()
            if answer is None:
                break
            answers.append(answer)
            self._unread = self._unread[size:]
        return answers

    def _first(self) -> tuple[Answer | None, int]:
        """The first answer and its bytes; None while it is not complete."""
        unread = self._unread
        if unread[: len(_MARK)] != _MARK[: len(unread)]:
            raise self._foreign()
        if len(unread) < _HEAD.size:
            return None, 0
        _, kind, number, checksum = _HEAD.unpack_from(unread)
        if kind == _TURN_DONE:
            return Answer(turn=number), _HEAD.size
        if kind == _END:
            return END, _HEAD.size
        if kind != _MESSAGE or number > _LONGEST:
            raise self._foreign()
        content = unread[_HEAD.size : _HEAD.size + number]
        if len(content) < number:
            return None, 0
        if zlib.crc32(content) != checksum:
            raise self._foreign()
        return Answer(message=json.loads(content)), _HEAD.size + number

    def _foreign(self) -> ForeignBytesError:
        return ForeignBytesError(
            f"cannot be heard: {self._unread[:40]!r} was written to its pipe, a descriptor that is no environment's"
        )
