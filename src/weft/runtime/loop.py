"""The loop over a stream's batches: process, commit, deliver."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft.errors import EngineError, WeftError
from weft.query.logical import StreamDef
from weft.runtime.checkpoint import Checkpoint, Commit, StoredQuery, fingerprint
from weft.runtime.pipeline import BatchReport, Pipeline
from weft.runtime.sinks import Sink

_STOP_SECONDS = 30.0
"""How long a stop waits for Spark to finish with a batch that Weft has committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When batches are taken: all there is and then stop, or again and again."""

    follow: bool = False
    interval_ms: int = 0


class _StopRequested(Exception):
    """Raised instead of beginning a batch once a stop was asked for; Spark will offer the batch again."""


class Loop:
    """Run one pipeline over one streaming (or static) DataFrame."""

    def __init__(
        self,
        pipeline: Pipeline,
        frame: DataFrame,
        *,
        sinks: Sequence[Sink],
        checkpoint: Checkpoint | None = None,
        on_batch: Callable[[BatchReport], None] | None = None,
        idle_seconds: float | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self._pipeline, self._frame = pipeline, frame
        self._sinks, self._checkpoint = sinks, checkpoint
        self._on_batch = on_batch or (lambda report: None)
        self._idle_seconds = idle_seconds
        self._last_batch_at = monotonic()
        self._stopping = threading.Event()
        self._pause = threading.Event()
        self._query: StreamingQuery | None = None
        self._scratch: TemporaryDirectory[str] | None = None
        self._error: BaseException | None = None
        self._commit = self._batch = -1
        if checkpoint is not None:
            self._restore(checkpoint)

    @property
    def spark(self) -> SparkSession:
        """The session of the loop's DataFrame."""
        return self._frame.sparkSession

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._query is not None and self._query.isActive

    def start(self, trigger: Trigger) -> None:
        """Begin taking batches."""
        if not self._frame.isStreaming:
            self._handle(self._frame, 0)
            return
        folder = self._spark_folder()
        writer = self._frame.writeStream.foreachBatch(self._handle).option("checkpointLocation", str(folder))
        if trigger.follow:
            self._query = writer.trigger(processingTime=f"{trigger.interval_ms} milliseconds").start()
        else:
            self._query = writer.trigger(availableNow=True).start()
        if self._idle_seconds is not None:
            threading.Thread(target=self._watch_idle, daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream has ended (True) or the time is up; raise what went wrong."""
        if self._query is None:
            return True
        try:
            ended = (
                self._query.awaitTermination()
                if seconds is None
                else self._query.awaitTermination(max(seconds, 0.001))  # type: ignore[arg-type]
            )
        except StreamingQueryException as error:
            self._raise(error)
            return True
        return ended is not False

    def process_available(self) -> None:
        """Wait until all rows at hand have been processed."""
        if self._query is None:
            return
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as error:
            self._raise(error)

    def stop(self, *, flush: bool = False) -> None:
        """Stop between batches: the one under way is finished, committed and delivered.

        `flush` closes every window: the input has ended.
        """
        self._stopping.set()
        query = self._query
        if query is not None and query.isActive:
            with self.lock:
                batch = self._batch
            self._await_spark_commit(query, batch)
            query.stop()
        # After an error the last batch will come again: nothing may be closed before it.
        if flush and self._error is None:
            self._commit_and_deliver(self._pipeline.finish(self.spark))
        self._flush()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _await_spark_commit(self, query: StreamingQuery, batch: int) -> None:
        deadline = monotonic() + _STOP_SECONDS
        while query.isActive and monotonic() < deadline:
            progress = query.lastProgress
            if not query.status["isTriggerActive"] or (progress is not None and progress["batchId"] >= batch):
                return
            self._pause.wait(0.02)

    def _spark_folder(self) -> Path:
        if self._checkpoint is not None:
            return self._checkpoint.spark_folder
        self._scratch = TemporaryDirectory(prefix="weft-", ignore_cleanup_errors=True)
        return Path(self._scratch.name)

    def _handle(self, batch: DataFrame, number: int) -> None:
        with self.lock:
            if self._stopping.is_set():
                raise _StopRequested
            if number <= self._batch:
                return  # A replay: the commit is there, and so are its results.
            try:
                self._commit_and_deliver(self._pipeline.process(batch), batch=number)
            except BaseException as error:
                self._error = error
                raise
            self._last_batch_at = monotonic()

    def _commit_and_deliver(self, report: BatchReport, *, batch: int | None = None) -> None:
        commit = self._as_commit(report, self._batch if batch is None else batch)
        if self._checkpoint is not None:
            self._checkpoint.write(commit, report.blocks, report.results)
        self._commit, self._batch = commit.number, commit.batch
        for sink in self._sinks:
            sink.deliver(self._commit, report.results)
        self._note_delivered()
        self._on_batch(report)

    def _as_commit(self, report: BatchReport, batch: int) -> Commit:
        live = self._pipeline.queries.values()
        slices = [int(block.starts.max()) for block in report.blocks.values() if len(block)]
        return Commit(
            number=self._commit + 1,
            batch=batch,
            stream=_described(self._pipeline.stream),
            clock=self._pipeline.clock,
            queries=tuple(
                StoredQuery(name=one.query.name, text=one.query.text, first_start=one.first_start)
                for one in live
            ),
            newest_slice=max(slices, default=None),
        )

    def _note_delivered(self) -> None:
        if self._checkpoint is None:
            return
        done = min((sink.done for sink in self._sinks), default=self._commit)
        if done > self._checkpoint.delivered:
            self._checkpoint.set_delivered(done)
            self._checkpoint.prune(self._pipeline.oldest_needed())

    def _flush(self) -> None:
        for sink in self._sinks:
            sink.flush()
        self._note_delivered()

    def _restore(self, checkpoint: Checkpoint) -> None:
        commits = checkpoint.commits()
        if not commits:
            return
        last = commits[-1]
        if last.stream != _described(self._pipeline.stream):
            raise EngineError(
                f"stream {self._pipeline.stream.name} is not that of checkpoint {checkpoint.folder}; "
                f"declare it as before, or start a new checkpoint\n  there: {last.stream}\n"
                f"  here:  {_described(self._pipeline.stream)}"
            )
        self._commit, self._batch = last.number, last.batch
        for stored in last.queries:
            live = self._pipeline.queries.get(stored.name)
            if live is not None and live.query.text != stored.text:
                raise EngineError(
                    f"query {stored.name} is not the one that checkpoint {checkpoint.folder} holds; "
                    "give it another name, or start a new checkpoint\n"
                    f"  there: {stored.text}\n  here:  {live.query.text}"
                )
        self._pipeline.restore(last.clock, {stored.name: stored.first_start for stored in last.queries})
        relations = self._pipeline.plan.relations
        groupings = {fingerprint(one.grouping): one.grouping for one in relations}
        predicates = [predicate for one in relations for predicate in one.predicates]
        for grouping, stored_block, signatures in checkpoint.blocks(groupings, predicates):
            primitives = {p for one in relations if one.grouping == grouping for p in one.primitives}
            self._pipeline.states[grouping].add(stored_block.block(primitives, signatures))
        for commit in commits:
            if commit.number > checkpoint.delivered:
                for sink in self._sinks:
                    sink.deliver(commit.number, checkpoint.results(commit.number))

    def _watch_idle(self) -> None:
        assert self._idle_seconds is not None
        while self.active and not self._stopping.wait(self._idle_seconds / 4):
            with self.lock:
                silent = monotonic() - self._last_batch_at >= self._idle_seconds
                if silent and self._pipeline.clock.idle() != self._pipeline.clock:
                    self._commit_and_deliver(self._pipeline.idle(self.spark))
                    self._last_batch_at = monotonic()

    def _raise(self, error: StreamingQueryException) -> None:
        cause = self._error
        if isinstance(cause, WeftError):
            raise cause
        if self._stopping.is_set() and cause is None:
            return
        raise EngineError(f"the stream stopped: {_first_line(cause or error)}") from (cause or error)


def _described(stream: StreamDef) -> str:
    """Return what stored partials depend on: the columns, and which of them is the time."""
    columns = ", ".join(f"{column.name} {column.type}" for column in stream.columns)
    return f"({columns}) EVENT TIME {stream.time}" + (
        f" UNIT '{stream.time_unit}'" if stream.time_unit else ""
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
