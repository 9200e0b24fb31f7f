"""The bench of aggregates that need all values: percentiles, distinct counts, top k, by key and window.

Queries of one kind differ in windows and predicates, 16 of each. They are compared with one ordinary Spark
query of the same kind, and with as many queries in DuckDB, one after another. All have the same files; Weft
and Spark a checkpoint and Parquet; DuckDB Parquet alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from typer import Option

from weft.bench import report
from weft.bench.bench import Bench, Result
from weft.bench.contenders import TIME, run_duck, run_stream
from weft.bench.dataset import Dataset, make, moment, uniform
from weft.bench.duck import Duck
from weft.bench.equality import Comparison, compare_with_plain
from weft.bench.options import Check, Checked, Queries, Repeats, Warmups
from weft.bench.records import Record, Seconds
from weft.bench.runs import Input, WeftRun, engine_for, run_weft
from weft.bench.workloads import SqlQuery, spread_over
from weft.query.logical import LogicalQuery

_COLUMNS = "time TIMESTAMP, key INT, value INT, weight INT, size DOUBLE"
_KEYS, _VALUES, _WINDOWS = 200, 5_000, 16
_HOUR_MS = 3_600_000
_COMPARED_ROWS = 20_000
"""Rows over which results are compared: ordinary queries take long."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "sum": ("sum(weight)",),
    "percentile": ("percentile(value, {share})",),
    "distinct": ("count(DISTINCT value)",),
    "mode": ("mode(value)",),
    "mixed": ("percentile(value, {share})", "count(DISTINCT value)", "mode(value)"),
    "shared": ("percentile(value, {share})", "count(DISTINCT value)"),
}
"""What the queries of each kind ask for, by turns."""
_ONE_WINDOW = frozenset({"shared"})
"""Kinds whose queries have one window and predicate: they differ in what they ask of the same values."""


def aggregate_queries(kind: str, count: int) -> list[SqlQuery]:
    """Return queries of a kind; each has a window and a predicate of 16, no two the same up to 256."""
    queries = []
    for number in range(count):
        window, predicate = (number % _WINDOWS, number // _WINDOWS) if kind not in _ONE_WINDOW else (7, 0)
        call = KINDS[kind][number % len(KINDS[kind])].format(share=0.5 + 0.49 * number / max(count, 2))
        minutes = window + 1
        queries.append(
            SqlQuery(
                name=f"{kind}{number}",
                sql=f"SELECT key, {call} AS value FROM readings [RANGE '{minutes} min' SLIDE "
                f"'{-(-minutes // 4)} min'] WHERE size > {predicate % _WINDOWS / _WINDOWS} GROUP BY key",
            )
        )
    return queries


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSize(Record):
    """A number of queries of one kind."""

    kind: str
    queries: int
    results: int
    weft: Seconds
    ordinary: Seconds
    """One ordinary query of the kind."""
    duck: Seconds
    """As many queries, one after another."""
    ratio: float
    """Weft's median in units of one ordinary query's."""
    duck_ratio: float
    stages: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregatesResult(Result):
    """What `weft bench aggregates` found."""

    bench: "Aggregates"
    rows: int
    sizes: tuple[KindSize, ...]

    def show(self, console: Console) -> None:
        """Print each kind and number of queries."""
        columns = {
            "<kind": "{0.kind}", "queries": "{0.queries:,}", "results": "{0.results:,}",
            "Weft, s": "{0.weft.median:.2f}", "spread": "{0.weft.spread}",
            "one ordinary, s": "{0.ordinary.median:.2f}", "ratio_to_one_query": "{0.ratio:.2f}",
            "DuckDB, s": "{0.duck.median:.2f}", "ratio_to_duckdb": "{0.duck_ratio:.2f}",
        }  # fmt: skip
        caption = (
            f"Medians of {self.bench.repeats} rounds, after {self.bench.warmups} to warm up; "
            f"{_KEYS} keys, {_VALUES:,} values, {self.bench.batches} micro-batches, {self.cores} cores, "
            f"pyspark {pyspark.__version__}. Weft and the ordinary query have a checkpoint and write "
            "Parquet; DuckDB runs as many queries as Weft, one after another, and writes Parquet."
        )
        title = f"aggregates over {self.rows:,} rows"
        console.print(report.make_table(title, columns, self.sizes, caption=caption))
        for size in self.sizes:
            stages = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in size.stages.items())
            console.print(f"{size.kind}, {size.queries:,} queries, in batches: {stages}")
        console.print(report.equality(self.compared))


