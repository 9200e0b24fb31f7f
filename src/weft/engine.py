"""The engine: streams, tables and queries by name, and the loops that answer them."""

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from weft.durability.past import Approve
from weft.errors import EngineError
from weft.finals.results import result_schema
from weft.limits import DEFAULTS, Limits
from weft.optimizer.explain import explain
from weft.optimizer.plan import SharedPlan
from weft.optimizer.rules import Sharing, optimize
from weft.optimizer.slices import Slicing
from weft.query import Statement, bind, parse, parse_duration, parse_select, sink_def, sink_kind
from weft.query.logical import LogicalQuery, SinkKind, StreamDef, TableDef, TimeUnit
from weft.query.statements import CreateQuery, CreateSink, CreateStream, CreateTable
from weft.service.control import Control
from weft.service.execution import Execution
from weft.service.observers import Observers, OnBatch, Subscriber
from weft.service.options import RunOptions, make_outlets, try_early
from weft.service.queries import Queries, Query
from weft.service.running_stream import RunningStream
from weft.service.status import EngineStatus, QueryInfo
from weft.sinks import DeclaredSink, MakeSink, Outlet, Sink
from weft.sinks.declared import (
    Surroundings,
    check_name,
    check_queries,
    declared_sink,
    given_sink,
    short_form,
)
from weft.spark.columns import Udf
from weft.spark.input.declarations import Declarations
from weft.spark.input.sources import frame_or_files
from weft.spark.plain import run_plain
from weft.spark.session.local import local_session, utc
from weft.state.clock import Clock
from weft.stream.loop import Trigger
from weft.stream.pipeline import Pipeline


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
        limits: Limits = DEFAULTS,
        start_spark: Callable[[], SparkSession] = local_session,
    ) -> None:
        self._spark = spark
        self._start_spark = start_spark
        self._slicing = Slicing(slicing)
        self._sharing = Sharing(sharing)
        self._limits = limits
        self._declared = Declarations(lambda: self.spark)
        self._sinks: dict[str, DeclaredSink] = {}
        self._execution: Execution | None = None
        """From the last start on, even after the stop."""
        self.observers = Observers()
        """Who is told of results and batches."""
        self._queries = Queries(
            active=lambda: self._active,
            stream=self._stream,
            bind=lambda written: bind(written, self._declared.catalog(), limits=self._limits),
            limits=limits,
            observers=self.observers,
        )

    @property
    def spark(self) -> SparkSession:
        """The Spark session: the one given, the active one, or one made on this machine when first needed."""
        if self._spark is None:
            self._spark = self._start_spark()
        return self._spark

    @property
    def failures(self) -> Mapping[str, int]:
        """By query, the number of rows or results that failed since the last start and became NULL."""
        return {} if self._execution is None else self._execution.failures

    @property
    def queries(self) -> Mapping[str, Query]:
        """The engine's queries by name, as they are now."""
        return self._queries.queries

    @property
    def visible(self) -> AbstractContextManager[object]:
        """Held while queries change: who looks with it sees whole changes."""
        return self._queries.roster.visible

    @property
    def unbound(self) -> Mapping[str, QueryInfo]:
        """Queries of the checkpoint that can no longer be bound, by name."""
        return self._queries.unbound

    def stream(
        self,
        name: str,
        source: DataFrame | str | Path,
        *,
        time: str,
        delay: str = "0 seconds",
        unit: str | None = None,
        skew: str | None = "10 minutes",
        format: str = "parquet",
        schema: str | None = None,
        options: Mapping[str, str | int | bool] | None = None,
    ) -> None:
        """Declare a stream: a DataFrame (streaming, or static for a single batch) or a folder of files.

        For files, `schema` has the columns as CREATE STREAM does, as in "time TIMESTAMP, vol BIGINT", and
        `options` are those of Spark's reader, such as header.
        """
        frame, files, columns = frame_or_files(source, format=format, schema=schema, options=options)
        declared = StreamDef(
            name=name, columns=columns, time=time, time_unit=None if unit is None else TimeUnit(unit),
            delay_ms=parse_duration(delay), skew_ms=None if skew is None else parse_duration(skew),
            source=files,
        )  # fmt: skip
        self._declared.stream(declared, frame=frame)

    def table(
        self,
        name: str,
        source: DataFrame | str | Path,
        *,
        format: str = "parquet",
        schema: str | None = None,
        options: Mapping[str, str | int | bool] | None = None,
        refresh: str | None = None,
    ) -> None:
        """Declare a static table: a DataFrame, or a file or folder, read again every `refresh`.

        `schema` and `options` are as for streams.
        """
        frame, files, columns = frame_or_files(source, format=format, schema=schema, options=options)
        period = None if refresh is None else parse_duration(refresh)
        self._declared.table(
            TableDef(name=name, columns=columns, source=files, refresh_ms=period), frame=frame
        )

    def refresh(self, table: str) -> None:
        """Read a table again: before the next batch if the engine runs, else at the start."""
        self._declared.refresh(table)

    @property
    def table_errors(self) -> Mapping[str, str]:
        """By name, why tables could not be read again; they keep their old contents until then."""
        return self._declared.tables.errors

    def function(self, name: str, udf: Udf, *, returns: str = "boolean") -> None:
        """Register a function that queries may call: a PySpark UDF, or anything from columns to a column."""
        self._declared.function(name, udf, returns)

    def sink(
        self,
        name: str,
        using: str | Sink | MakeSink,
        *,
        queries: Iterable[str] = (),
        **options: str | Path,
    ) -> None:
        """Declare a sink before the start: a kind with its options, an object, or a function that makes one.

        It gets the results of `queries`, or of all. Kinds are "parquet" with a `path`, "postgres" with a
        `connection` or the name of an environment variable that holds it, `connection_env`, and "console".
        """
        wanted = (queries,) if isinstance(queries, str) else tuple(queries)
        if isinstance(using, str):
            given = {key: str(value) for key, value in options.items()}
            self._declare_sink(declared_sink(sink_def(name, sink_kind(using), given, wanted)))
        elif options:
            raise EngineError(
                f'sink "{name}": {next(iter(options))}=… goes with a kind of sinks, not with an object'
            )
        else:
            self._declare_sink(given_sink(using, name=name, queries=wanted))

    @property
    def sinks(self) -> Mapping[str, DeclaredSink]:
        """The declared sinks by name."""
        return self._sinks

    def outlets(self) -> tuple[Outlet, ...]:
        """Return an instance of each declared sink, for results that no execution delivers."""
        return make_outlets(self._sinks.values(), Surroundings(run=uuid4().hex, session=lambda: self.spark))

    def try_sinks(
        self, *, queries: Collection[str], checkpoint: str | Path | None = None, follow: bool = False
    ) -> None:
        """Try the declared sinks as far as that needs no Spark; `queries` are those that are to come."""
        try_early(self._sinks.values(), queries=queries, checkpoint=checkpoint, follow=follow)

    def _declare_sink(self, sink: DeclaredSink) -> None:
        if self._active is not None:
            raise EngineError(f'sink "{sink.name}": sinks are opened at the start; stop the engine first')
        check_name(sink.name, self._sinks)
        self._sinks[sink.name] = sink

    def load(self, workload: str | Iterable[Statement], *, base: Path | None = None) -> None:
        """Carry out the statements of a workload; relative paths start at `base`, or else here."""
        statements = parse(workload, limits=self._limits) if isinstance(workload, str) else workload
        for statement in statements:
            if isinstance(statement, CreateStream):
                self._declared.stream(statement.definition, base=base)
            elif isinstance(statement, CreateTable):
                self._declared.table(statement.definition, base=base)
            elif isinstance(statement, CreateSink):
                self._declare_sink(declared_sink(statement.definition, base))
            elif isinstance(statement, CreateQuery):
                self._queries.add(statement, replace=statement.replace)
            else:
                self.remove(statement.name)

    def add(self, query: str, *, name: str = "", replace: bool = False) -> Query:
        """Add a query; while the stream runs, it takes effect at the next batch.

        From whatever thread: all changes that wait between two batches become one commit. With `replace`, or
        as CREATE OR REPLACE QUERY, it takes the place of the query of its name, if there is one of another
        meaning: no window is repeated, and its subscribers stay.
        """
        written = parse_select(query, name=name, limits=self._limits)
        return self._queries.add(written, replace=replace or written.replace)

    def remove(self, name: str) -> None:
        """Remove a query; while the stream runs, it ends with the current batch."""
        self._queries.remove(name)

    def pause(self, name: str) -> None:
        """Pause a query: it costs nothing and gives no results until it is resumed."""
        self._queries.pause(name)

    def resume(self, name: str) -> Query:
        """Let a paused, failed or ended query continue, as if it were added now."""
        return self._queries.resume(name)

    def explain(self, *, rows_per_second: float | None = None) -> str:
        """Return the shared plan as text, with its cost at the given rate or the one measured so far."""
        with self.visible:
            return self._explain(rows_per_second)

    def _explain(self, rows_per_second: float | None) -> str:
        parts = []
        for name, stream in self._declared.streams.items():
            queries = self._queries_of(name)
            if queries:
                rate = rows_per_second if rows_per_second is not None else self.clock(name).rate
                pipeline = self.pipeline(name)
                planned = (
                    set() if pipeline is None else {answer.query.name for answer in pipeline.plan.answers}
                )
                if pipeline is not None and planned == {query.name for query in queries}:
                    plan, measured = pipeline.plan, pipeline.fragmentations
                    statistics = pipeline.plans.planner.statistics
                else:
                    plan, measured = optimize(queries, self._slicing, sharing=self._sharing), ()
                    statistics = None
                text = explain(
                    stream.definition, plan, rows_per_second=rate, measured=measured, statistics=statistics,
                    sharing=self._sharing,
                )  # fmt: skip
                parts.append(text)
        return "\n\n".join(parts) or "no queries"

    def plans(self) -> list[tuple[StreamDef, SharedPlan]]:
        """Return each stream that has queries, and the plan that they start with."""
        return [
            (stream.definition, optimize(queries, self._slicing, sharing=self._sharing))
            for name, stream in self._declared.streams.items()
            if (queries := self._queries_of(name))
        ]

    def run(
        self,
        *,
        out: str | Path | None = None,
        checkpoint: str | Path | None = None,
        flush: bool | None = None,
        sinks: Iterable[Sink | MakeSink] = (),
        on_batch: OnBatch | None = None,
        keep: bool = True,
        quarantine: str | Path | None = None,
        late: str | Path | None = None,
    ) -> None:
        """Process all available data and stop.

        Without a checkpoint every window is closed at the end; with one, windows stay open for the next run
        unless `flush` is set.
        """
        self.start(
            out=out, checkpoint=checkpoint, sinks=sinks, on_batch=on_batch, keep=keep, quarantine=quarantine,
            late=late, follow=False,
        )  # fmt: skip
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
        sinks: Iterable[Sink | MakeSink] = (),
        on_batch: OnBatch | None = None,
        keep: bool = True,
        quarantine: str | Path | None = None,
        late: str | Path | None = None,
        follow: bool = True,
        interval: str = "0 seconds",
        idle: str | None = None,
        rewind: bool | Approve = False,
    ) -> None:
        """Start to answer queries, and return at once.

        `keep` holds all results in memory for `Query.results()`; `idle` is the time without rows after which
        windows are closed. `rewind` removes results from sinks that the checkpoint does not know, for example
        after it was restored from a copy; a function is shown first what would be removed, and may refuse.
        """
        if self._active is not None:
            raise EngineError("the engine is running already; stop it first")
        declared = self._all_sinks(out, sinks)
        if checkpoint is None:
            # Before anything is changed in a sink; a checkpoint may bring queries back.
            check_queries(declared, self.queries)
        options = RunOptions(
            slicing=self._slicing, sharing=self._sharing, limits=self._limits,
            checkpoint=checkpoint, sinks=declared, keep=keep, quarantine=quarantine, late=late,
            trigger=Trigger(follow=follow, interval_ms=parse_duration(interval)),
            idle_seconds=None if idle is None else parse_duration(idle) / 1000,
            rewind=(lambda rewinds: True) if rewind is True else rewind or None,
        )  # fmt: skip
        # Changes from other threads wait until all streams have started.
        with self._queries.gate:
            self._start(options, on_batch)

    def _start(self, options: RunOptions, on_batch: OnBatch | None) -> None:
        if self._active is not None:
            raise EngineError("the engine is running already; stop it first")
        execution = self._execution = Execution(
            self._declared, options, bind=self._queries.bind, roster=self._queries.roster,
            observers=self.observers, on_batch=on_batch, control=Control(self._queries, stop=self.stop_later),
        )  # fmt: skip
        try:
            named = [query.logical.stream for query in self.queries.values()]
            for name in dict.fromkeys((*named, *execution.stored_streams())):
                execution.start(name, self._queries_of(name))
            execution.check_sinks()
            execution.begin()
        except BaseException:
            self.stop()
            raise

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all streams have ended (True), or the time is up; raise an error of any."""
        active = self._active
        return active is None or active.wait(seconds)

    def process_available(self) -> None:
        """Wait until all available rows have been processed."""
        if (active := self._active) is not None:
            active.process_available()

    def stop(self, *, flush: bool = False) -> None:
        """Stop between batches; what is committed is delivered. `flush` closes every window first."""
        if (active := self._active) is not None:
            active.stop(flush=flush)

    def run_plain(self, name: str) -> pa.Table:
        """Run a query as ordinary Spark, on its own, over all available data."""
        query = self._queries.known(name).logical
        stream = self._declared.streams[query.stream].definition
        rows = self._declared.all_rows(query.stream)
        with utc(self.spark):
            results = run_plain(rows, stream, query, self._declared.tables, self._declared.functions)
        return results.cast(result_schema(query))

    def results(self, name: str) -> pa.Table:
        """Return all results of a query so far."""
        return self._queries.known(name).results()

    def subscribe(self, name: str, call: Subscriber) -> None:
        """Have a function called with each batch's new results of a query, in a thread of its own.

        It cannot hold or stop the stream. What it raises is logged, and it is called again. If over 1,000
        calls or 64 MB of results wait for it, the oldest are left out; sinks get all results.
        """
        self._queries.known(name)
        self.observers.subscribe(name, call)

    def clock(self, stream: str) -> Clock:
        """Return the watermark and row counts of a stream."""
        pipeline = self.pipeline(stream)
        return Clock() if pipeline is None else pipeline.clock

    def status(self) -> EngineStatus:
        """Return the status of streams, queries and sinks; this never waits for a batch."""
        return EngineStatus() if self._execution is None else self._execution.status()

    def stop_later(self) -> None:
        """Have `wait` return as if all streams had ended; its caller then stops the engine."""
        if (active := self._active) is not None:
            active.stop_asked.set()

    def state_rows(self) -> int:
        """Return the number of partials kept, over all streams."""
        streams = {} if self._execution is None else self._execution.streams
        stores = [store for stream in streams.values() for store in list(stream.pipeline.stores.values())]
        return sum(map(len, stores))

    def _all_sinks(
        self, out: str | Path | None, sinks: Iterable[Sink | MakeSink]
    ) -> tuple[DeclaredSink, ...]:
        """Return the sinks of a start: a folder `out` stands for a sink like any other."""
        declared = tuple(self._sinks.values())
        if out is not None:
            definition = short_form(SinkKind.PARQUET, str(out))
            check_name(definition.name, self._sinks)
            declared = (declared_sink(definition), *declared)
        return *declared, *(given_sink(sink) for sink in sinks)

    def _queries_of(self, stream: str) -> list[LogicalQuery]:
        return [query.logical for query in self.queries.values() if query.logical.stream == stream]

    @property
    def _active(self) -> Execution | None:
        execution = self._execution
        return execution if execution is not None and execution.active else None

    def _stream(self, name: str) -> RunningStream | None:
        return None if self._execution is None else self._execution.streams.get(name)

    def pipeline(self, stream: str) -> Pipeline | None:
        """Return the pipeline of a stream since the last start."""
        running = self._stream(stream)
        return None if running is None else running.pipeline
