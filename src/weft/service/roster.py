"""Which queries an engine has: one record, in which others see whole changes only."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar

from weft.query.logical import LogicalQuery
from weft.service.status import QueryInfo


class Bound(Protocol):
    """A query that is bound."""

    logical: LogicalQuery
    """What it means."""


Handle = TypeVar("Handle", bound=Bound)
Entry = TypeVar("Entry")


class Roster(Generic[Handle]):
    """The queries of an engine by name, whatever their state.

    Its mappings are replaced, never changed, so that they can be read at any time.
    """

    def __init__(self, make: Callable[[LogicalQuery], Handle]) -> None:
        """Make the handles of queries that a checkpoint brings back."""
        self._make = make
        self.visible = threading.RLock()
        """Held while queries change, and by whoever must not see half of a change. It is the last lock to be
        taken: who holds it waits for no batch."""
        self.bound: Mapping[str, Handle] = {}
        """Queries that can run."""
        self.unbound: Mapping[str, QueryInfo] = {}
        """Queries of a checkpoint that can no longer be bound."""

    def stream_of(self, name: str) -> str | None:
        """Return the stream of a query; None if there is none of that name."""
        if name in self.unbound:
            return self.unbound[name].stream
        return self.bound[name].logical.stream if name in self.bound else None

    def streams(self) -> dict[str, str]:
        """Return the stream of each query."""
        with self.visible:
            unbound = {name: info.stream for name, info in self.unbound.items()}
            return {name: query.logical.stream for name, query in self.bound.items()} | unbound

    def begin(self) -> None:
        """Begin a run: what a former one could not bind is read anew."""
        with self.visible:
            self.unbound = {}

    def know(self, bound: Iterable[LogicalQuery], unbound: Iterable[QueryInfo]) -> None:
        """Add the queries that a stream starts with; one that is there means what it starts with."""
        with self.visible:
            bound = list(bound)
            for query in bound:
                if query.name in self.bound:
                    self.bound[query.name].logical = query
            new = {query.name: self._make(query) for query in bound if query.name not in self.bound}
            self.bound = {**self.bound, **new}
            self.unbound = {**self.unbound, **{info.name: info for info in unbound}}

    def put(self, name: str, query: Handle) -> Callable[[], None]:
        """Add a query, or let it take the place of the one of its name; return what undoes that."""
        return self._set(name, query, None)

    def drop(self, name: str) -> Callable[[], None]:
        """Remove a query; return what undoes that."""
        return self._set(name, None, None)

    def _set(self, name: str, query: Handle | None, info: QueryInfo | None) -> Callable[[], None]:
        with self.visible:
            former = self.bound.get(name), self.unbound.get(name)
            self.bound = _with(self.bound, name, query)
            self.unbound = _with(self.unbound, name, info)
        return partial(self._restore, name, *former)

    def _restore(self, name: str, query: Handle | None, info: QueryInfo | None) -> None:
        self._set(name, query, info)


def _with(entries: Mapping[str, Entry], name: str, entry: Entry | None) -> Mapping[str, Entry]:
    if entry is not None:
        return {**entries, name: entry}
    return {other: known for other, known in entries.items() if other != name} if name in entries else entries
