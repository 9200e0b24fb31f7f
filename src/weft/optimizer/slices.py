"""Sliced windows: paned and paired windows, stretching and composition (STS, sections 3.1 and 3.2).

    range 18, slide 15      |---------12---------|--3--|---------12---------|--3--|
                                                 ^ 15−3                     ^ 30−3
    paned                   |-3-|-3-|-3-|-3-|-3--|-3-|-3-|-3-|-3-|-3--|

An overlapping window can be answered from any slices that have an edge at each of its ends and at each of
its starts (Lemma 1). Paired windows have just those edges, so no slicing has fewer (Theorem 1).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from itertools import accumulate, pairwise
from math import gcd, lcm

from weft.window import Window


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
    pane = gcd(window.range_ms, window.slide_ms)
    return SlicedWindow((pane,) * (window.slide_ms // pane))


def paired(window: Window) -> SlicedWindow:
    """Cut a window into a pair of slices, the second of range mod slide (one slice where that is zero).

    >>> paired(Window(range_ms=18, slide_ms=15)).slices
    (12, 3)
    """
    second = window.range_ms % window.slide_ms
    return SlicedWindow((window.slide_ms - second, second) if second else (window.slide_ms,))


SLICINGS: dict[Slicing, Callable[[Window], SlicedWindow]] = {Slicing.PAIRED: paired, Slicing.PANED: paned}


def stretch(window: SlicedWindow, period: int) -> SlicedWindow:
    """Repeat a sliced window until it fills a longer period.

    >>> stretch(SlicedWindow((6, 3)), 27).slices
    (6, 3, 6, 3, 6, 3)
    """
    factor, rest = divmod(period, window.period)
    if rest or not factor:
        raise ValueError(f"a window of period {window.period} cannot be stretched to {period}")
    return SlicedWindow(window.slices * factor)


def compose(windows: Iterable[SlicedWindow]) -> SlicedWindow:
    """Merge sliced windows into one whose edges are those of all, over their common period.

    >>> compose([SlicedWindow((2, 1)), SlicedWindow((2,))]).slices
    (2, 1, 1, 1, 1)
    """
    sliced = tuple(windows)
    period = lcm(*(window.period for window in sliced))
    edges = sorted({edge for window in sliced for edge in stretch(window, period).edges})
    return SlicedWindow(tuple(after - before for before, after in pairwise([0, *edges])))


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
        panes = ((gcd(window.range_ms, window.slide_ms), window.offset_ms) for window in windows)
        return frozenset(EdgeClass(pane, offset % pane) for pane, offset in panes)
    return frozenset(
        EdgeClass(window.slide_ms, (window.offset_ms + edge) % window.slide_ms)
        for window in windows
        for edge in paired(window).edges
    )


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
