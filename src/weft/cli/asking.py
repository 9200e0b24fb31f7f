"""Asking a running engine for something, from another terminal."""

from collections.abc import Iterator, Mapping, Sequence
from time import monotonic, sleep

from weft.errors import EngineError
from weft.spark.session import local_session
from weft.storage import Folder, LocalFolder, open_folder
from weft.storage.lock import Holder, holder
from weft.storage.mailbox import Mailbox, Reply, Request

_LOOK_SECONDS = 0.5
"""How often it is looked whether the engine is still there."""
_DONE = {"add": "added", "drop": "dropped", "pause": "paused", "resume": "resumed"}
"""Requests that outlive an engine: the next one carries them out."""


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

    def ask(self, do: str, given: Sequence[Mapping[str, object]]) -> Iterator[Reply]:
        """Ask for the same with each of the given, and yield what came of it, in order.

        Who stops waiting takes back what was not answered yet.
        """
        requests = [self._mailbox.ask(do, **one) for one in given]
        deadline = monotonic() + self._seconds
        pending = list(requests)
        try:
            for request in requests:
                reply = self._reply(request, deadline)
                pending.remove(request)
                yield reply
        except (KeyboardInterrupt, GeneratorExit):
            for request in pending:
                self._mailbox.withdraw(request)
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

    def _reply(self, request: Request, deadline: float) -> Reply:
        while self.engine is not None:
            left = deadline - monotonic()
            reply = self._mailbox.fetch(request, seconds=max(0.0, min(left, _LOOK_SECONDS)))
            if reply is not None:
                return reply
            if left <= 0:
                return self._unanswered(request)
            if self._has_gone():
                # It may have answered just before.
                return self._mailbox.fetch(request, seconds=0) or self._left(request)
        return self._left(request)

    def _left(self, request: Request) -> Reply:
        """Return what to say when no engine runs."""
        if request.do not in _DONE:
            self._mailbox.withdraw(request)
            return Reply(ok=False, said=f"{self.engine} stopped before it answered; ask again")
        name = request.given["name"]
        return Reply(
            ok=True,
            said=f'no engine runs on {self._folder.uri}: query "{name}" will be {_DONE[request.do]} '
            "when one starts",
            found={"name": name, "waits": True},
        )

    def _unanswered(self, request: Request) -> Reply:
        if request.do not in _DONE:
            self._mailbox.withdraw(request)
            said = f"{self.engine} did not answer within {self._seconds:g} s; --wait allows it more"
            return Reply(ok=False, said=said)
        name = request.given["name"]
        if self._seconds == 0:
            said = f'{self.engine} was asked; query "{name}" will be {_DONE[request.do]} at the next batch'
            return Reply(ok=True, said=said, found={"name": name, "waits": True})
        return Reply(
            ok=False,
            said=f"{self.engine} did not answer within {self._seconds:g} s; the request stands: query "
            f'"{name}" will be {_DONE[request.do]} after the batch under way',
            found={"name": name, "waits": True},
        )

    def _has_gone(self) -> bool:
        now = holder(self._folder)
        return self.engine is not None and (now is None or now.id != self.engine.id)

    def _who(self) -> dict[str, object]:
        return {} if self.engine is None else {"process": self.engine.pid, "host": self.engine.host}
