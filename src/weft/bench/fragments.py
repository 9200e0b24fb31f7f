"""The benches of shared fragments and shards: the paper's workloads (B) and (C)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F

from weft.bench.against_spark import against_spark, trades_input
from weft.bench.figures import Figures, pooled_figures
from weft.bench.market import make_market
from weft.bench.measure import progress
from weft.bench.operations import Run
from weft.bench.options import Options
from weft.bench.plan_change import PlanChange, plan_change, pooled_change
from weft.bench.predicates import Market
from weft.bench.report import needs_matplotlib, publish
from weft.bench.report_fragments import show_fragments
from weft.bench.runs import Input
from weft.bench.sets import headlines, measure_sets
from weft.bench.signatures import (
    PAPER_COUNTS,
    PAPER_SIZE,
    PAPER_SPEEDUPS,
    Sharing,
    Signatures,
    count_signatures,
)
from weft.bench.workloads import BenchQuery, Predicates, predicate_queries, turnover

_SAMPLE = 50_000
"""From how many rows constants are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsResult:
    """What `weft bench fragments` or `weft bench shards` found for one number of queries."""

    workload: Predicates
    figures: Figures
    change: PlanChange
    change_without_checkpoint: PlanChange
    counted: tuple[Signatures, ...]
    """The paper's counts for each number of queries, with the last seed's queries."""

    @property
    def signatures(self) -> Signatures:
        """The counts for the number of queries that was measured."""
        return next(one for one in self.counted if one.queries == self.figures.queries)

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        own = self.signatures
        printed = PAPER_COUNTS[self.workload]
        return {
            "workload": self.workload.described,
            **self.figures.as_json(),
            "k": own.k,
            "alpha": own.alpha,
            "beta": own.beta,
            "times_fewer": own.times_fewer,
            "signatures": [
                {
                    "queries": one.queries,
                    "k": one.k,
                    "alpha": one.alpha,
                    "beta": one.beta,
                    "times_fewer": one.times_fewer,
                }
                for one in self.counted
            ],
            "plan_change_ms": self.change.plan_change_ms,
            "plan_change": self.change.as_json(),
            "plan_change_without_checkpoint_ms": self.change_without_checkpoint.plan_change_ms,
            "operations": [
                one.as_json() for counted in self.counted for one in (counted.unshared, counted.shared)
            ],
            "paper": {
                "queries": PAPER_SIZE,
                "speedup": PAPER_SPEEDUPS[self.workload],
                "times_fewer": printed[Sharing.UNSHARED].total / printed[Sharing.SHARED].total,
                **{str(sharing): asdict(one) for sharing, one in printed.items()},
            },
        }


def run_fragments(
    options: Options, workload: Predicates = Predicates.FRAGMENTS
) -> tuple[FragmentsResult, ...]:
    """Measure each set of queries, print tables, and write JSON and a plot if asked.

    A result whose `rows_equal` is False is a failure of Weft.
    """
    for size in options.queries:
        workload.check(size)
    needs_matplotlib(options.plot)
    spark = options.session()
    tables = make_market(spark, options.data)

    @cache
    def trades(rows: int) -> tuple[Input, Market]:
        given = trades_input(spark, options.data, rows=rows, batches=options.batches, tables=tables)
        return given, collect(given)

    @cache
    def count(rows: int, seed: int) -> tuple[Signatures, ...]:
        given, market = trades(rows)
        return Workload(workload, market, seed).count((*workload.sizes, *options.queries), given, options)

    # What tiny batches cost does not depend on the rows: it is measured with the first number of them.
    known: dict[tuple[int, int], FragmentsResult] = {}

    def measure(rows: int, size: int, seed: int) -> FragmentsResult:
        given, market = trades(rows)
        source, before = Workload(workload, market, seed), known.get((size, seed))
        queries, fixed = source.queries(size), None if before is None else before.figures.fixed
        figures = against_spark(given, queries, options, seed=seed, fixed=fixed)
        if before is None:
            change, without = _plan_changes(given, queries, source.joining(size, 2 * options.adds), options)
        else:
            change, without = before.change, before.change_without_checkpoint
        known[size, seed] = FragmentsResult(
            workload=workload,
            figures=figures,
            change=change,
            change_without_checkpoint=without,
            counted=count(rows, seed),
        )
        return known[size, seed]

    results = measure_sets(options, measure, _pooled, lambda one: show_fragments(one, options.console))
    publish(results, json=options.json, plot=options.plot, draw=_draw, console=options.console)
    return results


