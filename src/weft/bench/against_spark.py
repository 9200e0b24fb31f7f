"""Weft, ordinary Spark queries and a bare scan, alternating in every round.

All run in one session with the same source, files per trigger, cores and shuffle partitions, once per round,
after the same number of warm-up rounds. All have a checkpoint on disk; Weft without one is reported
separately. Tables that queries join are in memory for ordinary queries; Weft's time includes reading them.
Weft's time runs from the text of its queries to their results in Parquet, with all windows closed. An
ordinary query discards its results and leaves its last windows open, at no cost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import ClassVar, TypeVar

import pyspark
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from weft.bench import report
from weft.bench.bench import PicturedResult
from weft.bench.dataset import TableFiles
from weft.bench.equality import Comparison, compare, read_rows
from weft.bench.options import Options, Timed
from weft.bench.records import Record, Seconds, concatenated, pooled_by
from weft.bench.runs import Input, Settings, WeftRun, run_query, run_scan, run_weft
from weft.bench.tiny_batches import FixedCost, fixed_cost
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery, spread_over
from weft.storage.names import file_name

_WEFT, _WITHOUT, _SCAN = "Weft", "Weft without a checkpoint", "bare scan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures(Record):
    """What was measured for one number of queries, from one seed or from several."""

    computed: ClassVar[str] = (
        "unshared_s ratio_to_one_query ratio_without_checkpoint ratio_by_pairs speedup_vs_unshared"
    )
    internal: ClassVar[str] = "run weft without_checkpoint ordinary scan pairs fixed"
    queries: int
    seeds: tuple[int, ...] = pooled_by(concatenated)
    weft: Seconds
    """With a checkpoint on disk."""
    without_checkpoint: Seconds
    """Weft with nothing durable."""
    ordinary: Seconds
    """All counted runs of all ordinary queries that were measured."""
    scan: Seconds
    pairs: tuple[float, ...] = pooled_by(concatenated)
    """Each run of Weft over each ordinary query's run of the same round."""
    measured_queries: int
    """How many ordinary queries were run; `unshared_s` is their mean, times all."""
    run: WeftRun
    """The last one with a checkpoint."""
    compared: Comparison
    fixed: FixedCost

    @property
    def weft_s(self) -> float:
        """Weft with a checkpoint on disk: the median of all counted rounds."""
        return self.weft.median

    @property
    def one_query_s(self) -> float:
        """One ordinary query."""
        return self.ordinary.median

    @property
    def unshared_s(self) -> float:
        """All queries as ordinary ones, by the mean of those measured."""
        return mean(self.ordinary.runs) * self.queries

    @property
    def ratio_to_one_query(self) -> float:
        """All of Weft's queries, in units of one ordinary query."""
        return self.weft_s / self.one_query_s

    @property
    def ratio_without_checkpoint(self) -> float:
        """The same, with nothing durable on Weft's side."""
        return self.without_checkpoint.median / self.one_query_s

    @property
    def ratio_by_pairs(self) -> float:
        """The median of runs of the same round, one over the other: steady on a busy machine."""
        return median(self.pairs)

    @property
    def speedup_vs_unshared(self) -> float:
        """How many times as long the ordinary queries take together."""
        return self.unshared_s / self.weft_s

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        timed = {
            "weft": self.weft,
            "weft_without_checkpoint": self.without_checkpoint,
            "one_query": self.ordinary,
            "scan": self.scan,
        }
        return {
            **self.run.as_json(),
            **Record.as_json(self),
            **{f"{name}_s": seconds.median for name, seconds in timed.items()},
            "spread_s": {name: (seconds.least, seconds.most) for name, seconds in timed.items()},
            "pairs_spread": (min(self.pairs), max(self.pairs)),
            "runs_s": {name: seconds.runs for name, seconds in timed.items()},
            "fixed_cost_ms": self.fixed.over_spark_ms,
            "fixed_cost_without_checkpoint_ms": self.fixed.without_checkpoint_ms,
            "empty_batch_ms": self.fixed.empty_ms,
            "planning_ms": self.fixed.planning_ms,
        }


