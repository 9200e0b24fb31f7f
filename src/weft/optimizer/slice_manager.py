"""The slice manager (STS, Algorithm 1): the next edge of many windows, with no common period in memory."""

from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from weft.optimizer.slices import SLICINGS, Slicing
from weft.window import Window

_Edge = tuple[int, int, bool]
"""Time, window number, and whether it closes the window's period."""


class SliceManager:
    """Yield the edges of a changing set of windows, one after the other.

    >>> manager = SliceManager([Window(range_ms=18, slide_ms=15), Window(range_ms=12, slide_ms=9)])
    >>> [manager.advance() for _ in range(5)]
    [6, 9, 12, 15, 18]
    """

    def __init__(
        self, windows: Iterable[Window] = (), *, at_ms: int = 0, slicing: Slicing = Slicing.PAIRED
    ) -> None:
        self._slice = SLICINGS[slicing]
        self._now = at_ms
        self._queries: Counter[Window] = Counter()
        self._numbers: dict[Window, int] = {}
        self._windows: dict[int, Window] = {}
        self._next_number = 0
        self._queue: list[_Edge] = []
        for window in windows:
            self.add(window)

    def add(self, window: Window) -> None:
        """Add a window at the current time; adding one again costs nothing."""
        self._queries[window] += 1
        if self._queries[window] == 1:
            self._numbers[window] = self._next_number
            self._windows[self._next_number] = window
            self._next_number += 1
            self._seat(window)

    def remove(self, window: Window) -> None:
        """Remove a window: its edges go with the last query that has it."""
        if self._queries[window] == 0:
            raise KeyError(window)
        self._queries[window] -= 1
        if self._queries[window] == 0:
            del self._queries[window]
            number = self._numbers.pop(window)
            del self._windows[number]
            self._queue = [edge for edge in self._queue if edge[1] != number]
            heapify(self._queue)

    def seek(self, at_ms: int) -> None:
        """Go to any time, past or future, skipping the edges between."""
        self._now = at_ms
        self._queue = []
        for window in self._numbers:
            self._seat(window)

    def advance(self) -> int:
        """Return the next edge (advanceWindowGetNextEdge)."""
        time = self._queue[0][0]
        while self._queue and self._queue[0][0] == time:
            _, number, last = heappop(self._queue)
            if last:
                self._add_edges(time, number)
        self._now = time
        return time

    def until(self, end_ms: int) -> Iterator[int]:
        """Yield the edges after the current time and before `end_ms`."""
        while self._queue and self._queue[0][0] < end_ms:
            yield self.advance()

    def _seat(self, window: Window) -> None:
        """Enqueue what remains of the period that the current time is in."""
        period = (self._now - window.offset_ms) // window.slide_ms
        self._add_edges(window.offset_ms + period * window.slide_ms, self._numbers[window])

    def _add_edges(self, start: int, number: int) -> None:
        window = self._windows[number]
        for edge in self._slice(window).edges:
            if start + edge > self._now:
                heappush(self._queue, (start + edge, number, edge == window.slide_ms))
