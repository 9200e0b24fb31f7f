"""Words from another terminal: requests are files beside a checkpoint, and so are their answers.

requests/<time>-<id>.json   written by whoever asks, removed once it is carried out and answered
answers/<id>.json           written by the engine, removed by whoever asked
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from weft.errors import DamagedFile
from weft.storage.folder import Folder

_KEPT_SECONDS = 3_600.0
"""How long an answer that nobody fetches is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Something asked of an engine."""

    id: str
    do: str
    """add, drop, pause, resume, list, show or stop."""
    given: Mapping[str, Any] = field(default_factory=dict)
    before: str | None = None
    """How its query fared before it was first carried out; None if that was not begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What came of a request."""

    ok: bool
    said: str
    """For people: what was done, or why not."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """For programs."""


class Mailbox:
    """The requests and answers of one checkpoint."""

    def __init__(self, checkpoint: Folder) -> None:
        self._requests = checkpoint.folder("requests")
        self._answers = checkpoint.folder("answers")

    def ask(self, do: str, **given: object) -> Request:
        """Leave a request."""
        request = Request(id=uuid4().hex, do=do, given=given)
        name = f"{time.time_ns():020d}-{request.id}.json"
        self._requests.write(name, json.dumps({"do": do, "given": given}).encode())
        return request

    def fetch(self, request: Request, *, seconds: float) -> Reply | None:
        """Wait for the answer; None if the time is up."""
        deadline = time.monotonic() + seconds
        name = f"{request.id}.json"
        while True:
            try:
                reply = Reply(**json.loads(self._answers.read(name)))
            except FileNotFoundError:
                if time.monotonic() >= deadline:
                    return None
                time.sleep(0.05)
            else:
                self._answers.delete(name)
                return reply

    def withdraw(self, request: Request) -> None:
        """Take a request back that nobody has answered."""
        for name in self._requests.names():
            if name.endswith(f"-{request.id}.json"):
                self._requests.delete(name)

    def waiting(self) -> list[Request]:
        """Return the requests that wait, oldest first; what cannot be read as one is answered and removed."""
        found = []
        for name in self._requests.names():
            id = name.rpartition("-")[2].removesuffix(".json")
            try:
                read = json.loads(self._requests.read(name))
                before = None if read.get("before") is None else str(read["before"])
                found.append(Request(id=id, do=str(read["do"]), given=dict(read["given"]), before=before))
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, KeyError, AttributeError, DamagedFile):
                self._requests.delete(name)
                self._write_answer(id, Reply(ok=False, said="the request cannot be read; ask again"))
        return found

    def discard(self, *kinds: str) -> None:
        """Remove requests of some kinds that were meant for an engine that is gone."""
        for request in self.waiting():
            if request.do in kinds:
                self.withdraw(request)

    def note(self, request: Request) -> None:
        """Keep with a request how its query fares before it is carried out."""
        written = json.dumps({"do": request.do, "given": request.given, "before": request.before})
        for name in self._requests.names():
            if name.endswith(f"-{request.id}.json"):
                self._requests.write(name, written.encode(), replace=True)

    def answer(self, request: Request, reply: Reply) -> None:
        """Answer a request, and remove it."""
        self._write_answer(request.id, reply)
        self.withdraw(request)

    def forget_old(self) -> None:
        """Remove answers that nobody fetched for an hour, and what cannot be read as one."""
        for name in self._answers.names():
            try:
                answered = float(json.loads(self._answers.read(name))["found"]["answered_at"])
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, KeyError, DamagedFile):
                answered = 0.0
            if time.time() - answered > _KEPT_SECONDS:
                self._answers.delete(name)

    def _write_answer(self, id: str, reply: Reply) -> None:
        found = {**reply.found, "answered_at": time.time()}
        said = json.dumps({"ok": reply.ok, "said": reply.said, "found": found}).encode()
        self._answers.write(f"{id}.json", said, replace=True)
