"""How the watermark moves, and what windows are still open behind it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.window import Window

Times = npt.NDArray[np.int64]
_US = 1000
ALWAYS = -(1 << 63) + 1
"""Before all event times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """A move of the watermark, in microseconds; an end of input moves it past everything."""

    before: int | None
    """None when no batch has been seen yet."""
    now: int | None
    """None at the end of input."""


def shapes(windows: Iterable[Window]) -> Times:
    """Return windows as rows of (range, slide, offset) in milliseconds."""
    rows = [(window.range_ms, window.slide_ms, window.offset_ms) for window in windows]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def oldest_needed(windows: Times, watermark_us: int) -> int:
    """Return the earliest start of a window still open, given rows of (range, slide, offset) in ms."""
    ranges, slides, offsets = (windows * _US).T
    next_end = (watermark_us - offsets) // slides * slides + slides + offsets
    return int((next_end - ranges).min())
