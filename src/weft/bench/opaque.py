"""The bench of predicates that are no thresholds: what 1 to 256 of them cost, in units of one ordinary query.

Weft, with a checkpoint on disk and its results in Parquet, and one ordinary Spark query with one such
predicate, with Spark's own checkpoint, run by turns over the same files with the same settings. Each is
warmed up by as many rounds, and a figure is the median of all counted ones.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, mkdtemp
from time import perf_counter

import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from weft.bench.dataset import DEFAULT_DATA, DELAY, Dataset
from weft.bench.equality import Check, difference, written
from weft.bench.measure import Timed, alternate
from weft.bench.opaque_queries import SIZES, Case, OpaqueQuery, make_readings, opaque_queries
from weft.bench.report import save
from weft.bench.runs import drain, spark_window
from weft.engine import Engine
from weft.spark.session.local import local_session
from weft.storage.names import file_name
from weft.stream.pipeline import BatchReport

_TOGETHER, _SAMPLED = 16, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """What was measured for one number of predicates."""

    case: str
    predicates: int
    weft_s: tuple[float, ...]
    one_query_s: tuple[float, ...]
    """The ordinary query that was run right after each run of Weft."""
    relations: int
    groups: int
    """Of the last batch."""
    stages_s: dict[str, float]
    compared_queries: int
    differences: tuple[str, ...]

    @property
    def ratio(self) -> float:
        """The median of Weft's runs over the median of the ordinary query's."""
        return median(self.weft_s) / median(self.one_query_s)

    @property
    def ratio_by_pairs(self) -> float:
        """The median of each run of Weft over the ordinary query right after it."""
        return median(one / other for one, other in zip(self.weft_s, self.one_query_s, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueResult:
    """All that was measured of a case."""

    case: str
    rows: int
    batches: int
    cores: int
    pyspark: str
    sizes: tuple[Size, ...]

    @property
    def equal(self) -> bool:
        """Whether all rows that were compared are plain Spark's."""
        return not any(size.differences for size in self.sizes)

    def as_json(self) -> dict[str, object]:
        """Return all fields by name."""
        sizes = [
            {**asdict(size), "ratio": size.ratio, "ratio_by_pairs": size.ratio_by_pairs}
            for size in self.sizes
        ]
        return {**asdict(self), "sizes": sizes}


@dataclass(slots=True)
class _Run:
    """What the last run of Weft did."""

    number: int = 0
    relations: int = 0
    groups: int = 0
    stages: dict[str, float] | None = None

    def note(self, stream: str, report: BatchReport) -> None:
        """Take in what a batch did."""
        if report.blocks:
            self.relations = len(report.blocks)
            self.groups = sum(map(len, report.blocks.values()))
        stages = self.stages if self.stages is not None else {}
        for stage, seconds in report.seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
        self.stages = stages


def run_opaque(
    *,
    console: Console,
    cases: Sequence[Case] = tuple(Case),
    predicates: Sequence[int] = SIZES,
    rows: int = 1_000_000,
    batches: int = 8,
    repeats: int = 3,
    warmups: int = 1,
    check: Check = Check.SAMPLE,
    seed: int = 1,
    data: Path = DEFAULT_DATA,
    cores: int | None = None,
    json: Path | None = None,
) -> list[OpaqueResult]:
    """Measure each number of predicates of each case, print tables, and write JSON if asked."""
    spark = local_session(cores=cores)
    cores = spark.sparkContext.defaultParallelism
    spark.conf.set("spark.sql.shuffle.partitions", cores)
    dataset = make_readings(spark, data, rows=rows, files=batches * cores, seed=seed)
    results = []
    for case in cases:
        sizes = [
            _measured(spark, dataset, case, count, repeats, warmups, check, seed, console)
            for count in sorted(predicates)
        ]
        results.append(
            OpaqueResult(
                case=case,
                rows=rows,
                batches=batches,
                cores=cores,
                pyspark=pyspark.__version__,
                sizes=tuple(sizes),
            )
        )
        show_opaque(results[-1], console)
    save([one.as_json() for one in results], json, console)
    return results


