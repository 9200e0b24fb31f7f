"""Windows to draw from, and the arithmetic of edges spelled out in the slowest way."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import lcm

from hypothesis import strategies as st
from tests.unit.language_samples import query

from weft.arrays import Times
from weft.finals.readings import readings
from weft.optimizer.plan import answer, leaf
from weft.optimizer.slices import SlicedWindow, Slicing
from weft.state.clock import ALWAYS, Clock
from weft.state.running_query import NEVER, RunningQuery
from weft.window import Window

SLIDES = (1, 2, 3, 4, 5, 6, 9, 10, 12, 15, 20, 30, 36, 45, 60)
"""Slides whose common period is at most 180, so that whole periods can be spelled out."""


def windows(*, offsets: bool = True) -> st.SearchStrategy[Window]:
    """Draw windows of all shapes: hopping, tumbling, overlapping, range a multiple of slide or not."""
    return st.sampled_from(SLIDES).flatmap(lambda slide: _with_slide(slide, offsets))


def _with_slide(slide: int, offsets: bool) -> st.SearchStrategy[Window]:
    return st.builds(
        Window,
        range_ms=st.integers(1, 100),
        slide_ms=st.just(slide),
        offset_ms=st.integers(0, slide - 1) if offsets else st.just(0),
    )


def is_edge(time: int, window: Window, slicing: Slicing = Slicing.PAIRED) -> bool:
    """Say whether a window cuts time here, from the definitions in section 3.1 alone.

    >>> [time for time in range(1, 31) if is_edge(time, Window(range_ms=18, slide_ms=15))]
    [12, 15, 27, 30]
    """
    since = (time - window.offset_ms) % window.slide_ms
    if slicing is Slicing.PAIRED:
        return since == 0 or (time - window.offset_ms + window.range_ms) % window.slide_ms == 0
    return since % _divisor(window.range_ms, window.slide_ms) == 0


def _divisor(left: int, right: int) -> int:
    return max(size for size in range(1, right + 1) if left % size == 0 and right % size == 0)


def edges_between(
    windows: Iterable[Window], after: int, until: int, slicing: Slicing = Slicing.PAIRED
) -> list[int]:
    """Return the edges in `(after, until]`."""
    several = tuple(windows)
    times = range(after + 1, until + 1)
    return [time for time in times if any(is_edge(time, window, slicing) for window in several)]


END = NEVER - 10**10
"""After all event times, with room for a window."""
QUERY = query("SELECT count(*) AS n FROM trades [RANGE '1 ms']")


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What a query was answered through before, None for nothing, and the watermark; None for the end."""

    before: int | None
    now: int | None


def due_between(window: Window, advance: Advance, starts: Times) -> tuple[int, int]:
    """Return the ends of the first and the last window that is due and may hold a slice."""
    live = RunningQuery(query=replace(QUERY, window=window))
    live.answered_through = ALWAYS if advance.before is None else advance.before
    asked = answer(live.query, leaf(live.query))
    (reading,) = readings([asked], {live.query.name: live})
    due = reading.due(Clock(watermark=END if advance.now is None else advance.now), starts)
    first, last = (int(number[0] * due.slide_us[0] + due.offset_us[0]) for number in (due.first, due.last))
    return first, last


def due_ends(window: Window, advance: Advance, starts: Times) -> list[int]:
    """Return the ends of one window's due windows that hold a slice, in order."""
    first, last = due_between(window, advance, starts)
    ends = range(first, last + 1, window.slide_ms * 1000)
    return [end for end in ends if ((starts >= end - window.range_ms * 1000) & (starts < end)).any()]


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
