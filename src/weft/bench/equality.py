"""Weft's windows and sums against plain Spark's, many queries in one Spark job."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from rich.console import Console

from weft.bench.options import progress
from weft.bench.runs import Input, filtered, spark_window
from weft.bench.same_rows import Comparison, compare_rows, microseconds
from weft.bench.workloads import BenchQuery

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
