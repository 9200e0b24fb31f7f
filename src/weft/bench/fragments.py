"""The benches of shared fragments and shards: the paper's workloads (B) and (C)."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from pyspark.sql import functions as F
from rich.console import Console

from weft.bench.against_spark import Figures, against_spark, trades_input
from weft.bench.dataset import DEFAULT_DATA
from weft.bench.equality import Check
from weft.bench.market import make_market
from weft.bench.measure import progress
from weft.bench.operations import Run
from weft.bench.plan_change import PlanChange, plan_change
from weft.bench.predicates import Market
from weft.bench.report import needs_matplotlib, publish
from weft.bench.report_fragments import show_fragments
from weft.bench.runs import Input
from weft.bench.signatures import PAPER_COUNTS, PAPER_SIZE, PAPER_SPEEDUPS, Signatures, count_signatures
from weft.bench.workloads import BenchQuery, Predicates, predicate_queries, turnover
from weft.spark.session import local_session

_SAMPLE = 50_000
"""From how many rows constants are taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsResult:
    """What `weft bench fragments` or `weft bench shards` found for one number of queries."""

    workload: Predicates
    figures: Figures
    change: PlanChange
    counted: tuple[Signatures, ...]
    """The paper's counts for each number of queries."""

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
            "signatures": [
                {"queries": one.queries, "k": one.k, "alpha": one.alpha, "beta": one.beta}
                for one in self.counted
            ],
            "plan_change_ms": self.change.plan_change_ms,
            "plan_change": asdict(self.change),
            "operations": [
                one.as_json() for counted in self.counted for one in (counted.unshared, counted.shared)
            ],
            "paper": {
                "queries": PAPER_SIZE,
                "speedup": PAPER_SPEEDUPS[self.workload],
                **{str(sharing): asdict(one) for sharing, one in printed.items()},
            },
        }


def run_fragments(
    *,
    console: Console,
    workload: Predicates = Predicates.FRAGMENTS,
    queries: Sequence[int] = (256,),
    rows: int = 4_000_000,
    batches: int = 8,
    measured: int = 5,
    repeats: int = 3,
    warmups: int = 1,
    tiny_batches: int = 20,
    adds: int = 5,
    check: Check | str = Check.ALL,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    memory: str = "4g",
    seed: int = 1,
    json: Path | None = None,
    plot: Path | None = None,
) -> tuple[FragmentsResult, ...]:
    """Measure each number of queries, print tables, and write JSON and a plot if asked.

    A result whose `rows_equal` is False is a failure of Weft.
    """
    for size in queries:
        workload.check(size)
    needs_matplotlib(plot)
    spark = local_session(cores=cores, memory=memory)
    tables = make_market(spark, data, seed=seed)
    given = trades_input(spark, data, rows=rows, batches=batches, seed=seed, tables=tables)
    source = Workload(workload, collect(given), seed)
    counted = source.count((*workload.sizes, *queries), given, console)
    results = []
    for size in queries:
        several = source.queries(size)
        figures = against_spark(
            given, several, data=data, measured=measured, repeats=repeats, warmups=warmups,
            tiny_batches=tiny_batches, check=Check(check), console=console,
        )  # fmt: skip
        with console.status("adding queries to a running stream"):
            change = plan_change(given, several, source.joining(size, adds), data)
        results.append(FragmentsResult(workload=workload, figures=figures, change=change, counted=counted))
        show_fragments(results[-1], console)
    publish(results, json=json, plot=plot, draw=_draw, console=console)
    return tuple(results)


def _draw(results: Sequence[FragmentsResult], path: Path) -> None:
    from weft.bench.plot_fragments import plot_fragments  # Matplotlib is an extra.

    plot_fragments(results, path)


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

    def turnover(self, size: int, count: int) -> tuple[tuple[str, BenchQuery], ...]:
        """Return changes of a regular workload: who leaves, and who joins in its place."""
        return tuple(turnover(size, count, self._sample, seed=self._seed))

    def count(self, sizes: Sequence[int], given: Input, console: Console) -> tuple[Signatures, ...]:
        """Return the paper's counts for several sizes."""
        begin = given.dataset.begin_ms
        run = Run(begin_ms=begin, end_ms=begin + given.dataset.span_ms, rows=len(self._market))
        counted = []
        with progress(console) as bar:
            task = bar.add_task("counting operations", total=len(set(sizes)))
            for size in sorted(set(sizes)):
                counted.append(count_signatures(self.queries(size), self._market, run))
                bar.advance(task)
        return tuple(counted)
