"""The queries that a stream starts with: those of the workload, and those of the checkpoint."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.durability.checkpoint import Recovered
from weft.durability.declared import columns_read, partials_read
from weft.durability.registry import QueryState, Registered, Registry
from weft.errors import EngineError, UserError
from weft.notices import Notice, NoticeKind
from weft.query.logical import LogicalQuery, StreamDef

Bind = Callable[[str, str], LogicalQuery]
"""Makes a query from its name and text."""
_log = logging.getLogger("weft.durability")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined:
    """The queries of a stream at a start."""

    running: Mapping[str, LogicalQuery]
    """Queries that continue or join."""
    new: Sequence[LogicalQuery]
    """Those of them that the registry does not know yet."""
    resting: Mapping[str, LogicalQuery]
    """Known queries that are paused, failed or over."""
    replaced: Mapping[str, LogicalQuery]
    """Queries that take the places of known ones, which may be running until then."""
    unbound: Sequence[Registered]
    """Known queries that can no longer be bound."""
    notices: list[Notice]
    """Notices for the user."""


def rejoin(queries: Sequence[LogicalQuery], registry: Registry, bind: Bind, *, watermark: int) -> Rejoined:
    """Combine a workload with a registry.

    The registry forgets queries that the workload no longer names, and those added while the engine ran that
    are over. A query that has another text in the workload than before is replaced; if it was replaced while
    the engine ran, what the workload said then counts no more.
    """
    named = {query.name: query for query in queries}
    running: dict[str, LogicalQuery] = {}
    resting: dict[str, LogicalQuery] = {}
    replaced: dict[str, LogicalQuery] = {}
    unbound: list[Registered] = []
    notices: list[Notice] = []
    for entry in list(registry):
        query = named.get(entry.name)
        over = entry.state.is_over
        other = query is not None and not _means(entry.text, query, bind)
        former_text = entry.instead_of
        if query is not None and former_text is not None:
            if not other:
                # The workload has caught up.
                registry.put(entry := replace(entry, instead_of=None))
            elif _means(former_text, query, bind):
                query, other = None, False
                if not over:
                    notices.append(Notice(kind=NoticeKind.QUERY_STAYS_REPLACED, subject=entry.name))
        if query is not None and other and not over:
            replaced[entry.name] = query
            notices.append(Notice(kind=NoticeKind.QUERY_REPLACED, subject=entry.name))
            if entry.state is QueryState.RUNNING and (former := _bound(entry, bind)) is not None:
                running[entry.name] = former
            continue
        if query is not None and over and other:
            registry.forget(entry.name, answered_through=watermark)
            kind, state = NoticeKind.QUERY_IS_ANOTHER, str(entry.state)
            notices.append(Notice(kind=kind, subject=entry.name, about=state))
            continue
        if entry.name not in named and (over or not entry.live):
            registry.forget(entry.name, answered_through=watermark)
            if not over:
                notices.append(Notice(kind=NoticeKind.QUERY_LEFT_WORKLOAD, subject=entry.name))
            continue
        try:
            query = query or bind(entry.name, entry.text)
        except UserError as error:
            failed = replace(entry, state=QueryState.FAILED, error=str(error))
            registry.put(failed)
            unbound.append(failed)
            notices.append(_unbound(entry.name, error))
            continue
        if not entry.partials and not over:
            registry.put(replace(entry, reads=columns_read(query), partials=partials_read(query)))
        if entry.state is QueryState.RUNNING:
            running[entry.name] = query
        else:
            resting[entry.name] = query
            state = str(entry.state)
            notices.append(Notice(kind=NoticeKind.QUERY_STAYS, subject=entry.name, about=state))
    new = [query for query in queries if query.name not in registry]
    running |= {query.name: query for query in new}
    for notice in notices:
        _log.info("notice", extra=notice.log_fields)
    return Rejoined(
        running=running, new=new, resting=resting, replaced=replaced, unbound=unbound, notices=notices
    )


def _unbound(query: str, error: UserError) -> Notice:
    """Return the notice of a query that can no longer be bound; the error repeats its text, and no row."""
    kind, error_kind = NoticeKind.QUERY_UNBOUND, type(error).__name__
    return Notice(kind=kind, subject=query, error_kind=error_kind, about=str(error))


def _means(text: str, query: LogicalQuery, bind: Bind) -> bool:
    """Return whether a text means a query, however it is formatted."""
    try:
        return text == query.text or bind(query.name, text) == query
    except UserError:
        return False


def _bound(entry: Registered, bind: Bind) -> LogicalQuery | None:
    """Return what the text of an entry means; None if that is not what its partials were made for."""
    try:
        query = bind(entry.name, entry.text)
    except UserError:
        return None
    return query if entry.partials in ("", partials_read(query)) else None


def check(stream: StreamDef, recovered: Recovered, queries: Sequence[LogicalQuery], uri: str) -> None:
    """Refuse a checkpoint of another stream, for the queries that may continue."""
    texts = {query.name: query.text for query in queries}
    # A query with another text may be replaced: what the former read matters no more.
    stays = [entry for entry in recovered.registry if texts.get(entry.name, entry.text) == entry.text]
    stays = [entry for entry in stays if entry.live or entry.name in texts]
    reads = {entry.name: entry.reads or {} for entry in stays if not entry.state.is_over}
    problem = recovered.last.stream.problem(stream, reads)
    if problem is not None:
        raise EngineError(
            f"stream {stream.name} is not that of checkpoint {uri}: {problem}; declare it as before, or "
            "start a new checkpoint"
        )


def check_meaning(running: Mapping[str, LogicalQuery], registry: Registry, uri: str) -> None:
    """Refuse queries that continue if their partials in the checkpoint are not those that they need now."""
    for name, query in running.items():
        entry = registry.get(name)
        if entry is None or not entry.partials or entry.partials == partials_read(query):
            continue
        then, now = entry.reads or {}, columns_read(query)
        columns = [column for column in sorted(then.keys() | now) if then.get(column) != now.get(column)]
        change = "a function has another type, or this version of Weft aggregates it in another way"
        if columns:
            there, here = (types.get(columns[0], "not read") for types in (then, now))
            change = f'column "{columns[0]}" was {there} for it, and is {here} now'
        raise EngineError(
            f"query {name} means something else than in checkpoint {uri}: {change}; declare streams and "
            "tables as before, use the version that wrote the checkpoint, or start a new one"
        )


def check_names(stream: str, rejoined: Rejoined, streams: Mapping[str, str]) -> None:
    """Refuse two queries of one name, given the streams of other queries: sinks know results by name."""
    unbound = (entry.name for entry in rejoined.unbound)
    for name in (*rejoined.running, *rejoined.resting, *rejoined.replaced, *unbound):
        other = streams.get(name, stream)
        if other != stream:
            raise EngineError(
                f'there are two queries "{name}", one of stream {other} and one of stream {stream}, for the '
                "checkpoint brings back those that were added to it; choose another name in the workload"
            )
