"""Weft against ordinary Spark queries and a bare scan, by turns.

Everyone runs in one session with the same source, files per trigger, cores and shuffle partitions, once in
every round, and has the same rounds to warm up in. Everyone has a checkpoint on disk; Weft without one is a
figure of its own. Tables that queries join are in memory for ordinary queries, and read by Weft in its time.
Weft's time runs from the text of its queries to their results in Parquet, all windows closed; an ordinary
query throws its results away, and leaves the last windows open, at no cost to it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from weft.bench.dataset import TableFiles
from weft.bench.equality import Comparison, compare, written
from weft.bench.figures import Figures
from weft.bench.fixed_cost import FixedCost, fixed_cost
from weft.bench.measure import Timed
from weft.bench.options import Options
from weft.bench.records import Seconds
from weft.bench.runs import How, Input, WeftRun, run_query, run_scan, run_weft
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery, spread_over
from weft.storage.names import file_name

_WEFT, _WITHOUT, _SCAN = "Weft", "Weft without a checkpoint", "bare scan"


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
        how = How(durable=durable, slicing=self.options.slicing)
        run = run_weft(self.given, self.queries, how=how, out=out)
        if durable:
            self.last, self.out = run, out
        return run.seconds

    def compare(self) -> Comparison:
        """Compare the rows of the last run with plain Spark's, for the queries that the options choose."""
        chosen = self.options.check.choose(self.queries)
        return compare(self.given, chosen, self._rows_of, self.options.console)

    def _rows_of(self, name: str) -> pa.Table:
        return written(self.out / file_name(name))


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
    last, ordinary = weft.last, [taken[f"ordinary {query.name}"] for query in chosen]
    return Figures(
        queries=len(queries), rows=last.rows, seeds=(seed,), slicing=options.slicing,
        weft=taken[_WEFT], without_checkpoint=taken[_WITHOUT], ordinary=Seconds.pooled(ordinary),
        scan=taken[_SCAN],
        pairs=tuple(
            mine / theirs
            for query in ordinary
            for mine, theirs in zip(taken[_WEFT].runs, query.runs, strict=True)
        ),
        partial_ops=last.partial_ops, final_ops=last.final_ops, relations=last.relations,
        measured_queries=len(chosen), repeats=options.repeats, warmups=options.warmups, batches=last.batches,
        windows=last.windows, cores=given.cores, pyspark=pyspark.__version__, register_s=last.register_s,
        stages_s=last.stages, compared=compared, fixed=fixed,
    )  # fmt: skip
