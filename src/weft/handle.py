"""A query as the user of an engine holds it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

import pyarrow as pa

from weft.durability.registry import QueryState, Registered
from weft.errors import EngineError
from weft.finals.results import not_kept
from weft.query.logical import LogicalQuery
from weft.service.status import QueryInfo, query_info
from weft.state.clock import Clock
from weft.stream.pipeline import Pipeline


class Owner(Protocol):
    """The engine of a query."""

    def clock(self, stream: str) -> Clock:
        """Return the watermark and row counts of a stream."""

    def pipeline(self, stream: str) -> Pipeline | None:
        """Return the pipeline of a stream since the last start."""

    def entry(self, query: LogicalQuery) -> Registered | None:
        """Return the registry's entry of a query."""

    def kept(self, query: LogicalQuery) -> pa.Table:
        """Return all results of a query so far."""

    def release(self, query: LogicalQuery) -> pa.Table | None:
        """Remove and return all results of a query; None if they were not kept."""

    def subscribe(self, name: str, call: Callable[[pa.Table], None]) -> None:
        """Have a function called with each batch's new results of a query."""


class Query:
    """A query of an engine."""

    def __init__(self, engine: Owner, logical: LogicalQuery) -> None:
        self._engine = engine
        self.logical = logical
        self._left = False
        self._results: pa.Table | None = None
        """All results of a query that has left; None if they were not kept."""

    @property
    def name(self) -> str:
        """The query's name."""
        return self.logical.name

    def results(self) -> pa.Table:
        """Return all results so far, also after the query was removed."""
        if not self._left:
            return self._engine.kept(self.logical)
        if self._results is None:
            raise not_kept()
        return self._results

    def take_leave(self) -> None:
        """Keep the results so far: the query is removed, and another may get its name."""
        self._results, self._left = self._engine.release(self.logical), True

    def subscribe(self, call: Callable[[pa.Table], None]) -> None:
        """Have a function called with each batch's new results."""
        if self._left:
            raise EngineError(f"query {self.name} was removed: it gives no new results")
        self._engine.subscribe(self.name, call)

    @property
    def entry(self) -> Registered | None:
        """The registry's entry of the query; None once it was removed."""
        return None if self._left else self._engine.entry(self.logical)

    @property
    def state(self) -> QueryState:
        """Whether it is running, paused, failed or over."""
        if self._left:
            return QueryState.DROPPED
        return QueryState.RUNNING if self.entry is None else self.entry.state

    @property
    def error(self) -> str | None:
        """Why it failed, if it did."""
        return None if self.entry is None else self.entry.error

    @property
    def first_window(self) -> tuple[datetime, datetime] | None:
        """The first window that it answers; None if the first row decides that."""
        window = self.info.first_window
        return None if window is None else (_time(window[0]), _time(window[1]))

    @property
    def info(self) -> QueryInfo:
        """The query's status, as plain values."""
        pipeline = self._engine.pipeline(self.logical.stream)
        clock = self._engine.clock(self.logical.stream)
        live = None if pipeline is None or self._left else pipeline.queries.get(self.name)
        return replace(query_info(self.logical, self.entry, live, clock), state=str(self.state))

    @property
    def failures(self) -> int:
        """Number of rows or results of this query that failed (overflow, bad cast, …) and became NULL."""
        return 0 if self.entry is None else self.entry.failures


def _time(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
