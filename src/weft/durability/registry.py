"""Which queries there are and how each fares: kept by name, and committed as changes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class QueryState(StrEnum):
    """How a query fares."""

    RUNNING = "running"
    PAUSED = "paused"
    """Gives no results until it is resumed."""
    FAILED = "failed"
    """Was taken out of the run by its own error."""
    ENDED = "ended"
    """Its lifetime is over."""
    DROPPED = "dropped"
    """Was dropped while running, and stays so though the workload names it."""

    @property
    def is_over(self) -> bool:
        """Whether it has left for good, unless it is asked for again."""
        return self in (QueryState.ENDED, QueryState.DROPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A query as the registry knows it."""

    name: str
    text: str
    state: QueryState = QueryState.RUNNING
    live: bool = False
    """Whether it was added while the stream ran: then no workload has to name it."""
    first_start: int | None = None
    """Where its windows may begin, in microseconds; None for a query that was there before the first row."""
    until: int | None = None
    """Its windows end by then, in microseconds."""
    derivation: Mapping[str, Any] | None = None
    """How its predicate follows from others in rows that were aggregated before it came."""
    error: str | None = None
    failures: int = 0
    """How many rows or results failed and became NULL."""
    commit: int = 0
    """The commit with which it joined, or joined again."""

    def as_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def from_record(record: Mapping[str, Any]) -> Registered:
    """Return a query from plain values."""
    return Registered(**{**record, "state": QueryState(record["state"])})


class Registry:
    """The queries of one stream, and what changed since the last commit."""

    def __init__(self, entries: Iterable[Registered] = ()) -> None:
        self._entries = {one.name: one for one in entries}
        self._left: dict[str, int] = {}
        """Watermarks at which queries left: windows that had ended by then may have been given."""
        self._changed: dict[str, None] = {}

    def __iter__(self) -> Iterator[Registered]:
        return iter(self._entries.values())

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def get(self, name: str) -> Registered | None:
        """Return a query, or None."""
        return self._entries.get(name)

    def put(self, entry: Registered) -> None:
        """Add a query, or change one."""
        if self._entries.get(entry.name) != entry:
            self._entries[entry.name] = entry
            self._left.pop(entry.name, None)
            self._changed[entry.name] = None

    def change(self, name: str, **values: Any) -> None:
        """Change some of what is known of a query."""
        self.put(replace(self._entries[name], **values))

    def forget(self, name: str, *, left: int | None = None) -> None:
        """Remove a query; of one that `left` at a watermark, it is remembered what it may have given."""
        before = self._entries.pop(name, None), self._left.pop(name, None)
        if left is not None:
            self._left[name] = left
        if before != (None, left):
            self._changed[name] = None

    def left(self, name: str) -> int | None:
        """Return the watermark at which an earlier query of this name left, or None if it does not matter."""
        return self._left.get(name)

    def outdate(self, oldest: int) -> None:
        """Forget queries that left, where nobody can be given their windows again.

        All that is at hand began at `oldest` or later.
        """
        for name in [name for name, left in self._left.items() if left <= oldest]:
            self.forget(name)

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._changed)

    def changes(self) -> list[dict[str, Any]]:
        """Return what changed since the last commit as plain values."""
        return [self._record(name) for name in self._changed]

    def records(self) -> list[dict[str, Any]]:
        """Return all that there is as plain values."""
        return [self._record(name) for name in (*self._entries, *self._left)]

    def _record(self, name: str) -> dict[str, Any]:
        """Return a query as plain values: only a name, and when it left, for what is gone."""
        if name in self._entries:
            return self._entries[name].as_record()
        return {"name": name, "left": self._left[name]} if name in self._left else {"name": name}

    def committed(self) -> None:
        """Take note that the changes are durable."""
        self._changed = {}

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Make changes that were committed."""
        for one in changes:
            name = one["name"]
            self._left.pop(name, None)
            if "text" in one:
                self._entries[name] = from_record(one)
                continue
            self._entries.pop(name, None)
            if "left" in one:
                self._left[name] = one["left"]
