"""Requests from other terminals, and the answers to them: files in a checkpoint.

requests/<time>-<id>.json   written by a command, removed once it is carried out and answered
answers/<id>.json           written by the engine, removed by the command

All requests of one command are one file, and so is the answer to them.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from weft.errors import DamagedFile
from weft.storage.folder import Folder

CHANGES = frozenset({"add", "drop", "pause", "resume"})
"""Requests that change queries: they wait for the next engine if the present one ends."""
Asked = tuple[str, Mapping[str, object]]
"""What is asked for, and its arguments."""
_SEVERAL = "apply"
"""Stands for the kind of requests of several kinds."""
_KEPT_SECONDS = 3_600.0
"""How long an unread answer is retained."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to an engine."""

    id: str
    """Shared by all requests of one file."""
    do: str
    """add, drop, pause, resume, list, show or stop."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """The arguments."""
    before: str | None = None
    """The state of its query before it was first carried out; None if that has not begun."""
    item: int = 0
    """Its position in the file."""

    @property
    def query(self) -> str:
        """The name of the query that it is about, or an empty string."""
        return str(self.given.get("name", ""))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The outcome of a request."""

    ok: bool
    said: str
    """The outcome for people: what was done, or why not."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """The outcome for programs."""
    error_kind: str | None = None
    """The class of the error, if it was refused."""


class Mailbox:
    """The requests and answers of one checkpoint."""

    def __init__(self, checkpoint: Folder) -> None:
        self._requests = checkpoint.folder("requests")
        self._answers = checkpoint.folder("answers")

    def ask(self, do: str, **given: object) -> Request:
        """Write a request."""
        return self.ask_all(do, [given])[0]

    def ask_all(self, do: str, given: Sequence[Mapping[str, object]]) -> list[Request]:
        """Write one request for each set of arguments, to be carried out in order."""
        return self.ask_each([(do, arguments) for arguments in given])

    def ask_each(self, asked: Sequence[Asked]) -> list[Request]:
        """Write requests, each with its arguments, in one file, to be carried out in order."""
        id = uuid4().hex
        requests = [
            Request(id=id, do=do, given=arguments, item=item) for item, (do, arguments) in enumerate(asked)
        ]
        self._requests.write(f"{time.time_ns():020d}-{id}.json", _encoded(requests))
        return requests

    def fetch(self, request: Request, *, seconds: float) -> Reply | None:
        """Wait for the answer to a single request; None if it does not come in time."""
        replies = self.fetch_all([request], seconds=seconds)
        return None if replies is None else replies[0]

    def fetch_all(self, requests: Sequence[Request], *, seconds: float) -> list[Reply] | None:
        """Wait for the answers to the requests of a file; None if they do not come in time."""
        deadline = time.monotonic() + seconds
        name = f"{requests[0].id}.json"
        while True:
            try:
                answer = json.loads(self._answers.read(name))
                break
            except FileNotFoundError:
                if time.monotonic() >= deadline:
                    return None
            time.sleep(0.05)
        self._answers.delete(name)
        if "replies" in answer:
            return [_reply(record) for record in answer["replies"]]
        # The requests could not be read: a single answer for all.
        return [_reply(answer)] * len(requests)

    def withdraw(self, request: Request) -> None:
        """Withdraw a request, with all others of its file, if there is no answer yet."""
        if name := self._name_of(request):
            self._requests.delete(name)

    def names(self) -> list[str]:
        """Return the files of requests, oldest first."""
        return self._requests.names()

    def read(self, name: str) -> list[Request]:
        """Return the requests of a file; none if the file is gone, or unreadable and answered with that."""
        id = name.rpartition("-")[2].removesuffix(".json")
        try:
            stored = json.loads(self._requests.read(name))
            items = stored.get("items", [stored])
            if not items:
                raise ValueError("no requests")
            return [
                Request(
                    id=id, do=str(entry.get("do", stored["do"])), given=dict(entry["given"]), item=item,
                    before=None if entry.get("before") is None else str(entry["before"]),
                )
                for item, entry in enumerate(items)
            ]  # fmt: skip
        except FileNotFoundError:
            return []
        except (ValueError, TypeError, KeyError, AttributeError, DamagedFile):
            self._requests.delete(name)
            self._write_answer(id, [Reply(ok=False, said="the request cannot be read; ask again")])
            return []

    def waiting(self) -> list[Request]:
        """Return the pending requests, oldest first; unreadable ones are answered and removed."""
        return [request for name in self.names() for request in self.read(name)]

    def discard(self, *kinds: str) -> None:
        """Remove requests of some kinds that were meant for an engine that has ended."""
        for request in self.waiting():
            if request.do in kinds:
                self.withdraw(request)

    def note(self, requests: Sequence[Request]) -> bool:
        """Store the states of queries with the requests of a file; False if these were withdrawn."""
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
        """Remove answers that were not read for an hour, and unreadable ones."""
        for name in self._answers.names():
            try:
                answer = json.loads(self._answers.read(name))
                answered = float((answer if "replies" in answer else answer["found"])["answered_at"])
            except FileNotFoundError:
                continue
            except (ValueError, TypeError, KeyError, DamagedFile):
                answered = 0.0
            if time.time() - answered > _KEPT_SECONDS:
                self._answers.delete(name)

    def _name_of(self, request: Request) -> str | None:
        """Return the name of a request's file, or None if it is gone."""
        return next((name for name in self.names() if name.endswith(f"-{request.id}.json")), None)

    def _write_answer(self, id: str, replies: Sequence[Reply]) -> None:
        now, [first, *others] = time.time(), [_record(reply) for reply in replies]
        if others:
            answer: dict[str, Any] = {"replies": [first, *others], "answered_at": now}
        else:
            # The format of versions that knew one request a file: the command may be of one.
            answer = {**first, "found": {**first["found"], "answered_at": now}}
        self._answers.write(f"{id}.json", json.dumps(answer).encode(), replace=True)


def _record(reply: Reply) -> dict[str, Any]:
    record = {"ok": reply.ok, "said": reply.said, "found": reply.found}
    return record if reply.error_kind is None else {**record, "error_kind": reply.error_kind}


def _reply(record: Mapping[str, Any]) -> Reply:
    kind = record.get("error_kind")
    return Reply(ok=record["ok"], said=record["said"], found=record["found"], error_kind=kind)


def _encoded(requests: Sequence[Request]) -> bytes:
    """Return the requests of a file; a single one has the format of versions that knew one a file.

    Requests of several kinds each have their own; versions that do not know that refuse the file.
    """
    alike = len({request.do for request in requests}) == 1
    items: list[dict[str, Any]] = [
        {
            **({} if alike else {"do": request.do}),
            "given": request.given,
            **({} if request.before is None else {"before": request.before}),
        }
        for request in requests
    ]
    body = {"items": items} if len(items) > 1 else items[0]
    return json.dumps({"do": requests[0].do if alike else _SEVERAL, **body}).encode()
