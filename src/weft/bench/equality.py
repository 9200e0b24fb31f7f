"""Whether Weft's rows are plain Spark's: every window, no row twice, doubles to 1e-9."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from weft.bench.options import progress
from weft.bench.records import Record, concatenated, pooled_by
from weft.bench.runs import Input, filtered, spark_window
from weft.bench.same_rows import read_rows
from weft.bench.workloads import BenchQuery

_TOGETHER = 16
"""How many plain queries are one Spark job; each is still a GROUP BY of its own."""
_TOLERANCE = 1e-9
_COLUMNS = ["window_start", "window_end", "value"]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The windows that a query is to answer, in microseconds; without bounds, all."""

    since: int | None = None
    """The first begins then or later."""
    until: int | None = None
    """The last ends then or earlier."""

    def of(self, windows: pa.Table) -> pa.Table:
        """Return the windows that lie in it."""
        kept = np.ones(windows.num_rows, dtype=bool)
        if self.since is not None:
            kept &= _numbers(windows["window_start"]) >= self.since
        if self.until is not None:
            kept &= _numbers(windows["window_end"]) <= self.until
        return windows.filter(pa.array(kept))


def compare(
    given: Input,
    queries: Sequence[BenchQuery],
    rows_of: Callable[[str], pa.Table],
    console: Console,
    spans: Mapping[str, Span] | None = None,
) -> Comparison:
    """Compare Weft's rows of some queries with plain Spark's batch results for the same windows."""
    if not queries:
        return Comparison()
    rows, differences = 0, list[str]()
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
                plain = plain.rename_columns(["query", *_COLUMNS])
                for query in batch:
                    expected = plain.filter(pc.equal(plain["query"], query.name))
                    expected = (spans or {}).get(query.name, Span()).of(expected)
                    rows += expected.num_rows
                    differences += difference(query.name, rows_of(query.name), expected)
                bar.advance(task, len(batch))
    finally:
        kept.unpersist()
    return Comparison(queries=len(queries), rows=rows, differences=tuple(differences))


def written(folder: Path) -> pa.Table:
    """Return what is in a query's folder of results."""
    rows = read_rows(folder)
    return pa.schema([(name, pa.int64()) for name in _COLUMNS]).empty_table() if rows is None else rows


def difference(name: str, weft: pa.Table, expected: pa.Table) -> list[str]:
    """Return how two tables of windows and values differ: nothing if they do not."""
    if weft.num_rows != expected.num_rows:
        return [f"{name}: {weft.num_rows} rows where plain Spark has {expected.num_rows}"]
    left, right = (table.select(_COLUMNS).sort_by("window_start") for table in (weft, expected))
    for column in _COLUMNS[:2]:
        if not np.array_equal(_numbers(left[column]), _numbers(right[column])):
            return [f"{name}: {column} differs"]
    values, others = (table["value"].to_numpy() for table in (left, right))
    far = ~np.isclose(values, others, rtol=_TOLERANCE, atol=0.0)
    return [f"{name}: {values[far][0]!r} where plain Spark has {others[far][0]!r}"] if far.any() else []


def _numbers(times: pa.ChunkedArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    whole = times.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return np.asarray(whole)
