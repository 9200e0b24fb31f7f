"""The benches of shared fragments and shards: the paper's workloads (B) and (C)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Self

import numpy as np
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table
from typer import Option

from weft.bench import report
from weft.bench.against_spark import (
    AgainstSpark,
    against_spark,
    headlines,
    operations_table,
    seconds_table,
    show_checks,
    trades_input,
)
from weft.bench.bench import Bench
from weft.bench.options import Options, progress
from weft.bench.predicates import Market
from weft.bench.records import plain
from weft.bench.runs import Input
from weft.bench.signatures import (
    PAPER_COUNTS,
    PAPER_SIZE,
    PAPER_SPEEDUPS,
    Run,
    Sharing,
    Signatures,
    count_signatures,
    times_fewer_in_paper,
)
from weft.bench.tiny_batches import PlanChange, plan_change
from weft.bench.trades import make_market
from weft.bench.workloads import BenchQuery, Predicates, predicate_queries, turnover

_SAMPLE = 50_000
"""From how many rows constants are taken."""
_SECTIONS = {Predicates.FRAGMENTS: "6.3", Predicates.REGULAR: "6.4.1", Predicates.LOW: "6.4.2"}
_FIGURES = {Predicates.FRAGMENTS: 14, Predicates.REGULAR: 15, Predicates.LOW: 16}
_COLORS = {Sharing.UNSHARED: report.RED, Sharing.SHARED: report.BLUE}


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
    """The queries of a workload over given trades."""

    def __init__(self, given: Input, workload: Predicates, market: Market, seed: int) -> None:
        self.given = given
        self._workload, self._market, self._seed = workload, market, seed
        self._sample = market.take(slice(None, None, max(1, len(market) // _SAMPLE)))
        self._counted: tuple[Signatures, ...] = ()

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
        """Return pairs of a query that leaves a regular workload and one that joins; each run has its own."""
        return tuple(turnover(size, count, self._sample, seed=self._seed, run=run))

    def count(self, sizes: Sequence[int], options: Options) -> tuple[Signatures, ...]:
        """Return the paper's counts for several sizes, once and for all."""
        begin = self.given.dataset.begin_ms
        run = Run(begin_ms=begin, end_ms=begin + self.given.dataset.span_ms, rows=len(self._market))
        if not self._counted:
            with progress(options.console) as bar:
                self._counted = tuple(
                    count_signatures(self.queries(size), self._market, run, options.slicing)
                    for size in bar.track(sorted(set(sizes)), description="counting operations")
                )
        return self._counted


