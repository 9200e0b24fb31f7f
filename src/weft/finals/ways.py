"""Which way finals are made: by repeating shards, or by running totals where many windows overlap."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from weft.aggregates import Primitive
from weft.finals.anchors import Job, jobs
from weft.finals.readings import Reading
from weft.finals.repeating import Combined, DueWindows, repeated, spelled_out
from weft.finals.totals import Windows, has_totals, totals
from weft.state.store import RelationState, ShardsByKey

Times = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
_FEW_PAIRS = 200_000
"""Up to this number of (ask, shard) pairs, repeating shards is quick whatever the alternative."""
_PAIR_COST, _TOTAL_COST, _JOB_COST = 40e-9, 2e-9, 1e-3
"""Seconds, measured: a pair and a primitive, a total and a primitive, windows with an anchor."""


def combined(
    state: RelationState, reading: Reading, due: DueWindows, asks: Rows
) -> Iterator[tuple[Rows, Combined]]:
    """Yield finals of the given asks, in pieces, each with the asks that it numbers its rows by."""
    for span in _spans(state, due, asks):
        shards = state.by_key(int(due.since[span].min()), int(due.until[span].max()))
        if len(shards):
            for primitives, some in _by_primitives(reading, span):
                for piece in _one_way(state, shards, reading, due.take(some), primitives):
                    yield some, piece


def _by_primitives(reading: Reading, asks: Rows) -> Iterator[tuple[Sequence[Primitive], Rows]]:
    """Yield asks that need the same primitives together."""
    together: dict[int, list[int]] = {}
    for ask in asks.tolist():
        together.setdefault(id(reading.primitives[ask]), []).append(ask)
    for some in together.values():
        yield reading.primitives[some[0]], np.array(some, dtype=np.intp)


def _spans(state: RelationState, due: DueWindows, asks: Rows) -> Iterator[Rows]:
    """Yield asks whose due windows cover similar lengths of time: short ones need not look at a long past."""
    if not len(asks):
        return
    length = (due.until - due.since)[asks]
    if len(state) * len(asks) <= _FEW_PAIRS:
        yield asks
        return
    size = np.frexp(length.astype(np.float64))[1] // 3
    for each in np.unique(size).tolist():
        yield asks[size == each]


def _one_way(
    state: RelationState, shards: ShardsByKey, reading: Reading, due: DueWindows,
    primitives: Sequence[Primitive],
) -> Iterator[Combined]:  # fmt: skip
    windows = _totals_pay(state, shards, reading, due, primitives)
    if windows is None:
        return repeated(state.fragments, shards, due, reading.predicates, primitives)
    ask, end, together = windows
    chosen = Windows(ask=ask, end=end, predicate=due.predicate[ask])
    return totals(state, primitives, together, chosen, reading.predicates)


def _totals_pay(
    state: RelationState, shards: ShardsByKey, reading: Reading, due: DueWindows,
    primitives: Sequence[Primitive],
) -> tuple[Rows, Times, Sequence[Job]] | None:  # fmt: skip
    """Return the ask and end of each window, and windows with anchors, if totals cost less than repeating."""
    if len(due) * len(shards) <= _FEW_PAIRS or not all(map(has_totals, primitives)):
        return None
    size, each = len(state.fragments), len(primitives) + 1
    bits = state.fragments.bits(reading.predicates, np.arange(size))
    of_fragment = np.bincount(shards.fragment, minlength=size)
    by_repeating = int((bits @ of_fragment)[due.predicate].sum()) * each * _PAIR_COST
    starts = state.starts()
    if by_repeating <= _least_jobs(due, starts) * _JOB_COST:
        return None
    ask, start, end = _one_by_one(due, starts)
    together = list(jobs(start, end))
    # A column is a key and a fragment; many are absent where there are many keys.
    columns = min(len(shards), len(state.groups) * int((of_fragment > 0).sum()))
    cells = sum(2 * len(job.edges) + len(job.window) for job in together)
    by_totals = columns * cells * each * _TOTAL_COST + len(together) * _JOB_COST
    return (ask, end, together) if by_totals < by_repeating else None


def _least_jobs(due: DueWindows, starts: Times) -> int:
    """Return how many anchors windows need at least: those of an ask that do not overlap have none in common.

    What costs more than this many is not worth looking for: thousands of short windows have as many anchors.
    """
    counts = due.last - due.first + 1
    apart = -(-counts * due.slide_us // np.maximum(due.range_us, due.slide_us))
    return min(int(apart.max(initial=0)), len(starts))


def _one_by_one(due: DueWindows, starts: Times) -> tuple[Rows, Times, Times]:
    """Return the ask, start and end of each due window that holds a slice."""
    counts = due.last - due.first + 1
    ask = np.repeat(np.arange(len(due)), counts)
    number = spelled_out(due.first, counts)
    end = number * due.slide_us[ask] + due.offset_us[ask]
    start = end - due.range_us[ask]
    held = np.flatnonzero(np.searchsorted(starts, end) > np.searchsorted(starts, start))
    return ask[held], start[held], end[held]
