"""One timed run of dashboard queries: Weft, DuckDB, ordinary Spark in batch and as a stream, a bare scan."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from time import perf_counter

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.readwriter import DataStreamWriter

from weft.bench.batch_times import BatchTimes
from weft.bench.dataset import DELAY, Dataset, TableFiles
from weft.bench.duck import Duck, duck_sql
from weft.bench.runs import spark_window
from weft.engine import Engine
from weft.expression import Slot, columns
from weft.query.logical import AggregateCall, JoinKind, LogicalQuery
from weft.spark.columns import Translator, named
from weft.state.report import BatchReport
from weft.storage.names import file_name

TIME = "time"
"""The stream's event time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all runs of a comparison read, and how."""

    spark: SparkSession
    dataset: Dataset
    files_per_trigger: int
    tables: tuple[TableFiles, ...]
    held: Mapping[str, DataFrame]
    """The static tables, persisted, for ordinary Spark."""
    duck: Duck

    @property
    def batches(self) -> int:
        """How many micro-batches the stream has."""
        return -(-self.dataset.files // self.files_per_trigger)


def hold_tables(spark: SparkSession, tables: Sequence[TableFiles]) -> dict[str, DataFrame]:
    """Read static tables and keep them in memory, as a team with many ordinary queries would."""
    held = {table.name: table.read(spark).persist(StorageLevel.MEMORY_AND_DISK) for table in tables}
    for frame in held.values():
        frame.count()
    return held


@dataclass(slots=True, kw_only=True)
class WeftRun:
    """What a run of Weft took, by stage, and what it gave."""

    seconds: float = 0.0
    """From the text of the queries to the last result in Parquet."""
    batch_s: tuple[float, ...] = ()
    """Each micro-batch, as Spark times its triggers."""
    results: int = 0
    stages: dict[str, float] = field(default_factory=dict)

    def note(self, stream: str, report: BatchReport) -> None:
        """Add what a batch did."""
        self.results += report.windows
        for stage, seconds in report.seconds.items():
            self.stages[stage] = self.stages.get(stage, 0.0) + seconds


def as_written(query: LogicalQuery) -> str:
    """Return a query's own text."""
    return query.text


def run_weft(
    setting: Setting,
    queries: Sequence[LogicalQuery],
    folder: Path,
    *,
    durable: bool = True,
    text: Callable[[LogicalQuery], str] = as_written,
) -> WeftRun:
    """Run all queries through Weft into an empty folder; `text` says what Weft is asked for each."""
    shutil.rmtree(folder, ignore_errors=True)
    texts = [(query.name, text(query)) for query in queries]
    run = WeftRun()
    with BatchTimes(setting.spark) as times:
        began = perf_counter()
        engine = Engine(setting.spark)
        engine.load(setting.dataset.statement(setting.files_per_trigger))
        for table in setting.tables:
            engine.load(table.statement())
        for name, asked in texts:
            engine.add(asked, name=name)
        run.stages["register"] = perf_counter() - began
        checkpoint = folder / "checkpoint" if durable else None
        # Every window is closed at the end, as it is for the others.
        engine.run(out=folder / "out", checkpoint=checkpoint, flush=True, on_batch=run.note, keep=False)
        run.seconds = perf_counter() - began
        run.batch_s = times.settled()
    run.stages["the rest"] = run.seconds - sum(run.stages.values())
    return run


def weft_folder(folder: Path, query: LogicalQuery) -> Path:
    """Return where a run of Weft has left a query's rows."""
    return folder / "out" / file_name(query.name)


def run_duck(setting: Setting, queries: Sequence[LogicalQuery], folder: Path) -> float:
    """Run all queries in DuckDB, one after another, each into a Parquet file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = perf_counter()
    for query in queries:
        setting.duck.write(duck_sql(query, time=TIME), duck_file(folder, query))
    return perf_counter() - began


def duck_file(folder: Path, query: LogicalQuery) -> Path:
    """Return where DuckDB's rows of a query are."""
    return folder / f"{file_name(query.name)}.parquet"


def run_batch(setting: Setting, query: LogicalQuery, folder: Path) -> float:
    """Run one query as an ordinary Spark batch query, into Parquet."""
    shutil.rmtree(folder, ignore_errors=True)
    began = perf_counter()
    rows = ordinary(setting.dataset.read(setting.spark), query, setting.held)
    rows.write.parquet(str(folder))
    return perf_counter() - began


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamRun:
    """What one ordinary streaming query took."""

    seconds: float
    batch_s: tuple[float, ...]


def run_stream(setting: Setting, query: LogicalQuery, folder: Path) -> StreamRun:
    """Run one query as Structured Streaming's guide teaches it: a watermark, a checkpoint, Parquet."""
    shutil.rmtree(folder, ignore_errors=True)
    with BatchTimes(setting.spark) as times:
        began = perf_counter()
        frame = setting.dataset.read_stream(setting.spark, setting.files_per_trigger)
        rows = ordinary(frame.withWatermark(TIME, DELAY), query, setting.held)
        writer = rows.writeStream.format("parquet").outputMode("append").option("path", str(folder / "out"))
        _drain(writer, folder / "checkpoint")
        seconds = perf_counter() - began
        return StreamRun(seconds=seconds, batch_s=times.settled())


def run_scan(setting: Setting, queries: Sequence[LogicalQuery], folder: Path) -> float:
    """Read the columns that queries need as a durable stream, and do nothing with them."""
    shutil.rmtree(folder, ignore_errors=True)
    began = perf_counter()
    frame = setting.dataset.read_stream(setting.spark, setting.files_per_trigger)
    _drain(frame.select(*stream_columns(queries)).writeStream.format("noop"), folder)
    return perf_counter() - began


def _drain(writer: DataStreamWriter, checkpoint: Path) -> None:
    """Run a stream over all there is."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def stream_columns(queries: Sequence[LogicalQuery]) -> list[str]:
    """Return the stream's columns that queries read, the event time among them."""
    names = {TIME}
    for query in queries:
        parts = [key.expression for key in query.keys]
        parts += [
            part for call in query.aggregates for part in (call.argument, call.filter) if part is not None
        ]
        parts += [left for join in query.joins for left, _ in join.on]
        parts += [] if query.predicate is None else [query.predicate]
        aliases = {join.alias for join in query.joins}
        read = {name for part in parts for name in columns(part)}
        names |= {name for name in read if name.partition(".")[0] not in aliases}
    return sorted(names)


def ordinary(rows: DataFrame, query: LogicalQuery, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return a query as its author would write it in Spark: joins, WHERE, one window group-by, HAVING."""
    translate = Translator()
    for join in query.joins:
        table = tables[join.table]
        renamed = table.select(*(named(name).alias(f"{join.alias}.{name}") for name in table.columns))
        pairs = [translate(left) == translate(right) for left, right in join.on]
        how = "inner" if join.kind is JoinKind.INNER else "left"
        rows = rows.join(F.broadcast(renamed), reduce(Column.__and__, pairs), how)
    if query.predicate is not None:
        rows = rows.where(translate(query.predicate))
    keys = [translate(key.expression).alias(f"key{index}") for index, key in enumerate(query.keys)]
    calls = [
        _aggregate(call, translate).alias(f"aggregate{index}") for index, call in enumerate(query.aggregates)
    ]
    groups = rows.groupBy(spark_window(query.window).alias("window"), *keys).agg(*calls)
    after = Translator(slot=_slot)
    if query.having is not None:
        groups = groups.where(after(query.having))
    outputs = [after(output.expression).alias(output.name) for output in query.outputs]
    bounds = [F.col("window.start").alias("window_start"), F.col("window.end").alias("window_end")]
    return groups.select(*bounds, *outputs)


def _aggregate(call: AggregateCall, translate: Translator) -> Column:
    value = F.lit(1) if call.argument is None else translate(call.argument)
    if call.filter is not None:
        value = F.when(translate(call.filter), value)
    return F.call_function(call.function, value)


def _slot(slot: Slot) -> Column:
    bounds = {"window_start": "window.start", "window_end": "window.end"}
    return F.col(bounds.get(str(slot.kind), f"{slot.kind}{slot.index}"))
