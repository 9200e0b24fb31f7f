"""Asking a running engine for something, from another terminal."""

from collections.abc import Callable, Mapping, Sequence
from time import monotonic, sleep

from weft.errors import EngineError
from weft.spark.session.local import local_session
from weft.storage import Folder, LocalFolder, open_folder
from weft.storage.lock import Holder, holder
from weft.storage.mailbox import CHANGES, Mailbox, Reply, Request

_LOOK_SECONDS = 0.5
"""How often it is looked whether the engine is still there."""
_DONE = {"add": "added", "drop": "dropped", "pause": "paused", "resume": "resumed"}
"""What will have been done to a query."""


def open_checkpoint(place: str) -> Folder:
    """Return a checkpoint's folder; raise EngineError if there is none."""
    folder = open_folder(place, local_session)
    names = folder.names()
    # An engine leaves its lock's file behind on a local disk; elsewhere it removes it.
    if not names or (isinstance(folder, LocalFolder) and "lock.json" not in names):
        problem = "has no checkpoint in it" if names else "is not there, or empty"
        raise EngineError(f"{place} {problem}; name the folder that was given to weft run as --checkpoint")
    return folder


class Caller:
    """One terminal's line to the engine of a checkpoint."""

    def __init__(self, folder: Folder, *, seconds: float) -> None:
        self._folder = folder
        self._mailbox = Mailbox(folder)
        self._seconds = seconds
        self.engine: Holder | None = holder(folder)
        """The engine that runs on the checkpoint, if one does."""

    def ask(
        self, do: str, given: Sequence[Mapping[str, object]], *, on_wait: Callable[[], None] = lambda: None
    ) -> list[Reply]:
        """Ask for the same with each of the given, at once, and return what came of each, in order.

        Who stops waiting takes back what was asked for. `on_wait` is called now and then meanwhile.
        """
        requests = self._mailbox.ask_all(do, given)
        try:
            return self._replies(requests, monotonic() + self._seconds, on_wait)
        except KeyboardInterrupt:
            self._mailbox.withdraw(requests[0])
            raise

    def stop(self) -> Reply:
        """Ask the engine to stop, and wait until it is gone."""
        if self.engine is None:
            return Reply(ok=True, said=f"no engine runs on {self._folder.uri}: there is nothing to stop")
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
                    return Reply(ok=True, said=f"{self.engine} has stopped", found=self._who())
                sleep(0.05)
        except KeyboardInterrupt:
            self._mailbox.withdraw(request)
            raise
        return Reply(
            ok=self._seconds == 0,
            said=f"{self.engine} was asked to stop"
            + (
                f" and has not yet, after {self._seconds:g} s; it finishes its batch first"
                if self._seconds
                else ""
            ),
            found=self._who(),
        )

    def _replies(
        self, requests: Sequence[Request], deadline: float, on_wait: Callable[[], None]
    ) -> list[Reply]:
        while self.engine is not None:
            left = deadline - monotonic()
            replies = self._mailbox.fetch_all(requests, seconds=max(0.0, min(left, _LOOK_SECONDS)))
            if replies is not None:
                return replies
            if left <= 0:
                return self._unanswered(requests)
            if self._has_gone():
                # It may have answered just before.
                return self._mailbox.fetch_all(requests, seconds=0) or self._left(requests)
            on_wait()
        return self._left(requests)

    def _left(self, requests: Sequence[Request]) -> list[Reply]:
        """Return what to say when no engine runs."""
        do = requests[0].do
        if do not in CHANGES:
            self._mailbox.withdraw(requests[0])
            return [Reply(ok=False, said=f"{self.engine} stopped before it answered; ask again")]
        return _waits(requests, f"no engine runs on {self._folder.uri}: {_to_be(requests)} when one starts")

    def _unanswered(self, requests: Sequence[Request]) -> list[Reply]:
        late = f"{self.engine} did not answer within {self._seconds:g} s"
        if requests[0].do not in CHANGES:
            self._mailbox.withdraw(requests[0])
            return [Reply(ok=False, said=f"{late}; --wait allows it more")]
        if self._seconds == 0:
            return _waits(requests, f"{self.engine} was asked; {_to_be(requests)} at the next batch")
        stands = f"the request stands: {_to_be(requests)} after the batch under way"
        return _waits(requests, f"{late}; {stands}", ok=False)

    def _has_gone(self) -> bool:
        now = holder(self._folder)
        return self.engine is not None and (now is None or now.id != self.engine.id)

    def _who(self) -> dict[str, object]:
        return {} if self.engine is None else {"process": self.engine.pid, "host": self.engine.host}


def _to_be(requests: Sequence[Request]) -> str:
    """Return what will be done, and to which query or how many."""
    several = f"{len(requests):,} queries" if len(requests) > 1 else f'query "{requests[0].query}"'
    return f"{several} will be {_DONE[requests[0].do]}"


def _waits(requests: Sequence[Request], said: str, *, ok: bool = True) -> list[Reply]:
    """Return the same for each request that is not answered: people read it once, programs of each."""
    return [Reply(ok=ok, said=said, found={"name": one.query, "waits": True}) for one in requests]
