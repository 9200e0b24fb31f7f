"""An engine's queries: by name, how they join and leave while streams run, and as a user holds them."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import cast

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
from weft.service.roster import Roster
from weft.service.running_stream import RunningStream, try_out_all
from weft.service.status import QueryInfo, cannot_run, moment, query_info
from weft.state.clock import Clock
from weft.stream.boundary import Change, Halted
from weft.stream.membership import Changes


class Query:
    """A query of an engine."""

    def __init__(self, queries: "Queries", logical: LogicalQuery) -> None:
        self._queries = queries
        self.logical = logical
        self._left = False
        self._results: pa.Table | None = None
        """All results of a query that has left; None if they were not kept."""

    def __repr__(self) -> str:
        return f"<Query {self.name}, {self.state}: {' '.join(self.logical.text.split())}>"

    @property
    def name(self) -> str:
        """The query's name."""
        return self.logical.name

    def results(self) -> pa.Table:
        """Return all results so far, also after the query was removed."""
        with self._visible:
            if not self._left:
                stream, empty = self._stream, result_schema(self.logical).empty_table()
                return empty if stream is None else stream.kept(self.logical)
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
    def _visible(self) -> AbstractContextManager[object]:
        """Held while queries change: who looks with it sees whole changes."""
        return self._queries.roster.visible

    @property
    def _stream(self) -> RunningStream | None:
        return self._queries.stream(self.logical.stream)

    @property
    def entry(self) -> Registered | None:
        """The registry's entry of the query; None once it was removed."""
        with self._visible:
            stream = self._stream
            return None if self._left or stream is None else stream.ledger.registry.get(self.name)

    @property
    def state(self) -> QueryState:
        """Whether it is running, paused, failed or over."""
        with self._visible:
            if self._left:
                return QueryState.DROPPED
            return QueryState.RUNNING if self.entry is None else self.entry.state

    @property
    def error(self) -> str | None:
        """Why it failed, if it did."""
        entry = self.entry
        return None if entry is None else entry.error

    @property
    def first_window(self) -> tuple[datetime, datetime] | None:
        """The first window that it answers; None if the first row decides that."""
        window = self.info.first_window
        return None if window is None else (moment(window[0]), moment(window[1]))

    @property
    def info(self) -> QueryInfo:
        """The query's status, as plain values."""
        with self._visible:
            stream = self._stream
            running = None if stream is None or self._left else stream.pipeline.queries.get(self.name)
            clock = Clock() if stream is None else stream.pipeline.clock
            return replace(query_info(self.logical, self.entry, running, clock), state=str(self.state))

    @property
    def failures(self) -> int:
        """Number of rows or results of this query that failed (overflow, bad cast, …) and became NULL."""
        entry = self.entry
        return 0 if entry is None else entry.failures


