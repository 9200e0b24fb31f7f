"""Whether rows are the same, exact but for doubles and never deduplicated; Weft's against plain Spark's."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from weft.bench.options import progress
from weft.bench.records import Record, concatenated, pooled_by
from weft.bench.runs import Input, filtered, spark_window
from weft.bench.workloads import BenchQuery
from weft.engine import Engine

TOLERANCE = 1e-9
"""By how much doubles may differ, relative to the larger."""


def read_rows(path: Path) -> pa.Table | None:
    """Return the rows of a Parquet file or of a folder of them; None if there is no file."""
    files = [path] if path.is_file() else sorted(path.glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file) for file in files]) if files else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison(Record):
    """What was compared and how it came out."""

    queries: int = pooled_by(sum, default=0)
    rows: int = pooled_by(sum, default=0)
    differences: tuple[str, ...] = pooled_by(concatenated, default=())

    @property
    def equal(self) -> bool | None:
        """Whether all rows are equal; None when nothing was compared."""
        return not self.differences if self.queries else None


NOT_COMPARED = Comparison()


def compare_rows(name: str, weft: pa.Table | None, other: pa.Table | None) -> Comparison:
    """Compare Weft's rows of a query with another's."""
    problem = difference(name, weft, other)
    rows = 0 if other is None else other.num_rows
    return Comparison(queries=1, rows=rows, differences=() if problem is None else (problem,))


def compare_with_plain(engine: Engine, names: Iterable[str]) -> Comparison:
    """Compare an engine's rows of some queries with plain Spark's."""
    compared = [compare_rows(name, engine.results(name), engine.run_plain(name)) for name in names]
    return Comparison.pooled([NOT_COMPARED, *compared])


def difference(name: str, weft: pa.Table | None, other: pa.Table | None) -> str | None:
    """Say how Weft's rows of a query differ from another's; None if they do not."""
    counts = [0 if table is None else table.num_rows for table in (weft, other)]
    if counts[0] != counts[1]:
        return f"{name}: {counts[0]:,} rows, expected {counts[1]:,}"
    if weft is None or other is None or not counts[0]:
        return None
    if weft.column_names != other.column_names:
        return f"{name}: columns {weft.column_names}, expected {other.column_names}"
    # Decimals are doubles in DuckDB.
    inexact = {
        field.name
        for table in (weft, other)
        for field in table.schema
        if pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
    }
    left, right = (_normalized(table, inexact) for table in (weft, other))
    for column in weft.column_names:
        differs = _differ(left[column], right[column], exact=column not in inexact)
        if differs.any():
            index = int(np.flatnonzero(differs)[0])
            got, expected = (table[column][index].as_py() for table in (left, right))
            return f"{name}: {column} is {got!r}, expected {expected!r} ({int(differs.sum()):,} rows differ)"
    return None


def _normalized(table: pa.Table, inexact: set[str]) -> pa.Table:
    """Return the rows in order, with one type for each kind of value."""
    for index, field in enumerate(table.schema):
        column = table[field.name]
        if field.name in inexact:
            column = column.cast(pa.float64())
        elif pa.types.is_timestamp(field.type):
            column = microseconds(column)
        elif pa.types.is_integer(field.type):
            column = column.cast(pa.int64())
        table = table.set_column(index, field.name, column)
    # What is exact identifies a row; doubles decide only between rows that are alike in all else.
    names = sorted(table.column_names, key=lambda name: (name in inexact, name))
    return table.take(pc.sort_indices(table, sort_keys=[(name, "ascending") for name in names]))


def _differ(left: pa.ChunkedArray, right: pa.ChunkedArray, *, exact: bool) -> npt.NDArray[np.bool_]:
    nulls, other_nulls = (np.asarray(pc.is_null(column)) for column in (left, right))
    if exact:
        same = np.asarray(pc.fill_null(pc.equal(left, right), False))
    else:
        values, others = (np.asarray(pc.fill_null(column, 0.0)) for column in (left, right))
        with np.errstate(invalid="ignore"):
            size = np.maximum(np.abs(values), np.abs(others))
            same = (np.abs(values - others) <= TOLERANCE * size) | (values == others)
        same |= np.isnan(values) & np.isnan(others)
        same &= ~nulls & ~other_nulls
    return np.asarray(~same & ~(nulls & other_nulls))


def microseconds(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as whole numbers."""
    return times.cast(pa.timestamp("us", times.type.tz)).cast(pa.int64())


_TOGETHER = 16
"""How many plain queries are one Spark job; each is still a GROUP BY of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The windows that a query is to answer, in microseconds; without bounds, all."""

    since: int | None = None
    """The first begins then or later."""
    until: int | None = None
    """The last ends then or earlier."""

    def of(self, windows: pa.Table) -> pa.Table:
        """Return the windows that lie in it."""
        if self.since is not None:
            windows = windows.filter(pc.greater_equal(microseconds(windows["window_start"]), self.since))
        if self.until is not None:
            windows = windows.filter(pc.less_equal(microseconds(windows["window_end"]), self.until))
        return windows


def compare(
    given: Input,
    queries: Sequence[BenchQuery],
    rows_of: Callable[[str], pa.Table | None],
    console: Console,
    spans: Mapping[str, Span] | None = None,
) -> Comparison:
    """Compare Weft's rows of some queries with plain Spark's batch results for the same windows."""
    if not queries:
        return Comparison()
    compared = list[Comparison]()
    read = given.joined(given.dataset.read(given.spark)).withColumn("value", F.expr(queries[0].value))
    source = read if any(query.condition for query in queries) else read.select("time", "value")
    # Plain Spark reads the files once: only the windows and sums are asked of it again and again.
    kept = source.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        with progress(console) as bar:
            task = bar.add_task("comparing rows with plain Spark's", total=len(queries))
            for begin in range(0, len(queries), _TOGETHER):
                batch = queries[begin : begin + _TOGETHER]
                answers = [
                    filtered(kept, query)
                    .groupBy(spark_window(query.window))
                    .agg(F.sum("value").alias("value"))
                    .select(F.lit(query.name).alias("query"), "window.*", "value")
                    for query in batch
                ]
                plain = reduce(DataFrame.unionByName, answers).toArrow()
                plain = plain.rename_columns(["query", "window_start", "window_end", "value"])
                for query in batch:
                    expected = plain.filter(pc.equal(plain["query"], query.name))
                    expected = (spans or {}).get(query.name, Span()).of(expected).drop(["query"])
                    compared.append(compare_rows(query.name, rows_of(query.name), expected))
                bar.advance(task, len(batch))
    finally:
        kept.unpersist()
    return Comparison.pooled(compared)
