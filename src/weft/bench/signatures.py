"""The paper's counts for queries with predicates, exact over the data (STS, sections 4.3.3 and 6.3 to 6.4).

A row's signature is the set of queries that it satisfies. The rows of a slice with the same signature are a
shard; where all queries have one tumbling window, slices are windows and shards are fragments. A partial
operation takes a row into a shard, a final operation takes a shard into a window of a query in its signature.
F0, the rows that satisfy no query, is no shard and costs nothing (STS, section 4.2).

NumPy alone does this, from the rows' columns and the predicates' definition: nothing of Weft's planning or
coding is used. A predicate tests one quantity. So a row's signature has three parts, one for each quantity,
and two rows have the same part if they have the same membership and lie on the same side of all constants.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import prod
from typing import Any

import numpy as np

from weft.bench.operations import Counted, Operations, Run, Strategy, count, ends
from weft.bench.predicates import Market, Numbers, Quantity
from weft.bench.workloads import BenchQuery, Predicates
from weft.optimizer.slices import SliceManager, Slicing

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
    shard = slices.astype(np.int64)
    if (int(slices.max()) + 1) * prod(len(part.bits) for part in parts) >= 2**63:
        raise ValueError("too many slices and signatures to number them")
    for part in parts:
        shard = shard * len(part.bits) + part.of_row
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
