"""The paper's operation counts, exact over the data and the windows that end in a run (STS, section 6).

A row's signature is the set of queries that it satisfies. The rows of a slice with the same signature are a
shard; where all queries have one tumbling window, slices are windows and shards are fragments. A partial
operation takes a row into a shard, a final operation takes a shard into a window of a query in its signature.
F0, the rows that satisfy no query, is no shard and costs nothing (STS, section 4.2).

NumPy alone does this, from the rows' columns and the predicates' definition: nothing of Weft's planning or
coding is used. A predicate tests one quantity. So a row's signature has three parts, one for each quantity,
and two rows have the same part if they have the same membership and lie on the same side of all constants.

Without predicates, a partial operation takes a row into a slice, a final operation a slice into a window.

        run      |<------------------------------------------------->|
        slices   |--|----|-|---|--|----|-|---|--|----|-|---|--|----|-|
        windows  ---------|               built from 3 slices: what lies before the run holds no rows
                    [-----------------)   built from 6
                                                           [-----------  ends after the run: not counted
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from weft.arrays import as_one
from weft.bench.predicates import Market, Numbers, Quantity
from weft.bench.records import Record
from weft.bench.workloads import BenchQuery, Predicates
from weft.optimizer.slices import SliceManager, Slicing
from weft.window import Window


class Strategy(StrEnum):
    """The four that the paper compares."""

    UNSHARED_PANED = "unshared paned"
    UNSHARED_PAIRED = "unshared paired"
    SHARED_PANED = "shared paned"
    SHARED_PAIRED = "shared paired"

    @property
    def shared(self) -> bool:
        """Whether all queries have the same slices."""
        return self.startswith("shared")

    @property
    def slicing(self) -> Slicing:
        """How windows are cut."""
        return Slicing.PANED if self.endswith("paned") else Slicing.PAIRED


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations(Record):
    """Operations over a whole run."""

    partial: int
    final: int

    @property
    def total(self) -> int:
        """Both steps together."""
        return self.partial + self.final


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(Operations):
    """Operations of a number of queries."""

    queries: int
    strategy: StrEnum


PAPER: dict[StrEnum, Counted] = {
    counted.strategy: counted
    for counted in (
        Counted(queries=256, strategy=Strategy.UNSHARED_PAIRED, partial=256 * 1_138_636, final=6_813),
        Counted(queries=256, strategy=Strategy.SHARED_PANED, partial=1_138_636, final=2_340_842),
        Counted(queries=256, strategy=Strategy.SHARED_PAIRED, partial=1_138_636, final=1_462_391),
    )
}
"""What the paper counted with 256 queries over 1,138,636 rows; unshared paned's finals are not in it."""
PAPER_SECONDS: dict[Strategy, float] = {
    Strategy.UNSHARED_PAIRED: 50.48,
    Strategy.SHARED_PANED: 6.90,
    Strategy.SHARED_PAIRED: 2.63,
}
"""What they took there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A stretch of event time and the rows in it."""

    begin_ms: int
    end_ms: int
    rows: int


def count_all(windows: Sequence[Window], run: Run) -> tuple[Counted, ...]:
    """Return the operations of each strategy."""
    return tuple(count(windows, strategy, run) for strategy in Strategy)


def count(windows: Sequence[Window], strategy: Strategy, run: Run) -> Counted:
    """Return the operations of one strategy over a run."""
    final, sets = 0, [windows] if strategy.shared else [(window,) for window in windows]
    for sharing in sets:
        manager = SliceManager(sharing, at_ms=run.begin_ms, slicing=strategy.slicing)
        edges = list(manager.until(run.end_ms))
        for window in sharing:
            for end in ends(window, run):
                begin = max(end - window.range_ms, run.begin_ms)
                # A window has one slice more than there are edges inside it.
                final += bisect_left(edges, end) - bisect_right(edges, begin) + 1
    return Counted(queries=len(windows), strategy=strategy, partial=len(sets) * run.rows, final=final)


