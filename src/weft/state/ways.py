"""Which way finals are made: by repeating shards, or by running totals where many windows overlap."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.aggregates import BAG, Primitive
from weft.arrays import Rows, Times, spelled_out
from weft.predicates import Formula
from weft.state.anchors import Job, jobs
from weft.state.bagged import with_bags
from weft.state.repeating import by_predicate, repeated
from weft.state.signatures import Fragments
from weft.state.sorted_runs import ShardsByKey, SortedRun, shards_by_key
from weft.state.store import Combined, DueWindows
from weft.state.totals import Windows, has_totals, totals

_FEW_PAIRS = 200_000
"""Up to this number of (ask, shard) pairs, repeating shards is quick whatever the alternative."""
_WINDOW_COST, _SORTED_ELEMENT_COST = 200e-6, 80e-9
"""Seconds, measured: a window whose elements are picked, and an element of a window that is sorted."""
_PAIR_COST, _TOTAL_COST, _JOB_COST = 40e-9, 2e-9, 1e-3
"""Seconds, measured: a pair and a primitive, a total and a primitive, windows with an anchor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The contents of a store: runs, the meaning of their fragments, and the number of keys."""

    runs: Sequence[SortedRun]
    fragments: Fragments
    keys: int
    starts: Times
    """The distinct starts of slices, in order."""

    def __len__(self) -> int:
        return sum(map(len, self.runs))


def answers(
    kept: Kept,
    due: DueWindows,
    asks: Rows,
    predicates: Sequence[Formula],
    primitives: Sequence[tuple[Primitive, ...]],
) -> Iterator[tuple[Rows, Combined]]:
    """Yield finals of the given asks, in pieces, each with the asks that it numbers its rows by."""
    for span in _spans(kept, due, asks):
        shards = shards_by_key(kept.runs, int(due.since[span].min()), int(due.until[span].max()))
        if len(shards):
            of_fragment = np.bincount(shards.fragment, minlength=len(kept.fragments))
            counting = kept.fragments.rows_satisfying(predicates, of_fragment)
            for needed, alike in _by_primitives(primitives, span):
                for piece in _one_way(kept, shards, predicates, counting, due.take(alike), needed):
                    yield alike, piece


def _by_primitives(
    primitives: Sequence[tuple[Primitive, ...]], asks: Rows
) -> Iterator[tuple[Sequence[Primitive], Rows]]:
    """Yield asks that need the same primitives together."""
    # Equal tuples are usually one object: comparing thousands of them takes longer.
    together: dict[int, list[int]] = {}
    for ask in asks.tolist():
        together.setdefault(id(primitives[ask]), []).append(ask)
    for alike in together.values():
        yield primitives[alike[0]], np.array(alike, dtype=np.intp)


def _spans(kept: Kept, due: DueWindows, asks: Rows) -> Iterator[Rows]:
    """Yield asks whose due windows cover similar spans of time: short ones need not read a long past."""
    if not len(asks):
        return
    length = (due.until - due.since)[asks]
    if len(kept) * len(asks) <= _FEW_PAIRS:
        yield asks
        return
    size = np.frexp(length.astype(np.float64))[1] // 3
    for exponent in np.unique(size).tolist():
        yield asks[size == exponent]


def _one_way(
    kept: Kept, shards: ShardsByKey, predicates: Sequence[Formula], counting: Times, due: DueWindows,
    primitives: Sequence[Primitive],
) -> Iterator[Combined]:  # fmt: skip
    bagged = [primitive for primitive in primitives if primitive.combine is BAG]
    if bagged and _picking_pays(shards, due, bagged):
        plain = [primitive for primitive in primitives if primitive.combine is not BAG]
        pieces = _one_way(kept, shards, predicates, counting, due, plain)
        return with_bags(kept.fragments, shards, due, predicates, bagged, pieces)
    if any(primitive.combine.reads_ranges for primitive in primitives):
        return by_predicate(kept.fragments, shards, due, predicates, primitives)
    pairs = counting[due.predicate]
    windows = _totals_pay(kept, shards, pairs, due, primitives)
    if windows is None:
        return repeated(kept.fragments, shards, due, pairs, predicates, primitives)
    ask, end, together = windows
    chosen = Windows(ask=ask, end=end, predicate=due.predicate[ask])
    return totals(kept.runs, kept.fragments, primitives, together, chosen, predicates)


def _picking_pays(shards: ShardsByKey, due: DueWindows, bagged: Sequence[Primitive]) -> bool:
    """Return whether bags of windows are better picked one by one: windows are few, with many elements."""
    elements = sum(len(shards.partial(primitive).fields[0].codes) for primitive in bagged)
    windows = int((due.last - due.first + 1).sum())
    span = int(due.until.max()) - int(due.since.min())
    each = elements * float(np.median(due.range_us)) / max(span, 1)
    return windows * _WINDOW_COST < windows * each * _SORTED_ELEMENT_COST


def _totals_pay(
    kept: Kept, shards: ShardsByKey, pairs: Times, due: DueWindows, primitives: Sequence[Primitive]
) -> tuple[Rows, Times, Sequence[Job]] | None:
    """Return the ask and end of each window, and windows with anchors, if totals cost less than repeating.

    `pairs` is the number of shards that count for each ask.
    """
    if len(due) * len(shards) <= _FEW_PAIRS or not all(map(has_totals, primitives)):
        return None
    measures = len(primitives) + 1
    by_repeating = int(pairs.sum()) * measures * _PAIR_COST
    starts = kept.starts
    if by_repeating <= _least_jobs(due, starts) * _JOB_COST:
        return None
    ask, start, end = _one_by_one(due, starts)
    together = list(jobs(start, end))
    # A column is a key and a fragment; many are absent where there are many keys.
    columns = min(len(shards), kept.keys * int((np.bincount(shards.fragment) > 0).sum()))
    cells = sum(2 * len(job.edges) + len(job.window) for job in together)
    by_totals = columns * cells * measures * _TOTAL_COST + len(together) * _JOB_COST
    return (ask, end, together) if by_totals < by_repeating else None


def _least_jobs(due: DueWindows, starts: Times) -> int:
    """Return how many anchors windows need at least: those of an ask that do not overlap have none in common.

    If even that many cost too much, anchors are not searched for: thousands of short windows have thousands.
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
