"""The queries that a stream starts with: those of the workload, and those of the checkpoint."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.durability.checkpoint import Recovered
from weft.durability.declared import columns_read, partials_read
from weft.durability.registry import QueryState, Registered, Registry
from weft.errors import EngineError, UserError
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
    unbound: Sequence[Registered]
    """Known queries that can no longer be bound."""
    notices: list[str]
    """Notices for the user."""


def rejoin(queries: Sequence[LogicalQuery], registry: Registry, bind: Bind, *, watermark: int) -> Rejoined:
    """Combine a workload with a registry.

    The registry forgets queries that the workload no longer names, and those added while the engine ran that
    are over.
    """
    named = {query.name: query for query in queries}
    running: dict[str, LogicalQuery] = {}
    resting: dict[str, LogicalQuery] = {}
    unbound: list[Registered] = []
    notices: list[str] = []
    for entry in list(registry):
        query = named.get(entry.name)
        over = entry.state.is_over
        if query is not None and over and not _is_same(entry, query, bind):
            registry.forget(entry.name, answered_through=watermark)
            notices.append(f"query {entry.name} is another one than that which was {entry.state}: it joins")
            continue
        if query is None and (over or not entry.live):
            registry.forget(entry.name, answered_through=watermark)
            if not over:
                notices.append(f"query {entry.name} is not in the workload any more: dropped")
            continue
        try:
            query = query or bind(entry.name, entry.text)
        except UserError as error:
            failed = replace(entry, state=QueryState.FAILED, error=str(error))
            registry.put(failed)
            unbound.append(failed)
            notices.append(f"query {entry.name} cannot run on: {error}")
            continue
        if not entry.partials and not over:
            registry.put(replace(entry, reads=columns_read(query), partials=partials_read(query)))
        if entry.state is QueryState.RUNNING:
            running[entry.name] = query
        else:
            resting[entry.name] = query
            notices.append(f"query {entry.name} stays {entry.state}; weft resume brings it back")
    new = [query for query in queries if query.name not in registry]
    running |= {query.name: query for query in new}
    for notice in notices:
        _log.info("notice", extra={"notice": notice})
    return Rejoined(running=running, new=new, resting=resting, unbound=unbound, notices=notices)


def _is_same(entry: Registered, query: LogicalQuery, bind: Bind) -> bool:
    """Return whether a query is that of an entry, however its text is formatted."""
    try:
        return entry.text == query.text or bind(entry.name, entry.text) == query
    except UserError:
        return False


def check(stream: StreamDef, recovered: Recovered, queries: Sequence[LogicalQuery], uri: str) -> None:
    """Refuse a checkpoint of another stream, or with other queries of the same names."""
    named = {query.name for query in queries}
    stays = [entry for entry in recovered.registry if entry.live or entry.name in named]
    reads = {entry.name: entry.reads or {} for entry in stays if not entry.state.is_over}
    problem = recovered.last.stream.problem(stream, reads)
    if problem is not None:
        raise EngineError(
            f"stream {stream.name} is not that of checkpoint {uri}: {problem}; declare it as before, or "
            "start a new checkpoint"
        )
    for query in queries:
        known = recovered.registry.get(query.name)
        if known is not None and known.text != query.text and not known.state.is_over:
            raise EngineError(
                f"query {query.name} is not the one that checkpoint {uri} holds; give it another name, or "
                "start with the text that it has there, drop it (weft drop), and then change it"
                f"\n  there: {known.text}\n  here:  {query.text}"
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
    for name in (*rejoined.running, *rejoined.resting, *(entry.name for entry in rejoined.unbound)):
        other = streams.get(name, stream)
        if other != stream:
            raise EngineError(
                f'there are two queries "{name}", one of stream {other} and one of stream {stream}, for the '
                "checkpoint brings back those that were added to it; choose another name in the workload"
            )
