"""Weft against ordinary Spark queries and a bare scan, by turns.

Everyone runs in one session with the same source, files per trigger, cores and shuffle partitions, once in
every round, and has the same rounds to warm up in. Everyone has a checkpoint on disk; Weft without one is a
figure of its own. Tables that queries join are in memory for ordinary queries, and read by Weft in its time.
Weft's time runs from the text of its queries to their results in Parquet, all windows closed; an ordinary
query throws its results away, and leaves the last windows open, at no cost to it.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from weft.bench.dataset import TableFiles
from weft.bench.equality import Comparison, compare, written
from weft.bench.figures import Figures
from weft.bench.fixed_cost import FixedCost, fixed_cost
from weft.bench.measure import Seconds, Timed, alternate, pooled
from weft.bench.options import Options
from weft.bench.runs import How, Input, WeftRun, run_query, run_scan, run_weft
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery
from weft.storage.names import file_name

_WEFT, _WITHOUT, _SCAN = "Weft", "Weft without a checkpoint", "bare scan"


def trades_input(
    spark: SparkSession,
    data: Path,
    *,
    rows: int,
    batches: int,
    seed: int = 1,
    tables: tuple[TableFiles, ...] = (),
) -> Input:
    """Return the trades: a file for each core and batch, since a file of this size is one task's work."""
    cores = spark.sparkContext.defaultParallelism
    # Shuffle partitions are the cores, for everyone.
    spark.conf.set("spark.sql.shuffle.partitions", cores)
    dataset = make_trades(spark, data, rows=rows, files=batches * cores, seed=seed)
    return Input(spark=spark, dataset=dataset, files_per_trigger=cores, tables=tables)


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
    with given.persisted(), given.folder() as scratch:
        bench = _Bench(given, queries, scratch, options)
        bench.measure()
        chosen = options.check.choose(queries)
        compared = compare(given, chosen, lambda name: written(bench.out / file_name(name)), options.console)
        fixed = fixed or fixed_cost(given, queries, options)
    return bench.figures(compared, fixed, seed)


def spread_over(queries: Sequence[BenchQuery], count: int) -> list[BenchQuery]:
    """Return so many of the queries, from the first on, evenly apart."""
    count = min(count, len(queries))
    return [queries[number * len(queries) // count] for number in range(count)]


class _Bench:
    """One set of queries."""

    def __init__(self, given: Input, queries: Sequence[BenchQuery], scratch: Path, options: Options) -> None:
        self._given, self._queries, self._options = given, queries, options
        self._scratch = scratch
        self._chosen = spread_over(queries, options.measured)
        self._runs = 0
        self._last: WeftRun | None = None
        """The last run with a checkpoint."""
        self._taken: dict[str, Seconds] = {}
        self.out = scratch
        """Where its results are."""

    def measure(self) -> None:
        """Run Weft, some of the queries as ordinary Spark, and a scan, once each in every round."""
        columns = ("time", "price", "vol", *(("symbol",) if self._given.tables else ()))
        turns: list[tuple[str, Timed]] = [
            (_SCAN, partial(run_scan, self._given, columns)),
            (_WEFT, partial(self._weft, durable=True)),
            *((_ordinary(one), partial(run_query, self._given, one)) for one in self._chosen),
            (_WITHOUT, partial(self._weft, durable=False)),
        ]
        self._taken = alternate(
            turns,
            repeats=self._options.repeats,
            warmups=self._options.warmups,
            console=self._options.console,
        )

    def _weft(self, *, durable: bool) -> float:
        how = How(durable=durable, slicing=self._options.slicing)
        self._runs += 1
        out = self._scratch / f"out-{self._runs}"
        run = run_weft(self._given, self._queries, how=how, out=out)
        if durable:
            self._last, self.out = run, out
        return run.seconds

    def figures(self, compared: Comparison, fixed: FixedCost, seed: int) -> Figures:
        """Return what all counted rounds found."""
        last, ordinary = self._last, [self._taken[_ordinary(one)] for one in self._chosen]
        assert last is not None
        weft = self._taken[_WEFT]
        pairs = [
            mine / theirs
            for one in ordinary
            for mine, theirs in zip(weft.runs, one.runs, strict=True)
        ]  # fmt: skip
        return Figures(
            queries=len(self._queries),
            rows=last.rows,
            seeds=(seed,),
            slicing=self._options.slicing,
            weft=weft,
            without_checkpoint=self._taken[_WITHOUT],
            ordinary=pooled(ordinary),
            scan=self._taken[_SCAN],
            pairs=tuple(pairs),
            partial_ops=last.partial_ops,
            final_ops=last.final_ops,
            relations=last.relations,
            measured_queries=len(self._chosen),
            repeats=self._options.repeats,
            warmups=self._options.warmups,
            batches=last.batches,
            windows=last.windows,
            cores=self._given.spark.sparkContext.defaultParallelism,
            pyspark=pyspark.__version__,
            register_s=last.register_s,
            stages_s=dict(last.stages),
            compared=compared,
            fixed=fixed,
        )


def _ordinary(query: BenchQuery) -> str:
    return f"ordinary {query.name}"
