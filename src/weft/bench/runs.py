"""One timed run over a data set: Weft, an ordinary Spark query, a bare scan.

State is durable on all sides: Weft, ordinary queries and scans have their checkpoints in new folders beside
the data, on the same disk. Making and removing a folder is not timed.
"""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter
from typing import ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.bench.dataset import DELAY, Dataset, TableFiles
from weft.bench.records import Record
from weft.bench.workloads import BenchQuery, SqlQuery
from weft.engine import Engine
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.service.observers import Observers, OnBatch
from weft.state.report import BatchReport
from weft.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How Weft runs queries."""

    durable: bool = True
    """Whether there is a checkpoint on disk."""
    slicing: Slicing = Slicing.PAIRED
    sharing: Sharing = Sharing.AUTO


DURABLE = Settings()
"""As Weft is measured unless another way is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What all runs of a comparison read, and how."""

    spark: SparkSession
    dataset: Dataset
    files_per_trigger: int
    tables: tuple[TableFiles, ...] = ()
    """What queries join, by `symbol` unless they say otherwise."""
    held: Mapping[str, DataFrame] = field(default_factory=dict)
    """The tables, while Spark keeps them in memory."""

    @property
    def batches(self) -> int:
        """How many micro-batches the stream has."""
        return -(-self.dataset.files // self.files_per_trigger)

    @property
    def cores(self) -> int:
        """How many tasks Spark runs at once."""
        return self.spark.sparkContext.defaultParallelism

    def frame(self) -> DataFrame:
        """Return the stream as ordinary Spark reads it."""
        return self.dataset.read_stream(self.spark, self.files_per_trigger)

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """Make a folder beside the data, and remove it afterwards.

        Where folders for temporary files are memory, a checkpoint would cost nothing there.
        """
        self.dataset.folder.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(prefix=".run-", dir=self.dataset.folder.parent))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def joined(self, rows: DataFrame) -> DataFrame:
        """Return the stream's rows with the tables' columns, as ordinary Spark does it best."""
        for table in self.tables:
            rows = rows.join(F.broadcast(table.read(self.spark)), "symbol")
        return rows

    @contextmanager
    def persisted(self) -> Iterator["Input"]:
        """Have Spark keep the tables in memory, where ordinary queries find them."""
        # Spark knows a kept table by its plan: reading the same files again returns it.
        kept = {table.name: table.read(self.spark).persist() for table in self.tables}
        try:
            for table in kept.values():
                table.count()
            yield replace(self, held=kept)
        finally:
            for table in kept.values():
                table.unpersist()


def is_micro_batch(report: BatchReport) -> bool:
    """Say whether a report is of a micro-batch.

    Windows closed at the end of input, or answered for a query that joined, are reported without one.
    """
    return "spark" in report.seconds


@dataclass(slots=True, kw_only=True)
class WeftRun(Record):
    """What a run of Weft did and where its time went."""

    computed: ClassVar[str] = "stages_s"
    internal: ClassVar[str] = "seconds_of batch_s results"
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
    groups: int = 0
    """Of the last batch."""
    slices: int = 0
    """The most that a batch had."""
    seconds_of: list[Mapping[str, float]] = field(default_factory=list)
    """Seconds by stage of each report."""
    batch_s: tuple[float, ...] = ()
    """Each micro-batch, as Spark times its triggers, if that was recorded."""
    results: dict[str, Callable[[], pa.Table]] = field(default_factory=dict)
    """Functions that return all rows of each query."""

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.register_s + self.stream_s

    @property
    def stages_s(self) -> dict[str, float]:
        """Seconds within batches, by stage."""
        names = dict.fromkeys(stage for seconds in self.seconds_of for stage in seconds)
        return {stage: sum(seconds.get(stage, 0.0) for seconds in self.seconds_of) for stage in names}

    def rows_of(self, query: str) -> pa.Table:
        """Return all rows that a query gave."""
        return self.results[query]()

    def note(self, stream: str, report: BatchReport) -> None:
        """Add what a batch did."""
        self.rows += report.counts.good
        self.windows += report.windows
        self.partial_ops += report.partial_ops
        self.final_ops += report.final_ops
        self.seconds_of.append(dict(report.seconds))
        blocks = report.blocks.values()
        self.slices = max(self.slices, sum(len(np.unique(block.starts)) for block in blocks))
        if is_micro_batch(report):
            self.batches += 1
            self.relations, self.groups = len(blocks), sum(map(len, blocks))


def engine_for(
    given: Input, queries: Sequence[BenchQuery | SqlQuery], settings: Settings = DURABLE
) -> Engine:
    """Return an engine with the stream and the queries declared, as a user would."""
    engine = Engine(given.spark, slicing=settings.slicing, sharing=settings.sharing)
    engine.load(given.dataset.statement(given.files_per_trigger))
    for table in given.tables:
        engine.load(table.statement())
    for query in queries:
        engine.add(query.sql, name=query.name)
    return engine


class AtBoundaries(Observers):
    """Tells `on_batch` at once, between batches: a bench knows after which one it changes queries."""

    def tell(self, stream: str, report: BatchReport) -> None:
        """Call `on_batch` before the next batch may begin."""
        if self.on_batch is not None:
            self.on_batch(stream, report)


def run_engine(
    given: Input,
    engine: Engine,
    on_batch: OnBatch,
    *,
    durable: bool = True,
    out: Path | None = None,
    keep: bool = False,
) -> float:
    """Run an engine over all there is, every window closed; return the seconds that took."""
    with given.folder() if durable else nullcontext() as checkpoint:
        engine.observers = AtBoundaries()
        began = perf_counter()
        engine.run(out=out, checkpoint=checkpoint, flush=True, on_batch=on_batch, keep=keep)
        return perf_counter() - began


def run_weft(
    given: Input,
    queries: Sequence[BenchQuery | SqlQuery],
    *,
    settings: Settings = DURABLE,
    out: Path | None = None,
    keep: bool = True,
) -> WeftRun:
    """Run all queries through Weft; results go to memory if they are to be kept, and to a folder if given."""
    run = WeftRun()
    began = perf_counter()
    engine = engine_for(given, queries, settings)
    run.register_s = perf_counter() - began
    run.stream_s = run_engine(given, engine, run.note, durable=settings.durable, out=out, keep=keep)
    if keep:
        run.results = {query.name: engine.queries[query.name].results for query in queries}
    return run


def run_query(given: Input, query: BenchQuery) -> float:
    """Run one query as Structured Streaming's guide teaches it; its results are thrown away at no cost."""
    return _discard(given, lambda: ordinary(given, query))


