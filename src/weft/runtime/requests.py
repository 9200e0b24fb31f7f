"""Carry out what other terminals ask for, while streams run."""

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import monotonic
from traceback import extract_tb
from typing import Protocol

from weft.errors import WeftError
from weft.faultpoints import reach
from weft.storage.mailbox import Mailbox, Reply, Request

_LOOK_SECONDS = 0.2
_TIDY_SECONDS = 60.0
"""How often answers that nobody fetched are looked at."""
_log = logging.getLogger("weft.runtime")


class Carrier(Protocol):
    """Who carries requests out."""

    def before(self, request: Request) -> str | None:
        """Return how the query that is to be changed fares, or None if the request changes nothing."""

    def carry_out(self, request: Request) -> Reply:
        """Do what is asked for; a WeftError is the reason why not."""


class Requests:
    """A thread that looks for requests and answers them, one after the other."""

    def __init__(
        self,
        mailbox: Mailbox,
        carrier: Carrier,
        *,
        able: Callable[[], bool] = lambda: True,
        on_refusal: Callable[[Request, Reply], None] | None = None,
    ) -> None:
        """Have refusals told to `on_refusal`, too: whoever asked may not wait for the answer any more."""
        self._mailbox, self._carrier, self._able = mailbox, carrier, able
        self._on_refusal = on_refusal or (lambda request, reply: None)
        self._tidy_at = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft-requests", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Stop looking; what waits will wait for the next run."""
        self._ending.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            self.look()

    def _refused(self, request: Request, reply: Reply) -> None:
        # The reason may hold values of rows; it is in the answer.
        fields = {"do": request.do, "query": str(request.given.get("name", ""))}
        _log.warning("a request was refused", extra=fields)
        self._on_refusal(request, reply)

    def look(self) -> list[Request]:
        """Carry out what waits now; return what was answered."""
        try:
            waiting = self._mailbox.waiting()
            if monotonic() >= self._tidy_at:
                self._mailbox.forget_old()
                self._tidy_at = monotonic() + _TIDY_SECONDS
        except OSError as error:
            _log.warning("requests cannot be read", extra={"error": str(error)})
            return []
        answered: list[Request] = []
        unanswered: set[str] = set()
        for request in waiting:
            if self._ending.is_set():
                break
            name = str(request.given.get("name", request.id))
            if name in unanswered:
                continue
            try:
                reply = self._reply(self._noted(request))
                if not reply.ok and not self._able():
                    raise OSError("the engine is at its end; the next one will carry it out")
                self._mailbox.answer(request, reply)
                answered.append(request)
                if not reply.ok:
                    self._refused(request, reply)
                reach("request.answered")
            except OSError as error:
                # It waits, and so do others for its query: done again after them, it would undo them.
                unanswered.add(name)
                fields = {"do": request.do, "error": str(error)}
                _log.warning("a request cannot be answered", extra=fields)
        return answered

    def _noted(self, request: Request) -> Request:
        """Note how things are before a change: should it come again, that shows whether it was made."""
        before = self._carrier.before(request) if request.before is None else None
        if before is None:
            return request
        noted = replace(request, before=before)
        self._mailbox.note(noted)
        return noted

    def _reply(self, request: Request) -> Reply:
        try:
            reply = self._carrier.carry_out(request)
        except WeftError as error:
            reply = Reply(ok=False, said=str(error))
        except Exception as error:
            # Whatever it was, the thread must go on, and whoever asked must hear of it. The log must not:
            # the text may hold values of rows.
            fields = {"do": request.do, "kind": type(error).__name__, "at": _place(error)}
            _log.error("a request failed", extra=fields)
            reply = Reply(ok=False, said=f"{request.do} failed: {type(error).__name__}: {error}")
        reach("request.carried_out")
        _log.info("request", extra={"do": request.do, "ok": reply.ok})
        return reply


def _place(error: BaseException) -> str:
    """Return where in the code an error was raised."""
    frames = extract_tb(error.__traceback__)
    return f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
