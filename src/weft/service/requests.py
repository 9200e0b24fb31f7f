"""Carry out what other terminals ask for, while streams run."""

import logging
import threading
from collections.abc import Callable, Sequence
from time import monotonic

from weft.service.carrying import Carrier, Round
from weft.service.replies import reply_of
from weft.storage.mailbox import Mailbox, Reply, Request

_LOOK_SECONDS = 0.2
_TIDY_SECONDS = 60.0
"""How often answers that nobody fetched are looked at."""
_log = logging.getLogger("weft.service")


class Requests:
    """Two threads: one carries out what waits, all of it together; one looks only for a stop.

    A stop is carried out at once. What is under way is left off at its next step, and waits with what was not
    begun for the next run.
    """

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
        self._seen: set[str] = set()
        """Files that hold no stop."""
        self._ending = threading.Event()
        self._stopping = threading.Lock()
        self._threads = [
            threading.Thread(target=self._repeat, args=(act,), name=name, daemon=True)
            for name, act in (("weft-stops", self.look_for_stop), ("weft-requests", self.look))
        ]

    def start_looking_for_stops(self) -> None:
        """Begin to look for a stop."""
        self._threads[0].start()

    def start(self) -> None:
        """Begin to look for everything."""
        for thread in self._threads:
            if thread.ident is None:
                thread.start()

    def close(self) -> None:
        """Stop looking; what waits will wait for the next run."""
        self._ending.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join()

    def _repeat(self, act: Callable[[], object]) -> None:
        while not self._ending.wait(_LOOK_SECONDS):
            act()

    def look_for_stop(self) -> None:
        """Carry out a stop that is asked for, whatever else waits or is under way."""
        try:
            names = self._mailbox.names()
            unseen, self._seen = [name for name in names if name not in self._seen], set(names)
            self._stop_for([request for name in unseen for request in self._mailbox.read(name)])
        except OSError as error:
            self._seen = set()
            _log.warning("requests cannot be read", extra={"error": str(error)})

    def _stop_for(self, requests: Sequence[Request]) -> None:
        """Carry out the first stop there is; others see the engine leave, and need no answer."""
        for request in requests:
            if request.do == "stop":
                with self._stopping:
                    first = not self._ending.is_set()
                    self._ending.set()
                if first:
                    self._mailbox.answer(request, reply_of(request, self._carrier.carry_out))

    def look(self) -> list[Request]:
        """Carry out what waits now; return what was answered."""
        try:
            waiting = self._mailbox.waiting()
            self._stop_for(waiting)
            if monotonic() >= self._tidy_at:
                self._mailbox.forget_old()
                self._tidy_at = monotonic() + _TIDY_SECONDS
        except OSError as error:
            _log.warning("requests cannot be read", extra={"error": str(error)})
            return []
        current = Round(
            self._mailbox, self._carrier, waiting, able=self._able, halted=self._ending.is_set,
            on_refusal=self._on_refusal,
        )  # fmt: skip
        current.carry_out()
        return current.answered
