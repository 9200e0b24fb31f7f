"""What there is to say of a query, as plain values: for people, programs and other terminals."""

from dataclasses import dataclass
from pathlib import Path

from weft.durability.checkpoint import Checkpoint
from weft.durability.places import stream_of
from weft.durability.registry import QueryState, Registered
from weft.errors import EngineError
from weft.query.logical import LogicalQuery
from weft.spark.session.local import local_session
from weft.state.clock import Clock
from weft.state.lives import LiveQuery, first_window
from weft.storage import open_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryInfo:
    """A query and how it fares."""

    name: str
    text: str
    stream: str
    state: str
    first_window: tuple[int, int] | None
    """The first window that it answers, in microseconds; None before the first row, and while it rests."""
    error: str | None
    failures: int
    """How many rows or results failed and became NULL."""
    added_commit: int
    """The commit with which it joined, or joined again."""
    expires: int | None
    """Its windows end by then, in microseconds."""


def query_info(
    query: LogicalQuery, entry: Registered | None, live: LiveQuery | None, clock: Clock
) -> QueryInfo:
    """Return what the registry and the pipeline know of a query."""
    return QueryInfo(
        name=query.name,
        text=query.text,
        stream=query.stream,
        state=str(QueryState.RUNNING if entry is None else entry.state),
        first_window=None if live is None else first_window(live, clock),
        error=None if entry is None else entry.error,
        failures=0 if entry is None else entry.failures,
        added_commit=0 if entry is None else entry.commit,
        expires=None if entry is None else entry.until,
    )


def stored_info(entry: Registered, stream: str) -> QueryInfo:
    """Return what the registry alone knows of a query: its windows are known when it runs."""
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
    """Return why nothing can be done with a query that cannot be bound any more but to remove it."""
    return EngineError(
        f"query {query.name} does not fit its stream, its tables or the limits any more; start the engine "
        f"with what it needs and resume it, or drop it\n{query.error}"
    )


def read_registry(checkpoint: str | Path) -> list[QueryInfo]:
    """Return the queries of a checkpoint that no engine runs on."""
    root = open_folder(checkpoint, local_session)
    found = []
    for folder in root.names():
        recovered = Checkpoint(root.folder(folder)).recover()
        if recovered is not None:
            stream = stream_of(root.folder(folder), folder)
            found += [stored_info(entry, stream) for entry in recovered.registry]
    return found