class Queries:
    """The queries of an engine.

    What changes them is prepared outside all locks, waits for the boundary between two batches, and is
    carried out there with all else that waits (`stream/boundary.py`).
    """

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
        self.gate = threading.RLock()
        """Held while an engine starts: changes wait until it has."""
        self.roster = Roster(partial(Query, self))

    @property
    def queries(self) -> Mapping[str, Query]:
        """All queries by name, as they are now."""
        with self.roster.visible:
            return self.roster.bound

    @property
    def unbound(self) -> Mapping[str, QueryInfo]:
        """Queries of the checkpoint that can no longer be bound, by name."""
        with self.roster.visible:
            return {} if self._active() is None else self.roster.unbound

    def known(self, name: str) -> Query:
        """Return a query; raise an error that says what is wrong with its name, or with the query."""
        if (info := self.unbound.get(name)) is not None:
            raise cannot_run(info)
        if (query := self.queries.get(name)) is None:
            raise UnknownName(f'unknown query "{name}"{suggestion(name, self.queries)}')
        return query

    def bind(self, name: str, text: str) -> LogicalQuery:
        """Return what a query means, with the streams, tables and functions that are declared."""
        return self._bind(parse_select(text, name=name, limits=self._limits))

    def try_out(self, queries: Iterable[LogicalQuery], *, halted: Halted) -> Mapping[str, WeftError]:
        """Return which queries Spark would refuse, by name, each with the reason."""
        execution = self._active()
        return {} if execution is None else try_out_all(execution.streams, queries, halted=halted)

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Carry out changes, those of each stream by one commit with all that wait; each has its outcome."""
        execution = self._active()
        if execution is None or not execution.begun:
            with self.gate:
                execution = self._active()
                if execution is None:
                    for change in changes:
                        with self.roster.visible:
                            change.attempt()
                        change.finish()
                    return
                if not execution.begun:
                    # The start itself carries out requests that waited.
                    execution.carry_out(changes)
                    return
        execution.carry_out(changes)

    def add(self, written: CreateQuery, *, replace: bool = False) -> Query:
        """Add a query as it is written; `replace` lets it take the place of the one of its name."""
        name = written.name
        self._check_name(name, replace=replace)
        query = self._bind(written)
        if replace and self.is_running_as(query):
            return self.known(name)
        self._check_room(query)
        self._try_out(query)
        self.make_way(query)
        return self._change(name, lambda: self.join(query, replace=replace), stream=query.stream)

    def make_way(self, query: LogicalQuery) -> None:
        """Forget a query of another stream that is over, if it has the name of one that joins."""
        known = self.queries.get(query.name)
        if known is not None and known.state.is_over and known.logical.stream != query.stream:
            self.remove(query.name)

    def remove(self, name: str) -> None:
        """Remove a query; while the stream runs, it ends with the current batch."""
        stream = self.roster.stream_of(name)
        self._change(name, lambda: self.part(name, stream=stream), stream=stream)

    def pause(self, name: str) -> None:
        """Let a query give no results until it is resumed."""
        stream = self.known(name).logical.stream
        self._change(name, lambda: self.rest(name, stream=stream), stream=stream)

    def resume(self, name: str) -> Query:
        """Let a query continue, as if it were added now."""
        query = self._to_resume(name)
        self._try_out(query.logical)
        stream = query.logical.stream
        return self._change(name, lambda: self.wake(name, stream=stream), stream=stream)

    def is_running_as(self, query: LogicalQuery) -> bool:
        """Say whether a query of that name runs that means the same, however its text is formatted."""
        known = self.queries.get(query.name)
        return known is not None and known.state is QueryState.RUNNING and known.logical == query

    # What follows is done inside `carry_out`.

    def join(self, logical: LogicalQuery, *, replace: bool = False) -> Query:
        """Let a query join that Spark has accepted, or take the place of the one of its name."""
        name, execution = logical.name, self._active()
        self._check_joining(logical, replace=replace)
        query = Query(self, logical)
        if execution is not None and logical.stream not in execution.streams:
            # It takes long, and others may look meanwhile.
            execution.start_with(logical)
            self.roster.put(name, query)
            return query
        with self._together(logical.stream) as changes:
            former = self.queries.get(name)
            if execution is not None and self.roster.stream_of(name) is not None:
                execution.replace(logical)
            elif execution is not None:
                execution.add(logical)
            after = None if former is None else former.take_leave
            changes.note(name, undo=self.roster.put(name, query), after=after)
        return query

    def part(self, name: str, *, stream: str | None) -> None:
        """Let a query of a stream leave for good."""
        execution = self._active()
        if execution is not None and (info := self.roster.unbound.get(name)) is not None:
            with self._together(info.stream) as changes:
                execution.leave(name, info.stream, None)
                changes.note(name, undo=self.roster.drop(name))
            return
        query = self._of(name, stream)
        with self._together(query.logical.stream) as changes:
            if execution is not None:
                # If a workload names the query, only its state keeps the next start from bringing it back.
                forgotten = query.entry is None or query.entry.live
                execution.leave(name, query.logical.stream, None if forgotten else QueryState.DROPPED)
            changes.note(name, undo=self.roster.drop(name), after=partial(self._release, query))

    def rest(self, name: str, *, stream: str | None) -> None:
        """Let a query of a stream give no results until it is resumed."""
        query, execution = self._of(name, stream), self._run_of(name)
        if query.state is not QueryState.RUNNING:
            raise EngineError(f"query {name} is {query.state}: there is nothing to pause")
        execution.leave(name, query.logical.stream, QueryState.PAUSED)

    def wake(self, name: str, *, stream: str | None) -> Query:
        """Let a query of a stream continue that Spark has accepted."""
        self._of(name, stream)
        query = self._to_resume(name)
        self._run_of(name).add(query.logical)
        return query

    def _change(self, name: str, carry_out: Callable[[], Query | None], *, stream: str | None) -> Query:
        change = Change(name, carry_out, stream=stream)
        self.carry_out([change])
        return cast(Query, change.outcome())

    def _together(self, stream: str) -> AbstractContextManager[Changes]:
        execution = self._active()
        return Changes.at_once() if execution is None else execution.together(stream)

    def _of(self, name: str, stream: str | None) -> Query:
        """Return a query that was one of a stream when its change was asked for."""
        query = self.known(name)
        if query.logical.stream != stream:
            raise EngineError(f"query {name} has become one of stream {query.logical.stream}; try again")
        return query

    def _to_resume(self, name: str) -> Query:
        query, _ = self.known(name), self._run_of(name)
        if query.state is QueryState.RUNNING:
            raise EngineError(f"query {name} is running; there is nothing to resume")
        self._check_room(query.logical)
        return query

    def _release(self, query: Query) -> None:
        query.take_leave()
        self.observers.forget(query.name)

    def _try_out(self, query: LogicalQuery) -> None:
        for error in self.try_out([query], halted=lambda: False).values():
            raise error

    def _check_joining(self, query: LogicalQuery, *, replace: bool) -> None:
        name = query.name
        self._check_name(name, replace=replace)
        stream = self.roster.stream_of(name)
        if stream is not None and stream != query.stream and self._active() is not None:
            raise EngineError(
                f"query {name} is one of stream {stream}, and no query of stream {query.stream} can take its "
                "place at once; drop it, and add the new one when sinks have all its results"
            )
        self._check_room(query)

    def _check_name(self, name: str, *, replace: bool) -> None:
        execution = self._active()
        known = self.roster.bound.get(name)
        over = execution is not None and known is not None and known.state.is_over
        taken = name in self.unbound or not (known is None or over)
        if (taken and not replace) or (execution is not None and execution.is_starting(name)):
            raise EngineError(f'there is a query "{name}" already; remove it first or choose another name')

    def _check_room(self, query: LogicalQuery) -> None:
        queries = self.queries
        others = len(queries) - (query.name in queries)
        if others >= self._limits.queries:  # Queries that are paused or over do not count.
            others = sum(
                other.state is QueryState.RUNNING for other in queries.values() if other.name != query.name
            )
        self._limits.enforce("queries", others + 1, query=query.name)

    def _run_of(self, name: str) -> Execution:
        execution = self._active()
        if execution is None:
            raise EngineError(f"the engine is not running: query {name} gives no results anyway")
        return execution
