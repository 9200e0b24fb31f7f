"""Carry out what other terminals ask for, while streams run."""

import logging
import threading
from collections.abc import Callable

from weft.errors import WeftError
from weft.faultpoints import reach
from weft.storage.mailbox import Mailbox, Reply, Request

CarryOut = Callable[[Request], Reply]
"""Does what a request asks for; a WeftError is the reason why not."""
_LOOK_SECONDS = 0.2
_log = logging.getLogger("weft.runtime")


class Requests:
    """A thread that looks for requests and answers them, one after the other."""

    def __init__(self, mailbox: Mailbox, carry_out: CarryOut) -> None:
        self._mailbox, self._carry_out = mailbox, carry_out
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
            try:
                for request in self._mailbox.waiting():
                    if self._ending.is_set():
                        break
                    self._mailbox.answer(request, self._reply(request))
                    reach("request.answered")
                self._mailbox.forget_old()
            except OSError as error:
                _log.warning("requests cannot be read or answered", extra={"error": str(error)})

    def _reply(self, request: Request) -> Reply:
        try:
            reply = self._carry_out(request)
        except WeftError as error:
            reply = Reply(ok=False, said=str(error))
        except Exception as error:
            # Whatever it was, the thread must go on, and whoever asked must hear of it.
            _log.exception("a request failed", extra={"do": request.do})
            reply = Reply(ok=False, said=f"{request.do} failed: {type(error).__name__}: {error}")
        reach("request.carried_out")
        _log.info("request", extra={"do": request.do, "ok": reply.ok})
        return reply
