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
            self._changed[entry.name] = None

    def change(self, name: str, **values: Any) -> None:
        """Change some of what is known of a query."""
        self.put(replace(self._entries[name], **values))

    def forget(self, name: str) -> None:
        """Remove a query altogether."""
        if self._entries.pop(name, None) is not None:
            self._changed[name] = None

    @property
    def changed(self) -> bool:
        """Whether there is something to commit."""
        return bool(self._changed)

    def changes(self) -> list[dict[str, Any]]:
        """Return what changed since the last commit as plain values: only a name for what is gone."""
        return [self._entries[name].as_record() if name in self else {"name": name} for name in self._changed]

    def committed(self) -> None:
        """Take note that the changes are durable."""
        self._changed = {}

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Make changes that were committed."""
        for one in changes:
            if "text" in one:
                self._entries[one["name"]] = from_record(one)
            else:
                self._entries.pop(one["name"], None)
