"""A run: the streams that are being answered together, each in a loop of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa

from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.query.logical import LogicalQuery
from weft.runtime.checkpoint import Checkpoint
from weft.runtime.loop import Loop, Trigger
from weft.runtime.pipeline import BatchReport, Pipeline
from weft.runtime.results import result_schema
from weft.runtime.sinks import CallbackSink, MemorySink, ParquetSink, Sink
from weft.spark.declarations import Declarations

OnBatch = Callable[[str, BatchReport], None]
"""Told the stream's name and what a batch did."""
Tell = Callable[[str, pa.Table], None]
"""Told a query's name and its new results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How streams are answered, and where results go."""

    slicing: Slicing
    sharing: Sharing
    out: Path | None
    checkpoint: Path | None
    sinks: tuple[Sink, ...]
    keep: bool
    """Whether all results are held in memory."""
    trigger: Trigger
    idle_seconds: float | None


@dataclass(frozen=True, slots=True)
class Live:
    """A stream that is being answered, or was last."""

    pipeline: Pipeline
    loop: Loop


class Run:
    """Everything between a start and a stop."""

    def __init__(
        self, declared: Declarations, options: RunOptions, *, tell: Tell, on_batch: OnBatch | None
    ) -> None:
        self._declared, self._options = declared, options
        self._on_batch = on_batch
        self.memory = MemorySink() if options.keep else None
        kept: list[Sink] = [] if self.memory is None else [self.memory]
        self._sinks = [*kept, CallbackSink(tell), *options.sinks]
        self.streams: dict[str, Live] = {}
        self.failures: dict[str, int] = {}
        """By query, how many rows or results failed and became NULL."""
        self.retired: set[str] = set()
        """The queries that were removed: their names stay theirs, for their results are kept by name."""
        self.active = True

    def start(self, name: str, queries: Sequence[LogicalQuery]) -> None:
        """Begin to answer a stream."""
        frame = self._declared.rows(name)
        folder = self._options.checkpoint
        stored = None if folder is None else Checkpoint(folder / quote(name, safe=""))
        pipeline = self._pipeline(name, queries)
        loop = Loop(
            pipeline,
            frame,
            sinks=[*self._sinks, *_parquet(self._options.out, queries, stored)],
            checkpoint=stored,
            on_batch=self._observer(name),
            idle_seconds=self._options.idle_seconds,
        )
        self.streams[name] = Live(pipeline, loop)
        loop.start(self._options.trigger)

    def add(self, query: LogicalQuery, others: Iterable[LogicalQuery]) -> None:
        """Let a query join at the next batch boundary, or its stream start with it."""
        live = self.streams.get(query.stream)
        if live is None:
            self.start(query.stream, [*(one for one in others if one.stream == query.stream), query])
            return
        live.pipeline.try_out(query, live.loop.spark)
        with live.loop.lock:
            live.pipeline.add(query)

    def remove(self, query: LogicalQuery) -> None:
        """Let a query leave at the next batch boundary."""
        live = self.streams[query.stream]
        with live.loop.lock:
            live.pipeline.remove(query.name)
        self.retired.add(query.name)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all streams have ended (True), or the time is up; raise what went wrong in any."""
        ended = [live.loop.wait(seconds) for live in self.streams.values()]
        return all(ended)

    def process_available(self) -> None:
        """Wait until all rows at hand have been processed."""
        for live in self.streams.values():
            live.loop.process_available()

    def stop(self, *, flush: bool) -> None:
        """Stop all streams between batches; their state can still be looked at."""
        for live in self.streams.values():
            live.loop.stop(flush=flush)
        self._declared.tables.release()
        self.active = False

    def _pipeline(self, name: str, queries: Iterable[LogicalQuery]) -> Pipeline:
        pipeline = Pipeline(
            self._declared.streams[name].definition,
            tables=self._declared.tables,
            functions=self._declared.functions,
            slicing=self._options.slicing,
            sharing=self._options.sharing,
        )
        for query in queries:
            pipeline.add(query)
        return pipeline

    def _observer(self, stream: str) -> Callable[[BatchReport], None]:
        def observe(report: BatchReport) -> None:
            self._count(report.failures)
            if self._on_batch is not None:
                self._on_batch(stream, report)

        return observe

    def _count(self, failures: Mapping[str, int]) -> None:
        for name, count in failures.items():
            self.failures[name] = self.failures.get(name, 0) + count


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