def ends(window: Window, run: Run) -> range:
    """Return the ends in (begin, end] of the run."""
    first = window.offset_ms + (run.begin_ms - window.offset_ms) // window.slide_ms * window.slide_ms
    return range(first + window.slide_ms, run.end_ms + 1, window.slide_ms)


_Table = np.ndarray[tuple[int, int], np.dtype[Any]]
_CELLS = 20_000_000
"""How large a table of slices by signatures may be at once."""


class Sharing(StrEnum):
    """The two that the paper compares for workloads with predicates."""

    UNSHARED = "unshared"
    SHARED = "shared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed(Operations):
    """What the paper prints for 256 queries."""

    seconds: float


PAPER_COUNTS: dict[Predicates, dict[Sharing, Printed]] = {
    Predicates.FRAGMENTS: {
        Sharing.UNSHARED: Printed(seconds=27.25, partial=0, final=116_101_112),
        Sharing.SHARED: Printed(seconds=3.01, partial=1_094_947, final=6_677_009),
    },
    Predicates.REGULAR: {
        Sharing.UNSHARED: Printed(seconds=31.19, partial=100_902_960, final=6_955),
        Sharing.SHARED: Printed(seconds=3.67, partial=1_138_636, final=2_256_496),
    },
    Predicates.LOW: {
        Sharing.UNSHARED: Printed(seconds=34.56, partial=120_672_210, final=6_812),
        Sharing.SHARED: Printed(seconds=17.73, partial=1_294_064, final=63_984_043),
    },
}
"""Unshared fragments have one step only, which the paper calls final."""
PAPER_SPEEDUPS: dict[Predicates, float] = {
    workload: both[Sharing.UNSHARED].seconds / both[Sharing.SHARED].seconds
    for workload, both in PAPER_COUNTS.items()
}
"""How many times less sharing took in the paper."""
PAPER_SIZE = 256
"""How many queries those are for."""


def times_fewer_in_paper(workload: Predicates) -> float:
    """Return how many times fewer operations sharing took in the paper."""
    printed = PAPER_COUNTS[workload]
    return printed[Sharing.UNSHARED].total / printed[Sharing.SHARED].total


