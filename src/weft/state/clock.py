"""Event time as the stream shows it: watermark, late rows, rows set aside."""

from dataclasses import dataclass, replace

from weft.query.logical import StreamDef
from weft.state.open_windows import Advance

_US = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """What became of rows: `good + late + no_time + future + corrupt` is all that was read.

    Beside them are files of which nothing, or something else than was listed, was read.
    """

    good: int = 0
    late: int = 0
    no_time: int = 0
    future: int = 0
    corrupt: int = 0
    """Records that could not be read as declared, and the rows of files set aside as a whole."""
    missing: int = 0
    """Files that were listed and not read as they were then, one each: their rows cannot be counted."""

    @property
    def read(self) -> int:
        """All rows."""
        return self.good + self.late + self.quarantined

    @property
    def quarantined(self) -> int:
        """Rows that are not as declared, or whose time cannot be used."""
        return self.no_time + self.future + self.corrupt

    def __add__(self, other: "RowCounts") -> "RowCounts":
        return RowCounts(
            good=self.good + other.good,
            late=self.late + other.late,
            no_time=self.no_time + other.no_time,
            future=self.future + other.future,
            corrupt=self.corrupt + other.corrupt,
            missing=self.missing + other.missing,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a batch showed."""

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
            watermark=reached if self.watermark is None else max(self.watermark, reached),
            oldest=seen.oldest if self.oldest is None else min(self.oldest, seen.oldest),
            newest=seen.newest if self.newest is None else max(self.newest, seen.newest),
            counts=counts,
        )

    def idle(self) -> "Clock":
        """Return the clock of a stream that is taken to have said all it had to say so far."""
        return self if self.newest is None else self._reaching(self.newest + 1)

    def ended(self, longest_range_ms: int) -> "Clock":
        """Return the clock after every window was closed: no row may open one of them again."""
        return self if self.newest is None else self._reaching(self.newest + longest_range_ms * _US)

    def _reaching(self, time: int) -> "Clock":
        """Return the clock whose watermark has come to a time, or was further already."""
        return replace(self, watermark=time if self.watermark is None else max(self.watermark, time))

    def advance_from(self, before: "Clock") -> Advance:
        """Return the move of the watermark since an earlier clock."""
        return Advance(before=before.watermark, now=self.watermark)
