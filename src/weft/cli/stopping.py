"""Stops a run: the first Ctrl-C or SIGTERM between batches, a second Ctrl-C at once."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

_REPEATED_SECONDS = 0.5
"""A Ctrl-C this soon after the first is the same one, passed on by a wrapper of the command."""
_LOOK_SECONDS = 0.5
"""Poll interval for stop requests."""
_AT_ONCE = 130
"""The exit code after an interrupt."""


class Stop:
    """A stop request by signal."""

    def __init__(self, leave: Callable[[], None] | None = None) -> None:
        self._leave = leave or (lambda: None)
        self._asked = threading.Event()
        self._asked_at = 0.0

    @property
    def asked(self) -> bool:
        """Whether a stop was requested."""
        return self._asked.is_set()

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Note a signal; end the process if it is a second Ctrl-C."""
        if not self._asked.is_set():
            self._asked_at = monotonic()
            self._asked.set()
        elif number == signal.SIGINT and monotonic() - self._asked_at > _REPEATED_SECONDS:
            self._leave()
            # The signal may have come at any line, also inside a lock: nothing else is safe.
            os._exit(_AT_ONCE)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle signals for the duration of the block."""
        # After Spark has started: its session installs a handler of its own, which cancels jobs.
        former = {number: signal.signal(number, self.handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def await_end(wait: Callable[[float], bool], stop: Stop) -> bool:
    """Wait until all streams have ended (True) or a stop is requested; `wait` waits for so many seconds."""
    while not stop.asked:
        if wait(_LOOK_SECONDS):
            return True
    return False


def say_leaving() -> None:
    """Print that the run ends at once, and show the terminal's cursor again."""
    os.write(sys.stderr.fileno(), b"\x1b[?25h\n" if sys.stderr.isatty() else b"")
    os.write(sys.stderr.fileno(), b"left at once; what was not committed is done again next time\n")
