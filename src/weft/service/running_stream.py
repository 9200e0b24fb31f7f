"""A stream with its pipeline, ledger, loop and sinks."""

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from weft.durability.ledger import Ledger
from weft.finals.results import not_kept, result_schema
from weft.query.logical import LogicalQuery
from weft.sinks import MemorySink, ParquetSink
from weft.spark.session.local import is_alive
from weft.state.report import BatchReport
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
    out: ParquetSink | None
    notices: list[str]

    def note(self, notices: Iterable[str]) -> None:
        """Add notices for the user; the oldest give way to them."""
        self.notices.extend(notices)
        del self.notices[:-_NOTICES]

    def note_batch(self, report: BatchReport) -> None:
        """Add the notices that a batch gives rise to."""
        self.note(f"query {name} failed: {error}" for name, error in report.broken.items())
        self.note(f"query {name} has ended" for name in report.ended)
        self.note(report.notices)

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
