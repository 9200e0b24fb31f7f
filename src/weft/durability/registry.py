"""The queries of a stream and their states: kept by name, and committed as changes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any


class QueryState(StrEnum):
    """The state of a query."""

    RUNNING = "running"
    PAUSED = "paused"
    """Gives no results until it is resumed."""
    FAILED = "failed"
    """Was stopped by its own error."""
    ENDED = "ended"
    """Its lifetime is over."""
    DROPPED = "dropped"
    """Was dropped while the engine ran, and stays so though the workload names it."""

    @property
    def is_over(self) -> bool:
        """Whether it is over for good, unless it is added again."""
        return self in (QueryState.ENDED, QueryState.DROPPED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """A query as the registry knows it."""

    name: str
    text: str
    state: QueryState = QueryState.RUNNING
    live: bool = False
    """Whether it was added while the engine ran: then no workload has to name it."""
    first_start: int | None = None
    """When its first window may begin, in microseconds; None for a query from before the first row."""
    until: int | None = None
    """When its last window ends at the latest, in microseconds."""
    derivation: Mapping[str, Any] | None = None
    """How its predicate follows from others in rows that were aggregated before it joined."""
    error: str | None = None
    failures: int = 0
    """Number of rows or results that failed and became NULL."""
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
        self._entries = {entry.name: entry for entry in entries}
        self._left: dict[str, int] = {}
        """The watermark at which each query left: windows that had ended by then may have been answered."""
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
        """Change fields of a query."""
        self.put(replace(self._entries[name], **values))

    def forget(self, name: str, *, left: int | None = None) -> None:
        """Remove a query; if it `left` at a watermark, remember which windows it may have answered."""
        before = self._entries.pop(name, None), self._left.pop(name, None)
        if left is not None:
            self._left[name] = left
        if before != (None, left):
            self._changed[name] = None

    def left(self, name: str) -> int | None:
        """Return the watermark at which an earlier query of this name left, or None if it does not matter."""
        return self._left.get(name)

    def outdate(self, oldest: int) -> None:
        """Forget queries that left, once their windows cannot be answered again.

        All retained partials begin at `oldest` or later.
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
        """Return all queries as plain values."""
        return [self._record(name) for name in (*self._entries, *self._left)]

    def _record(self, name: str) -> dict[str, Any]:
        """Return a query as plain values; of a removed one, only the name and when it left."""
        if name in self._entries:
            return self._entries[name].as_record()
        return {"name": name, "left": self._left[name]} if name in self._left else {"name": name}

    def committed(self) -> None:
        """Record that the changes are durable."""
        self._changed = {}

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Apply committed changes."""
        for record in changes:
            name = record["name"]
            self._left.pop(name, None)
            if "text" in record:
                self._entries[name] = from_record(record)
                continue
            self._entries.pop(name, None)
            if "left" in record:
                self._left[name] = record["left"]
