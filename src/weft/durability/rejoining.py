"""Which queries a run begins with: those of the workload, and those that the checkpoint knows."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.durability.checkpoint import Recovered
from weft.durability.ledger import described
from weft.durability.registry import QueryState, Registered, Registry
from weft.errors import EngineError, UserError
from weft.query.logical import LogicalQuery, StreamDef

Bind = Callable[[str, str], LogicalQuery]
"""Makes a query of its name and text."""
_log = logging.getLogger("weft.durability")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejoined:
    """The queries of a stream at the beginning of a run."""

    running: Mapping[str, LogicalQuery]
    """Those that run on or join."""
    new: Sequence[LogicalQuery]
    """Those of them that the registry does not know."""
    resting: Mapping[str, LogicalQuery]
    """Those that are known and do not run."""
    unbound: Sequence[Registered]
    """Those that are known and cannot be bound any more."""
    notices: list[str]
    """What the user should know."""


def rejoin(
    queries: Sequence[LogicalQuery], registry: Registry, bind: Bind, *, watermark: int | None
) -> Rejoined:
    """Bring a workload and a registry together.

    The registry forgets what no workload names any more, and what was added while a run was under way and
    has ended.
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
            registry.forget(entry.name, left=watermark)
            notices.append(f"query {entry.name} is another one than that which was {entry.state}: it joins")
            continue
        if query is None and (over or not entry.live):
            registry.forget(entry.name, left=watermark)
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
    """Say whether a query is that of an entry, however its text is set."""
    try:
        return entry.text == query.text or bind(entry.name, entry.text) == query
    except UserError:
        return False


def check(stream: StreamDef, recovered: Recovered, queries: Sequence[LogicalQuery], place: str) -> None:
    """Refuse a checkpoint of another stream, or with other queries of the same names."""
    there, here = recovered.last.stream, described(stream)
    if there != here:
        raise EngineError(
            f"stream {stream.name} is not that of checkpoint {place}; declare it as before, or "
            f"start a new checkpoint\n  there: {there}\n  here:  {here}"
        )
    for query in queries:
        known = recovered.registry.get(query.name)
        if known is not None and known.text != query.text and not known.state.is_over:
            raise EngineError(
                f"query {query.name} is not the one that checkpoint {place} holds; give it another name, or "
                "start with the text that it has there, drop it (weft drop), and then change it"
                f"\n  there: {known.text}\n  here:  {query.text}"
            )


def check_names(stream: str, found: Rejoined, streams: Mapping[str, str]) -> None:
    """Refuse two queries of one name, given the streams of others: sinks know results by it."""
    for name in (*found.running, *found.resting, *(one.name for one in found.unbound)):
        other = streams.get(name, stream)
        if other != stream:
            raise EngineError(
                f'there are two queries "{name}", one of stream {other} and one of stream {stream}, for the '
                "checkpoint brings back those that were added to it; choose another name in the workload"
            )
