"""Sinks that fail, wait and remember as a test wants it."""

import math
import threading
from collections.abc import Callable
from time import monotonic

import pyarrow as pa

from weft.sinks import Limits, Results

FAST = Limits(first_retry_s=0.001, longest_retry_s=0.004)


def result(*values: int) -> pa.Table:
    return pa.table({"x": pa.array(values, pa.int64())})


def wait_until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline, pause = monotonic() + seconds, threading.Event()
    while not true():
        assert monotonic() < deadline, "it never came true"
        pause.wait(0.002)


class StoreSink:
    """A sink of which only `stored` outlives an error: rows and the last commit, changed together."""

    def __init__(self, fails: Callable[[str], bool] = lambda phase: False, *, patience: float = 0.0) -> None:
        self.name, self.done = "store", -1
        self.stored: tuple[list[int], int] = [], -1
        self.flushes = 0
        self.closed = False
        self._fails, self._patience = fails, patience
        self._kept: list[int] = []
        self._last = -1

    def resume(self, after: int, *, origin: str = "") -> None:
        self._maybe("resume")
        self._kept = []
        self.done = self._last = max(self.stored[1], after)

    def deliver(self, commit: int, results: Results) -> None:
        self._maybe("deliver")
        assert commit > self._last, "out of order"
        self._last = commit
        for table in results.values():
            self._kept += table["x"].to_pylist()
        self._maybe("delivered")

    def flush(self) -> None:
        self._maybe("flush")
        self.flushes += 1
        self.stored = [*self.stored[0], *self._kept], self._last
        # Now the results are there, but the sink's user does not know.
        self._maybe("flushed")
        self._kept, self.done = [], self._last

    def close(self) -> None:
        self.closed = True

    def _maybe(self, phase: str) -> None:
        if self._fails(phase):
            raise ConnectionError(phase)


class PatientSink(StoreSink):
    """A sink that keeps results back for a while."""

    _since = math.inf

    def flush_due_in(self) -> float:
        self._since = min(self._since, monotonic()) if self._kept else math.inf
        return self._since + self._patience - monotonic()
