"""The engine: streams, tables and queries by name, and the loops that answer them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.errors import EngineError, UnknownName, suggestion
from weft.optimizer.explain import explain
from weft.optimizer.rules import Sharing, optimize
from weft.optimizer.slices import Slicing
from weft.query import CreateQuery, CreateStream, CreateTable, bind, parse, parse_duration, parse_select
from weft.query.logical import LogicalQuery, Source, StreamDef, TableDef, TimeUnit
from weft.runtime.checkpoint import Checkpoint
from weft.runtime.clock import Clock
from weft.runtime.loop import Loop, Trigger
from weft.runtime.pipeline import BatchReport, Pipeline
from weft.runtime.results import result_schema
from weft.runtime.sinks import CallbackSink, MemorySink, ParquetSink, Sink
from weft.spark.columns import Udf
from weft.spark.declarations import Declarations
from weft.spark.plain import run_plain
from weft.spark.session import local_session, utc

OnBatch = Callable[[str, BatchReport], None]
"""Told the stream's name and what a batch did."""


@dataclass(frozen=True, slots=True)
class _Live:
    """A stream that is being answered, or was last."""

    pipeline: Pipeline
    loop: Loop


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """How the engine was started."""

    out: Path | None
    checkpoint: Path | None
    sinks: tuple[Sink, ...]
    on_batch: OnBatch | None
    trigger: Trigger
    idle_seconds: float | None


class Query:
    """A query of an engine."""

    def __init__(self, engine: "Engine", logical: LogicalQuery) -> None:
        self._engine = engine
        self.logical = logical

    @property
    def name(self) -> str:
        """The query's name."""
        return self.logical.name

    def results(self) -> pa.Table:
        """Return all results so far, also after the query was removed."""
        return self._engine._results(self.logical)

    def subscribe(self, call: Callable[[pa.Table], None]) -> None:
        """Have a function called with each batch's new results."""
        self._engine.subscribe(self.name, call)

    @property
    def failures(self) -> int:
        """How many rows or results failed in this query (overflow, bad cast, …) and became NULL."""
        return self._engine.failures.get(self.name, 0)


