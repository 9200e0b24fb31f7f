"""The benches of shared fragments and shards: the paper's workloads (B) and (C)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, ClassVar

import numpy as np
from pyspark.sql import functions as F
from typer import Option

from weft.bench.against_spark import against_spark, trades_input
from weft.bench.bench import Bench
from weft.bench.market import make_market
from weft.bench.measure import progress
from weft.bench.operations import Run
from weft.bench.options import Options
from weft.bench.plan_change import PlanChange, plan_change
from weft.bench.predicates import Market
from weft.bench.report_fragments import FragmentsResult
from weft.bench.runs import Input
from weft.bench.signatures import Signatures, count_signatures
from weft.bench.workloads import BenchQuery, Predicates, predicate_queries, turnover

_SAMPLE = 50_000
"""From how many rows constants are taken."""


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
        """Return the first queries of the workload."""
        return predicate_queries(self._workload, size, self._sample, seed=self._seed)

    def joining(self, size: int, adds: int) -> tuple[BenchQuery, ...]:
        """Return queries with new predicates, to join those of a size."""
        queries = predicate_queries(Predicates.LOW, size + adds, self._sample, seed=self._seed)[size:]
        window = self.queries(1)[0].window
        if self._workload is Predicates.FRAGMENTS:
            queries = tuple(replace(query, window=window) for query in queries)
        return tuple(replace(query, name=f"new_{query.name}") for query in queries)

    def turnover(self, size: int, count: int, *, run: int = 0) -> tuple[tuple[str, BenchQuery], ...]:
        """Return changes of a regular workload, others in each run: which query leaves, and which joins."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fragments(Bench[FragmentsResult]):
    """Many predicates in the same windows (the paper's workload B), against ordinary Spark.

    Example: weft bench fragments -n 16 -n 256 --seed 1 --seed 2
    """

    pictures: ClassVar[tuple[str, ...]] = ("fragments",)

    @property
    def workload(self) -> Predicates:
        """What predicates and windows are like."""
        return Predicates.FRAGMENTS

    def measure(self) -> Iterator[FragmentsResult]:
        """Measure each set of queries, and what a query that joins them costs."""
        workload = self.workload
        for size in self.queries:
            workload.check(size)
        spark = self.session()
        tables = make_market(spark, self.data)

        @cache
        def trades(rows: int) -> tuple[Input, Market]:
            given = trades_input(spark, self, rows, tables=tables)
            return given, collect(given)

        @cache
        def count(rows: int, seed: int) -> tuple[Signatures, ...]:
            given, market = trades(rows)
            return Workload(workload, market, seed).count((*workload.sizes, *self.queries), given, self)

        # What tiny batches cost does not depend on the rows: it is measured with the first number of them.
        known: dict[tuple[int, int], FragmentsResult] = {}

        def measure(rows: int, size: int, seed: int) -> FragmentsResult:
            given, market = trades(rows)
            source, before = Workload(workload, market, seed), known.get((size, seed))
            queries, fixed = source.queries(size), None if before is None else before.figures.fixed
            figures = against_spark(given, queries, self, seed=seed, fixed=fixed)
            if before is None:
                change, without = self._plan_changes(given, queries, source.joining(size, 2 * self.adds))
            else:
                change, without = before.change, before.change_without_checkpoint
            known[size, seed] = FragmentsResult(
                workload=workload, figures=figures, change=change, change_without_checkpoint=without,
                counted=count(rows, seed),
            )  # fmt: skip
            return known[size, seed]

        return self.over_sets(measure)

    def _plan_changes(
        self, given: Input, queries: Sequence[BenchQuery], joining: Sequence[BenchQuery]
    ) -> tuple[PlanChange, PlanChange]:
        """Return what joining queries cost with a checkpoint and without."""
        # Others join in the second run: it must not find code that the first has compiled.
        with self.console.status("adding queries to a running stream"):
            durable = plan_change(given, queries, joining[: self.adds], self, durable=True)
            without = plan_change(given, queries, joining[self.adds :], self, durable=False)
        return durable, without


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards(Fragments):
    """Many predicates and many windows (the paper's workload C), against ordinary Spark.

    Example: weft bench shards --low -n 256 -n 4096
    """

    offers = f"low {Fragments.offers}"
    pictures = ("shards-regular", "shards-low")

    low: Annotated[
        bool, Option("--low/--regular", help="No predicate and no window twice, or √n of each.")
    ] = False  # fmt: skip

    @property
    def workload(self) -> Predicates:
        """What predicates and windows are like."""
        return Predicates.LOW if self.low else Predicates.REGULAR

    @property
    def picture(self) -> int:
        """Which of the bench's pictures these options make."""
        return int(self.low)
