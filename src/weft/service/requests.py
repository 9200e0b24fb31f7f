"""Requests of other terminals, carried out while streams run: a stop first; the others together.

Requests that wait at the same time are carried out together and answered together.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import monotonic
from traceback import extract_tb
from typing import Protocol

from weft.errors import WeftError
from weft.faultpoints import reach
from weft.storage.mailbox import CHANGES, Mailbox, Reply, Request

_POLL_SECONDS = 0.2
"""Poll interval of the mailbox."""
_TIDY_SECONDS = 60.0
"""How often replies that were not fetched are removed."""
_log = logging.getLogger("weft.service")


class Carrier(Protocol):
    """Carries out requests."""

    def before(self, request: Request) -> str | None:
        """Return the state of the query to change, or None if the request changes nothing."""

    def carry_out(self, request: Request) -> Reply:
        """Carry out a request that changes no query; a WeftError says why it cannot be done."""

    def change(self, requests: Sequence[Request], *, halted: Callable[[], bool]) -> list[Reply | None]:
        """Change different queries together; None for a request that was abandoned as it was `halted`."""


class Requests:
    """Two threads: one carries out all requests that wait, together; one looks only for a stop.

    A stop is carried out at once. A request under way is abandoned at its next step; it waits for the next
    start, like those that were not begun.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        carrier: Carrier,
        *,
        able: Callable[[], bool] = lambda: True,
        on_refusal: Callable[[Request, Reply], None] | None = None,
    ) -> None:
        """Report refusals to `on_refusal`, too: the sender may have stopped waiting for the reply."""
        self.mailbox, self.carrier, self.able = mailbox, carrier, able
        self.on_refusal = on_refusal or (lambda request, reply: None)
        self._tidy_at = 0.0
        self._seen: set[str] = set()
        """Files that are known to hold no stop."""
        self._ending = threading.Event()
        self._stopping = threading.Lock()
        self._threads = [
            threading.Thread(target=self._repeat, args=(act,), name=name, daemon=True)
            for name, act in (("weft-stops", self.look_for_stop), ("weft-requests", self.look))
        ]

    def start_looking_for_stops(self) -> None:
        """Begin to poll for a stop."""
        self._threads[0].start()

    def start(self) -> None:
        """Begin to poll for all requests."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def close(self) -> None:
        """Stop polling; requests that wait do so until the next start."""
        self._ending.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _repeat(self, act: Callable[[], object]) -> None:
        while not self._ending.wait(_POLL_SECONDS):
            act()

    def look_for_stop(self) -> None:
        """Carry out a stop if one was requested, whatever else waits or is under way."""
        try:
            names = self.mailbox.names()
            unseen, self._seen = [name for name in names if name not in self._seen], set(names)
            self._stop_for([request for name in unseen for request in self.mailbox.read(name)])
        except OSError as error:
            self._seen = set()
            _log.warning("requests cannot be read", extra={"error": str(error)})

    def _stop_for(self, requests: Sequence[Request]) -> None:
        """Carry out the first stop; the senders of others see the engine end, and need no reply."""
        for request in requests:
            if request.do == "stop":
                with self._stopping:
                    first = not self._ending.is_set()
                    self._ending.set()
                if first:
                    self.mailbox.answer(request, reply_of(request, self.carrier.carry_out))

    def look(self) -> list[Request]:
        """Carry out the requests that wait now; return those that were answered."""
        try:
            waiting = self.mailbox.waiting()
            self._stop_for(waiting)
            if monotonic() >= self._tidy_at:
                self.mailbox.forget_old()
                self._tidy_at = monotonic() + _TIDY_SECONDS
        except OSError as error:
            _log.warning("requests cannot be read", extra={"error": str(error)})
            return []
        current = Round(self, waiting, halted=self._ending.is_set)
        current.carry_out()
        return current.answered


class Round:
    """The requests that wait at one time, by file."""

    def __init__(self, by: Requests, waiting: Sequence[Request], *, halted: Callable[[], bool]) -> None:
        self._by, self._mailbox, self._carrier, self._halted = by, by.mailbox, by.carrier, halted
        self._files: dict[str, list[Request]] = {}
        for request in waiting:
            self._files.setdefault(request.id, []).append(request)
        self._replies: dict[tuple[str, int], Reply] = {}
        self._held: set[str] = set()
        """Queries with a request that could not be answered. It waits, and later requests for the same query
        wait for it: carried out after them, it would undo them."""
        self._taken_back: set[str] = set()
        self.answered: list[Request] = []

    def carry_out(self) -> None:
        """Carry out and answer changes in order, as many at once as possible; then all other requests."""
        changes = [
            request for requests in self._files.values() for request in requests if request.do in CHANGES
        ]
        for group in _groups(changes):
            if self._halted():
                return
            self._change(group)
        for requests in self._files.values():
            if requests[0].do not in CHANGES and not self._halted():
                for request in requests:
                    self._replies[request.id, request.item] = reply_of(request, self._carrier.carry_out)
                self._answer(requests)

    def _change(self, group: Sequence[Request]) -> None:
        """Carry out changes of different queries by one commit, and answer the files that are done."""
        ready = self._noted([request for request in group if not self._waits(request)])
        if not ready:
            return
        for request, reply in zip(ready, self._carrier.change(ready, halted=self._halted), strict=True):
            if reply is not None:
                self._replies[request.id, request.item] = reply
        for id in dict.fromkeys(request.id for request in ready):
            if all((id, request.item) in self._replies for request in self._files[id]):
                self._answer(self._files[id])

    def _waits(self, request: Request) -> bool:
        """Say whether a request has to wait; if so, hold all queries that its file is about."""
        names = {_subject(other) for other in self._files[request.id]}
        if names & self._held:
            self._held |= names
        return request.id in self._taken_back or bool(names & self._held)

    def _noted(self, group: Sequence[Request]) -> list[Request]:
        """Store the state before each change: if it is requested again, that shows whether it was made."""
        noted: list[Request] = []
        for id in dict.fromkeys(request.id for request in group):
            own = {
                request.item: request
                if request.before is not None
                else replace(request, before=self._carrier.before(request))
                for request in group
                if request.id == id
            }
            former = self._files[id]
            self._files[id] = [own.get(request.item, request) for request in former]
            try:
                if self._files[id] != former and not self._mailbox.note(self._files[id]):
                    self._taken_back.add(id)
                    continue
                noted += own.values()
            except OSError as error:
                self._hold(self._files[id], error)
        return noted

    def _answer(self, requests: Sequence[Request]) -> None:
        """Answer all requests of a file, unless the next engine has to carry them out."""
        replies = [self._replies[request.id, request.item] for request in requests]
        ok = all(reply.ok for reply in replies)
        try:
            reach("request.carried_out")
            _log.info("request", extra={"do": requests[0].do, "ok": ok, "items": len(requests)})
            if not ok and not self._by.able():
                raise OSError("the engine is at its end; the next one will carry it out")
            self._mailbox.answer_all(requests, replies)
            self.answered += requests
            for request, reply in zip(requests, replies, strict=True):
                if not reply.ok:
                    # The reason may hold values of rows; only the reply has it.
                    _log.warning("a request was refused", extra={"do": request.do, "query": request.query})
                    self._by.on_refusal(request, reply)
            reach("request.answered")
        except OSError as error:
            self._hold(requests, error)

    def _hold(self, requests: Sequence[Request], error: OSError) -> None:
        self._held |= {_subject(request) for request in requests}
        fields = {"do": requests[0].do, "error": str(error)}
        _log.warning("a request cannot be answered", extra=fields)


def _groups(changes: Sequence[Request]) -> Iterator[list[Request]]:
    """Yield changes in groups with each query once: the reply to a change depends on those before it."""
    group: dict[str, Request] = {}
    for request in changes:
        if _subject(request) in group:
            yield list(group.values())
            group = {}
        group[_subject(request)] = request
    if group:
        yield list(group.values())


def _subject(request: Request) -> str:
    """Return what a request is about: its query, or only itself."""
    return request.query or request.id


def reply_of(request: Request, carry_out: Callable[[Request], Reply]) -> Reply:
    """Carry out a request; an error becomes the reply."""
    try:
        return carry_out(request)
    except WeftError as error:
        return Reply(ok=False, said=str(error), error_kind=type(error).__name__)
    except Exception as error:
        # Whatever it was, the thread goes on, and the sender gets the error. The log does not: its text may
        # hold values of rows.
        frames = extract_tb(error.__traceback__)
        at = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
        _log.error("a request failed", extra={"do": request.do, "kind": type(error).__name__, "at": at})
        kind = type(error).__name__
        return Reply(ok=False, said=f"{request.do} failed: {kind}: {error}", error_kind=kind)
