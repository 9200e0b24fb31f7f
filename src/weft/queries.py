"""The queries of an engine by name, and how they come and go while streams run."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from weft.durability.registry import QueryState
from weft.errors import EngineError, UnknownName, WeftError, suggestion
from weft.handle import Owner, Query
from weft.limits import Limits
from weft.query import check, parse_select
from weft.query.logical import LogicalQuery
from weft.query.statements import CreateQuery
from weft.service.execution import Run
from weft.service.info import QueryInfo, cannot_run
from weft.service.trying import Halted, try_out_all
from weft.stream.changes import Changes


class Queries:
    """What an engine is asked to answer."""

    def __init__(
        self,
        engine: Owner,
        *,
        running: Callable[[], Run | None],
        bind: Callable[[CreateQuery], LogicalQuery],
        limits: Limits,
        forget: Callable[[str], None],
    ) -> None:
        """Change the queries of the run that is `running`; `forget` is told of names that are free again."""
        self._engine, self._running = engine, running
        self._bind, self._limits, self._forget = bind, limits, forget
        self.queries: dict[str, Query] = {}
        """All that are known, by name."""

    @property
    def unbound(self) -> Mapping[str, QueryInfo]:
        """Those that the checkpoint knows and that cannot be bound any more, by name."""
        run = self._running()
        return {} if run is None else run.unbound

    def know(self, queries: Iterable[LogicalQuery]) -> None:
        """Have handles of queries that a run has brought back."""
        for query in queries:
            self.queries.setdefault(query.name, Query(self._engine, query))

    def known(self, name: str) -> Query:
        """Return a query; raise an error that tells what is wrong with its name, or with itself."""
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
        run = self._running()
        return run is not None and stream in run.streams

    def try_out(self, queries: Iterable[LogicalQuery], *, halted: Halted) -> Mapping[str, WeftError]:
        """Return which queries Spark would refuse, by name, each with the reason."""
        run = self._running()
        return {} if run is None else try_out_all(run.streams, queries, halted=halted)

    def together(self, stream: str) -> AbstractContextManager[Changes]:
        """Make all changes of a stream's queries inside durable at once, at a batch boundary; or none."""
        run = self._running()
        return Changes.at_once() if run is None else run.together(stream)

    def add(self, written: CreateQuery) -> Query:
        """Add a query as it is written."""
        self._check_name(written.name)
        query = self._bind(written)
        self._check_room(query)
        self._try_out(query)
        return self.join(query)

    def join(self, logical: LogicalQuery) -> Query:
        """Add a query that Spark has looked at."""
        name, run = logical.name, self._running()
        self._check_name(name)
        self._check_room(logical)
        if name in self.queries:
            self.remove(name)
        query = Query(self._engine, logical)
        with self.together(logical.stream) as changes:
            if run is not None:
                run.add(logical)
            self.queries[name] = query
            changes.note(name, undo=partial(self.queries.pop, name, None))
        return query

    def remove(self, name: str) -> None:
        """Remove a query; while the stream runs, it ends with the current batch."""
        run = self._running()
        if run is not None and run.forget(name):
            return
        query = self.known(name)
        with self.together(query.logical.stream) as changes:
            if run is not None:
                # One that a workload names must be remembered, or the next start would bring it back.
                forgotten = query.entry is None or query.entry.live
                run.leave(query.logical, None if forgotten else QueryState.DROPPED)
            if self.queries.get(name) is query:
                del self.queries[name]
                undo = partial(self.queries.setdefault, name, query)
                changes.note(name, undo=undo, after=partial(self._let_go, query))

    def pause(self, name: str) -> None:
        """Let a query give no results until it is resumed."""
        query, run = self.known(name), self._run_of(name)
        if query.state is not QueryState.RUNNING:
            raise EngineError(f"query {name} is {query.state}: there is nothing to pause")
        run.leave(query.logical, QueryState.PAUSED)

    def resume(self, name: str, *, tried: bool = False) -> Query:
        """Let a query go on, as if it were added now; `tried` if Spark has looked at it."""
        query, run = self.known(name), self._run_of(name)
        if query.state is QueryState.RUNNING:
            raise EngineError(f"query {name} is running; there is nothing to resume")
        self._check_room(query.logical)
        if not tried:
            self._try_out(query.logical)
        run.add(query.logical)
        return query

    def _let_go(self, query: Query) -> None:
        query.take_leave()
        self._forget(query.name)

    def _try_out(self, query: LogicalQuery) -> None:
        for error in self.try_out([query], halted=lambda: False).values():
            raise error

    def _check_name(self, name: str) -> None:
        known = self.queries.get(name)
        left = self._running() is not None and known is not None and known.state.is_over
        if name in self.unbound or not (known is None or left):
            raise EngineError(f'there is a query "{name}" already; remove it first or choose another name')

    def _check_room(self, query: LogicalQuery) -> None:
        others = len(self.queries)
        if others >= self._limits.queries:  # Paused ones and those that are over do not count.
            others = sum(one.state is QueryState.RUNNING for one in self.queries.values())
        check(query, self._limits, others=others)

    def _run_of(self, name: str) -> Run:
        run = self._running()
        if run is None:
            raise EngineError(f"the engine is not running: query {name} gives no results anyway")
        return run
