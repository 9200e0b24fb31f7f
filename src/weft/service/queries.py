"""An engine's queries: by name, how they join and leave while streams run, and as a user holds them."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from weft.durability.registry import QueryState, Registered
from weft.errors import EngineError, UnknownName, WeftError, suggestion
from weft.finals.results import not_kept, result_schema
from weft.limits import Limits
from weft.query import parse_select
from weft.query.logical import LogicalQuery
from weft.query.statements import CreateQuery
from weft.service.execution import Execution
from weft.service.observers import Observers, Subscriber
from weft.service.running_stream import Halted, RunningStream, try_out_all
from weft.service.status import QueryInfo, cannot_run, moment, query_info
from weft.state.clock import Clock
from weft.stream.membership import Changes


class Query:
    """A query of an engine."""

    def __init__(self, queries: "Queries", logical: LogicalQuery) -> None:
        self._queries = queries
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
            stream = self._stream
            return result_schema(self.logical).empty_table() if stream is None else stream.kept(self.logical)
        if self._results is None:
            raise not_kept()
        return self._results

    def take_leave(self) -> None:
        """Keep the results so far: the query is removed, and another may get its name."""
        stream, empty = self._stream, result_schema(self.logical).empty_table()
        self._results, self._left = empty if stream is None else stream.release(self.logical), True

    def subscribe(self, call: Subscriber) -> None:
        """Have a function called with each batch's new results."""
        if self._left:
            raise EngineError(f"query {self.name} was removed: it gives no new results")
        self._queries.observers.subscribe(self.name, call)

    @property
    def _stream(self) -> RunningStream | None:
        return self._queries.stream(self.logical.stream)

    @property
    def entry(self) -> Registered | None:
        """The registry's entry of the query; None once it was removed."""
        stream = self._stream
        return None if self._left or stream is None else stream.ledger.registry.get(self.name)

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
        return None if window is None else (moment(window[0]), moment(window[1]))

    @property
    def info(self) -> QueryInfo:
        """The query's status, as plain values."""
        stream = self._stream
        running = None if stream is None or self._left else stream.pipeline.queries.get(self.name)
        clock = Clock() if stream is None else stream.pipeline.clock
        return replace(query_info(self.logical, self.entry, running, clock), state=str(self.state))

    @property
    def failures(self) -> int:
        """Number of rows or results of this query that failed (overflow, bad cast, …) and became NULL."""
        return 0 if self.entry is None else self.entry.failures


