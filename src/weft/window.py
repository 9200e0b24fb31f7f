"""Event-time windows: the one place where window arithmetic is defined.

Windows are half-open, `[end − range, end)`, with `end ≡ offset (mod slide)`, counted from the epoch.

    range 12, slide 5      |------------12-----------|
                                      |------------12-----------|
    ends                             10        15   ^ 12 would not be an end: 12 mod 5 ≠ 0

Cumulative windows (Flink's CUMULATE) start together, once in a slide, and end a step after each other:

    size 15, step 5        |----5----|
                           |--------10---------|
                           |-------------15-------------|----5----|
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Refresh(StrEnum):
    """When a window's answer is due."""

    EXACT = "exact"
    """One result per window."""
    AT_MOST = "at most"
    """The answer is refreshed at least every slide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Event-time windows of one length, one slide apart; or cumulative ones, of several lengths."""

    range_ms: int
    """Span of one window; of cumulative ones, that of the longest."""
    slide_ms: int
    """Distance between consecutive window ends."""
    offset_ms: int = 0
    """Where window ends lie within a slide, counted from the epoch."""
    refresh: Refresh = Refresh.EXACT
    step_ms: int | None = None
    """By how much each cumulative window is longer than the one before; None for windows of one length."""
    _hash: int = field(init=False, compare=False, repr=False)
    """Computed once: planning looks windows up again and again."""

    def __post_init__(self) -> None:
        hashed = hash((self.range_ms, self.slide_ms, self.offset_ms, self.refresh, self.step_ms))
        object.__setattr__(self, "_hash", hashed)
        if self.range_ms <= 0 or self.slide_ms <= 0:
            raise ValueError(
                f"range and slide must be positive, got {self.range_ms} ms and {self.slide_ms} ms"
            )
        if not 0 <= self.offset_ms < self.slide_ms:
            raise ValueError(f"offset must lie in [0, slide), got {self.offset_ms} ms")
        if self.step_ms is not None and (
            self.range_ms != self.slide_ms
            or not 0 < self.step_ms < self.range_ms
            or self.range_ms % self.step_ms
        ):
            raise ValueError(f"a step of {self.step_ms} ms does not divide a slide of {self.slide_ms} ms")

    def __hash__(self) -> int:
        return self._hash

    @property
    def parts(self) -> "tuple[Window, ...]":
        """The windows by their lengths: cumulative ones are as many hopping ones.

        >>> [str(part) for part in Window(range_ms=10_000, slide_ms=10_000, step_ms=5_000).parts]
        ['[RANGE 5 s SLIDE 10 s OFFSET 5 s]', '[RANGE 10 s SLIDE 10 s]']
        """
        if self.step_ms is None:
            return (self,)
        size, lengths = self.slide_ms, range(self.step_ms, self.range_ms + 1, self.step_ms)
        return tuple(
            Window(range_ms=length, slide_ms=size, offset_ms=(self.offset_ms + length) % size)
            for length in lengths
        )

    def __str__(self) -> str:
        if self.step_ms is not None:
            lengths = (self.step_ms, self.range_ms, *([self.offset_ms] if self.offset_ms else []))
            return f"[CUMULATE {', '.join(map(duration, lengths))}]"
        offset = f" OFFSET {duration(self.offset_ms)}" if self.offset_ms else ""
        word = "RANGE" if self.refresh is Refresh.EXACT else "WINDOW"
        return f"[{word} {duration(self.range_ms)} SLIDE {duration(self.slide_ms)}{offset}]"


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1_000, "s"), (1, "ms"))


def duration(milliseconds: int) -> str:
    """Write a duration in its largest whole unit.

    >>> duration(720_000), duration(90_000), duration(1_500)
    ('12 min', '90 s', '1500 ms')
    """
    if not milliseconds:
        return "0 s"
    size, unit = next((size, unit) for size, unit in _UNITS if milliseconds % size == 0)
    return f"{milliseconds // size} {unit}"