class Engine:
    """Answer many window queries over the same streams.

    Example:
        engine = weft.Engine()
        engine.stream("trades", "trades/", time="time", delay="10 seconds")
        value = engine.add("SELECT sum(vol) AS v FROM trades [RANGE '12 min' SLIDE '5 min']", name="value")
        engine.run()
        value.results()
    """

    def __init__(
        self,
        spark: SparkSession | None = None,
        *,
        slicing: Slicing | str = Slicing.PAIRED,
        sharing: Sharing | str = Sharing.AUTO,
        start_spark: Callable[[], SparkSession] = local_session,
    ) -> None:
        self._spark = spark
        self._start_spark = start_spark
        self._slicing = Slicing(slicing)
        self._sharing = Sharing(sharing)
        self._declared = Declarations(lambda: self.spark)
        self._live: dict[str, _Live] = {}
        self._queries: dict[str, Query] = {}
        self._subscribers: dict[str, list[Callable[[pa.Table], None]]] = {}
        self._memory: MemorySink | None = MemorySink()
        self._retired: set[str] = set()
        self._running: _Running | None = None
        self.failures: dict[str, int] = {}

    @property
    def spark(self) -> SparkSession:
        """The Spark session: the one given, the active one, or one made on this machine when first needed."""
        if self._spark is None:
            self._spark = self._start_spark()
        return self._spark

    @property
    def queries(self) -> Mapping[str, Query]:
        """The engine's queries by name."""
        return self._queries

    def stream(
        self,
        name: str,
        source: DataFrame | str | Path,
        *,
        time: str,
        delay: str = "0 seconds",
        unit: str | None = None,
        skew: str | None = "1 day",
        format: str = "parquet",
    ) -> None:
        """Declare a stream: a DataFrame (streaming, or static for a single batch) or a folder of files."""
        frame, files = _source(source, format)
        declared = StreamDef(
            name=name,
            columns=(),
            time=time,
            time_unit=None if unit is None else TimeUnit(unit),
            delay_ms=parse_duration(delay),
            skew_ms=None if skew is None else parse_duration(skew),
            source=files,
        )
        self._declared.stream(declared, frame=frame)

    def table(
        self,
        name: str,
        source: DataFrame | str | Path,
        *,
        format: str = "parquet",
        refresh: str | None = None,
    ) -> None:
        """Declare a static table: a DataFrame, or a file or folder; `refresh` has it read again so often."""
        frame, files = _source(source, format)
        period = None if refresh is None else parse_duration(refresh)
        self._declared.table(TableDef(name=name, source=files, refresh_ms=period), frame=frame)

    def refresh(self, table: str) -> None:
        """Have a table read again: while running before the next batch, else at the start."""
        self._declared.refresh(table)

    @property
    def table_errors(self) -> Mapping[str, str]:
        """Why tables could not be read again, by name; they keep their old contents until they can."""
        return self._declared.tables.errors

    def function(self, name: str, udf: Udf, *, returns: str = "boolean") -> None:
        """Register a function that queries may call: a PySpark UDF, or anything from columns to a column."""
        self._declared.function(name, udf, returns)

    def load(self, workload: str, *, base: Path | None = None) -> None:
        """Carry out the statements of a workload; relative paths start at `base`, or else here."""
        for statement in parse(workload):
            if isinstance(statement, CreateStream):
                self._declared.stream(statement.definition, base=base)
            elif isinstance(statement, CreateTable):
                self._declared.table(statement.definition, base=base)
            elif isinstance(statement, CreateQuery):
                self._add(statement)
            else:
                self.remove(statement.name)

    def add(self, query: str, *, name: str = "") -> Query:
        """Add a query; while the stream runs, it takes effect at the next batch."""
        return self._add(parse_select(query, name=name))

    def remove(self, name: str) -> None:
        """Remove a query; while the stream runs, it ends with the current batch."""
        live = self._running_stream(self._known(name).logical.stream)
        if live is not None:
            with live.loop.lock:
                live.pipeline.remove(name)
            self._retired.add(name)
        del self._queries[name]

    def explain(self, *, rows_per_second: float | None = None) -> str:
        """Return the shared plan as text, with its cost at the given rate or the one measured so far."""
        parts = []
        for name, stream in self._declared.streams.items():
            queries = self._queries_of(name)
            if queries:
                rate = rows_per_second if rows_per_second is not None else _measured_rate(self.clock(name))
                live = self._live.get(name)
                running = live is not None and live.pipeline.answers(queries)
                plan = (
                    live.pipeline.plan
                    if live and running
                    else optimize(queries, self._slicing, sharing=self._sharing)
                )
                measured = live.pipeline.fragmentations if live and running else ()
                parts.append(explain(stream.definition, plan, rows_per_second=rate, measured=measured))
        return "\n\n".join(parts) or "no queries"

    def run(
        self,
        *,
        out: str | Path | None = None,
        checkpoint: str | Path | None = None,
        flush: bool | None = None,
        sinks: Iterable[Sink] = (),
        on_batch: OnBatch | None = None,
        keep: bool = True,
    ) -> None:
        """Process all data there is and stop.

        Without a checkpoint every window is closed at the end; with one, open windows wait for the next run
        unless `flush` is set.
        """
        self.start(out=out, checkpoint=checkpoint, sinks=sinks, on_batch=on_batch, keep=keep, follow=False)
        ended = False
        try:
            ended = self.wait()
        finally:
            self.stop(flush=ended and (flush or (flush is None and checkpoint is None)))

    def start(
        self,
        *,
        out: str | Path | None = None,
        checkpoint: str | Path | None = None,
        sinks: Iterable[Sink] = (),
        on_batch: OnBatch | None = None,
        keep: bool = True,
        follow: bool = True,
        interval: str = "0 seconds",
        idle: str | None = None,
    ) -> None:
        """Begin to answer, and return at once.

        `keep` holds all results in memory for `Query.results()`; `idle` closes windows when no row has come
        for so long.
        """
        if self._running is not None:
            raise EngineError("the engine is running already; stop it first")
        self._memory = MemorySink() if keep else None
        self._live = {}
        self._retired = set()
        self._running = _Running(
            out=None if out is None else Path(out),
            checkpoint=None if checkpoint is None else Path(checkpoint),
            sinks=tuple(sinks),
            on_batch=on_batch,
            trigger=Trigger(follow=follow, interval_ms=parse_duration(interval)),
            idle_seconds=None if idle is None else parse_duration(idle) / 1000,
        )
        try:
            for name in dict.fromkeys(query.logical.stream for query in self._queries.values()):
                self._start_stream(name, self._running)
        except BaseException:
            self.stop()
            raise

    def _start_stream(self, name: str, running: _Running) -> None:
        frame = self._declared.rows(name)
        queries = self._queries_of(name)
        stored = None if running.checkpoint is None else Checkpoint(running.checkpoint / quote(name, safe=""))
        pipeline = self._pipeline(name, queries)
        loop = Loop(
            pipeline,
            frame,
            sinks=[*self._own_sinks(), *running.sinks, *_parquet(running.out, queries, stored)],
            checkpoint=stored,
            on_batch=self._observer(name, running.on_batch),
            idle_seconds=running.idle_seconds,
        )
        self._live[name] = _Live(pipeline, loop)
        loop.start(running.trigger)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all streams have ended (True), or the time is up; raise what went wrong in any."""
        ended = [loop.wait(seconds) for loop in self._loops()]
        return all(ended)

    def process_available(self) -> None:
        """Wait until all rows at hand have been processed."""
        for loop in self._loops():
            loop.process_available()

    def stop(self, *, flush: bool = False) -> None:
        """Stop between batches; what is committed is delivered. `flush` closes every window first."""
        if self._running is not None:
            for live in self._live.values():
                live.loop.stop(flush=flush)
            self._declared.tables.release()
        self._running = None

    def run_plain(self, name: str) -> pa.Table:
        """Run a query as ordinary Spark, on its own, over all data there is."""
        query = self._known(name).logical
        stream = self._declared.streams[query.stream].definition
        rows = self._declared.all_rows(query.stream)
        with utc(self.spark):
            found = run_plain(rows, stream, query, self._declared.tables, self._declared.functions)
        return found.cast(result_schema(query))

    def results(self, name: str) -> pa.Table:
        """Return all results of a query so far."""
        return self._known(name).results()

    def _results(self, query: LogicalQuery) -> pa.Table:
        if self._memory is None:
            raise EngineError("results are not kept in memory; start the engine with keep=True")
        found = self._memory.results(query.name)
        return result_schema(query).empty_table() if found is None else found

    def subscribe(self, name: str, call: Callable[[pa.Table], None]) -> None:
        """Have a function called with each batch's new results of a query."""
        self._known(name)
        self._subscribers.setdefault(name, []).append(call)

    def clock(self, stream: str) -> Clock:
        """Return the watermark and row counts of a stream."""
        live = self._live.get(stream)
        return Clock() if live is None else live.pipeline.clock

    def state_rows(self) -> int:
        """Return how many partials are held, over all streams."""
        return sum(len(state) for live in self._live.values() for state in live.pipeline.states.values())

    def _queries_of(self, stream: str) -> list[LogicalQuery]:
        return [query.logical for query in self._queries.values() if query.logical.stream == stream]

    def _running_stream(self, name: str) -> _Live | None:
        return self._live.get(name) if self._running is not None else None

    def _pipeline(self, name: str, queries: Sequence[LogicalQuery]) -> Pipeline:
        declared = self._declared
        pipeline = Pipeline(
            declared.streams[name].definition,
            tables=declared.tables,
            functions=declared.functions,
            slicing=self._slicing,
            sharing=self._sharing,
        )
        for query in queries:
            pipeline.add(query)
        return pipeline

    def _add(self, written: CreateQuery) -> Query:
        if written.name in self._queries:
            raise EngineError(
                f'there is a query "{written.name}" already; remove it first or choose another name'
            )
        if written.name in self._retired:
            raise EngineError(f'there was a query "{written.name}" in this run; choose another name')
        logical = bind(written, self._declared.catalog())
        live = self._running_stream(logical.stream)
        if live is not None:
            live.pipeline.try_out(logical, self.spark)
            with live.loop.lock:
                live.pipeline.add(logical)
        query = self._queries[logical.name] = Query(self, logical)
        if live is not None:
            return query
        if self._running is not None:
            self._start_stream(logical.stream, self._running)
        return query

    def _known(self, name: str) -> Query:
        if name not in self._queries:
            raise UnknownName(f'unknown query "{name}"{suggestion(name, self._queries)}')
        return self._queries[name]

    def _loops(self) -> list[Loop]:
        return [live.loop for live in self._live.values()] if self._running is not None else []

    def _own_sinks(self) -> list[Sink]:
        kept: list[Sink] = [] if self._memory is None else [self._memory]
        return [*kept, CallbackSink(self._tell)]

    def _tell(self, name: str, rows: pa.Table) -> None:
        for call in self._subscribers.get(name, ()):
            call(rows)

    def _observer(self, stream: str, on_batch: OnBatch | None) -> Callable[[BatchReport], None]:
        def observe(report: BatchReport) -> None:
            for name, count in report.failures.items():
                self.failures[name] = self.failures.get(name, 0) + count
            if on_batch is not None:
                on_batch(stream, report)

        return observe


def _parquet(out: Path | None, queries: Sequence[LogicalQuery], stored: Checkpoint | None) -> list[Sink]:
    if out is None:
        return []
    delivered = -1 if stored is None else stored.delivered
    return [
        ParquetSink(
            out,
            queries={query.name: result_schema(query) for query in queries},
            resume_after=delivered,
            durable=stored is not None,
        )
    ]


def _source(source: DataFrame | str | Path, format: str) -> tuple[DataFrame | None, Source | None]:
    if isinstance(source, DataFrame):
        return source, None
    return None, Source(format=format, options=(("path", str(source)),))


def _measured_rate(clock: Clock) -> float | None:
    """Return the rows per second of event time seen so far."""
    if clock.newest is None or clock.oldest is None:
        return None
    span = (clock.newest - clock.oldest) / 1_000_000
    return clock.counts.good / span if span > 0 else None
