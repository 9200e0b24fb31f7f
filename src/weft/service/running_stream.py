"""A stream and all that answers it."""

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
"""How many notices are kept."""


@dataclass(frozen=True, slots=True)
class Live:
    """A stream that is being answered, or was last."""

    pipeline: Pipeline
    ledger: Ledger
    loop: Loop
    memory: MemorySink | None
    out: ParquetSink | None
    notices: list[str]

    def note(self, notices: Iterable[str]) -> None:
        """Keep what the user should know, as far as there is room."""
        self.notices.extend(notices)
        del self.notices[:-_NOTICES]

    def note_batch(self, report: BatchReport) -> None:
        """Keep what the user should know of a batch."""
        self.note(f"query {name} failed: {error}" for name, error in report.broken.items())
        self.note(f"query {name} has ended" for name in report.ended)
        self.note(report.notices)

    @property
    def sound(self) -> bool:
        """Whether queries can join and leave: no error has ended it, and Spark is there."""
        return self.loop.sound and is_alive(self.loop.spark)

    def kept(self, query: LogicalQuery) -> pa.Table:
        """Return all results of a query so far."""
        if self.memory is None:
            raise not_kept()
        found = self.memory.results(query.name)
        return result_schema(query).empty_table() if found is None else found

    def release(self, query: LogicalQuery) -> pa.Table | None:
        """Return all results of a query, and keep them no longer; None if they were not kept."""
        if self.memory is None:
            return None
        found = self.kept(query)
        self.memory.forget(query.name)
        return found
