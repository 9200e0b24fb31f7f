"""The status of queries, streams and the engine as plain values, for people, programs and other terminals."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from weft.durability.checkpoint import Checkpoint
from weft.durability.ledger import as_it_joined
from weft.durability.places import stream_of
from weft.durability.registry import Registered
from weft.errors import EngineError
from weft.notices import Notice
from weft.query.logical import LogicalQuery
from weft.sinks import DeliveryStatus
from weft.spark.session.local import local_session
from weft.state.clock import Clock
from weft.state.running_query import RunningQuery, first_window
from weft.storage import open_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryInfo:
    """A query and its status."""

    name: str
    text: str
    stream: str
    state: str
    first_window: tuple[int, int] | None
    """The first window that it answers, in microseconds; None before the first row, or if it does not run."""
    error: str | None
    failures: int
    """Number of rows or results that failed and became NULL."""
    added_commit: int
    """The commit with which it joined, or joined again."""
    expires: int | None
    """When its last window ends at the latest, in microseconds."""

    def as_record(self) -> dict[str, Any]:
        """Return it as plain values, for other terminals and programs."""
        first = self.first_window
        return {
            "name": self.name,
            "text": self.text,
            "stream": self.stream,
            "state": self.state,
            "first_window": None if first is None else list(first),
            "error": self.error,
            "failures": self.failures,
            "added_commit": self.added_commit,
            "expires": self.expires,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """The status of a stream."""

    clock: Clock
    """Watermark and row counts."""
    batches: int
    """Number of batches processed since the start."""
    queries: Mapping[str, int]
    """Number of queries in each state."""
    notices: tuple[Notice, ...] = ()
    """What the user should know, oldest first."""
    failed: tuple[str, ...] = ()
    """Queries that failed since the start, or could not be bound at it, and were not removed or resumed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStatus:
    """The status of an engine."""

    streams: Mapping[str, StreamStatus] = field(default_factory=dict)
    sinks: tuple[DeliveryStatus, ...] = ()


def query_info(
    query: LogicalQuery, entry: Registered | None, running: RunningQuery | None, clock: Clock
) -> QueryInfo:
    """Return the status of a query by registry and pipeline."""
    entry = entry or Registered(name=query.name, text=query.text)
    first = None if running is None else first_window(as_it_joined(entry, query), clock)
    return replace(stored_info(entry, query.stream), text=query.text, first_window=first)


def stored_info(entry: Registered, stream: str) -> QueryInfo:
    """Return the status of a query by the registry alone: its first window is known only while it runs."""
    return QueryInfo(
        name=entry.name,
        text=entry.text,
        stream=stream,
        state=str(entry.state),
        first_window=None,
        error=entry.error,
        failures=entry.failures,
        added_commit=entry.commit,
        expires=entry.until,
    )


def cannot_run(query: QueryInfo) -> EngineError:
    """Return the error for a query that can no longer be bound: it can only be removed."""
    return EngineError(
        f"query {query.name} does not fit its stream, its tables or the limits any more; start the engine "
        f"with what it needs and resume it, or drop it\n{query.error}"
    )


def read_registry(checkpoint: str | Path) -> list[QueryInfo]:
    """Return the queries of a checkpoint that no engine runs on."""
    root = open_folder(checkpoint, local_session)
    queries = []
    for name in root.names():
        recovered = Checkpoint(root.folder(name)).recover()
        if recovered is not None:
            stream = stream_of(root.folder(name), name)
            queries += [stored_info(entry, stream) for entry in recovered.registry]
    return queries


def moment(micros: int) -> datetime:
    """Return an event time in microseconds as a date and time."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
