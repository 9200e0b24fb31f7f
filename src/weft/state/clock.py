"""Event time as the stream shows it: watermark and row counts, and the windows that are still open."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

import numpy as np

from weft.arrays import Times
from weft.query.logical import StreamDef
from weft.window import Window

_US = 1000
ALWAYS = -(1 << 63) + 1
"""Before all event times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Row counts: `good + late + no_time + future + corrupt` is all that was read.

    `missing` counts files instead: listed ones that were not read as listed.
    """

    good: int = 0
    late: int = 0
    no_time: int = 0
    future: int = 0
    corrupt: int = 0
    """Records that could not be read as declared, and the rows of files set aside as a whole."""
    missing: int = 0
    """Files that were listed, but not read as listed: their rows cannot be counted."""

    @property
    def read(self) -> int:
        """All rows."""
        return self.good + self.late + self.quarantined

    @property
    def quarantined(self) -> int:
        """Rows that do not match the declaration, or whose time cannot be used."""
        return self.no_time + self.future + self.corrupt

    def __add__(self, other: "RowCounts") -> "RowCounts":
        names = [field.name for field in fields(self)]
        return RowCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The row counts and times of a batch."""

    counts: RowCounts
    oldest: int | None
    newest: int | None
    """Of the good rows, in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """A stream's time after some batches; a value, so that a batch can be tried again."""

    watermark: int | None = None
    oldest: int | None = None
    newest: int | None = None
    counts: RowCounts = RowCounts()

    @property
    def reached(self) -> int:
        """The watermark, or a moment before all event times."""
        return ALWAYS if self.watermark is None else self.watermark

    @property
    def rate(self) -> float | None:
        """Good rows per second of event time so far, or None if no time has passed."""
        if self.newest is None or self.oldest is None or self.newest == self.oldest:
            return None
        return self.counts.good * 1_000_000 / (self.newest - self.oldest)

    def after(self, seen: Seen, stream: StreamDef) -> "Clock":
        """Return the clock after a batch: `W_b = max(W_{b−1}, newest − delay)`."""
        counts = self.counts + seen.counts
        if seen.newest is None or seen.oldest is None:
            return replace(self, counts=counts)
        reached = seen.newest - stream.delay_ms * _US
        return Clock(
            watermark=max(self.reached, reached),
            oldest=seen.oldest if self.oldest is None else min(self.oldest, seen.oldest),
            newest=seen.newest if self.newest is None else max(self.newest, seen.newest),
            counts=counts,
        )

    def idle(self) -> "Clock":
        """Return the clock if no row older than the newest is still expected."""
        return self if self.newest is None else self._reaching(self.newest + 1)

    def ended(self, longest_range_ms: int) -> "Clock":
        """Return the clock after every window was closed: no row may reopen one of them."""
        return self if self.newest is None else self._reaching(self.newest + longest_range_ms * _US)

    def _reaching(self, time: int) -> "Clock":
        """Return the clock with its watermark at a time, or where it is if that is later."""
        return replace(self, watermark=max(self.reached, time))


def shapes(windows: Iterable[Window]) -> Times:
    """Return windows as rows of (range, slide, offset) in milliseconds."""
    rows = [(window.range_ms, window.slide_ms, window.offset_ms) for window in windows]
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def oldest_needed(windows: Times, watermark_us: int) -> int:
    """Return the earliest start of a window still open, given rows of (range, slide, offset) in ms."""
    ranges, slides, offsets = (windows * _US).T
    next_end = (watermark_us - offsets) // slides * slides + slides + offsets
    return int((next_end - ranges).min())
