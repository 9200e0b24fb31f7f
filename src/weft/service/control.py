"""What the requests of other terminals do, and the replies to them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

from weft.errors import EngineError, suggestion
from weft.query.logical import LogicalQuery
from weft.service.queries import Queries
from weft.service.requests import reply_of
from weft.service.status import QueryInfo, moment
from weft.storage.mailbox import CHANGES, Reply, Request
from weft.stream.boundary import Change, Halt, Halted

_SAME = "as asked"
"""Follows the state of a query that had the text already with which it is to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prepared:
    """A request that changes a query, with what is known before it is carried out."""

    request: Request
    stream: str | None = None
    """The stream of its query; None if that is not known."""
    joining: LogicalQuery | None = None
    """The query that joins."""
    error: Exception | None = None
    """Why it cannot be carried out."""


class Control:
    """Carry out requests on an engine.

    A request may come again, after a crash between carrying it out and answering it. The state of its query
    before is stored with it, so the second reply is the one that the first was meant to be.
    """

    def __init__(self, engine: Queries, *, stop: Callable[[], None]) -> None:
        self._engine, self._stop_engine = engine, stop
        self._changing: dict[str, Callable[[_Prepared], Reply]] = {
            "add": self._add, "drop": self._drop, "pause": self._pause, "resume": self._resume,
        }  # fmt: skip
        self._asking: dict[str, Callable[[Request], Reply]] = {
            "list": self._list, "show": self._show, "stop": self._stop,
        }  # fmt: skip

    def before(self, request: Request) -> str | None:
        """Return the state of the query to change (empty if there is none), or None for no change.

        Where it may be replaced, the state is followed by whether its text is the new one already.
        """
        if request.do not in CHANGES:
            return None
        state = self._state(request.query)
        same = request.given.get("replace") and state and self._has_text(request)
        return f"{state} {_SAME}" if same else state

    def carry_out(self, request: Request) -> Reply:
        """Carry out a request that changes no query; raise a WeftError that says why it cannot be done."""
        if request.do not in self._asking:
            known = (*self._changing, *self._asking)
            raise EngineError(f'"{request.do}" cannot be asked for{suggestion(request.do, known)}')
        return self._asking[request.do](request)

    def change(self, requests: Sequence[Request], *, halted: Halted) -> list[Reply | None]:
        """Change different queries: those of one stream together, in order.

        None stands for a request that was abandoned, without a trace, as it was `halted`.
        """
        prepared = [self._prepared(request) for request in requests]
        joining = [one.joining for one in prepared if one.joining is not None]
        refused = self._engine.try_out(joining, halted=halted)
        prepared = [replace(one, error=one.error or refused.get(one.request.query)) for one in prepared]
        changes = [
            Change(one.request.query, partial(self._change, one), stream=one.stream, halted=halted)
            for one in prepared
        ]
        self._engine.carry_out(changes)
        return [_reply(one.request, change) for one, change in zip(prepared, changes, strict=True)]

    def _prepared(self, request: Request) -> _Prepared:
        """Return what a request would change, as far as that is known beforehand."""
        name, info = request.query, self._info(request.query)
        try:
            if request.do == "add" and not self._is_there(request):
                joining = self._engine.bind(name, str(request.given["text"]).strip())
                self._engine.make_way(joining)
                return _Prepared(request=request, joining=joining, stream=joining.stream)
            if request.do == "resume" and name in self._engine.queries and info and info.state != "running":
                joining = self._engine.bind(name, info.text)
                return _Prepared(request=request, joining=joining, stream=info.stream)
        except Exception as error:
            return _Prepared(request=request, error=error)
        return _Prepared(request=request, stream=None if info is None else info.stream)

    def _change(self, prepared: _Prepared) -> Reply:
        if prepared.error is not None:
            raise prepared.error
        return self._changing[prepared.request.do](prepared)

    def _info(self, name: str) -> QueryInfo | None:
        known = self._engine.queries.get(name)
        return self._engine.unbound.get(name) if known is None else known.info

    def _state(self, name: str) -> str:
        info = self._info(name)
        return "" if info is None else info.state

    def _is_there(self, request: Request) -> bool:
        """Say whether a query to add is there already, perhaps by the same request before a crash."""
        if not self._has_text(request):
            return False
        state = self._state(request.query)
        if request.given.get("replace"):
            replaced = request.before is not None and not request.before.endswith(_SAME)
            return state == "running" or (replaced and state != "dropped")
        return state == "running" or (request.before == "" and state != "dropped")

    def _has_text(self, request: Request) -> bool:
        known = self._engine.queries.get(request.query)
        return known is not None and known.info.text.strip() == str(request.given["text"]).strip()

    def _add(self, prepared: _Prepared) -> Reply:
        request, replace = prepared.request, bool(prepared.request.given.get("replace"))
        if self._is_there(request):
            outcome = "added" if request.before == "" else "is there already"
            if replace and request.before not in (None, "", f"running {_SAME}"):
                outcome = "replaced"
            return _described(outcome, self._engine.queries[request.query].info)
        if prepared.joining is None:
            raise EngineError(f"query {request.query} has changed meanwhile; try again")
        if replace and self._engine.is_running_as(prepared.joining):
            return _described("is there already", self._engine.queries[request.query].info)
        joined = self._engine.join(prepared.joining, replace=replace)
        return _described("replaced" if replace and request.before else "added", joined.info)

    def _drop(self, prepared: _Prepared) -> Reply:
        name = str(prepared.request.given["name"])
        # A query that a workload names stays known, as dropped.
        if not (prepared.request.before and self._state(name) in ("", "dropped")):
            self._engine.part(name, stream=prepared.stream)
        return Reply(ok=True, said=f"query {name} dropped", found={"name": name})

    def _pause(self, prepared: _Prepared) -> Reply:
        name = str(prepared.request.given["name"])
        if self._state(name) != "paused":
            self._engine.rest(name, stream=prepared.stream)
        return Reply(ok=True, said=f"query {name} paused", found={"name": name})

    def _resume(self, prepared: _Prepared) -> Reply:
        name, before = str(prepared.request.given["name"]), prepared.request.before
        known = self._engine.queries.get(name)
        if known is not None and known.info.state == "running" and before not in (None, "running"):
            return _described("resumed", known.info)
        return _described("resumed", self._engine.wake(name, stream=prepared.stream).info)

    def _list(self, request: Request) -> Reply:
        bound = [query.info for query in list(self._engine.queries.values())]
        queries = [info.as_record() for info in (*bound, *list(self._engine.unbound.values()))]
        return Reply(ok=True, said=f"{len(queries):,} queries", found={"queries": queries})

    def _show(self, request: Request) -> Reply:
        name = str(request.given["name"])
        info = self._info(name)
        if info is None:
            raise EngineError(f'unknown query "{name}"{suggestion(name, self._engine.queries)}')
        return _described("is known", info)

    def _stop(self, request: Request) -> Reply:
        self._stop_engine()
        return Reply(ok=True, said="stopping between batches")


def _described(outcome: str, info: QueryInfo) -> Reply:
    first = ""
    if info.first_window is not None:
        start, end = (moment(micros).isoformat(sep=" ") for micros in info.first_window)
        first = f"; its first window is {start} to {end}"
    return Reply(ok=True, said=f"query {info.name} {outcome}{first}", found={"query": info.as_record()})


def _reply(request: Request, change: Change) -> Reply | None:
    """Return the reply to a change that was carried out or refused; None for one that was abandoned."""
    if isinstance(change.error, Halt):
        return None
    return reply_of(request, lambda _: cast(Reply, change.outcome()))
