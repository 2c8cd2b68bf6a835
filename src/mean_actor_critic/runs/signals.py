"""SIGINT and SIGTERM during training: the first asks for a checkpoint and an end, the second ends at once."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Listener:
    """Remembers the first signal."""

    received: int | None = None
    received_at = 0.0  # by time.monotonic()

    def handle(self, number: int, _frame: FrameType | None) -> None:
        """A signal handler."""
        if self.received is not None:
            os._exit(128 + number)
        self.received, self.received_at = number, time.monotonic()


@contextlib.contextmanager
def listening() -> Iterator[Listener]:
    """Listen within the block. Outside the main thread, where Python has no signals, nothing is ever received."""
    listener = Listener()
    if threading.current_thread() is not threading.main_thread():
        yield listener
        return
    previous = {number: signal.signal(number, listener.handle) for number in SIGNALS}
    try:
        yield listener
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
