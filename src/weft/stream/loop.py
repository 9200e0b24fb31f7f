"""The loop over a stream's batches: process, commit, deliver; and the queries that make a batch fail."""

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft.durability.ledger import Ledger
from weft.durability.position import listed_files
from weft.durability.side_output import Aside
from weft.errors import EngineError, Fenced, UserError, WeftError
from weft.faultpoints import reach
from weft.notices import Failure
from weft.query.logical import LogicalQuery
from weft.spark.input.paths import FILE_FORMATS
from weft.spark.input.unread import SPARK_ERRORS, readable
from weft.spark.session.local import utc
from weft.spark.session.troubles import culprits, sentence
from weft.state.clock import RowCounts
from weft.state.report import BatchReport
from weft.storage import Folder, LocalFolder
from weft.stream.boundary import Boundary, Change
from weft.stream.membership import Membership
from weft.stream.pipeline import Pipeline

_STOP_SECONDS = 30.0
"""Maximum time that a stop waits for Spark to complete a batch that Weft has committed, and for sinks."""
_MISSING = "files of a batch vanished, or were changed, after they were listed: their rows may be missing"
_log = logging.getLogger("weft.stream")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """When batches are taken: all available data and then stop, or repeatedly."""

    follow: bool = False
    interval_ms: int = 0


class _StopRequested(Exception):
    """Raised instead of starting a batch once a stop was requested; Spark offers the batch again."""


