"""Words from another terminal: requests are files beside a checkpoint, and so are their answers.

requests/<time>-<id>.json   written by whoever asks, removed once it is carried out and answered
answers/<id>.json           written by the engine, removed by whoever asked

All that a command asks for is one file, and so is the answer to it.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

from weft.errors import DamagedFile
from weft.storage.folder import Folder

CHANGES = frozenset({"add", "drop", "pause", "resume"})
"""What changes queries; a request for it outlives the engine that was asked."""
_KEPT_SECONDS = 3_600.0
"""How long an answer that nobody fetches is kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Something asked of an engine."""

    id: str
    """Shared by all that was asked for at once, in one file."""
    do: str
    """add, drop, pause, resume, list, show or stop."""
    given: Mapping[str, Any] = field(default_factory=dict)
    before: str | None = None
    """How its query fared before it was first carried out; None if that was not begun."""
    item: int = 0
    """Its place in the file."""

    @property
    def query(self) -> str:
        """The name of the query that it is about, or an empty text."""
        return str(self.given.get("name", ""))


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
        return self.ask_all(do, [given])[0]

    def ask_all(self, do: str, given: Sequence[Mapping[str, object]]) -> list[Request]:
        """Leave requests for the same with each of the given, to be carried out in order."""
        id = uuid4().hex
        requests = [Request(id=id, do=do, given=one, item=item) for item, one in enumerate(given)]
        self._requests.write(f"{time.time_ns():020d}-{id}.json", _encoded(requests))
        return requests

    def fetch(self, request: Request, *, seconds: float) -> Reply | None:
        """Wait for the answer to a request; None if the time is up."""
        replies = self.fetch_all([request], seconds=seconds)
        return None if replies is None else replies[0]

    def fetch_all(self, requests: Sequence[Request], *, seconds: float) -> list[Reply] | None:
        """Wait for the answers to all that was asked for at once; None if the time is up."""
        deadline = time.monotonic() + seconds
        name = f"{requests[0].id}.json"
        while True:
            try:
                read = json.loads(self._answers.read(name))
            except FileNotFoundError:
                if time.monotonic() >= deadline:
                    return None
                time.sleep(0.05)
            else:
                self._answers.delete(name)
                if "replies" in read:
                    return [Reply(**one) for one in read["replies"]]
                # One answer to all: what was asked for could not be read.
                return [Reply(**read)] * len(requests)

    def withdraw(self, request: Request) -> None:
        """Take back all that was asked for with a request, and that nobody has answered."""
        if name := self._name_of(request):
            self._requests.delete(name)

    def names(self) -> list[str]:
        """Return the files of requests, oldest first."""
        return self._requests.names()

    def read(self, name: str) -> list[Request]:
        """Return the requests of a file; none if it is gone, or was answered since it holds no requests."""
        id = name.rpartition("-")[2].removesuffix(".json")
        try:
            return _decoded(id, json.loads(self._requests.read(name)))
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, KeyError, AttributeError, DamagedFile):
            self._requests.delete(name)
            self._write_answer(id, [Reply(ok=False, said="the request cannot be read; ask again")])
            return []

    def waiting(self) -> list[Request]:
        """Return the requests that wait, oldest first; what cannot be read as one is answered and removed."""
        return [request for name in self.names() for request in self.read(name)]

    def discard(self, *kinds: str) -> None:
        """Remove requests of some kinds that were meant for an engine that is gone."""
        for request in self.waiting():
            if request.do in kinds:
                self.withdraw(request)

    def note(self, requests: Sequence[Request]) -> bool:
        """Keep with the requests of a file how their queries fare; False if they were taken back."""
        name = self._name_of(requests[0])
        if name is not None:
            self._requests.write(name, _encoded(requests), replace=True)
        return name is not None

    def answer(self, request: Request, reply: Reply) -> None:
        """Answer a request that is alone in its file, and remove it."""
        self.answer_all([request], [reply])

    def answer_all(self, requests: Sequence[Request], replies: Sequence[Reply]) -> None:
        """Answer all requests of a file, and remove it."""
        self._write_answer(requests[0].id, replies)
        self.withdraw(requests[0])

    def forget_old(self) -> None:
        """Remove answers that nobody fetched for an hour, and what cannot be read as one."""
        for name in self._answers.names():
            try:
                read = json.loads(self._answers.read(name))
                answered = float((read if "replies" in read else read["found"])["answered_at"])
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, KeyError, DamagedFile):
                answered = 0.0
            if time.time() - answered > _KEPT_SECONDS:
                self._answers.delete(name)

    def _name_of(self, request: Request) -> str | None:
        """Return the name of a request's file, or None if there is none any more."""
        return next((name for name in self.names() if name.endswith(f"-{request.id}.json")), None)

    def _write_answer(self, id: str, replies: Sequence[Reply]) -> None:
        now, [first, *others] = time.time(), [asdict(reply) for reply in replies]
        if others:
            written: dict[str, Any] = {"replies": [first, *others], "answered_at": now}
        else:
            # As versions did that knew one request a file: whoever asked may be one.
            written = {**first, "found": {**first["found"], "answered_at": now}}
        self._answers.write(f"{id}.json", json.dumps(written).encode(), replace=True)


def _encoded(requests: Sequence[Request]) -> bytes:
    """Return what asks for the same several times; a single request is written as it always was."""
    items = [
        {"given": one.given} if one.before is None else {"given": one.given, "before": one.before}
        for one in requests
    ]
    written = {"items": items} if len(items) > 1 else items[0]
    return json.dumps({"do": requests[0].do, **written}).encode()


def _decoded(id: str, read: Mapping[str, Any]) -> list[Request]:
    items = read.get("items", [read])
    if not items:
        raise ValueError("nothing is asked for")
    return [
        Request(
            id=id,
            do=str(read["do"]),
            given=dict(one["given"]),
            before=None if one.get("before") is None else str(one["before"]),
            item=item,
        )
        for item, one in enumerate(items)
    ]
