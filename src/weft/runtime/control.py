"""What other terminals may ask of an engine, and what they are told."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Protocol

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

    @property
    def unbound(self) -> Mapping[str, QueryInfo]:
        """Those that cannot be bound any more; they can be removed."""

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

    A request may come again, after a crash between its being carried out and being answered. How its query
    fared before is noted with it, so what is so already is told as it was to be told at first.
    """

    def __init__(self, engine: Controlled) -> None:
        self._engine = engine
        self._changing: dict[str, Callable[[Request], Reply]] = {
            "add": self._add, "drop": self._drop, "pause": self._pause, "resume": self._resume,
        }  # fmt: skip
        self._known: dict[str, Callable[[Request], Reply]] = {
            **self._changing, "list": self._list, "show": self._show, "stop": self._stop,
        }  # fmt: skip

    def before(self, request: Request) -> str | None:
        """Return the state of the query that is to be changed (empty for none), or None for no change."""
        if request.do not in self._changing:
            return None
        return self._state(str(request.given.get("name", "")))

    def carry_out(self, request: Request) -> Reply:
        """Do what is asked for; raise a WeftError that tells why it cannot be done."""
        if request.do not in self._known:
            raise EngineError(f'"{request.do}" cannot be asked for{suggestion(request.do, self._known)}')
        return self._known[request.do](request)

    def _info(self, name: str) -> QueryInfo | None:
        known = self._engine.queries.get(name)
        return self._engine.unbound.get(name) if known is None else known.info

    def _state(self, name: str) -> str:
        info = self._info(name)
        return "" if info is None else info.state

    def _add(self, request: Request) -> Reply:
        name, text = str(request.given["name"]), str(request.given["text"]).strip()
        known = self._engine.queries.get(name)
        if known is not None and known.info.text.strip() == text:
            if request.before == "" and known.info.state != "dropped":
                return _told("added", known.info)
            if known.info.state == "running":
                return _told("is there already", known.info)
        return _told("added", self._engine.add(text, name=name).info)

    def _drop(self, request: Request) -> Reply:
        name = str(request.given["name"])
        # One that a workload names is known as dropped.
        if not (request.before and self._state(name) in ("", "dropped")):
            self._engine.remove(name)
        return Reply(ok=True, said=f"query {name} dropped", found={"name": name})

    def _pause(self, request: Request) -> Reply:
        name = str(request.given["name"])
        if self._state(name) != "paused":
            self._engine.pause(name)
        return Reply(ok=True, said=f"query {name} paused", found={"name": name})

    def _resume(self, request: Request) -> Reply:
        name = str(request.given["name"])
        known = self._engine.queries.get(name)
        if known is not None and known.info.state == "running" and request.before not in (None, "running"):
            return _told("resumed", known.info)
        return _told("resumed", self._engine.resume(name).info)

    def _list(self, request: Request) -> Reply:
        known = [one.info for one in list(self._engine.queries.values())]
        queries = [asdict(one) for one in (*known, *list(self._engine.unbound.values()))]
        return Reply(ok=True, said=f"{len(queries):,} queries", found={"queries": queries})

    def _show(self, request: Request) -> Reply:
        name = str(request.given["name"])
        info = self._info(name)
        if info is None:
            raise EngineError(f'unknown query "{name}"{suggestion(name, self._engine.queries)}')
        return _told("is known", info)

    def _stop(self, request: Request) -> Reply:
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