def _measured(
    spark: SparkSession,
    dataset: Dataset,
    case: Case,
    count: int,
    repeats: int,
    warmups: int,
    check: Check,
    seed: int,
    console: Console,
) -> Size:
    queries, run = opaque_queries(case, count, seed=seed), _Run()
    # Beside the data: where folders for temporary files are memory, a checkpoint costs nothing.
    with TemporaryDirectory(prefix=".weft-bench-", dir=dataset.folder.parent) as scratch:
        turns: list[tuple[str, Timed]] = [
            (f"{count:,} predicates", partial(_weft, spark, dataset, queries, Path(scratch), run)),
            ("one ordinary query", partial(_ordinary, spark, dataset, queries[0], Path(scratch))),
        ]
        taken = alternate(turns, repeats=repeats, warmups=warmups, console=console)
        out = Path(scratch) / f"out{run.number}"
        chosen = _chosen(check, queries)
        differences = _differences(spark, dataset, chosen, out)
    weft, ordinary = taken.values()
    return Size(
        case=case,
        predicates=count,
        weft_s=weft.runs,
        one_query_s=ordinary.runs,
        relations=run.relations,
        groups=run.groups,
        stages_s=run.stages or {},
        compared_queries=len(chosen),
        differences=tuple(differences),
    )


def _weft(
    spark: SparkSession, dataset: Dataset, queries: Sequence[OpaqueQuery], scratch: Path, run: _Run
) -> float:
    run.number, run.stages = run.number + 1, None
    began = perf_counter()
    engine = Engine(spark)
    engine.load(dataset.statement(spark.sparkContext.defaultParallelism))
    for query in queries:
        engine.add(query.sql, name=query.name)
    engine.run(
        out=scratch / f"out{run.number}",
        checkpoint=scratch / f"checkpoint{run.number}",
        flush=True,
        on_batch=run.note,
    )
    return perf_counter() - began


def _ordinary(spark: SparkSession, dataset: Dataset, query: OpaqueQuery, scratch: Path) -> float:
    checkpoint = Path(mkdtemp(prefix="ordinary", dir=scratch))
    began = perf_counter()
    rows = dataset.read_stream(spark, spark.sparkContext.defaultParallelism).withWatermark("time", DELAY)
    windows = rows.where(query.where).groupBy(spark_window(query.window))
    writer = windows.agg(F.sum("value").alias("value")).writeStream.format("noop").outputMode("append")
    drain(writer, checkpoint)
    return perf_counter() - began


def _chosen(check: Check, queries: Sequence[OpaqueQuery]) -> Sequence[OpaqueQuery]:
    if check is Check.NONE:
        return ()
    return queries if check is Check.ALL else queries[:: max(1, len(queries) // _SAMPLED)]


def _differences(
    spark: SparkSession, dataset: Dataset, queries: Sequence[OpaqueQuery], out: Path
) -> list[str]:
    """Compare what Weft wrote with plain Spark's batch results."""
    found: list[str] = []
    rows = dataset.read(spark)
    for begin in range(0, len(queries), _TOGETHER):
        some = queries[begin : begin + _TOGETHER]
        expected = reduce(DataFrame.unionByName, (_plain(rows, query) for query in some)).toArrow()
        for query in some:
            mine = expected.filter(pc.equal(expected["query"], query.name))
            found += difference(query.name, _whole(written(out / file_name(query.name))), _whole(mine))
    return found


def _whole(results: pa.Table) -> pa.Table:
    place = results.column_names.index("value")
    return results.set_column(place, "value", results["value"].cast(pa.float64()))


def _plain(rows: DataFrame, query: OpaqueQuery) -> DataFrame:
    windows = rows.where(query.where).groupBy(spark_window(query.window))
    return windows.agg(F.sum("value").alias("value")).select(
        F.lit(query.name).alias("query"),
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "value",
    )


def show_opaque(result: OpaqueResult, console: Console) -> None:
    """Print a case as a table."""
    case = Case(result.case)
    table = Table(title=f"{case.described}, no two windows alike; {result.rows:,} rows, {result.cores} cores")
    for heading in (
        "predicates",
        "Weft",
        "one ordinary query",
        "ratio",
        "by pairs",
        "relations",
        "groups",
        "rows",
    ):
        table.add_column(heading, justify="right")
    for size in result.sizes:
        rows = "equal" if not size.differences else size.differences[0]
        table.add_row(
            f"{size.predicates:,}", _spread(size.weft_s), _spread(size.one_query_s), f"{size.ratio:.2f}",
            f"{size.ratio_by_pairs:.2f}", f"{size.relations:,}", f"{size.groups:,}",
            rows if size.compared_queries else "not compared",
        )  # fmt: skip
    console.print(table)
    count, most = case.bar
    console.print(f"bar: {count} predicates at most {most} × one ordinary query")


def _spread(runs: Sequence[float]) -> str:
    return f"{median(runs):.2f} s ({min(runs):.2f}–{max(runs):.2f})"
