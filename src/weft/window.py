"""Event-time windows: the one place where window arithmetic is defined.

Windows are half-open, `[end − range, end)`, with `end ≡ offset (mod slide)`, counted from the epoch.

    range 12, slide 5      |------------12-----------|
                                      |------------12-----------|
    ends                             10        15   ^ 12 would not be an end: 12 mod 5 ≠ 0
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
    """Event-time windows of one length, one slide apart."""

    range_ms: int
    """Span of one window."""
    slide_ms: int
    """Distance between consecutive window ends."""
    offset_ms: int = 0
    """Where window ends lie within a slide, counted from the epoch."""
    refresh: Refresh = Refresh.EXACT
    _hash: int = field(init=False, compare=False, repr=False)
    """Computed once: planning looks windows up again and again."""

    def __post_init__(self) -> None:
        hashed = hash((self.range_ms, self.slide_ms, self.offset_ms, self.refresh))
        object.__setattr__(self, "_hash", hashed)
        if self.range_ms <= 0 or self.slide_ms <= 0:
            raise ValueError(
                f"range and slide must be positive, got {self.range_ms} ms and {self.slide_ms} ms"
            )
        if not 0 <= self.offset_ms < self.slide_ms:
            raise ValueError(f"offset must lie in [0, slide), got {self.offset_ms} ms")

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
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
