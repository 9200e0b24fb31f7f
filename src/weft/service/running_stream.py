"""A stream with its pipeline, ledger, loop and sinks; what Spark may refuse is tried before it joins."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.durability.ledger import Ledger
from weft.errors import UserError, WeftError
from weft.finals.results import not_kept, result_schema
from weft.notices import Notice, NoticeKind
from weft.query.logical import LogicalQuery
from weft.service.options import refusals
from weft.service.status import StreamStatus
from weft.sinks import MemorySink, Outlet
from weft.spark.input.rows import ddl
from weft.spark.job.verdicts import Bounds
from weft.spark.session.local import is_alive
from weft.spark.session.troubles import is_a_querys, refusal
from weft.state.report import BatchReport
from weft.stream.boundary import Halted
from weft.stream.loop import Loop
from weft.stream.pipeline import Pipeline

_NOTICES = 100
"""Maximum number of notices retained."""


@dataclass(frozen=True, slots=True)
class RunningStream:
    """A stream of an execution, and what answers its queries."""

    pipeline: Pipeline
    ledger: Ledger
    loop: Loop
    memory: MemorySink | None
    outlets: tuple[Outlet, ...]
    notices: list[Notice]

    def check_free(self, query: str) -> None:
        """Raise an error if a sink refuses that a query joins."""
        for outlet in self.outlets:
            outlet.check_free(query)

    def expect(self, query: LogicalQuery) -> None:
        """Let sinks prepare for a query that has joined."""
        for outlet in self.outlets:
            outlet.expect(query.name, result_schema(query))

    def expect_no_more(self, query: str) -> None:
        """Let sinks release what they prepared for a query that has left."""
        for outlet in self.outlets:
            outlet.expect_no_more(query)

    def note(self, notices: Iterable[Notice]) -> None:
        """Add notices for the user; the oldest give way to them."""
        self.notices.extend(notices)
        del self.notices[:-_NOTICES]

    def note_batch(self, report: BatchReport) -> None:
        """Add the notices that a batch gives rise to."""
        failed, ended = NoticeKind.QUERY_FAILED, NoticeKind.QUERY_ENDED
        self.note(
            Notice(kind=failed, subject=name, error_kind=failure.kind, detail=failure.text)
            for name, failure in report.broken.items()
        )
        self.note(Notice(kind=ended, subject=name) for name in report.ended)
        self.note(report.notices)

    def status(self, *, unbound: Iterable[str], tables: Iterable[Notice]) -> StreamStatus:
        """Return its status, with queries that could not be bound, and notices of tables."""
        return StreamStatus(
            clock=self.pipeline.clock,
            batches=self.loop.batches,
            queries=Counter(str(entry.state) for entry in list(self.ledger.registry)),
            failed=(*self.ledger.failed, *unbound),
            notices=(*self.notices, *tables, *refusals(self.ledger.deliveries)),
        )

    @property
    def sound(self) -> bool:
        """Whether queries can join and leave: no error has ended the loop, and Spark is alive."""
        return self.loop.sound and is_alive(self.loop.spark)

    def kept(self, query: LogicalQuery) -> pa.Table:
        """Return all results of a query so far."""
        if self.memory is None:
            raise not_kept()
        results = self.memory.results(query.name)
        return result_schema(query).empty_table() if results is None else results

    def release(self, query: LogicalQuery) -> pa.Table | None:
        """Remove and return all results of a query; None if they were not kept."""
        if self.memory is None:
            return None
        results = self.kept(query)
        self.memory.forget(query.name)
        return results


Try = Callable[[Sequence[LogicalQuery]], None]
"""Tries some queries on Spark together; raises the error."""


def try_out(
    pipeline: Pipeline,
    queries: Sequence[LogicalQuery],
    spark: SparkSession,
    *,
    halted: Halted = lambda: False,
) -> dict[str, WeftError]:
    """Return the queries that Spark refuses, by name, each with the reason.

    Those that it may refuse are tried in one job without rows. Only if that fails, those at fault are
    searched by halves. Once `halted`, queries that were not tried on their own are not reported.
    """
    unknown = [query for query in queries if not pipeline.plans.computes(query)]
    if not unknown:
        return {}
    no_rows = spark.createDataFrame([], ddl(pipeline.stream.columns))

    def try_together(queries: Sequence[LogicalQuery]) -> None:
        # Spark takes long over a plan in which hundreds of queries share nothing.
        job = pipeline.plans.job_of(queries, shared=len(queries) > 1)
        job.run(no_rows, Bounds(watermark=None, future=None))

    return _refused(unknown, try_together, halted)


def try_out_all(
    streams: Mapping[str, RunningStream], queries: Iterable[LogicalQuery], *, halted: Halted
) -> dict[str, WeftError]:
    """Return which queries Spark would refuse, by name, before they join those of their streams."""
    refused: dict[str, WeftError] = {}
    by_stream: dict[str, list[LogicalQuery]] = {}
    for query in queries:
        by_stream.setdefault(query.stream, []).append(query)
    for name, joining in by_stream.items():
        if (stream := streams.get(name)) is not None:
            refused |= try_out(stream.pipeline, joining, stream.loop.spark, halted=halted)
    return refused


def _refused(queries: Sequence[LogicalQuery], attempt: Try, halted: Halted) -> dict[str, WeftError]:
    if halted():
        return {}
    try:
        attempt(queries)
    except Exception as error:
        if len(queries) == 1 or not (isinstance(error, UserError) or is_a_querys(error)):
            return {query.name: _refusal(query, error) for query in queries}
    else:
        return {}
    half = len(queries) // 2
    return _refused(queries[:half], attempt, halted) | _refused(queries[half:], attempt, halted)


def _refusal(query: LogicalQuery, error: Exception) -> WeftError:
    if isinstance(error, UserError):
        return error
    reason = refusal(query, error)
    reason.__cause__ = error
    return reason