@dataclass(frozen=True, slots=True, kw_only=True)
class Signatures:
    """What one workload's signatures are like, and the operations that follow."""

    queries: int
    k: float
    """Signatures in a slice, F0 aside, on average over slices with rows."""
    alpha: float
    """Queries that a row satisfies, on average over a slice, and over slices."""
    beta: float
    """Queries in a signature, F0 aside, on average over a slice, and over slices."""
    unshared: Counted
    shared: Counted

    @property
    def times_fewer(self) -> float:
        """How many times as many operations there are without sharing: the paper's premise."""
        return self.unshared.total / max(1, self.shared.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The tests of one quantity."""

    queries: Numbers
    """Which queries test it."""
    of_row: Numbers
    """Each row's part of the signature, by number."""
    bits: _Table
    """By part and query, whether rows with the part satisfy the query."""


def count_signatures(
    queries: Sequence[BenchQuery], market: Market, run: Run, slicing: Slicing = Slicing.PAIRED
) -> Signatures:
    """Return the counts over all rows of a run; final operations are of windows that end in it."""
    manager = SliceManager([query.window for query in queries], at_ms=run.begin_ms, slicing=slicing)
    edges = np.array(list(manager.until(run.end_ms)))
    slices = np.searchsorted(edges * 1000, market.time_us, side="right")
    parts = [_part(quantity, queries, market) for quantity in Quantity]
    cardinality = sum((part.bits.sum(axis=1)[part.of_row] for part in parts), np.zeros(len(market), np.int64))
    # One row of each shard.
    shard = as_one((slices, *(part.of_row for part in parts)), len(market))
    first = np.unique(shard, return_index=True)[1]
    first = first[cardinality[first] > 0]
    rows = np.bincount(slices)
    unshared = np.bincount(slices, weights=cardinality)
    shards = np.bincount(slices[first], minlength=len(rows))
    shared = np.bincount(slices[first], weights=cardinality[first], minlength=len(rows))
    finals = _finals(queries, parts, slices, first, edges, run)
    satisfied, size, windows = int(unshared.sum()), len(queries), [query.window for query in queries]
    # What queries cost alone: each row for each query that it satisfies, and their slices.
    alone = Counted(queries=size, strategy=Sharing.UNSHARED, partial=0, final=satisfied)
    if len(set(windows)) > 1:
        strategy = Strategy.UNSHARED_PANED if slicing is Slicing.PANED else Strategy.UNSHARED_PAIRED
        alone = replace(alone, partial=satisfied, final=count(windows, strategy, run).final)
    return Signatures(
        queries=size, k=float(shards[rows > 0].mean()), alpha=_mean(unshared, rows),
        beta=_mean(shared, shards), unshared=alone,
        shared=Counted(
            queries=size, strategy=Sharing.SHARED, partial=int((cardinality > 0).sum()), final=finals
        ),
    )  # fmt: skip


def _mean(sums: Numbers, counts: Numbers) -> float:
    """Return the mean of the slices' means, over slices that have any."""
    some = counts > 0
    return float((sums[some] / counts[some]).mean()) if some.any() else 0.0


def _part(quantity: Quantity, queries: Sequence[BenchQuery], market: Market) -> _Part:
    tests = [
        (number, query.predicate)
        for number, query in enumerate(queries)
        if query.predicate is not None and query.predicate.quantity is quantity
    ]
    constants = np.unique([predicate.constant for _, predicate in tests])
    values = market.quantity(quantity)
    # Below the first constant 0, on it 1, between it and the second 2, and so on.
    side = np.searchsorted(constants, values, side="left") + np.searchsorted(constants, values, side="right")
    member = market.r1000.astype(np.int64) + 2 * market.r2000.astype(np.int64)
    _, example, of_row = np.unique(4 * side + member, return_index=True, return_inverse=True)
    examples = market.take(example)
    holds = np.zeros((len(example), len(tests)), dtype=bool)
    for column, (_, predicate) in enumerate(tests):
        holds[:, column] = predicate.holds(examples)
    bits, same = np.unique(holds, axis=0, return_inverse=True)
    return _Part(queries=np.array([number for number, _ in tests], np.int64), of_row=same[of_row], bits=bits)


def _finals(
    queries: Sequence[BenchQuery],
    parts: Sequence[_Part],
    slices: Numbers,
    first: Numbers,
    edges: Numbers,
    run: Run,
) -> int:
    """Return how many shards are taken into windows."""
    total = 0
    for part in parts:
        before = _shards_before(part, slices[first], part.of_row[first], len(edges) + 1)
        for column, number in enumerate(part.queries):
            window = queries[number].window
            stops = np.array(ends(window, run), dtype=np.int64)
            starts = np.maximum(stops - window.range_ms, run.begin_ms)
            begin = np.searchsorted(edges, starts, side="right")
            end = np.searchsorted(edges, stops, side="left") + 1
            total += int((before[end, column] - before[begin, column]).sum())
    return total


def _shards_before(part: _Part, slices: Numbers, parts: Numbers, count: int) -> _Table:
    """Return by slice and query, how many shards of earlier slices have the query in their signature."""
    width = len(part.bits)
    before = np.zeros((count + 1, len(part.queries)), dtype=np.int64)
    step = max(1, _CELLS // width)
    # Whole numbers far below 2**53, so that products of doubles are exact; those of integers are slow.
    bits = part.bits.astype(np.float64)
    for begin in range(0, count, step):
        end = min(count, begin + step)
        inside = (slices >= begin) & (slices < end)
        cells = np.bincount(
            (slices[inside] - begin) * width + parts[inside], minlength=(end - begin) * width
        ).reshape(end - begin, width)
        before[begin + 1 : end + 1] = (cells @ bits).astype(np.int64)
    return np.cumsum(before, axis=0)
