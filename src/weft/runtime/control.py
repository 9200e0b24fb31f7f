"""What other terminals may ask of an engine, and what they are told."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from weft.errors import EngineError, suggestion
from weft.runtime.info import QueryInfo
from weft.storage.mailbox import Reply, Request


class Described(Protocol):
    """A query that can tell of itself."""

    @property
    def info(self) -> QueryInfo:
        """All there is to say of it."""


class Controlled(Protocol):
    """What is asked of an engine."""

    @property
    def queries(self) -> Mapping[str, Described]:
        """Its queries by name."""

    def add(self, query: str, *, name: str = "") -> Described:
        """Add a query."""

    def remove(self, name: str) -> None:
        """Remove a query."""

    def pause(self, name: str) -> None:
        """Pause a query."""

    def resume(self, name: str) -> Described:
        """Resume a query."""

    def stop_later(self) -> None:
        """Have whoever waits for the engine stop it."""


class Control:
    """Carry out requests on an engine.

    A request may come again, after a crash between its being carried out and being answered: what is so
    already is no error then.
    """

    def __init__(self, engine: Controlled) -> None:
        self._engine = engine
        self._known: dict[str, Callable[[Mapping[str, Any]], Reply]] = {
            "add": self._add, "drop": self._drop, "pause": self._pause, "resume": self._resume,
            "list": self._list, "show": self._show, "stop": self._stop,
        }  # fmt: skip

    def carry_out(self, request: Request) -> Reply:
        """Do what is asked for; raise a WeftError that tells why it cannot be done."""
        if request.do not in self._known:
            raise EngineError(f'"{request.do}" cannot be asked for{suggestion(request.do, self._known)}')
        return self._known[request.do](request.given)

    def _add(self, given: Mapping[str, Any]) -> Reply:
        known = self._engine.queries.get(str(given["name"]))
        text = str(given["text"]).strip()
        if known is not None and known.info.text.strip() == text and known.info.state == "running":
            return _told("is there already", known.info)
        return _told("added", self._engine.add(text, name=str(given["name"])).info)

    def _drop(self, given: Mapping[str, Any]) -> Reply:
        name = str(given["name"])
        self._engine.remove(name)
        return Reply(ok=True, said=f"query {name} dropped", found={"name": name})

    def _pause(self, given: Mapping[str, Any]) -> Reply:
        name = str(given["name"])
        known = self._engine.queries.get(name)
        if known is None or known.info.state != "paused":
            self._engine.pause(name)
        return Reply(ok=True, said=f"query {name} paused", found={"name": name})

    def _resume(self, given: Mapping[str, Any]) -> Reply:
        return _told("resumed", self._engine.resume(str(given["name"])).info)

    def _list(self, given: Mapping[str, Any]) -> Reply:
        queries = [asdict(one.info) for one in list(self._engine.queries.values())]
        return Reply(ok=True, said=f"{len(queries):,} queries", found={"queries": queries})

    def _show(self, given: Mapping[str, Any]) -> Reply:
        name = str(given["name"])
        if name not in self._engine.queries:
            raise EngineError(f'unknown query "{name}"{suggestion(name, self._engine.queries)}')
        return _told("is known", self._engine.queries[name].info)

    def _stop(self, given: Mapping[str, Any]) -> Reply:
        self._engine.stop_later()
        return Reply(ok=True, said="stopping between batches")


def _told(what: str, info: QueryInfo) -> Reply:
    first = ""
    if info.first_window is not None:
        start, end = map(_time, info.first_window)
        first = f"; its first window is {start} to {end}"
    return Reply(ok=True, said=f"query {info.name} {what}{first}", found={"query": asdict(info)})


def _time(micros: int) -> str:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)).isoformat(sep=" ")
