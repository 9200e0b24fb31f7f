"""Sends requests to a running engine, from another terminal."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep

from weft.errors import EngineError
from weft.spark.session.local import local_session
from weft.storage import Folder, LocalFolder, open_folder
from weft.storage.lock import Holder, holder
from weft.storage.mailbox import CHANGES, Mailbox, Reply, Request

_LOOK_SECONDS = 0.5
"""Poll interval for the end of the engine."""
_DONE = {"add": "added", "drop": "dropped", "pause": "paused", "resume": "resumed"}
"""Participles of the changes of queries."""


def open_checkpoint(location: str) -> Folder:
    """Return a checkpoint's folder; raise EngineError if there is none."""
    folder = open_folder(location, local_session)
    names = folder.names()
    # An engine leaves its lock's file behind on a local disk; elsewhere it removes it.
    if not names or (isinstance(folder, LocalFolder) and "lock.json" not in names):
        problem = "has no checkpoint in it" if names else "is not there, or empty"
        raise EngineError(f"{location} {problem}; name the folder that was given to weft run as --checkpoint")
    return folder


class Caller:
    """A terminal that sends requests to the engine of a checkpoint."""

    def __init__(self, folder: Folder, *, seconds: float) -> None:
        self._folder = folder
        self._mailbox = Mailbox(folder)
        self._seconds = seconds
        self.engine: Holder | None = holder(folder)
        """The engine that runs on the checkpoint, if any."""

    def ask(
        self, do: str, given: Sequence[Mapping[str, object]], *, on_wait: Callable[[], None] = lambda: None
    ) -> list[Reply]:
        """Send one request for each set of arguments, in one file, and return the replies in order.

        An interrupt withdraws the requests. `on_wait` is called now and then while waiting.
        """
        requests = self._mailbox.ask_all(do, given)
        try:
            return self._await_replies(requests, on_wait)
        except KeyboardInterrupt:
            self._mailbox.withdraw(requests[0])
            raise

    def stop(self) -> Reply:
        """Request a stop of the engine, and wait until it has ended."""
        if self.engine is None:
            return Reply(ok=True, said=f"no engine runs on {self._folder.uri}: there is nothing to stop")
        process = {"process": self.engine.pid, "host": self.engine.host}
        request = self._mailbox.ask("stop")
        deadline = monotonic() + self._seconds
        try:
            while monotonic() < deadline:
                reply = self._mailbox.fetch(request, seconds=0)
                if reply is not None and not reply.ok:
                    return reply
                if self._has_gone():
                    # Unanswered, it would stop the next engine.
                    self._mailbox.withdraw(request)
                    return Reply(ok=True, said=f"{self.engine} has stopped", found=process)
                sleep(0.05)
        except KeyboardInterrupt:
            self._mailbox.withdraw(request)
            raise
        asked = f"{self.engine} was asked to stop"
        if self._seconds:
            asked += f" and has not yet, after {self._seconds:g} s; it finishes its batch first"
        return Reply(ok=self._seconds == 0, said=asked, found=process)

    def _await_replies(self, requests: Sequence[Request], on_wait: Callable[[], None]) -> list[Reply]:
        deadline = monotonic() + self._seconds
        while self.engine is not None:
            left = deadline - monotonic()
            replies = self._mailbox.fetch_all(requests, seconds=max(0.0, min(left, _LOOK_SECONDS)))
            if replies is not None:
                return replies
            if left <= 0:
                return self._unanswered(requests)
            if self._has_gone():
                # It may have answered just before.
                return self._mailbox.fetch_all(requests, seconds=0) or self._without_engine(requests)
            on_wait()
        return self._without_engine(requests)

    def _without_engine(self, requests: Sequence[Request]) -> list[Reply]:
        if requests[0].do in CHANGES:
            idle = f"no engine runs on {self._folder.uri}"
            return _pending(requests, f"{idle}: {_to_be_done(requests)} when one starts")
        self._mailbox.withdraw(requests[0])
        return [Reply(ok=False, said=f"{self.engine} stopped before it answered; ask again")]

    def _unanswered(self, requests: Sequence[Request]) -> list[Reply]:
        late = f"{self.engine} did not answer within {self._seconds:g} s"
        if requests[0].do not in CHANGES:
            self._mailbox.withdraw(requests[0])
            return [Reply(ok=False, said=f"{late}; --wait allows it more")]
        if self._seconds == 0:
            return _pending(requests, f"{self.engine} was asked; {_to_be_done(requests)} at the next batch")
        stands = f"the request stands: {_to_be_done(requests)} after the batch under way"
        return _pending(requests, f"{late}; {stands}", ok=False)

    def _has_gone(self) -> bool:
        current = holder(self._folder)
        return self.engine is not None and (current is None or current.id != self.engine.id)


def _to_be_done(requests: Sequence[Request]) -> str:
    """Return what will be done, and to which query or to how many."""
    queries = f"{len(requests):,} queries" if len(requests) > 1 else f'query "{requests[0].query}"'
    return f"{queries} will be {_DONE[requests[0].do]}"


def _pending(requests: Sequence[Request], said: str, *, ok: bool = True) -> list[Reply]:
    """Return the same reply for each unanswered request: people read it once, programs for each."""
    return [Reply(ok=ok, said=said, found={"name": request.query, "waits": True}) for request in requests]
