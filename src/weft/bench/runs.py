"""One timed run over a data set: Weft, an ordinary Spark query, a bare scan."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.bench.dataset import DELAY, Dataset, TableFiles
from weft.bench.workloads import BenchQuery
from weft.engine import Engine
from weft.runtime.pipeline import BatchReport
from weft.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What all runs of a comparison read, and how."""

    spark: SparkSession
    dataset: Dataset
    files_per_trigger: int
    tables: tuple[TableFiles, ...] = ()
    """What queries join, by `symbol`."""

    def frame(self) -> DataFrame:
        """Return the stream as ordinary Spark reads it."""
        return self.dataset.read_stream(self.spark, self.files_per_trigger)

    def joined(self, rows: DataFrame) -> DataFrame:
        """Return the stream's rows with the tables' columns, as ordinary Spark does it best."""
        for table in self.tables:
            rows = rows.join(F.broadcast(table.read(self.spark)), "symbol")
        return rows


@dataclass(slots=True, kw_only=True)
class WeftRun:
    """What a run of Weft did and where its time went."""

    register_s: float = 0.0
    """Parsing and binding the queries."""
    stream_s: float = 0.0
    """From the start of the stream to the last result."""
    rows: int = 0
    batches: int = 0
    windows: int = 0
    partial_ops: int = 0
    final_ops: int = 0
    relations: int = 0
    """Of the plan, in the last batch."""
    slices: int = 0
    """The most that a batch had."""
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds within batches."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.register_s + self.stream_s

    def note(self, stream: str, report: BatchReport) -> None:
        """Add what a batch did."""
        self.rows += report.counts.good
        self.windows += report.windows
        self.partial_ops += report.partial_ops
        self.final_ops += report.final_ops
        slices = sum(len(np.unique(block.starts)) for block in report.blocks.values())
        self.slices = max(self.slices, slices)
        for stage, seconds in report.seconds.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + seconds
        # The windows closed at the end of input come as a report that read nothing.
        if "spark" in report.seconds:
            self.batches += 1
            self.relations = len(report.blocks)


def engine_for(given: Input, queries: Sequence[BenchQuery]) -> Engine:
    """Return an engine with the stream and the queries declared, as a user would."""
    engine = Engine(given.spark)
    engine.load(given.dataset.statement(given.files_per_trigger))
    for table in given.tables:
        engine.load(table.statement())
    for query in queries:
        engine.add(query.sql, name=query.name)
    return engine


def run_weft(given: Input, queries: Sequence[BenchQuery], *, out: Path | None = None) -> WeftRun:
    """Run all queries through Weft; results go to memory, and to Parquet if there is a folder for them."""
    run = WeftRun()
    began = perf_counter()
    engine = engine_for(given, queries)
    registered = perf_counter()
    engine.run(out=out, on_batch=run.note)
    run.register_s, run.stream_s = registered - began, perf_counter() - registered
    return run


def run_query(given: Input, query: BenchQuery) -> float:
    """Run one query as Structured Streaming's guide teaches it; its results are thrown away at no cost."""
    began = perf_counter()
    rows = filtered(given.joined(given.frame().withWatermark("time", DELAY)), query)
    counted = rows.groupBy(spark_window(query.window)).agg(F.sum(F.expr(query.value)).alias("value"))
    drain(counted.writeStream.format("noop").outputMode("append"))
    return perf_counter() - began


def filtered(rows: DataFrame, query: BenchQuery) -> DataFrame:
    """Return the rows that satisfy a query's predicate."""
    return rows if query.predicate is None else rows.where(query.predicate.bare)


def run_scan(given: Input, columns: Sequence[str]) -> float:
    """Read the columns that queries need, and do nothing with them."""
    began = perf_counter()
    drain(given.frame().select(*columns).writeStream.format("noop"))
    return perf_counter() - began


def drain(writer: DataStreamWriter) -> None:
    """Run a stream over all there is."""
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def spark_window(window: Window, time: str = "time") -> Column:
    """Return Spark's window of the same bounds: it aligns windows' starts, where Weft aligns their ends."""
    start = (window.offset_ms - window.range_ms) % window.slide_ms
    lengths = (f"{length} milliseconds" for length in (window.range_ms, window.slide_ms, start))
    return F.window(time, *lengths)
