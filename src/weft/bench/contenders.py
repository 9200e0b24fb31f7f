"""What Weft is compared with on dashboard queries: DuckDB, and ordinary Spark in batch and as a stream."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event
from time import perf_counter
from types import TracebackType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from weft.bench.dataset import DELAY
from weft.bench.duck import Duck, duck_sql
from weft.bench.runs import Input, drain, spark_window
from weft.expression import columns
from weft.query.logical import LogicalQuery
from weft.spark.columns import Translator
from weft.spark.plain import counted, grouped, slot_column
from weft.storage.names import file_name

TIME = "time"
"""The stream's event time."""
_STARTING = 2
"""Batches that start a run, and are not counted."""
_PATIENCE_S = 10.0
"""How long to wait for Spark to report that a stream has ended."""


class BatchTimes(StreamingQueryListener):
    """Times each batch of the one stream that runs inside it, from listing files to Spark's commit."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._seconds: list[float] = []
        self._ended = Event()

    def __enter__(self) -> "BatchTimes":
        self._spark.streams.addListener(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spark.streams.removeListener(self)

    def settled(self) -> tuple[float, ...]:
        """Return the seconds of each batch that had rows, the first ones aside, once the stream has ended."""
        # Spark reports batches in a thread of its own.
        self._ended.wait(_PATIENCE_S)
        return tuple(self._seconds[_STARTING:] or self._seconds)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Take note of a batch."""
        progress = event.progress
        if progress.numInputRows > 0:
            self._seconds.append(progress.durationMs["triggerExecution"] / 1000)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Take note of the end."""
        self._ended.set()


def run_duck(duck: Duck, queries: Sequence[LogicalQuery], folder: Path) -> float:
    """Run all queries in DuckDB, one after another, each into a Parquet file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = perf_counter()
    for query in queries:
        duck.write(duck_sql(query, time=TIME), duck_file(folder, query))
    return perf_counter() - began


def duck_file(folder: Path, query: LogicalQuery) -> Path:
    """Return where DuckDB's rows of a query are."""
    return folder / f"{file_name(query.name)}.parquet"


def run_batch(given: Input, query: LogicalQuery, folder: Path) -> float:
    """Run one query as an ordinary Spark batch query, into Parquet."""
    shutil.rmtree(folder, ignore_errors=True)
    began = perf_counter()
    rows = ordinary(given.dataset.read(given.spark), query, given.held)
    rows.write.parquet(str(folder))
    return perf_counter() - began


def run_stream(given: Input, query: LogicalQuery, folder: Path) -> tuple[float, tuple[float, ...]]:
    """Run one query as Structured Streaming's guide teaches it: a watermark, a checkpoint, Parquet.

    Return the seconds of the run, and those of each batch.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with BatchTimes(given.spark) as times:
        began = perf_counter()
        rows = ordinary(given.frame().withWatermark(TIME, DELAY), query, given.held)
        writer = rows.writeStream.format("parquet").outputMode("append").option("path", str(folder / "out"))
        drain(writer, folder / "checkpoint")
        seconds = perf_counter() - began
        return seconds, times.settled()


def stream_columns(queries: Sequence[LogicalQuery]) -> list[str]:
    """Return the stream's columns that queries read, the event time among them."""
    names = {TIME}
    for query in queries:
        read = [part for call in query.aggregates for part in (*call.arguments, call.filter)]
        read += [*(key.expression for key in query.keys), query.predicate]
        read += [left for join in query.joins for left, _ in join.on]
        aliases = {join.alias for join in query.joins}
        all_names = {name for part in read if part is not None for name in columns(part)}
        names |= {name for name in all_names if name.partition(".")[0] not in aliases}
    return sorted(names)


def ordinary(rows: DataFrame, query: LogicalQuery, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return a query as its author would write it in Spark: joins, WHERE, one window group-by, HAVING."""
    translate = Translator()
    rows = counted(rows, query, {name: F.broadcast(table) for name, table in tables.items()}, translate)
    window = spark_window(query.window).alias("window")
    groups = grouped(rows, query, [window], translate, checked=False)
    bounds = {"window_start": F.col("window.start"), "window_end": F.col("window.end")}
    groups, after = groups.withColumns(bounds), Translator(slot=slot_column)
    if query.having is not None:
        groups = groups.where(after(query.having))
    outputs = [after(output.expression).alias(output.name) for output in query.outputs]
    return groups.select(*bounds, *outputs)