def workloads(options: Options, workload: Predicates, rows: int) -> dict[int, Workload]:
    """Return a workload over trades for each seed."""
    spark = options.session()
    given = trades_input(spark, options, rows, tables=make_market(spark, options.data))
    market = collect(given)
    return {seed: Workload(given, workload, market, seed) for seed in options.seeds}


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentsResult(AgainstSpark):
    """What `weft bench fragments` or `weft bench shards` found for one number of queries."""

    internal: ClassVar[str] = "counted change change_without_checkpoint"
    workload: Predicates
    change: PlanChange
    change_without_checkpoint: PlanChange
    counted: tuple[Signatures, ...]
    """The paper's counts for each number of queries, with the last seed's queries."""

    @property
    def signatures(self) -> Signatures:
        """The counts for the number of queries that was measured."""
        return next(counted for counted in self.counted if counted.queries == self.figures.queries)

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""

        def described(counted: Signatures) -> dict[str, object]:
            return {name: getattr(counted, name) for name in ("queries", "k", "alpha", "beta", "times_fewer")}

        printed = PAPER_COUNTS[self.workload]
        return {
            **AgainstSpark.as_json(self),
            "workload": self.workload.described,
            **described(self.signatures),
            "signatures": [described(counted) for counted in self.counted],
            "plan_change_ms": self.change.plan_change_ms,
            "plan_change": self.change.as_json(),
            "plan_change_without_checkpoint_ms": self.change_without_checkpoint.plan_change_ms,
            "operations": plain([half for both in self.counted for half in (both.unshared, both.shared)]),
            "paper": {
                "queries": PAPER_SIZE,
                "speedup": PAPER_SPEEDUPS[self.workload],
                "times_fewer": times_fewer_in_paper(self.workload),
                **{str(sharing): counts.as_json() for sharing, counts in printed.items()},
            },
        }

    def show(self, console: Console) -> None:
        """Print seconds, operations, signatures and what was checked."""
        figures = self.figures
        console.rule(self.workload.described)
        console.print(seconds_table(self, joins="two broadcast joins of tables in memory, where, "))
        if len(figures.seeds) == 1:
            console.print(_operations(self))
            console.print(_signatures(self))
            console.print(
                f"premise: shared and unshared operations of {figures.queries:,} queries stand "
                f"1 : {self.signatures.times_fewer:.2f} over these {figures.run.rows:,} rows; in the paper "
                f"1 : {times_fewer_in_paper(self.workload):.2f} (256 queries, 1,138,636 rows)"
            )
        show_checks(figures, console)
        change, without = self.change, self.change_without_checkpoint
        console.print(
            f"plan_change_ms {change.plan_change_ms:.0f}: the call that adds a query took "
            f"{1000 * change.add.median:.0f} ms, the batch after it {1000 * change.changed.median:.0f} ms, "
            f"others {1000 * change.quiet.median:.0f} ms (medians of {change.adds} queries that join); "
            f"without a checkpoint {without.plan_change_ms:.0f}"
        )

    @classmethod
    def draw(cls, results: Sequence[Self]) -> report.Figure:
        """Draw all sizes that were measured, and the paper's printed points beside them."""
        rows = results[0].figures.run.rows
        results = sorted(headlines(results), key=lambda result: result.figures.queries)
        others = [result for result in results if result.figures.run.rows != rows]
        results = [result for result in results if result.figures.run.rows == rows]
        workload, figure = results[-1].workload, report.new_figure(15, 5.4)
        seconds, operations, speedup = figure.subplots(1, 3)
        _draw_seconds(seconds, results, others)
        _draw_operations(operations, results[-1])
        _draw_speedup(speedup, results)
        figure.suptitle(f"{workload.described} (the paper's Figure {_FIGURES[workload]})")
        return figure


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
        known: dict[tuple[int, int], FragmentsResult] = {}

        def measure(sources: dict[int, Workload], size: int, seed: int) -> FragmentsResult:
            source, given = sources[seed], sources[seed].given
            # What tiny batches cost does not depend on the rows: it is measured with the first of them.
            queries, before = source.queries(size), known.get((size, seed))
            fixed = None if before is None else before.figures.fixed
            figures = against_spark(given, queries, self, seed=seed, fixed=fixed)
            if before is None:
                change, without = self._plan_changes(given, queries, source.joining(size, 2 * self.adds))
            else:
                change, without = before.change, before.change_without_checkpoint
            known[size, seed] = FragmentsResult(
                bench=self, cores=given.cores, workload=workload, figures=figures, change=change,
                change_without_checkpoint=without,
                counted=source.count((*workload.sizes, *self.queries), self),
            )  # fmt: skip
            return known[size, seed]

        return self.over_sets(partial(workloads, self, workload), measure)

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


def _operations(result: FragmentsResult) -> Table:
    figures, own = result.figures, result.signatures
    counted = [(half.strategy, half.partial, half.final, "") for half in (own.unshared, own.shared)]
    printed = [
        (f"the paper, {sharing}", paper.partial, paper.final, f"{paper.seconds:.2f}")
        for sharing, paper in PAPER_COUNTS[result.workload].items()
        if figures.queries == PAPER_SIZE
    ]
    caption = (
        "Unshared and shared are counted from the rows, F0 aside, as if all queries had one relation, over "
        "windows that end within the hour. Weft's run has those closed at the end of input, too, and a "
        "row once for each relation that it takes part in. "
        "The paper read about 1.1 M rows and took the mean of 10 sets of queries."
    )
    return operations_table(figures, _SECTIONS[result.workload], counted, printed, caption)


def _signatures(result: FragmentsResult) -> Table:
    unit = "window" if result.workload is Predicates.FRAGMENTS else "slice"
    caption = (
        f"k: different signatures in a {unit}, the empty one (F0) aside; α: queries that a row satisfies; "
        f"β: queries in a signature; means over {unit}s."
    )
    columns = {
        "queries": "{0.queries:,}", "k": "{0.k:,.0f}", "α": "{1}", "β": "{2}",
        "unshared": "{0.unshared.total:,}", "shared": "{0.shared.total:,}", "fewer": "{0.times_fewer:.2f} ×",
    }  # fmt: skip
    rows = [(counted, _mean(counted.alpha), _mean(counted.beta)) for counted in result.counted]
    title = f"signatures of a {unit}, and operations, by number of queries (STS, section 4.3.3)"
    return report.make_table(title, columns, rows, caption=caption, no_wrap=True)


