"""Counts of fragments and shards, against an obvious count and the paper's formulas (STS, section 4.3.3)."""

from collections.abc import Sequence

import numpy as np
import pytest
from tests.unit.market_samples import small_market

from weft.bench.dataset import NOON_MS
from weft.bench.predicates import Market
from weft.bench.signatures import Run, Signatures, Strategy, count, count_signatures
from weft.bench.trades import HOUR_MS
from weft.bench.workloads import BenchQuery, Predicates, predicate_queries
from weft.optimizer.slices import Slicing

RUN = Run(begin_ms=NOON_MS, end_ms=NOON_MS + HOUR_MS, rows=400)


def is_edge(moment: int, query: BenchQuery) -> bool:
    window = query.window
    return moment % window.slide_ms == 0 or (moment + window.range_ms) % window.slide_ms == 0


def slow_shards(queries: Sequence[BenchQuery], market: Market) -> dict[tuple[int, frozenset[int]], int]:
    """Return the rows of each shard, by the slice's begin and the signature, going from row to row."""
    masks = [query.predicate.holds(market) for query in queries if query.predicate is not None]
    edges = [
        second
        for second in range(RUN.begin_ms, RUN.end_ms, 1000)
        if second == RUN.begin_ms or any(is_edge(second, query) for query in queries)
    ]
    # F0, the empty signature, is in it: its rows count for α.
    shards: dict[tuple[int, frozenset[int]], int] = {}
    for row, moment in enumerate(market.time_us):
        begin = max(edge for edge in edges if edge * 1000 <= moment)
        signature = frozenset(place for place, mask in enumerate(masks) if mask[row])
        shards[begin, signature] = shards.get((begin, signature), 0) + 1
    return shards


def slow_finals(queries: Sequence[BenchQuery], shards: dict[tuple[int, frozenset[int]], int]) -> int:
    total = 0
    for place, query in enumerate(queries):
        for end in range(RUN.begin_ms + 1000, RUN.end_ms + 1, 1000):
            if end % query.window.slide_ms == 0:
                held = range(end - query.window.range_ms, end)
                total += sum(begin in held and place in signature for begin, signature in shards)
    return total


def cases() -> list[tuple[Predicates, int]]:
    return [
        (Predicates.FRAGMENTS, 1),
        (Predicates.FRAGMENTS, 12),
        (Predicates.REGULAR, 9),
        (Predicates.LOW, 12),
    ]


@pytest.mark.parametrize(("workload", "size"), cases())
@pytest.mark.parametrize("seed", [1, 2])
def test_the_counts_are_those_of_going_from_row_to_row(workload: Predicates, size: int, seed: int) -> None:
    market = small_market(RUN.rows, seed=seed)
    queries = predicate_queries(workload, size, market, seed=seed)
    counted = count_signatures(queries, market, RUN)
    shards = slow_shards(queries, market)
    satisfied = sum(len(signature) * rows for (_, signature), rows in shards.items())
    assert counted.shared.partial == sum(rows for (_, signature), rows in shards.items() if signature)
    assert counted.shared.final == slow_finals(queries, shards)
    slices: dict[int, dict[frozenset[int], int]] = {}
    for (begin, signature), rows in shards.items():
        slices.setdefault(begin, {})[signature] = rows
    alphas = [
        sum(len(one) * rows for one, rows in some.items()) / sum(some.values()) for some in slices.values()
    ]
    satisfying = [[len(one) for one in some if one] for some in slices.values()]
    betas = [sum(some) / len(some) for some in satisfying if some]
    assert counted.k == pytest.approx(sum(map(len, satisfying)) / len(slices))
    assert counted.alpha == pytest.approx(sum(alphas) / len(slices))
    assert counted.beta == pytest.approx(sum(betas) / len(betas))
    if workload is Predicates.FRAGMENTS:
        assert (counted.unshared.partial, counted.unshared.final) == (0, satisfied)
    else:
        alone = count([query.window for query in queries], Strategy.UNSHARED_PAIRED, RUN)
        assert (counted.unshared.partial, counted.unshared.final) == (satisfied, alone.final)