class Queries:
    """The queries of an engine."""

    def __init__(
        self,
        *,
        active: Callable[[], Execution | None],
        stream: Callable[[str], RunningStream | None],
        bind: Callable[[CreateQuery], LogicalQuery],
        limits: Limits,
        observers: Observers,
    ) -> None:
        """Change the queries of the execution that is `active`, if any; `stream` finds one by its name."""
        self._active, self.stream, self.observers = active, stream, observers
        self._bind, self._limits = bind, limits
        self.queries: dict[str, Query] = {}
        """All queries by name."""

    @property
    def unbound(self) -> Mapping[str, QueryInfo]:
        """Queries of the checkpoint that can no longer be bound, by name."""
        execution = self._active()
        return {} if execution is None else execution.unbound

    def know(self, queries: Iterable[LogicalQuery]) -> None:
        """Add queries that the checkpoint has brought back."""
        for query in queries:
            self.queries.setdefault(query.name, Query(self, query))

    def known(self, name: str) -> Query:
        """Return a query; raise an error that says what is wrong with its name, or with the query."""
        if name in self.unbound:
            raise cannot_run(self.unbound[name])
        if name not in self.queries:
            raise UnknownName(f'unknown query "{name}"{suggestion(name, self.queries)}')
        return self.queries[name]

    def bind(self, name: str, text: str) -> LogicalQuery:
        """Return what a query means, with the streams, tables and functions that are declared."""
        return self._bind(parse_select(text, name=name, limits=self._limits))

    def is_running(self, stream: str) -> bool:
        """Say whether a stream is being answered."""
        execution = self._active()
        return execution is not None and stream in execution.streams

    def try_out(self, queries: Iterable[LogicalQuery], *, halted: Halted) -> Mapping[str, WeftError]:
        """Return which queries Spark would refuse, by name, each with the reason."""
        execution = self._active()
        return {} if execution is None else try_out_all(execution.streams, queries, halted=halted)

    def together(self, stream: str) -> AbstractContextManager[Changes]:
        """Make all changes of a stream's queries inside durable by one commit, between batches; or none."""
        execution = self._active()
        return Changes.at_once() if execution is None else execution.together(stream)

    def add(self, written: CreateQuery) -> Query:
        """Add a query as it is written."""
        self._check_name(written.name)
        query = self._bind(written)
        self._check_room(query)
        self._try_out(query)
        return self.join(query)

    def join(self, logical: LogicalQuery) -> Query:
        """Add a query that Spark has accepted."""
        name, execution = logical.name, self._active()
        self._check_name(name)
        self._check_room(logical)
        if name in self.queries:
            self.remove(name)
        query = Query(self, logical)
        with self.together(logical.stream) as changes:
            if execution is not None:
                execution.add(logical)
            self.queries[name] = query
            changes.note(name, undo=partial(self.queries.pop, name, None))
        return query

    def remove(self, name: str) -> None:
        """Remove a query; while the stream runs, it ends with the current batch."""
        execution = self._active()
        if execution is not None and name in execution.unbound:
            execution.leave(name, execution.unbound[name].stream, None)
            return
        query = self.known(name)
        with self.together(query.logical.stream) as changes:
            if execution is not None:
                # If a workload names the query, only its state keeps the next start from bringing it back.
                forgotten = query.entry is None or query.entry.live
                execution.leave(name, query.logical.stream, None if forgotten else QueryState.DROPPED)
            if self.queries.get(name) is query:
                del self.queries[name]
                undo = partial(self.queries.setdefault, name, query)
                changes.note(name, undo=undo, after=partial(self._release, query))

    def pause(self, name: str) -> None:
        """Let a query give no results until it is resumed."""
        query, execution = self.known(name), self._run_of(name)
        if query.state is not QueryState.RUNNING:
            raise EngineError(f"query {name} is {query.state}: there is nothing to pause")
        execution.leave(name, query.logical.stream, QueryState.PAUSED)

    def resume(self, name: str, *, tried: bool = False) -> Query:
        """Let a query continue, as if it were added now; `tried` if Spark has accepted it."""
        query, execution = self.known(name), self._run_of(name)
        if query.state is QueryState.RUNNING:
            raise EngineError(f"query {name} is running; there is nothing to resume")
        self._check_room(query.logical)
        if not tried:
            self._try_out(query.logical)
        execution.add(query.logical)
        return query

    def _release(self, query: Query) -> None:
        query.take_leave()
        self.observers.forget(query.name)

    def _try_out(self, query: LogicalQuery) -> None:
        for error in self.try_out([query], halted=lambda: False).values():
            raise error

    def _check_name(self, name: str) -> None:
        known = self.queries.get(name)
        left = self._active() is not None and known is not None and known.state.is_over
        if name in self.unbound or not (known is None or left):
            raise EngineError(f'there is a query "{name}" already; remove it first or choose another name')

    def _check_room(self, query: LogicalQuery) -> None:
        others = len(self.queries)
        if others >= self._limits.queries:  # Queries that are paused or over do not count.
            others = sum(other.state is QueryState.RUNNING for other in self.queries.values())
        self._limits.enforce("queries", others + 1, query=query.name)

    def _run_of(self, name: str) -> Execution:
        execution = self._active()
        if execution is None:
            raise EngineError(f"the engine is not running: query {name} gives no results anyway")
        return execution
