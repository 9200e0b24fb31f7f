"""The queries of an engine by name, and how they join and leave while streams run."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from weft.durability.registry import QueryState
from weft.errors import EngineError, UnknownName, WeftError, suggestion
from weft.handle import Owner, Query
from weft.limits import Limits
from weft.query import parse_select
from weft.query.logical import LogicalQuery
from weft.query.statements import CreateQuery
from weft.service.execution import Execution
from weft.service.status import QueryInfo, cannot_run
from weft.service.trying import Halted, try_out_all
from weft.stream.changes import Changes


class Queries:
    """The queries of an engine."""

    def __init__(
        self,
        engine: Owner,
        *,
        active: Callable[[], Execution | None],
        bind: Callable[[CreateQuery], LogicalQuery],
        limits: Limits,
        on_leave: Callable[[str], None],
    ) -> None:
        """Change the queries of the execution that is `active`, if any.

        `on_leave` is called with the name of each query that has left.
        """
        self._engine, self._active = engine, active
        self._bind, self._limits = bind, limits
        self._on_leave = on_leave
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
            self.queries.setdefault(query.name, Query(self._engine, query))

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

    def is_live(self, stream: str) -> bool:
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
        query = Query(self._engine, logical)
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
        self._on_leave(query.name)

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
