"""The queries of a stream and their states: kept by name, and committed as changes."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from weft.durability.stored_names import Unknown, only
from weft.state.clock import ALWAYS


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
    answered_through: int = ALWAYS
    """When it joined, no window that ends by then, in microseconds, was due. While it runs, it is answered
    through the watermark of each commit, too."""
    until: int | None = None
    """When its last window ends at the latest, in microseconds."""
    derivation: Mapping[str, Any] | None = None
    """How its predicate follows from others in rows that were aggregated before it joined."""
    error: str | None = None
    failures: int = 0
    """Number of rows or results that failed and became NULL."""
    commit: int = 0
    """The commit with which it joined, or joined again."""
    instead_of: str | None = None
    """The text that the workload has for it, if it was replaced while the engine ran."""
    reads: Mapping[str, str] | None = None
    """The columns that it reads, with their types; None if it joined before these were stored."""
    partials: str = ""
    """A digest of the names of what it is answered from; empty if it joined before these were stored."""

    def as_record(self) -> dict[str, Any]:
        """Return it as plain values."""
        record = {
            "name": self.name,
            "text": self.text,
            "state": self.state.value,
            "live": self.live,
            "answered_through": self.answered_through,
            "until": self.until,
            "derivation": self.derivation,
            "error": self.error,
            "failures": self.failures,
            "commit": self.commit,
            "reads": self.reads,
            "partials": self.partials,
        }
        return record if self.instead_of is None else {**record, "instead_of": self.instead_of}


_FIELDS = frozenset(Registered(name="", text="", instead_of="").as_record())
_DERIVATION = frozenset({"predicate", "sources", "patterns"})


def from_record(record: Mapping[str, Any]) -> Registered:
    """Return a query from plain values; raise Unknown if it has some that this version does not know."""
    only(record, _FIELDS, "a query")
    if record["state"] not in {state.value for state in QueryState}:
        raise Unknown(f'state "{record["state"]}" of a query')
    derivation = record["derivation"]
    if derivation is not None:
        only(derivation, _DERIVATION, "a derivation")
    return Registered(
        name=record["name"],
        text=record["text"],
        state=QueryState(record["state"]),
        live=record["live"],
        answered_through=record["answered_through"],
        until=record["until"],
        derivation=derivation,
        error=record["error"],
        failures=record["failures"],
        commit=record["commit"],
        reads=record.get("reads"),
        partials=record.get("partials", ""),
        instead_of=record.get("instead_of"),
    )


class Registry:
    """The queries of one stream, and what changed since the last commit."""

    def __init__(self, entries: Iterable[Registered] = ()) -> None:
        self._entries = {entry.name: entry for entry in entries}
        self._answered: dict[str, int] = {}
        """Through when queries were answered whose names are free now, while that matters."""
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
            self._answered.pop(entry.name, None)
            self._changed[entry.name] = None

    def change(self, name: str, **values: Any) -> None:
        """Change fields of a query."""
        self.put(replace(self._entries[name], **values))

    def forget(self, name: str, *, answered_through: int = ALWAYS) -> None:
        """Remove a query; who takes its name repeats no window that ends by that time."""
        before = self._entries.pop(name, None), self._answered.pop(name, ALWAYS)
        if answered_through != ALWAYS:
            self._answered[name] = answered_through
        if before != (None, answered_through):
            self._changed[name] = None

    def answered_through(self, name: str) -> int:
        """Return through when a query was answered whose name is free now."""
        return self._answered.get(name, ALWAYS)

    def evict(self, oldest: int) -> None:
        """Forget free names whose windows cannot be repeated: partials before a time are gone."""
        for name in [name for name, through in self._answered.items() if through <= oldest]:
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
        return [self._record(name) for name in (*self._entries, *self._answered)]

    def _record(self, name: str) -> dict[str, Any]:
        """Return a query as plain values; of a removed one, the name and what matters of it."""
        if name in self._entries:
            return self._entries[name].as_record()
        through = self._answered.get(name)
        return {"name": name} if through is None else {"name": name, "answered_through": through}

    def committed(self) -> None:
        """Record that the changes are durable."""
        self._changed = {}

    def apply(self, changes: Iterable[Mapping[str, Any]]) -> None:
        """Apply committed changes."""
        for record in changes:
            if "text" in record:
                self.put(from_record(record))
            else:
                only(record, ("name", "answered_through"), "a name that is free")
                self.forget(record["name"], answered_through=record.get("answered_through", ALWAYS))
        self.committed()
