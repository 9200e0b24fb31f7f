"""Requests that wait at the same time are carried out together and answered together."""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from weft.faultpoints import reach
from weft.service.replies import reply_of
from weft.storage.mailbox import CHANGES, Mailbox, Reply, Request

_log = logging.getLogger("weft.service")


class Carrier(Protocol):
    """Who carries requests out."""

    def before(self, request: Request) -> str | None:
        """Return how the query that is to be changed fares, or None if the request changes nothing."""

    def carry_out(self, request: Request) -> Reply:
        """Do what is asked for and changes no query; a WeftError is the reason why not."""

    def change(self, requests: Sequence[Request], *, halted: Callable[[], bool]) -> list[Reply | None]:
        """Change queries, each another one, together; None for what was left off as it was halted."""


class Round:
    """What waits at one time, file by file."""

    def __init__(
        self,
        mailbox: Mailbox,
        carrier: Carrier,
        waiting: Sequence[Request],
        *,
        able: Callable[[], bool],
        halted: Callable[[], bool],
        on_refusal: Callable[[Request, Reply], None],
    ) -> None:
        self._mailbox, self._carrier = mailbox, carrier
        self._able, self._halted, self._on_refusal = able, halted, on_refusal
        self._files: dict[str, list[Request]] = {}
        for request in waiting:
            self._files.setdefault(request.id, []).append(request)
        self._replies: dict[tuple[str, int], Reply] = {}
        self._held: set[str] = set()
        """Queries of which a request could not be answered. It waits, and so do others for them: done again
        after those, it would undo them."""
        self._taken_back: set[str] = set()
        self.answered: list[Request] = []

    def carry_out(self) -> None:
        """Carry out changes in order, as many at once as can be; then what changes nothing; answer all."""
        changes = [one for several in self._files.values() for one in several if one.do in CHANGES]
        for group in _groups(changes):
            if self._halted():
                return
            self._change(group)
        for several in self._files.values():
            if several[0].do not in CHANGES and not self._halted():
                for request in several:
                    self._note_reply(request, reply_of(request, self._carrier.carry_out))
                self._answer(several)

    def _change(self, group: Sequence[Request]) -> None:
        """Carry out changes of different queries by one commit, and answer the files that are done."""
        ready = self._noted([one for one in group if not self._waits(one)])
        if not ready:
            return
        for request, reply in zip(ready, self._carrier.change(ready, halted=self._halted), strict=True):
            if reply is not None:
                self._note_reply(request, reply)
        for id in dict.fromkeys(request.id for request in ready):
            if all((id, request.item) in self._replies for request in self._files[id]):
                self._answer(self._files[id])

    def _waits(self, request: Request) -> bool:
        """Say whether a request has to wait, and hold all that is in one file with it if so."""
        names = {_subject(one) for one in self._files[request.id]}
        if names & self._held:
            self._held |= names
        return request.id in self._taken_back or bool(names & self._held)

    def _noted(self, group: Sequence[Request]) -> list[Request]:
        """Note how things are before a change: should it come again, that shows whether it was made."""
        noted: list[Request] = []
        for id in dict.fromkeys(request.id for request in group):
            own = {one.item: self._with_state(one) for one in group if one.id == id}
            former = self._files[id]
            self._files[id] = [own.get(one.item, one) for one in former]
            try:
                if self._files[id] != former and not self._mailbox.note(self._files[id]):
                    self._taken_back.add(id)
                    continue
                noted += own.values()
            except OSError as error:
                self._hold(self._files[id], error)
        return noted

    def _with_state(self, request: Request) -> Request:
        if request.before is not None:
            return request
        return replace(request, before=self._carrier.before(request))

    def _note_reply(self, request: Request, reply: Reply) -> None:
        self._replies[request.id, request.item] = reply

    def _answer(self, several: Sequence[Request]) -> None:
        """Answer all requests of a file, unless the next engine has to carry them out."""
        replies = [self._replies[one.id, one.item] for one in several]
        ok = all(reply.ok for reply in replies)
        try:
            reach("request.carried_out")
            _log.info("request", extra={"do": several[0].do, "ok": ok, "items": len(several)})
            if not ok and not self._able():
                raise OSError("the engine is at its end; the next one will carry it out")
            self._mailbox.answer_all(several, replies)
            self.answered += several
            for request, reply in zip(several, replies, strict=True):
                if not reply.ok:
                    self._refused(request, reply)
            reach("request.answered")
        except OSError as error:
            self._hold(several, error)

    def _hold(self, several: Sequence[Request], error: OSError) -> None:
        self._held |= {_subject(one) for one in several}
        fields = {"do": several[0].do, "error": str(error)}
        _log.warning("a request cannot be answered", extra=fields)

    def _refused(self, request: Request, reply: Reply) -> None:
        # The reason may hold values of rows; it is in the answer.
        _log.warning("a request was refused", extra={"do": request.do, "query": request.query})
        self._on_refusal(request, reply)


def _groups(changes: Sequence[Request]) -> Iterator[list[Request]]:
    """Yield changes in runs in which each query comes once: what it is told depends on those before."""
    group: dict[str, Request] = {}
    for request in changes:
        if _subject(request) in group:
            yield list(group.values())
            group = {}
        group[_subject(request)] = request
    if group:
        yield list(group.values())


def _subject(request: Request) -> str:
    """Return what a request is about: its query, or nothing but itself."""
    return request.query or request.id