def trades_input(
    spark: SparkSession, options: Options, rows: int, *, tables: tuple[TableFiles, ...] = ()
) -> Input:
    """Return the trades: a file for each core and batch, since a file of this size is one task's work."""
    cores = spark.sparkContext.defaultParallelism
    # Shuffle partitions are the cores, for everyone.
    spark.conf.set("spark.sql.shuffle.partitions", cores)
    dataset = make_trades(spark, options.data, rows=rows, files=options.batches * cores)
    return Input(spark=spark, dataset=dataset, files_per_trigger=cores, tables=tables)


@dataclass(slots=True)
class WeftTurns:
    """Weft's turns: each run writes its results to a folder of its own."""

    given: Input
    queries: Sequence[BenchQuery]
    options: Options
    scratch: Path
    runs: int = 0
    last: WeftRun = field(default_factory=WeftRun)
    """The last run with a checkpoint."""
    out: Path = Path()
    """Where its results are."""

    def run(self, *, durable: bool = True) -> float:
        """Take a turn; return its seconds."""
        self.runs += 1
        out = self.scratch / f"out-{self.runs}"
        settings = Settings(durable=durable, slicing=self.options.slicing)
        run = run_weft(self.given, self.queries, settings=settings, out=out)
        if durable:
            self.last, self.out = run, out
        return run.seconds

    def compare(self) -> Comparison:
        """Compare the last durable run's rows of the queries that the options choose with plain Spark's."""
        chosen = self.options.check.choose(self.queries)
        return compare(
            self.given, chosen, lambda name: read_rows(self.out / file_name(name)), self.options.console
        )


def against_spark(
    given: Input,
    queries: Sequence[BenchQuery],
    options: Options,
    *,
    seed: int,
    fixed: FixedCost | None = None,
) -> Figures:
    """Measure some queries, compare their rows with Spark's, and find what a micro-batch costs at least.

    That is `fixed`, if it was measured already: it does not depend on how many rows there are.
    """
    chosen = spread_over(queries, options.measured)
    columns = ("time", "price", "vol", *(("symbol",) if given.tables else ()))
    with given.persisted(), given.folder() as scratch:
        weft = WeftTurns(given, queries, options, scratch)
        turns: list[tuple[str, Timed]] = [
            (_SCAN, partial(run_scan, given, columns)),
            (_WEFT, weft.run),
            *((f"ordinary {query.name}", partial(run_query, given, query)) for query in chosen),
            (_WITHOUT, partial(weft.run, durable=False)),
        ]
        taken = options.alternate(turns)
        compared = weft.compare()
        fixed = fixed or fixed_cost(given, queries, options)
    ordinary = [taken[f"ordinary {query.name}"] for query in chosen]
    return Figures(
        queries=len(queries), seeds=(seed,), weft=taken[_WEFT],
        without_checkpoint=taken[_WITHOUT], ordinary=Seconds.pooled(ordinary),
        scan=taken[_SCAN],
        pairs=Seconds.pooled([taken[_WEFT].over(query) for query in ordinary]).runs,
        measured_queries=len(chosen), run=weft.last, compared=compared, fixed=fixed,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstSpark(PicturedResult):
    """What a bench against ordinary Spark found for one number of queries."""

    figures: Figures

    @property
    def rows_equal(self) -> bool | None:
        """Whether all rows compared are plain Spark's; None when nothing was compared."""
        return self.figures.compared.equal

    def as_json(self) -> dict[str, object]:
        """Return all figures by name."""
        return {**PicturedResult.as_json(self), **self.figures.as_json()}


AnyResult = TypeVar("AnyResult", bound=AgainstSpark)


def headlines(results: Sequence[AnyResult]) -> list[AnyResult]:
    """Return one result for each number of rows and queries: over all seeds, where there are several."""
    return list({(result.figures.run.rows, result.figures.queries): result for result in results}.values())


def seconds_table(result: AgainstSpark, *, joins: str = "") -> Table:
    """Return the seconds of Weft, ordinary queries and a scan."""
    figures, bench = result.figures, result.bench
    timed = {
        f"Weft, {figures.queries:,} queries": figures.weft,
        "Weft without a checkpoint": figures.without_checkpoint,
        f"one ordinary query (of {figures.measured_queries})": figures.ordinary,
        "bare scan": figures.scan,
    }
    one_query = figures.one_query_s
    rows: list[tuple[str, float, str, float]] = [
        (name, seconds.median, seconds.spread, seconds.median / one_query) for name, seconds in timed.items()
    ]
    scaled = f"{figures.queries:,} ordinary queries, scaled"
    rows.append((scaled, figures.unshared_s, "", figures.unshared_s / one_query))
    stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in figures.run.stages_s.items())
    caption = (
        f"Medians of all {len(figures.weft.runs)} counted rounds, and their least and most; "
        f"{bench.warmups} rounds before them warm up. In a round each runs once, every second round "
        f"backwards. {figures.run.batches} micro-batches, {result.cores} cores, pyspark "
        f"{pyspark.__version__}, {bench.slicing} slices. All have a checkpoint on the same disk unless it "
        f"says otherwise. An ordinary query is withWatermark, {joins}groupBy(window), append mode; it "
        "discards its results, which favours Spark. Weft's time includes its queries' text, finals and "
        f"results in Parquet (in batches: {stages})."
    )
    title = f"{figures.queries:,} queries over {figures.run.rows:,} rows, {report.seeds_of(figures.seeds)}"
    columns = {"": "{0}", "seconds": "{1:,.2f}", "spread": "{2}", "of one query": "{3:,.2f}"}
    return report.make_table(title, columns, rows, caption=caption, no_wrap=True)


