"""Weft against ordinary Spark queries and a bare scan, by turns.

The comparison is fair to Spark. Everyone runs in one session with the same source, files per trigger, cores
and shuffle partitions, by turns, after a round that is not counted. Weft's time runs from the text of its
queries to their results in Parquet; an ordinary query throws its results away, and leaves the last windows
open, at no cost to it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import pyspark
from pyspark.sql import SparkSession
from rich.console import Console

from weft.bench.dataset import TableFiles
from weft.bench.equality import Check, Comparison, compare, written
from weft.bench.fixed_cost import FixedCost, fixed_cost
from weft.bench.measure import Seconds, Timed, alternate
from weft.bench.runs import Input, WeftRun, run_query, run_scan, run_weft
from weft.bench.trades import make_trades
from weft.bench.workloads import BenchQuery
from weft.storage.names import file_name

_WEFT, _SCAN = "Weft", "bare scan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What was measured for one number of queries."""

    queries: int
    rows: int
    weft_s: float
    one_query_s: float
    unshared_s: float
    scan_s: float
    partial_ops: int
    final_ops: int
    relations: int
    """Of Weft's plan."""
    measured_queries: int
    """How many ordinary queries were run; `unshared_s` is their sum, scaled to all."""
    repeats: int
    batches: int
    windows: int
    cores: int
    pyspark: str
    register_s: float
    stages_s: dict[str, float]
    """Weft's seconds within batches, in its last run."""
    runs_s: dict[str, tuple[float, ...]]
    """Every counted run."""
    ratio_by_pairs: float
    """The median of each run of Weft over the ordinary query run right after it: steady on a busy machine."""
    rows_equal: bool | None
    compared_queries: int
    compared_rows: int
    differences: tuple[str, ...]
    fixed_cost_ms: float
    empty_batch_ms: float

    @property
    def comparison(self) -> Comparison:
        """What was compared and how it came out."""
        return Comparison(
            queries=self.compared_queries, rows=self.compared_rows, differences=self.differences
        )

    @property
    def ratio_to_one_query(self) -> float:
        """All of Weft's queries, in units of one ordinary query."""
        return self.weft_s / self.one_query_s

    @property
    def speedup_vs_unshared(self) -> float:
        """How many times as long the ordinary queries take together."""
        return self.unshared_s / self.weft_s

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        ratios = {
            "ratio_to_one_query": self.ratio_to_one_query,
            "speedup_vs_unshared": self.speedup_vs_unshared,
        }
        return {**asdict(self), **ratios}


def trades_input(
    spark: SparkSession,
    data: Path,
    *,
    rows: int,
    batches: int,
    seed: int,
    tables: tuple[TableFiles, ...] = (),
) -> Input:
    """Return the trades: a file for each core and batch, since a file of this size is one task's work."""
    cores = spark.sparkContext.defaultParallelism
    # Shuffle partitions are the cores, for everyone.
    spark.conf.set("spark.sql.shuffle.partitions", cores)
    dataset = make_trades(spark, data, rows=rows, files=batches * cores, seed=seed)
    return Input(spark=spark, dataset=dataset, files_per_trigger=cores, tables=tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Round:
    """Runs that were taken one right after the other."""

    scan: float
    weft: Sequence[float]
    ordinary: Sequence[float]

    @property
    def total(self) -> float:
        """How long the round took: least when the machine had nothing else to do."""
        return self.scan + sum(self.weft) + sum(self.ordinary)


def against_spark(
    given: Input,
    queries: Sequence[BenchQuery],
    *,
    data: Path,
    measured: int,
    repeats: int,
    warmups: int,
    tiny_batches: int,
    check: Check,
    console: Console,
) -> Figures:
    """Measure some queries, compare their rows with Spark's, and find what a micro-batch costs at least."""
    with TemporaryDirectory(prefix="weft-bench-") as scratch:
        bench = _Bench(given, queries, Path(scratch), console)
        bench.measure(measured=measured, repeats=repeats, warmups=warmups)
        compared = compare(
            given, check.choose(queries), lambda name: written(bench.out / file_name(name)), console
        )
    fixed = fixed_cost(
        given, queries, data, batches=tiny_batches, repeats=repeats, warmups=warmups, console=console
    )
    return bench.figures(compared, fixed)


class _Bench:
    """One number of queries."""

    def __init__(self, given: Input, queries: Sequence[BenchQuery], scratch: Path, console: Console) -> None:
        self._given, self._queries, self._console = given, queries, console
        self._scratch = scratch
        self._runs: list[WeftRun] = []
        self._taken: dict[str, Seconds] = {}
        self._chosen: Sequence[BenchQuery] = ()

    @property
    def out(self) -> Path:
        """Where the last run's results are."""
        return self._scratch / str(len(self._runs))

    def measure(self, *, measured: int, repeats: int, warmups: int) -> None:
        """Run Weft, some of the queries as ordinary Spark, and a scan, by turns."""
        measured = min(measured, len(self._queries))
        step = len(self._queries) / measured
        self._chosen = [self._queries[int(place * step)] for place in range(measured)]
        columns = ("time", "price", "vol", *(("symbol",) if self._given.tables else ()))
        turns: list[tuple[str, Timed]] = [(_SCAN, partial(run_scan, self._given, columns))]
        # Weft runs as often as they do: neither has more rounds to warm up in.
        for one in self._chosen:
            turns += [(_WEFT, self._weft), (f"ordinary {one.name}", partial(run_query, self._given, one))]
        self._taken = alternate(turns, repeats=repeats, warmups=warmups, console=self._console)

    def _weft(self) -> float:
        self._runs.append(run_weft(self._given, self._queries, out=self._scratch / str(len(self._runs) + 1)))
        return self._runs[-1].seconds

    def _rounds(self) -> list[_Round]:
        """Return the runs of each round together."""
        each = len(self._chosen)
        ordinary = zip(*(self._taken[f"ordinary {one.name}"].runs for one in self._chosen), strict=True)
        weft, scans = self._taken[_WEFT].runs, self._taken[_SCAN].runs
        return [
            _Round(scan=scans[number], weft=weft[number * each : (number + 1) * each], ordinary=runs)
            for number, runs in enumerate(ordinary)
        ]

    def figures(self, compared: Comparison, fixed: FixedCost) -> Figures:
        """Return what was measured, in the quietest round."""
        last = self._runs[-1]
        rounds = self._rounds()
        quiet = min(rounds, key=lambda one: one.total)
        ordinary = quiet.ordinary
        pairs = [weft / other for one in rounds for weft, other in zip(one.weft, one.ordinary, strict=True)]
        return Figures(
            queries=len(self._queries),
            rows=last.rows,
            weft_s=median(quiet.weft),
            one_query_s=median(ordinary),
            unshared_s=sum(ordinary) / len(ordinary) * len(self._queries),
            scan_s=quiet.scan,
            partial_ops=last.partial_ops,
            final_ops=last.final_ops,
            relations=last.relations,
            measured_queries=len(ordinary),
            repeats=len(self._taken[_SCAN].runs),
            batches=last.batches,
            windows=last.windows,
            cores=self._given.spark.sparkContext.defaultParallelism,
            pyspark=pyspark.__version__,
            register_s=last.register_s,
            stages_s=dict(last.stages),
            runs_s={name: seconds.runs for name, seconds in self._taken.items()},
            ratio_by_pairs=median(pairs),
            rows_equal=compared.equal,
            compared_queries=compared.queries,
            compared_rows=compared.rows,
            differences=compared.differences,
            fixed_cost_ms=fixed.over_spark_ms,
            empty_batch_ms=fixed.empty_ms,
        )
