"""A stream and all that answers it."""

from dataclasses import dataclass

import pyarrow as pa

from weft.query.logical import LogicalQuery
from weft.runtime.ledger import Ledger
from weft.runtime.loop import Loop
from weft.runtime.pipeline import Pipeline
from weft.runtime.results import not_kept, result_schema
from weft.sinks import MemorySink, ParquetSink
from weft.spark.session import is_alive


@dataclass(frozen=True, slots=True)
class Live:
    """A stream that is being answered, or was last."""

    pipeline: Pipeline
    ledger: Ledger
    loop: Loop
    memory: MemorySink | None
    out: ParquetSink | None
    notices: list[str]

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