Operations = tuple[str, int, int, str]
"""Whose operations they are: partial ones, final ones, and the seconds that they took, if known."""


def operations_table(
    figures: Figures,
    section: str,
    counted: Iterable[Operations],
    printed: Iterable[Operations],
    caption: str,
) -> Table:
    """Return the operations of all queries: counted, of Weft's run, and as the paper printed them."""
    name = f"Weft's run, {figures.run.relations:,} relation{'s' if figures.run.relations != 1 else ''}"
    run = (name, figures.run.partial_ops, figures.run.final_ops, f"{figures.weft_s:,.2f}")
    title = f"operations of {figures.queries:,} queries (STS, section {section})"
    columns = {"": "{0}", "partial": "{1:,}", "final": "{2:,}", "seconds": "{3}"}
    return report.make_table(title, columns, [*counted, run, *printed], caption=caption, no_wrap=True)


def show_checks(figures: Figures, console: Console) -> None:
    """Print what was compared, and the ratios that all benches against Spark have."""
    fixed = figures.fixed
    console.print(report.equality(figures.compared))
    console.print(
        f"fixed_cost_ms {fixed.over_spark_ms:.0f} per micro-batch over Spark's own {fixed.empty_ms:.0f} ms, "
        f"new plans aside (they took {fixed.planning_ms:.0f} ms a batch); without a checkpoint "
        f"{fixed.without_checkpoint_ms:.0f}\n"
        f"ratio_to_one_query {figures.ratio_to_one_query:.2f}; ratio_by_pairs {figures.ratio_by_pairs:.2f} "
        f"({min(figures.pairs):.2f}–{max(figures.pairs):.2f}); without a checkpoint "
        f"{figures.ratio_without_checkpoint:.2f}\n"
        f"speedup_vs_unshared {figures.speedup_vs_unshared:,.0f}"
    )