def _mean(number: float) -> str:
    return f"{number:,.1f}" if number < 1000 else f"{number:,.0f}"


def _draw_seconds(
    axes: report.Axes, results: Sequence[FragmentsResult], others: Sequence[FragmentsResult]
) -> None:
    """Draw the seconds of each number of queries, and what other numbers of rows took."""
    figures = [result.figures for result in results]
    last, sizes = figures[-1], [of_size.queries for of_size in figures]
    all_queries = [(of_size.queries, of_size.unshared_s) for of_size in figures]
    one_query = [(of_size.queries, of_size.one_query_s) for of_size in figures]
    scan = [(of_size.queries, of_size.scan.median) for of_size in figures]
    scaled = f"ordinary Spark queries ({last.measured_queries} measured, scaled)"
    report.draw_line(axes, all_queries, color=report.RED, label=scaled)
    report.draw_line(axes, one_query, ":", marker=".", color=report.RED, label="one ordinary query")
    report.draw_line(axes, scan, ":", marker=".", color=report.GREY, label="bare scan")
    weft = [of_size.weft for of_size in figures]
    report.draw_medians(axes, sizes, weft, color=report.BLUE, label="Weft, least to most")
    for sharing, color in _COLORS.items():
        printed = PAPER_COUNTS[results[-1].workload][sharing].seconds
        axes.plot([PAPER_SIZE], [printed], "x", color=color, label=f"the paper, {sharing}", zorder=3)
    for other in (result.figures for result in others):
        squares = (("ordinary", other.unshared_s, report.RED), ("Weft", other.weft_s, report.BLUE))
        for name, taken, color in squares:
            label = f"{name}, {other.run.rows:,} rows"
            axes.plot([other.queries], [taken], "s", color=color, fillstyle="none", label=label)
    axes.margins(y=0.1)
    title = f"{last.run.rows:,} rows, {results[-1].cores} cores"
    report.finish(axes, [*sizes, PAPER_SIZE], ylabel="seconds", title=title)


def _draw_operations(axes: report.Axes, result: FragmentsResult) -> None:
    curves = {
        "unshared": ([counted.unshared.total for counted in result.counted], report.RED, "-"),
        "shared, partial + final": ([counted.shared.total for counted in result.counted], report.BLUE, "-"),
        "shared, final only": ([counted.shared.final for counted in result.counted], report.BLUE, "--"),
    }
    sizes = [counted.queries for counted in result.counted]
    for label, (operations, color, line) in curves.items():
        axes.plot(sizes, operations, line, marker="o", color=color, markersize=3, label=label)
    for sharing, color in _COLORS.items():
        total = PAPER_COUNTS[result.workload][sharing].total
        axes.plot([PAPER_SIZE], [total], "x", color=color, label=f"the paper, {sharing}, 1.1 M rows")
    axes.margins(y=0.1)
    title = "aggregate operations, counted"
    report.finish(axes, [*sizes, PAPER_SIZE], ylabel="partial + final", title=title)


def _draw_speedup(axes: report.Axes, results: Sequence[FragmentsResult]) -> None:
    measured = [(result.figures.queries, result.figures.speedup_vs_unshared) for result in results]
    counted = [(of_size.queries, of_size.times_fewer) for of_size in results[-1].counted]
    report.draw_line(axes, measured, color=report.BLUE, label="seconds, measured")
    report.draw_line(axes, counted, ":", marker=".", color=report.GREY, label="operations, counted")
    printed = PAPER_SPEEDUPS[results[-1].workload]
    axes.plot([PAPER_SIZE], [printed], "x", color="black", label=f"the paper, seconds: {printed:.1f}")
    axes.axhline(1, color="black", linewidth=0.5)
    axes.margins(y=0.1)
    sizes = [size for size, _ in (*measured, *counted)]
    report.finish(axes, sizes, ylabel="times", title="how many times less sharing takes")
