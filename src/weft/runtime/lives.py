"""A query's part of the stream: from when until when it is answered, and which of its windows are due."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from weft.optimizer.plan import Answer
from weft.predicates import Formula
from weft.query.logical import LogicalQuery
from weft.runtime.clock import Clock
from weft.runtime.due import (
    Advance,
    Ends,
    Times,
    due_windows,
    ends_between,
    every_window,
    oldest_needed,
    shapes,
)
from weft.runtime.finals import Windows
from weft.runtime.warm import ALWAYS, Derivation

_US = 1000
_NEVER = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """A query and the times, in microseconds, between which its windows lie."""

    query: LogicalQuery
    first_start: int | None = None
    """None for a query that is answered from the first row on."""
    until: int | None = None
    """Its windows end by then; None for no end, or for one that the first row will decide."""
    derivation: Derivation | None = None
    """How its predicate follows from others in rows that were aggregated before it came."""

    def decided(self, clock: Clock) -> "LiveQuery":
        """Return it with its end, if that is known: the first row decides that of who was there before it."""
        if self.query.lifetime_ms is None or self.until is not None or clock.oldest is None:
            return self
        return replace(self, until=clock.oldest + self.query.lifetime_ms * _US)

    def is_over(self, watermark: int | None) -> bool:
        """Say whether no window of it can come any more."""
        return self.until is not None and watermark is not None and watermark >= self.until


def ending_after(live: LiveQuery, time: int) -> LiveQuery:
    """Return a query that gives no window that has ended by a time: it may have been given before."""
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
    """Return when a query that joins now ends; None if it never does, or if the first row will decide."""
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
    """Return from when on all that a query needs is at hand, whatever else was let go of."""
    first = ALWAYS if live.first_start is None else live.first_start
    if watermark is None:
        return first
    return max(first, oldest_needed(shapes([live.query.window]), watermark))


def due(
    answers: Sequence[Answer],
    lives: Mapping[str, LiveQuery],
    waiting: Collection[str],
    advance: Advance,
    clock: Clock,
    starts: Times,
) -> tuple[Windows, Sequence[Formula]]:
    """Return the due windows of a program's queries, and the predicates that they are numbered by.

    Those of queries that are `waiting` are due however long ago they ended.
    """
    windows, (firsts, lasts) = shapes(answer.query.window for answer in answers), _bounds(answers, lives)
    if answers[0].query.emit_empty:
        query, end = every_window(every_end(answers, lives, waiting, advance, clock))
    else:
        late = np.array([answer.query.name in waiting for answer in answers], dtype=bool)
        query, end = _with_rows(windows, late, advance, starts)
    start = end - windows[query, 0] * _US
    predicates = tuple(dict.fromkeys(answer.predicate for answer in answers))
    numbers = {predicate: number for number, predicate in enumerate(predicates)}
    tested = np.array([numbers[answer.predicate] for answer in answers], dtype=np.int32)
    whole = Windows(query=query.astype(np.int32), start=start, end=end, predicate=tested[query])
    return whole.take(np.flatnonzero((start >= firsts[query]) & (end <= lasts[query]))), predicates


def every_end(
    answers: Sequence[Answer],
    lives: Mapping[str, LiveQuery],
    waiting: Collection[str],
    advance: Advance,
    clock: Clock,
) -> Ends:
    """Return where due windows end, with or without rows: so many may be counted before they are built.

    They end after the stream's first row and begin by its last one.
    """
    windows, (firsts, lasts) = shapes(answer.query.window for answer in answers), _bounds(answers, lives)
    if clock.oldest is None or clock.newest is None:
        return ends_between(windows, np.zeros_like(firsts), np.zeros_like(lasts))
    since = clock.oldest if advance.before is None else max(clock.oldest, advance.before)
    after = [clock.oldest if answer.query.name in waiting else since for answer in answers]
    ranges = windows[:, 0] * _US
    until = np.minimum(clock.newest + ranges, lasts)
    return ends_between(
        windows,
        np.maximum(np.array(after, dtype=np.int64), firsts + ranges - 1),
        until if advance.now is None else np.minimum(until, advance.now),
    )


def _bounds(answers: Sequence[Answer], lives: Mapping[str, LiveQuery]) -> tuple[Times, Times]:
    """Return, for each query, from when on its windows begin and by when they end."""
    several = [lives[answer.query.name] for answer in answers]
    firsts = [ALWAYS if one.first_start is None else one.first_start for one in several]
    lasts = [_NEVER if one.until is None else one.until for one in several]
    return np.array(firsts, dtype=np.int64), np.array(lasts, dtype=np.int64)


def _with_rows(
    windows: Times, late: npt.NDArray[np.bool_], advance: Advance, starts: Times
) -> tuple[npt.NDArray[np.intp], Times]:
    """Return the due windows that hold a slice; where `late`, however long ago they ended."""
    found = [(np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int64))]
    for some, move in ((~late, advance), (late, Advance(before=None, now=advance.now))):
        places = np.flatnonzero(some)
        if len(places) and (move.now is None or move.now != move.before):
            which, ends = due_windows(windows[places], move, starts)
            found.append((places[which], ends))
    return np.concatenate([one for one, _ in found]), np.concatenate([ends for _, ends in found])