def ordinary(given: Input, query: BenchQuery) -> DataFrame:
    """Return a query as ordinary Spark has it: watermark, joins, filter, window, sum."""
    rows = filtered(given.joined(given.frame().withWatermark("time", DELAY)), query)
    return rows.groupBy(spark_window(query.window)).agg(F.sum(F.expr(query.value)).alias("value"))


def filtered(rows: DataFrame, query: BenchQuery) -> DataFrame:
    """Return the rows that satisfy a query's condition."""
    return rows if query.condition is None else rows.where(query.condition)


def run_scan(given: Input, columns: Sequence[str]) -> float:
    """Read the columns that queries need, and do nothing with them."""
    return _discard(given, lambda: given.frame().select(*columns))


def _discard(given: Input, rows: Callable[[], DataFrame]) -> float:
    with given.folder() as checkpoint:
        began = perf_counter()
        drain(rows().writeStream.format("noop").outputMode("append"), checkpoint)
        return perf_counter() - began


def drain(writer: DataStreamWriter, checkpoint: Path) -> None:
    """Run a stream over all there is, with its checkpoint in a folder."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def spark_window(window: Window, time: str = "time") -> Column:
    """Return Spark's window of the same bounds: it aligns windows' starts, where Weft aligns their ends."""
    start = (window.offset_ms - window.range_ms) % window.slide_ms
    lengths = (f"{length} milliseconds" for length in (window.range_ms, window.slide_ms, start))
    return F.window(time, *lengths)
