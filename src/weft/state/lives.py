"""A query's part of the stream: the times from which and until which it is answered."""

from dataclasses import dataclass, replace

from weft.query.logical import LogicalQuery
from weft.state.clock import ALWAYS, Clock, oldest_needed, shapes
from weft.state.derivation import Derivation

_US = 1000
NEVER = (1 << 63) - 1
"""After all event times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """A query and the times, in microseconds, between which its windows lie."""

    query: LogicalQuery
    first_start: int | None = None
    """When its first window may begin; None for a query that is answered from the first row on."""
    until: int | None = None
    """When its last window ends at the latest; None for no end, or if the first row decides it."""
    derivation: Derivation | None = None
    """How its predicate follows from others in rows that were aggregated before it joined."""

    def decided(self, clock: Clock) -> "LiveQuery":
        """Return the query with its end, once that is known: the first row decides it for earlier queries."""
        if self.query.lifetime_ms is None or self.until is not None or clock.oldest is None:
            return self
        return replace(self, until=clock.oldest + self.query.lifetime_ms * _US)

    def is_over(self, watermark: int | None) -> bool:
        """Return whether none of its windows is still to come."""
        return self.until is not None and watermark is not None and watermark >= self.until


def ending_after(live: LiveQuery, time: int) -> LiveQuery:
    """Return the query without windows that have ended by a time: they may have been answered before."""
    first = time - live.query.window.range_ms * _US + 1
    return replace(live, first_start=first if live.first_start is None else max(first, live.first_start))


def after_all(clock: Clock) -> int | None:
    """Return the first moment after all rows so far; None if there are none."""
    return None if clock.newest is None else clock.newest + 1


def expected_span(last: int, before: Clock, now: Clock) -> int:
    """Return how far past the watermark the next batch is expected to reach: twice as far as this one."""
    if now.newest is None or now.oldest is None:
        return 0
    if before.watermark is None:
        return 2 * (now.newest - now.oldest)
    return max(last // 2, 2 * (now.newest - before.watermark))


def until_of(query: LogicalQuery, clock: Clock) -> int | None:
    """Return when a query that joins now ends; None if it never does, or if the first row decides it."""
    if query.lifetime_ms is None or clock.newest is None:
        return None
    return clock.newest + query.lifetime_ms * _US


def first_window(live: LiveQuery, clock: Clock) -> tuple[int, int] | None:
    """Return the first window that a query answers, in microseconds; None for none, or none known yet."""
    window = live.query.window
    range_us, slide_us, offset_us = (
        length * _US for length in (window.range_ms, window.slide_ms, window.offset_ms)
    )
    bounds = []
    if live.first_start is not None:
        bounds.append(live.first_start + range_us)
    if clock.oldest is not None:
        bounds.append(clock.oldest + 1)
    if not bounds:
        return None
    end = -((offset_us - max(bounds)) // slide_us) * slide_us + offset_us
    return None if live.until is not None and end > live.until else (end - range_us, end)


def kept_since(live: LiveQuery, watermark: int | None) -> int:
    """Return the time from which on all partials that a query needs are retained."""
    first = ALWAYS if live.first_start is None else live.first_start
    if watermark is None:
        return first
    return max(first, oldest_needed(shapes([live.query.window]), watermark))


def answered_between(live: LiveQuery) -> tuple[int, int]:
    """Return when a query's first window may begin and its last window ends."""
    return (
        ALWAYS if live.first_start is None else live.first_start,
        NEVER if live.until is None else live.until,
    )
