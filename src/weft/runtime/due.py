"""Which windows are due when the watermark moves."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.window import Window

Times = npt.NDArray[np.int64]
_US = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A move of the watermark, in microseconds; an end of input moves it past everything."""

    before: int | None
    """None when no batch has been seen yet."""
    now: int | None
    """None at the end of input."""


def due_windows(windows: Times, advance: Advance, starts: Times) -> tuple[npt.NDArray[np.intp], Times]:
    """Return the windows that hold a slice and whose end the watermark has now reached, of many shapes.

    `windows` has a row of (range, slide, offset) in milliseconds for each shape; `starts` are the distinct
    starts of the slices at hand, in order. The answer is which shape, and the end. A gap of years costs
    nothing: windows are looked for where slices are.

        slices   |--|--|--|      |--|            W before        W now
        windows  [-----) [-----)   [-----)          |               |
    """
    if not len(starts) or not len(windows):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64)
    ranges, slides, offsets = (windows * _US).T
    lowest = int(starts[0]) + 1 if advance.before is None else max(int(starts[0]), advance.before) + 1
    highest = int(starts[-1]) + ranges
    highest = highest if advance.now is None else np.minimum(highest, advance.now)
    first = -((offsets - lowest) // slides) * slides + offsets
    counts = np.maximum(0, (highest - first) // slides + 1)
    sparse = np.flatnonzero(counts > 4 * len(starts) * -(-ranges // slides) + 16)
    counts[sparse] = 0
    shape, ends = every_window(Ends(first=first, slide=slides, count=counts))
    held = _holds(ends, ranges[shape], starts)
    found = [(shape[held], ends[held])]
    for one in sparse:
        near = _ends_near(starts, int(ranges[one]), int(slides[one]), int(offsets[one]))
        near = near[(near >= lowest) & (near <= highest[one])]
        found.append((np.full(len(near), one), near))
    return np.concatenate([shapes for shapes, _ in found]), np.concatenate([ends for _, ends in found])


def _holds(ends: Times, ranges: Times, starts: Times) -> npt.NDArray[np.bool_]:
    return np.searchsorted(starts, ends) > np.searchsorted(starts, ends - ranges)


def _ends_near(starts: Times, range_us: int, slide_us: int, offset_us: int) -> Times:
    """Return the ends of all windows that hold any of the slices."""
    nearest = (starts - offset_us) // slide_us * slide_us + slide_us + offset_us
    several = nearest[:, None] + np.arange(-(-range_us // slide_us), dtype=np.int64) * slide_us
    return np.unique(several[several - range_us <= starts[:, None]])


def shapes(windows: Iterable[Window]) -> Times:
    """Return windows as rows of (range, slide, offset) in milliseconds."""
    rows = [(window.range_ms, window.slide_ms, window.offset_ms) for window in windows]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """Evenly spaced ends of windows, for each of many shapes."""

    first: Times
    slide: Times
    count: Times


def ends_between(windows: Times, after_us: Times, until_us: Times) -> Ends:
    """Return the ends, after one time and up to another, of all windows, with or without rows.

    `windows` has a row of (range, slide, offset) in milliseconds for each shape; each has its own times.
    """
    _, slides, offsets = (windows * _US).T
    first = (after_us - offsets) // slides * slides + slides + offsets
    return Ends(first=first, slide=slides, count=np.maximum(0, (until_us - first) // slides + 1))


def every_window(ends: Ends) -> tuple[npt.NDArray[np.intp], Times]:
    """Return which shape and what end each window has."""
    shape = np.repeat(np.arange(len(ends.count)), ends.count)
    step = np.arange(len(shape)) - np.repeat(np.cumsum(ends.count) - ends.count, ends.count)
    return shape, ends.first[shape] + step * ends.slide[shape]


def oldest_needed(windows: Times, watermark_us: int) -> int:
    """Return the earliest start of a window still open, given rows of (range, slide, offset) in ms."""
    ranges, slides, offsets = (windows * _US).T
    next_end = (watermark_us - offsets) // slides * slides + slides + offsets
    return int((next_end - ranges).min())