def fragments(size: int, rows: int) -> Signatures:
    market = small_market(rows)
    queries = predicate_queries(Predicates.FRAGMENTS, size, market)
    return count_signatures(queries, market, RUN)


def test_a_window_at_a_time_fragments_cost_what_table_5_says() -> None:
    # All rows in one window, so that the means are the window's own: α|T| alone, |T| + kβ together. Each row
    # satisfies one of the 64 predicates: F0 is empty.
    market = small_market(3_000)
    first = market.take(market.time_us < (NOON_MS + 600_000) * 1000)
    queries = predicate_queries(Predicates.FRAGMENTS, 64, market)
    counted = count_signatures(queries, first, RUN)
    assert counted.unshared.total == pytest.approx(counted.alpha * len(first))
    assert counted.shared.partial == len(first)
    assert counted.shared.final == pytest.approx(counted.k * counted.beta)


def test_rows_that_satisfy_no_query_cost_nothing() -> None:
    market = small_market(RUN.rows)
    query = predicate_queries(Predicates.FRAGMENTS, 1, market)[0]
    assert query.predicate is not None
    holds = query.predicate.holds(market)
    with_f0, without = (count_signatures([query], rows, RUN) for rows in (market, market.take(holds)))
    assert 0 < holds.sum() < len(market)
    assert (with_f0.shared, with_f0.unshared) == (without.shared, without.unshared)
    assert (with_f0.k, with_f0.beta) == (without.k, without.beta) == (1, 1)
    assert with_f0.alpha < without.alpha == 1
    nobodys = count_signatures([query], market.take(~holds), RUN)
    assert (nobodys.k, nobodys.alpha, nobodys.beta) == (0, 0, 0)
    assert (nobodys.shared.total, nobodys.unshared.total) == (0, 0)


def test_sharing_pays_where_fragments_are_few_and_not_where_every_row_is_one() -> None:
    few, many = fragments(16, 20_000), fragments(256, 60)
    assert few.shared.total < few.unshared.total / 3
    assert many.k == pytest.approx(10, abs=1)
    assert many.shared.total == pytest.approx(many.unshared.total + 60, rel=0.1)


def test_sharing_saves_what_shards_have_in_common() -> None:
    # Rows that repeat each other, as fills of one order do, fall into one shard: three times as many of them
    # cost no further final operation.
    market = small_market(RUN.rows)
    queries = predicate_queries(Predicates.LOW, 12, market)
    once, thrice = (
        count_signatures(queries, market.take(np.repeat(np.arange(RUN.rows), times)), RUN) for times in (1, 3)
    )
    assert thrice.shared.final == once.shared.final
    assert thrice.shared.partial == 3 * once.shared.partial
    assert thrice.unshared.partial == 3 * once.unshared.partial
    assert thrice.times_fewer == thrice.unshared.total / thrice.shared.total > once.times_fewer


@pytest.mark.parametrize("workload", [Predicates.REGULAR, Predicates.LOW])
def test_panes_are_compared_with_panes(workload: Predicates) -> None:
    market = small_market(RUN.rows)
    queries = predicate_queries(workload, 9, market)
    windows = [query.window for query in queries]
    paired, paned = (count_signatures(queries, market, RUN, slicing) for slicing in Slicing)
    assert paned.unshared.final == count(windows, Strategy.UNSHARED_PANED, RUN).final
    assert paired.unshared.final == count(windows, Strategy.UNSHARED_PAIRED, RUN).final
    assert paned.unshared.final > paired.unshared.final
    # Panes cut time at least as finely, and take each row once all the same.
    assert paned.shared.final > paired.shared.final
    assert paned.shared.partial == paired.shared.partial