@dataclass(slots=True)
class _Contest:
    """A number of queries of one kind, and those that they are compared with."""

    given: Input
    duck: Duck
    folder: Path
    kind: str
    queries: Sequence[SqlQuery]
    logical: Sequence[LogicalQuery]
    run: WeftRun | None = None

    def weft(self) -> float:
        """Run all queries through Weft."""
        with self.given.folder() as out:
            self.run = run_weft(self.given, self.queries, out=out, keep=False)
        return self.run.seconds

    def ordinary(self) -> float:
        """Run one of them, in the middle, as an ordinary streaming query."""
        (chosen,) = spread_over(self.logical, 1)
        return run_stream(self.given, chosen, self.folder / "ordinary")[0]

    def in_duck(self) -> float:
        """Run all of them in DuckDB."""
        return run_duck(self.duck, self.logical, self.folder / "duck")


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregates(Bench[AggregatesResult]):
    """Percentiles, distinct counts and modes: many queries against one ordinary query of the same kind.

    Example: weft bench aggregates --kind percentile -n 1 -n 256 --rows 4000000
    """

    offers = "kinds queries rows batches repeats warmups check json data cores"
    kinds: Annotated[
        tuple[str, ...],
        Option("--kind", help=f"What queries ask for: {', '.join(KINDS)}. May be repeated."),
    ] = ("sum", "percentile", "distinct", "mixed")  # fmt: skip
    queries: Queries = (1, 16, 256)
    repeats: Repeats = 3
    warmups: Warmups = 1
    check: Checked = Check.SAMPLE

    def measure(self) -> Iterator[AggregatesResult]:
        """Measure each kind and number of queries, alternating."""
        spark = self.session()
        for rows in self.rows:
            few = make_readings(spark, self.data, rows=min(rows, _COMPARED_ROWS), files=2)
            dataset = make_readings(spark, self.data, rows=rows, files=2 * self.batches)
            given = Input(spark=spark, dataset=dataset, files_per_trigger=2)
            compared, sizes = [], []
            with given.folder() as folder:
                duck = Duck(dataset, (), threads=given.cores)
                for kind in self.kinds:
                    for count in self.queries:
                        queries = aggregate_queries(kind, count)
                        engine = engine_for(Input(spark=spark, dataset=few, files_per_trigger=1), queries)
                        logical = [query.logical for query in engine.queries.values()]
                        if self.check is not Check.NONE:
                            engine.run()
                            chosen = [query.name for query in spread_over(queries, min(3, count))]
                            compared.append(compare_with_plain(engine, chosen))
                        contest = _Contest(given, duck, folder, kind, queries, logical)
                        sizes.append(self._size(contest))
                duck.close()
            yield AggregatesResult(
                bench=self,
                cores=given.cores,
                rows=rows,
                sizes=tuple(sizes),
                compared=Comparison.pooled(compared),
            )

    def _size(self, contest: _Contest) -> KindSize:
        turns = {"Weft": contest.weft, "ordinary": contest.ordinary, "DuckDB": contest.in_duck}
        label = f"{len(contest.queries):,} × {contest.kind}"
        taken = self.alternate([(f"{label}, {name}", turn) for name, turn in turns.items()])
        weft, ordinary, duck = taken.values()
        assert contest.run is not None
        return KindSize(
            kind=contest.kind, queries=len(contest.queries), results=contest.run.windows, weft=weft,
            ordinary=ordinary, duck=duck, ratio=weft.median / ordinary.median,
            duck_ratio=weft.median / duck.median, stages=contest.run.stages_s,
        )  # fmt: skip


def make_readings(spark: SparkSession, data: Path, *, rows: int, files: int, seed: int = 1) -> Dataset:
    """Write an hour of keyed values, or return those that an earlier run wrote."""
    folder = data / f"readings-{rows}-{files}-seed{seed}"
    dataset = Dataset(
        name="readings", folder=folder, columns=_COLUMNS, rows=rows, files=files, span_ms=_HOUR_MS
    )
    return make(spark, dataset, _readings, seed)


def _readings(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into readings; low values are met more often than high ones."""
    return numbered.select(
        moment(dataset, uniform(seed, 2)).alias(TIME),
        F.floor(uniform(seed, 3) * F.lit(_KEYS)).cast("int").alias("key"),
        F.floor(F.pow(uniform(seed, 4), F.lit(2.0)) * F.lit(_VALUES)).cast("int").alias("value"),
        F.floor(uniform(seed, 5) * F.lit(1_000)).cast("int").alias("weight"),
        uniform(seed, 6).alias("size"),
    )
