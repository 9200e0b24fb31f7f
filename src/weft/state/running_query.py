"""A query's part of the stream: through when it has been answered, and until when it will be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.arrays import Bools, follow
from weft.query.logical import LogicalQuery
from weft.state.clock import ALWAYS, Clock, oldest_needed, shapes
from weft.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Derivation:
    """How a predicate follows from others, all known by their stored names."""

    predicate: str
    sources: tuple[str, ...]
    patterns: tuple[int, ...]
    """The predicate holds where the bits of the sources, the first one lowest, are one of these."""

    def as_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"predicate": self.predicate, "sources": self.sources, "patterns": self.patterns}

    def column(self, names: Sequence[str], bits: Bools) -> Bools:
        """Return which fragments satisfy the predicate, given the names and bits of others.

        A source that is not among them is a predicate of another relation, and no row here satisfies it.
        """
        columns, none = dict(zip(names, bits.T, strict=True)), np.zeros(len(bits), dtype=bool)
        return follow((columns.get(source, none) for source in self.sources), self.patterns)


def derivation_from(record: Mapping[str, Any]) -> Derivation:
    """Return a derivation from plain values."""
    return Derivation(
        predicate=record["predicate"], sources=tuple(record["sources"]), patterns=tuple(record["patterns"])
    )


_US = 1000
NEVER = (1 << 63) - 1
"""After all event times."""


@dataclass(slots=True, kw_only=True)
class RunningQuery:
    """A query and the times, in microseconds, between which its windows end.

        ──────────────|──────────────|──────────────────────|─────> event time
             answered_through    watermark                until
          answered, or not its own   due        still open         not its own

    Each answer moves `answered_through` up to the watermark. So at a commit it is the later of the watermark
    and the value with which the query joined, and only that value is stored.
    """

    query: LogicalQuery
    answered_through: int = ALWAYS
    """No window that ends by then is due any more."""
    until: int | None = None
    """When its last window ends at the latest; None for no end, or if the first row decides it."""
    derivation: Derivation | None = None
    """How its predicate follows from others in rows that were aggregated before it joined."""

    @property
    def first_start(self) -> int:
        """When the first window that is not answered may begin."""
        if self.answered_through == ALWAYS:
            return ALWAYS
        window = self.query.window
        if window.step_ms is not None:
            return _common_start(self.answered_through, window)
        return self.answered_through - window.range_ms * _US + 1

    def decide(self, oldest: int) -> None:
        """Settle the end of a query that joined before the first row, now that there is one."""
        if self.query.lifetime_ms is not None and self.until is None:
            self.until = oldest + self.query.lifetime_ms * _US

    def is_over(self, watermark: int | None) -> bool:
        """Return whether none of its windows is still to come."""
        return self.until is not None and watermark is not None and watermark >= self.until


def through_start(start: int, window: Window) -> int:
    """Return through when a query is answered whose first window begins at a time or later."""
    if start == ALWAYS:
        return ALWAYS
    if window.step_ms is not None:
        # The first windows that start together at that time or later.
        return _common_start(start - 1, window) + window.slide_ms * _US
    return start + window.range_ms * _US - 1


def _common_start(at: int, window: Window) -> int:
    """Return when the cumulative windows start that contain a moment."""
    return at - (at - window.offset_ms * _US) % (window.slide_ms * _US)


def after_all(clock: Clock) -> int:
    """Return the first moment after all rows so far."""
    return ALWAYS if clock.newest is None else clock.newest + 1


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


def first_window(running: RunningQuery, clock: Clock) -> tuple[int, int] | None:
    """Return the first window that is not answered, in microseconds; None for none, or none known yet."""
    after = running.answered_through if clock.oldest is None else max(running.answered_through, clock.oldest)
    if after == ALWAYS:
        return None
    window = running.query.window
    range_us, slide_us, offset_us = (
        length * _US for length in (window.range_ms, window.slide_ms, window.offset_ms)
    )
    if window.step_ms is not None:
        step_us, start = window.step_ms * _US, _common_start(after, window)
        end = start + ((after - start) // step_us + 1) * step_us
        return None if running.until is not None and end > running.until else (start, end)
    end = (after - offset_us) // slide_us * slide_us + slide_us + offset_us
    return None if running.until is not None and end > running.until else (end - range_us, end)


def kept_since(running: RunningQuery, watermark: int | None) -> int:
    """Return the time from which on all partials that a query needs are retained."""
    if watermark is None:
        return running.first_start
    return max(running.first_start, oldest_needed(shapes([running.query.window]), watermark))
