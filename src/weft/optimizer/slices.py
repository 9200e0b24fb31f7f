"""Sliced windows, paned and paired, and the slice manager (STS, section 3).

    range 18, slide 15      |---------12---------|--3--|---------12---------|--3--|
                                                 ^ 15−3                     ^ 30−3
    paned                   |-3-|-3-|-3-|-3-|-3--|-3-|-3-|-3-|-3-|-3--|

An overlapping window can be answered from any slices that have an edge at each of its ends and at each of
its starts (Lemma 1). Paired windows have just those edges, so no slicing has fewer (Theorem 1).
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import gcd

import numpy as np

from weft.arrays import Times
from weft.window import Window

MICROSECONDS = 1000
"""Microseconds in the millisecond that windows are measured in."""
_FEW_EDGES = 100_000
"""Up to this many edges are listed; with more, each time's is computed."""


class Slicing(StrEnum):
    """How one window is cut into slices."""

    PAIRED = "paired"
    PANED = "paned"


@dataclass(frozen=True, slots=True)
class SlicedWindow:
    """Slices of the given lengths, one after the other, again and again."""

    slices: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.slices or min(self.slices) <= 0:
            raise ValueError(f"slices must be positive, got {self.slices}")

    @property
    def period(self) -> int:
        """The length after which the slices repeat."""
        return sum(self.slices)

    @property
    def edges(self) -> tuple[int, ...]:
        """Where slices end within a period."""
        return tuple(accumulate(self.slices))

    def __len__(self) -> int:
        return len(self.slices)


def paned(window: Window) -> SlicedWindow:
    """Cut a window into equal panes of the greatest common divisor of range and slide.

    >>> paned(Window(range_ms=18, slide_ms=15)).slices
    (3, 3, 3, 3, 3)
    """
    pane = window.step_ms or gcd(window.range_ms, window.slide_ms)
    return SlicedWindow((pane,) * (window.slide_ms // pane))


def paired(window: Window) -> SlicedWindow:
    """Cut a window into a pair of slices, the second of range mod slide (one slice where that is zero).

    Cumulative windows are cut where each of them ends.

    >>> paired(Window(range_ms=18, slide_ms=15)).slices
    (12, 3)
    """
    if window.step_ms is not None:
        return paned(window)
    second = window.range_ms % window.slide_ms
    return SlicedWindow((window.slide_ms - second, second) if second else (window.slide_ms,))


SLICINGS: dict[Slicing, Callable[[Window], SlicedWindow]] = {Slicing.PAIRED: paired, Slicing.PANED: paned}


@dataclass(frozen=True, slots=True, order=True)
class EdgeClass:
    """The edges `residue + k · modulus`, in milliseconds since the epoch."""

    modulus: int
    residue: int


def edge_classes(windows: Iterable[Window], slicing: Slicing = Slicing.PAIRED) -> frozenset[EdgeClass]:
    """Return where the windows cut time, each class once however many windows share it.

    >>> sorted(edge_classes([Window(range_ms=18, slide_ms=15)]))
    [EdgeClass(modulus=15, residue=0), EdgeClass(modulus=15, residue=12)]
    """
    if slicing is Slicing.PANED:
        return frozenset(map(_panes, windows))
    return frozenset(
        edge_class
        for window in windows
        for edge_class in ((_panes(window),) if window.step_ms is not None else _pair(window))
    )


def _panes(window: Window) -> EdgeClass:
    pane = window.step_ms or gcd(window.range_ms, window.slide_ms)
    return EdgeClass(pane, window.offset_ms % pane)


def _pair(window: Window) -> Iterator[EdgeClass]:
    slide_ms = window.slide_ms
    return (EdgeClass(slide_ms, (window.offset_ms + edge) % slide_ms) for edge in paired(window).edges)


def common_grid(classes: Iterable[EdgeClass]) -> EdgeClass:
    """Return the coarsest evenly spaced edges that include all the given ones: the common panes.

    >>> common_grid([EdgeClass(15, 0), EdgeClass(15, 12)])
    EdgeClass(modulus=3, residue=0)
    """
    ordered = sorted(classes)
    first = ordered[0].residue
    steps = [step for edge in ordered for step in (edge.modulus, abs(edge.residue - first))]
    modulus = reduce(gcd, steps)
    return EdgeClass(modulus, first % modulus)


def slice_starts(times_us: Times, classes: Collection[EdgeClass]) -> Times:
    """Return the last edge at or before each time, in microseconds.

    >>> slice_starts(np.array([0, 11_999, 14_000, -1]), [EdgeClass(15, 0), EdgeClass(15, 12)]).tolist()
    [0, 0, 12000, -3000]
    """
    if not len(times_us):
        return times_us
    moduli = np.array([edge.modulus for edge in classes], dtype=np.int64) * MICROSECONDS
    residues = np.array([edge.residue for edge in classes], dtype=np.int64) * MICROSECONDS
    first, last = int(times_us.min()), int(times_us.max())
    if (float(last - first) / moduli + 1).sum() > max(_FEW_EDGES, 4 * len(times_us)):
        classed = zip(moduli, residues, strict=True)
        return reduce(np.maximum, (times_us - (times_us - residue) % modulus for modulus, residue in classed))
    # All edges up to the last time, from the last edge of each class at or before the first.
    begin = first - (first - residues) % moduli
    counts = (last - begin) // moduli + 1
    which = np.repeat(np.arange(len(moduli)), counts)
    step = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    edges = np.sort(begin[which] + step * moduli[which])
    # Hardly any two are alike, and for such numbers sorting is several times as fast as np.unique.
    edges = edges[np.concatenate(([True], edges[1:] != edges[:-1]))]
    return edges[np.searchsorted(edges, times_us, side="right") - 1]


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
