"""Which windows are due when the watermark moves."""

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


def due_ends(window: Window, advance: Advance, starts: Times) -> Times:
    """Return the ends of windows that hold a slice and that the watermark has now reached.

    `starts` are the distinct starts of the slices at hand, in order. A gap of years costs nothing: windows
    are looked for where slices are.

        slices   |--|--|--|      |--|            W before        W now
        windows  [-----) [-----)   [-----)          |               |
    """
    if not len(starts):
        return np.empty(0, dtype=np.int64)
    range_us, slide_us, offset_us = window.range_ms * _US, window.slide_ms * _US, window.offset_ms * _US
    lowest, highest = int(starts[0]) + 1, int(starts[-1]) + range_us
    if advance.before is not None:
        lowest = max(lowest, advance.before + 1)
    if advance.now is not None:
        highest = min(highest, advance.now)
    first = -((offset_us - lowest) // slide_us) * slide_us + offset_us
    if (highest - first) // slide_us <= 4 * len(starts) * -(-range_us // slide_us) + 16:
        ends = np.arange(first, highest + 1, slide_us, dtype=np.int64)
        return ends[_holds(ends, range_us, starts)]
    return _ends_near(starts, range_us, slide_us, offset_us, lowest, highest)


def _holds(ends: Times, range_us: int, starts: Times) -> npt.NDArray[np.bool_]:
    return np.searchsorted(starts, ends) > np.searchsorted(starts, ends - range_us)


def _ends_near(
    starts: Times, range_us: int, slide_us: int, offset_us: int, lowest: int, highest: int
) -> Times:
    nearest = (starts - offset_us) // slide_us * slide_us + slide_us + offset_us
    several = nearest[:, None] + np.arange(-(-range_us // slide_us), dtype=np.int64) * slide_us
    ends = np.unique(several[several - range_us <= starts[:, None]])
    return ends[(ends >= lowest) & (ends <= highest)]


def every_end(window: Window, *, after_us: int, until_us: int) -> Times:
    """Return all window ends in `(after, until]`, with or without rows."""
    slide_us, offset_us = window.slide_ms * _US, window.offset_ms * _US
    first = (after_us - offset_us) // slide_us * slide_us + slide_us + offset_us
    return np.arange(first, until_us + 1, slide_us, dtype=np.int64)


def oldest_needed(windows: Times, watermark_us: int) -> int:
    """Return the earliest start of a window still open, given rows of (range, slide, offset) in ms."""
    ranges, slides, offsets = (windows * _US).T
    next_end = (watermark_us - offsets) // slides * slides + slides + offsets
    return int((next_end - ranges).min())
