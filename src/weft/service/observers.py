"""Functions that are told of results and batches, in threads of their own: none can hold a stream."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from time import monotonic
from typing import Any

import pyarrow as pa

from weft.notices import Notice, NoticeKind
from weft.sinks.delivery import size_of
from weft.state.report import BatchReport

OnBatch = Callable[[str, BatchReport], None]
"""Is called with a stream's name and the report of a batch."""
Subscriber = Callable[[pa.Table], None]
"""Is called with new results."""
Note = Callable[[str, Notice], None]
"""Gets a stream's name and a notice for the user."""
_CALLS = 1_000
"""Maximum number of calls that wait for a function."""
_BYTES = 64 << 20
"""Maximum size of the results that wait with them."""
_log = logging.getLogger("weft.service")


class Observer:
    """A function with a queue of calls, made one after another in a thread of its own.

    A function that raises is called again with what comes next. If the queue is full, the oldest calls are
    left out.
    """

    def __init__(
        self, call: Callable[..., object], *, name: str, fields: Mapping[str, str], note: Note
    ) -> None:
        """`name` and `fields` say in notices and in the log whose function it is."""
        self._call, self._name, self._fields, self._note = call, name, dict(fields), note
        self._changed = threading.Condition()
        self._waiting: deque[tuple[str, tuple[Any, ...], int]] = deque()
        self._size = 0
        self._busy = self._closing = False
        self._thread: threading.Thread | None = None
        self._failures = self._left_out = 0

    def offer(self, stream: str, *arguments: object, size: int = 0) -> None:
        """Queue a call about a stream; this never waits."""
        with self._changed:
            self._waiting.append((stream, arguments, size))
            self._size += size
            left_out = 0
            while len(self._waiting) > 1 and (len(self._waiting) > _CALLS or self._size > _BYTES):
                self._size -= self._waiting.popleft()[2]
                left_out += 1
            self._closing = False
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="weft-observer", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        if left_out:
            self._leave_out(stream, left_out, "it is too slow")

    def await_told(self, seconds: float) -> bool:
        """Wait until all queued calls have been made; a call that waits for itself does not count."""
        with self._changed:
            if self.is_calling():
                return True
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, seconds)

    def is_calling(self) -> bool:
        """Say whether this thread is the function's."""
        return self._thread is threading.current_thread()

    def close(self, *, drop: bool = False) -> None:
        """End the thread after the queued calls, or at once if they are to be dropped."""
        with self._changed:
            self._closing = True
            dropped = list(self._waiting) if drop and not self.is_calling() else []
            if dropped:
                self._waiting.clear()
                self._size = 0
            self._changed.notify_all()
        if dropped:
            self._leave_out(dropped[-1][0], len(dropped), "the engine stopped before it took them")

    def _run(self) -> None:
        while (queued := self._next()) is not None:
            stream, arguments = queued
            # SystemExit too: it would end the thread.
            try:
                self._call(*arguments)
            except (Exception, SystemExit) as error:
                self._failed(stream, error)

    def _next(self) -> tuple[str, tuple[Any, ...]] | None:
        """Wait for the next call; None at the end."""
        with self._changed:
            self._busy = False
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._waiting or self._closing)
            if not self._waiting:
                self._thread = None
                return None
            stream, arguments, size = self._waiting.popleft()
            self._size -= size
            self._busy = True
            return stream, arguments

    def _failed(self, stream: str, error: BaseException) -> None:
        self._failures += 1
        if _is_told(self._failures - 1, self._failures):
            # The text of the error may hold values of rows.
            kind = type(error).__name__
            fields = {**self._fields, "kind": kind, "failures": self._failures}
            _log.error("%s failed, and is called again", self._name, extra=fields)
            first, again = NoticeKind.OBSERVER_FAILED, NoticeKind.OBSERVER_FAILED_AGAIN
            self._note(
                stream,
                Notice(
                    kind=first if self._failures == 1 else again, subject=self._name, error_kind=kind,
                    count=self._failures,
                ),
            )  # fmt: skip

    def _leave_out(self, stream: str, calls: int, why: str) -> None:
        before, self._left_out = self._left_out, self._left_out + calls
        if _is_told(before, self._left_out):
            fields = {**self._fields, "left_out": self._left_out}
            _log.warning("%s was not called with all there was: %s", self._name, why, extra=fields)
            self._note(
                stream,
                Notice(
                    kind=NoticeKind.OBSERVER_LEFT_OUT, subject=self._name, count=self._left_out, about=why
                ),
            )


class Observers:
    """All functions that are told of an engine's results and batches."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribers: dict[str, tuple[Observer, ...]] = {}
        self.on_batch: OnBatch | None = None
        """Is told of the batches of the run."""
        self._batches: Observer | None = None
        self._note: Note = lambda stream, notice: None

    def begin(self, on_batch: OnBatch | None, *, note: Note) -> None:
        """Begin a run: `on_batch` is told of its batches, and `note` gets notices for the user."""
        self._note = note
        self.on_batch = on_batch
        self._batches = None if on_batch is None else self._observer(on_batch, "on_batch", {})

    def subscribe(self, query: str, call: Subscriber) -> None:
        """Have a function called with each batch's new results of a query."""
        observer = self._observer(call, f"a subscriber of query {query}", {"query": query})
        with self._lock:
            self._subscribers[query] = (*self._subscribers.get(query, ()), observer)

    def forget(self, query: str) -> None:
        """Tell the subscribers of a query that has left what is queued, and nothing more."""
        with self._lock:
            subscribers = self._subscribers.pop(query, ())
        for observer in subscribers:
            observer.close()

    def tell(self, stream: str, report: BatchReport) -> None:
        """Queue a batch's results for subscribers, and its report for `on_batch`."""
        for query, rows in report.results.items():
            for observer in self._subscribers.get(query, ()):
                observer.offer(stream, rows, size=rows.nbytes)
        if self._batches is not None:
            self._batches.offer(stream, stream, report, size=size_of(report.results))

    def await_told(self, seconds: float) -> bool:
        """Wait until all queued calls have been made; say whether they were, in time."""
        deadline, told = monotonic() + seconds, True
        for observer in self._all():
            told = observer.await_told(max(0.0, deadline - monotonic())) and told
        return told

    def is_calling(self) -> bool:
        """Say whether this thread is that of one of the functions."""
        return any(observer.is_calling() for observer in self._all())

    def end(self, seconds: float) -> None:
        """Make the queued calls, for some seconds at most; drop the rest."""
        self.await_told(seconds)
        for observer in self._all():
            observer.close(drop=True)

    def _observer(self, call: Callable[..., object], name: str, fields: Mapping[str, str]) -> Observer:
        return Observer(
            call, name=name, fields=fields, note=lambda stream, notice: self._note(stream, notice)
        )

    def _all(self) -> Iterator[Observer]:
        with self._lock:
            subscribers = list(self._subscribers.values())
        if self._batches is not None:
            yield self._batches
        for observers in subscribers:
            yield from observers


def _is_told(before: int, now: int) -> bool:
    """Say whether a count has reached another power of two: a function that always fails fills no log."""
    return before.bit_length() < now.bit_length()