class Loop:
    """Run one pipeline over one streaming (or static) DataFrame."""

    def __init__(
        self,
        pipeline: Pipeline,
        frame: DataFrame,
        ledger: Ledger,
        *,
        spark_folder: Folder | None = None,
        aside: Aside | None = None,
        rewind: bool = False,
        on_batch: Callable[[BatchReport], None] | None = None,
        idle_seconds: float | None = None,
        visible: AbstractContextManager[object] | None = None,
    ) -> None:
        """Change queries while `visible` is held, too: others look at them with it."""
        self._lock = threading.RLock()
        self._pipeline, self._frame, self._ledger = pipeline, frame, ledger
        self._spark_folder, self._aside, self._rewind = spark_folder, aside, rewind
        self._on_batch = on_batch or (lambda report: None)
        self._idle_seconds = idle_seconds
        self._last_batch_at = monotonic()
        self._stopping = threading.Event()
        self._pause = threading.Event()
        self._query: StreamingQuery | None = None
        self._scratch: TemporaryDirectory[str] | None = None
        self._error: BaseException | None = None
        self._failed_batch: int | None = None
        """The batch in which the error occurred."""
        self._raised = False
        """Whether the error was raised to a caller."""
        self.membership = Membership(
            pipeline,
            ledger,
            lock=self._lock,
            session=lambda: self.spark,
            error=lambda: self._error,
            on_doubt=self._doubt,
        )
        """The queries of the stream, as they join and leave between batches."""
        self._boundary = Boundary(
            lock=self._lock, visible=visible or nullcontext(), together=self.membership.together
        )
        self.batches = 0
        """Number of batches processed since the start."""

    @property
    def spark(self) -> SparkSession:
        """The session of the loop's DataFrame."""
        return self._frame.sparkSession

    @property
    def sound(self) -> bool:
        """Whether no error has ended the loop."""
        return self._error is None

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._query is not None and self._query.isActive

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Carry out changes of queries between two batches, by one commit with all others that wait."""
        self._boundary.carry_out(changes)

    def _doubt(self, error: OSError) -> None:
        """Stop after a commit that may be durable though it failed."""
        self._error = error
        self._stopping.set()

    def start(self, trigger: Trigger) -> None:
        """Start taking batches."""
        if self._ledger.registry.changed:
            with self._lock:
                self.membership.commit("the stream cannot start")
        if self._aside is not None:
            self._aside.forget_after(self._ledger.batch, rewind=self._rewind)
        if not self._frame.isStreaming:
            # A static DataFrame is the only batch.
            try:
                self._handle(self._frame, 0)
            except Exception:
                self._raise(None)
                raise
            return
        writer = self._frame.writeStream.foreachBatch(self._handle)
        if self._spark_folder is None:
            self._scratch = TemporaryDirectory(prefix="weft-", ignore_cleanup_errors=True)
            self._spark_folder = LocalFolder(Path(self._scratch.name))
        writer = writer.option("checkpointLocation", self._spark_folder.spark_uri)
        if trigger.follow:
            self._query = writer.trigger(processingTime=f"{trigger.interval_ms} milliseconds").start()
        else:
            self._query = writer.trigger(availableNow=True).start()
        if self._idle_seconds is not None:
            threading.Thread(target=self._watch_idle, name="weft-idle", daemon=True).start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream has ended (True) or the time is up; raise its error."""
        if self._query is None:
            return True
        try:
            ended = (
                self._query.awaitTermination()
                if seconds is None
                else self._query.awaitTermination(max(seconds, 0.001))  # type: ignore[arg-type]
            )
        except StreamingQueryException as error:
            self._raise(None if self._stopping.is_set() else error)
            return True
        if ended is False and self._error is not None:
            # An error outside a batch does not end Spark's query.
            self._query.stop()
        if ended is not False or self._error is not None:
            self._raise(None)
        return ended is not False

    def process_available(self) -> None:
        """Wait until all available rows have been processed."""
        if self._query is None:
            return
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as error:
            self._raise(None if self._stopping.is_set() else error)

    def stop(self, *, flush: bool = False) -> bool:
        """Stop between batches: the one under way is completed, committed and delivered.

        `flush` closes every window: the input has ended. Return whether all sinks have all results. Raise
        the loop's error, unless it was raised before.
        """
        query = self._query
        died = None if query is None or query.isActive or self._stopping.is_set() else query.exception()
        self._stopping.set()
        if query is not None and query.isActive:
            with self._lock:
                batch = self._ledger.batch
            self._await_spark_commit(query, batch)
            query.stop()
        # After an error the last batch is repeated: no window may be closed before it.
        try:
            with self._lock:
                if flush and self._error is None and died is None:
                    # If that fails, windows stay open, and the stop ends with the error.
                    try:
                        self._commit(self._pipeline.finish(self.spark))
                    except Exception as error:
                        self._error = error
                self._report_waiting()
                # Sinks write meanwhile.
                self._ledger.begin_drain()
                if self.batches > 0 and self._error is None:
                    # Schema changes in files that there was no time to read.
                    notices = tuple(self._pipeline.watch.rest(self.spark))
                    if notices:
                        self._on_batch(BatchReport(counts=RowCounts(), results={}, notices=notices))
        finally:
            self.membership.close()
            delivered = self._ledger.drain(_STOP_SECONDS)
            self._release()
        if not self._raised:
            self._raise(died)
        return delivered

    def abandon(self) -> None:
        """Stop and deliver nothing, as if the stream had never started."""
        self._stopping.set()
        if self._query is not None:
            self._query.stop()
        self._release()

    def _release(self) -> None:
        """Close the sinks, and remove Spark's notes if they are not in a checkpoint."""
        self._ledger.close()
        if self._scratch is not None:
            self._scratch.cleanup()

    def _await_spark_commit(self, query: StreamingQuery, batch: int) -> None:
        deadline = monotonic() + _STOP_SECONDS
        while query.isActive and monotonic() < deadline:
            progress = query.lastProgress
            if not query.status["isTriggerActive"] or (progress is not None and progress["batchId"] >= batch):
                return
            self._pause.wait(0.02)

    def _handle(self, batch: DataFrame, number: int) -> None:
        # Before the lock is taken: queries join and leave also while a sink is unavailable.
        try:
            self._ledger.await_room()
        except Fenced as error:
            self._error = error
            raise
        with self._lock:
            if self._stopping.is_set():
                raise _StopRequested
            try:
                if self._ledger.has(number):
                    return  # A replay: the commit is there, and so are its results.
                reach("batch.begin")
                report = self._process(batch, number)
                reach("batch.aggregated")
                aside = self._aside
                kept = aside.keep(report.set_aside, report.counts, number) if aside is not None else ()
                self._commit(report, batch=number)
                if aside is not None:
                    aside.note_commit(kept, self._ledger.number)
                if report.counts.missing:
                    fields = {"stream": self._pipeline.stream.name, "batch": number}
                    _log.warning(_MISSING, extra={**fields, "files": report.counts.missing})
                reach("spark.returning")
            except BaseException as error:
                self._error, self._failed_batch = error, number
                raise
            self._last_batch_at = monotonic()
            self.batches += 1

    def _process(self, batch: DataFrame, number: int) -> BatchReport:
        """Process a batch; queries that are shown to make it fail are removed, and the others continue."""
        before = self._pipeline.clock
        try:
            return self._pipeline.process(batch, self._listed(number))
        except Exception as error:
            # Rows already aggregated must not be aggregated again; a restart starts from the last commit.
            if self._pipeline.clock is not before:
                raise
            broken = find_culprits(self._pipeline, batch, error)
            if not broken:
                raise
            for name in broken:
                self._pipeline.remove(name)
            report = self._process(batch, number)
            return replace(report, broken={**report.broken, **broken})

    def _listed(self, number: int) -> dict[str, int]:
        """Return the files that Spark listed for a batch, with their times; none for other sources.

        A DataFrame of the user may leave files out on purpose.
        """
        source = self._pipeline.stream.source
        if source is None or source.format not in FILE_FORMATS or self._spark_folder is None:
            return {}
        return listed_files(self._spark_folder, number)

    def _commit(self, report: BatchReport, *, batch: int | None = None) -> None:
        began = perf_counter()
        self._ledger.commit(self._pipeline.outcome(report), batch=batch)
        seconds = {**report.seconds, "commit": perf_counter() - began}
        self._report_waiting()
        self._on_batch(replace(report, seconds=seconds))

    def _report_waiting(self) -> None:
        reports, self.membership.unreported = self.membership.unreported, []
        for report in reports:
            self._on_batch(report)

    def _watch_idle(self) -> None:
        assert self._idle_seconds is not None
        while self.active and not self._stopping.wait(self._idle_seconds / 4):
            with self._lock:
                if self._error is not None:
                    return
                silent = monotonic() - self._last_batch_at >= self._idle_seconds
                if silent and self._pipeline.clock.idle() != self._pipeline.clock:
                    try:
                        self._commit(self._pipeline.idle(self.spark))
                    except Exception as error:
                        # The text may hold values of rows; it is raised to callers that wait.
                        problem = "the stream stops: closing idle windows failed"
                        _log.error(problem, extra={"kind": type(error).__name__})
                        self._error = error
                        self._stopping.set()
                        return
                    self._last_batch_at = monotonic()

    def _raise(self, error: StreamingQueryException | None) -> None:
        cause = self._error
        if cause is None and error is None:
            return
        self._raised = True
        if isinstance(cause, WeftError):
            raise cause
        cause = cause or error
        assert cause is not None
        # The batch that failed may be committed all the same.
        unknown = self._failed_batch is None or self._ledger.may_be_ahead()
        fate = "" if unknown else f"nothing of batch {self._failed_batch:,} is consumed"
        reason = sentence(cause, fate=fate, again="start it again")
        raise EngineError(f"the stream stopped: {reason}") from cause


def find_culprits(pipeline: Pipeline, batch: DataFrame, error: Exception) -> dict[str, Failure]:
    """Return the queries that fail on a batch, each with its error; none if it is not the queries' fault.

    Files that cannot be read are no query's fault, and trials leave them out. Processing the batch again sets
    them aside.
    """
    rest, checked = batch, False

    def run(queries: Sequence[LogicalQuery]) -> None:
        nonlocal rest, checked
        with utc(batch.sparkSession):
            job = pipeline.plans.job_of(queries)
            # What is known of groups is known of another plan.
            bounds = replace(pipeline.bounds(), groups={})
            try:
                job.run(rest, bounds)
                return
            except SPARK_ERRORS:
                if checked:
                    raise
                (rest, files), checked = readable(batch, pipeline.stream), True
                if not files:
                    raise
            job.run(rest, bounds)

    if isinstance(error, UserError):
        return {}
    return culprits([running.query for running in pipeline.queries.values()], run, error)