def _plan_changes(
    given: Input, queries: Sequence[BenchQuery], joining: Sequence[BenchQuery], options: Options
) -> tuple[PlanChange, PlanChange]:
    """Return what joining queries cost with a checkpoint and without."""
    # Others join in the second run: it must not find code that the first has compiled.
    with options.console.status("adding queries to a running stream"):
        durable = plan_change(given, queries, joining[: options.adds], options, durable=True)
        without = plan_change(given, queries, joining[options.adds :], options, durable=False)
    return durable, without


def _pooled(several: Sequence[FragmentsResult]) -> FragmentsResult:
    return replace(
        several[-1],
        figures=pooled_figures([one.figures for one in several]),
        change=pooled_change([one.change for one in several]),
        change_without_checkpoint=pooled_change([one.change_without_checkpoint for one in several]),
    )


def _draw(results: Sequence[FragmentsResult], path: Path) -> None:
    from weft.bench.plot_fragments import plot_fragments  # Matplotlib is an extra.

    plot_fragments(headlines(results), path)


def collect(given: Input) -> Market:
    """Return all trades with what the tables say of them, in the order of time."""
    rows = given.joined(given.dataset.read(given.spark))
    table = rows.select(
        F.unix_micros("time").alias("time_us"), "vol", "price", "cp", "r1000", "r2000"
    ).toArrow()
    columns = {name: np.asarray(table[name].to_numpy()) for name in table.column_names}
    market = Market(**columns)
    return market.take(np.argsort(market.time_us, kind="stable"))


class Workload:
    """The queries of a workload over given rows."""

    def __init__(self, workload: Predicates, market: Market, seed: int) -> None:
        self._workload, self._market, self._seed = workload, market, seed
        self._sample = market.take(slice(None, None, max(1, len(market) // _SAMPLE)))

    def queries(self, size: int) -> tuple[BenchQuery, ...]:
        """Return so many queries."""
        return predicate_queries(self._workload, size, self._sample, seed=self._seed)

    def joining(self, size: int, adds: int) -> tuple[BenchQuery, ...]:
        """Return queries with new predicates, to join those of a size."""
        several = predicate_queries(Predicates.LOW, size + adds, self._sample, seed=self._seed)[size:]
        window = self.queries(1)[0].window
        if self._workload is Predicates.FRAGMENTS:
            several = tuple(replace(one, window=window) for one in several)
        return tuple(replace(one, name=f"new_{one.name}") for one in several)

    def turnover(self, size: int, count: int, *, run: int = 0) -> tuple[tuple[str, BenchQuery], ...]:
        """Return changes of a regular workload, others in each run: who leaves, and who joins instead."""
        return tuple(turnover(size, count, self._sample, seed=self._seed, run=run))

    def count(self, sizes: Sequence[int], given: Input, options: Options) -> tuple[Signatures, ...]:
        """Return the paper's counts for several sizes."""
        begin = given.dataset.begin_ms
        run = Run(begin_ms=begin, end_ms=begin + given.dataset.span_ms, rows=len(self._market))
        counted = []
        with progress(options.console) as bar:
            task = bar.add_task("counting operations", total=len(set(sizes)))
            for size in sorted(set(sizes)):
                counted.append(count_signatures(self.queries(size), self._market, run, options.slicing))
                bar.advance(task)
        return tuple(counted)
