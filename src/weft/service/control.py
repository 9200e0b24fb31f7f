"""What the requests of other terminals do, and the replies to them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from weft.errors import EngineError, suggestion
from weft.query.logical import LogicalQuery
from weft.service.queries import Queries
from weft.service.requests import reply_of
from weft.service.running_stream import Halted
from weft.service.status import QueryInfo, moment
from weft.storage.mailbox import CHANGES, Reply, Request
from weft.stream.membership import Changes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """A request that changes a query, with what is known before it is carried out."""

    request: Request
    stream: str | None = None
    """The stream whose other changes can share its commit; None if it is carried out alone."""
    joining: LogicalQuery | None = None
    """The query that joins."""
    error: Exception | None = None
    """Why it cannot be carried out."""


class _Halted(Exception):
    """Raised to abandon changes under way: a stop was requested."""


class Control:
    """Carry out requests on an engine.

    A request may come again, after a crash between carrying it out and answering it. The state of its query
    before is stored with it, so the second reply is the one that the first was meant to be.
    """

    def __init__(self, engine: Queries, *, stop: Callable[[], None]) -> None:
        self._engine, self._stop_engine = engine, stop
        self._changing: dict[str, Callable[[_Change], Reply]] = {
            "add": self._add, "drop": self._drop, "pause": self._pause, "resume": self._resume,
        }  # fmt: skip
        self._asking: dict[str, Callable[[Request], Reply]] = {
            "list": self._list, "show": self._show, "stop": self._stop,
        }  # fmt: skip

    def before(self, request: Request) -> str | None:
        """Return the state of the query to change (empty if there is none), or None for no change."""
        return self._state(request.query) if request.do in CHANGES else None

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
        changes = [self._prepared(request) for request in requests]
        joining = [change.joining for change in changes if change.joining is not None]
        refused = self._engine.try_out(joining, halted=halted)
        by_stream: dict[str | None, list[_Change]] = {}
        for change in changes:
            change = replace(change, error=change.error or refused.get(change.request.query))
            by_stream.setdefault(change.stream, []).append(change)
        replies: dict[tuple[str, int], Reply] = {}
        for stream, group in by_stream.items():
            carry_out = self._alone if stream is None else partial(self._of, stream)
            for change, reply in zip(group, carry_out(group, halted), strict=False):
                replies[change.request.id, change.request.item] = reply
        return [replies.get((request.id, request.item)) for request in requests]

    def _prepared(self, request: Request) -> _Change:
        """Return what a request would change, as far as that is known beforehand."""
        name, info = request.query, self._info(request.query)
        try:
            if request.do == "add" and not self._is_there(request):
                joining = self._engine.bind(name, str(request.given["text"]).strip())
                # If it replaces another query, there are two changes, perhaps of different streams.
                return _Change(
                    request=request, joining=joining, stream=joining.stream if info is None else None
                )
            if request.do == "resume" and name in self._engine.queries and info and info.state != "running":
                return _Change(
                    request=request, joining=self._engine.bind(name, info.text), stream=info.stream
                )
        except Exception as error:
            return _Change(request=request, error=error)
        return _Change(request=request, stream=None if info is None else info.stream)

    def _alone(self, changes: Sequence[_Change], halted: Halted) -> list[Reply]:
        """Carry out changes one by one, each durable before the next."""
        replies: list[Reply] = []
        for change in changes:
            if halted():
                break
            replies.append(self._reply(change))
        return replies

    def _of(self, stream: str, changes: Sequence[_Change], halted: Halted) -> list[Reply]:
        """Carry out changes of one stream by one commit; those until it has started, one by one."""
        replies: list[Reply] = []
        while len(replies) < len(changes) and not self._engine.is_running(stream):
            if not (first := self._alone(changes[len(replies) :][:1], halted)):
                return replies
            replies += first
        rest = changes[len(replies) :]
        return [*replies, *self._together(stream, rest, halted)] if rest else replies

    def _together(self, stream: str, changes: Sequence[_Change], halted: Halted) -> list[Reply]:
        """Carry out changes by one commit; return nothing if they were abandoned."""
        replies: list[Reply] = []
        group = Changes()
        try:
            with self._engine.together(stream) as group:
                for change in changes:
                    _check(halted)
                    replies.append(self._reply(change))
                _check(halted)
        except _Halted:
            return []
        except Exception as error:
            # None of them is durable; those that changed something get their own error below.
            if not group.refused:
                return [reply_of(change.request, _raising(error)) for change in changes]
        for number, change in enumerate(changes):
            if (refusal := group.refused.get(change.request.query)) is not None:
                replies[number] = reply_of(change.request, _raising(refusal))
        return replies

    def _reply(self, change: _Change) -> Reply:
        """Carry out a change; an error becomes the reply."""
        if change.error is not None:
            return reply_of(change.request, _raising(change.error))
        return reply_of(change.request, lambda request: self._changing[request.do](change))

    def _info(self, name: str) -> QueryInfo | None:
        known = self._engine.queries.get(name)
        return self._engine.unbound.get(name) if known is None else known.info

    def _state(self, name: str) -> str:
        info = self._info(name)
        return "" if info is None else info.state

    def _is_there(self, request: Request) -> bool:
        """Say whether a query to add is there already, perhaps by the same request before a crash."""
        known = self._engine.queries.get(request.query)
        if known is None or known.info.text.strip() != str(request.given["text"]).strip():
            return False
        added = request.before == "" and known.info.state != "dropped"
        return added or known.info.state == "running"

    def _add(self, change: _Change) -> Reply:
        request = change.request
        if self._is_there(request):
            outcome = "added" if request.before == "" else "is there already"
            return _described(outcome, self._engine.queries[request.query].info)
        assert change.joining is not None
        return _described("added", self._engine.join(change.joining).info)

    def _drop(self, change: _Change) -> Reply:
        name = str(change.request.given["name"])
        # A query that a workload names stays known, as dropped.
        if not (change.request.before and self._state(name) in ("", "dropped")):
            self._engine.remove(name)
        return Reply(ok=True, said=f"query {name} dropped", found={"name": name})

    def _pause(self, change: _Change) -> Reply:
        name = str(change.request.given["name"])
        if self._state(name) != "paused":
            self._engine.pause(name)
        return Reply(ok=True, said=f"query {name} paused", found={"name": name})

    def _resume(self, change: _Change) -> Reply:
        name, before = str(change.request.given["name"]), change.request.before
        known = self._engine.queries.get(name)
        if known is not None and known.info.state == "running" and before not in (None, "running"):
            return _described("resumed", known.info)
        return _described("resumed", self._engine.resume(name, tried=change.joining is not None).info)

    def _list(self, request: Request) -> Reply:
        bound = [query.info for query in list(self._engine.queries.values())]
        queries = [asdict(info) for info in (*bound, *list(self._engine.unbound.values()))]
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
        start, end = (moment(time).isoformat(sep=" ") for time in info.first_window)
        first = f"; its first window is {start} to {end}"
    return Reply(ok=True, said=f"query {info.name} {outcome}{first}", found={"query": asdict(info)})


def _check(halted: Halted) -> None:
    if halted():
        raise _Halted


def _raising(error: Exception) -> Callable[[Request], Reply]:
    def carry_out(request: Request) -> Reply:
        raise error

    return carry_out
