"""`weft add`, `drop`, `pause`, `resume`, `list`, `show`, `stop`: requests to a running engine."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from time import monotonic, sleep
from typing import Annotated, Any

import typer
from rich.console import Console

from weft.cli.checking import read_changes, read_text
from weft.cli.listing import print_list, print_query, read_listed
from weft.errors import EngineError, NameMissing, UnknownName, suggestion
from weft.limits import NAMES, Limits
from weft.query import CreateQuery, parse_select
from weft.service.status import read_registry
from weft.spark.session.local import local_session
from weft.storage import Folder, LocalFolder, open_folder
from weft.storage.lock import Holder, holder
from weft.storage.mailbox import CHANGES, Asked, Mailbox, Reply, Request

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

    def ask_each(self, asked: Sequence[Asked], *, on_wait: Callable[[], None] = lambda: None) -> list[Reply]:
        """Send requests in one file, and return the replies in order.

        An interrupt withdraws the requests. `on_wait` is called now and then while waiting.
        """
        requests = self._mailbox.ask_each(asked)
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
    kinds = {request.do for request in requests}
    return f"{queries} will be {_DONE[kinds.pop()] if len(kinds) == 1 else 'changed'}"


def _pending(requests: Sequence[Request], said: str, *, ok: bool = True) -> list[Reply]:
    """Return the same reply for each unanswered request: people read it once, programs for each."""
    return [Reply(ok=ok, said=said, found={"name": request.query, "waits": True}) for request in requests]


Checkpoint = Annotated[str, typer.Argument(help="The folder given to weft run as --checkpoint, or its URI.")]
Name = Annotated[str, typer.Argument(help="The query's name.")]
Names = Annotated[list[str], typer.Argument(help="Names of queries.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait for the engine's answer; 0 does not wait.", min=0)]
Json = Annotated[bool, typer.Option("--json", help="Print the answer for programs, one JSON object a line.")]
NO_LIMITS = Limits(**{**dict.fromkeys(NAMES, sys.maxsize), "expression_nodes": 10_000_000})
"""Practically no limits: the engine has its own. So many nodes take seconds to parse."""


def add(
    checkpoint: Checkpoint,
    query: Annotated[
        str | None, typer.Argument(help="SELECT …, or CREATE QUERY name AS SELECT ….", show_default=False)
    ] = None,
    name: Annotated[str, typer.Option(help="The query's name.", show_default=False)] = "",
    file: Annotated[
        Path | None,
        typer.Option(
            help="Add the CREATE QUERY statements of a file; - reads them here.", show_default=False
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace queries of the same names, as CREATE OR REPLACE does.")
    ] = False,
    wait: Wait = 30.0,
    json: Json = False,
) -> None:
    """Add queries to a running engine, at its next batch.

    Example: weft add state/ "SELECT max(vol) AS v FROM trades [RANGE '5 min']" --name largest
    """
    if (query is None) == (file is None):
        raise typer.BadParameter("give either a query or --file")
    if file is not None and name:
        raise typer.BadParameter("the statements of a file have names of their own", param_hint="--name")
    statements = [_parse_query(query, name)] if query is not None else _parse_file(file or Path("-"))
    asked = [("add", to_add(statement, replace=replace)) for statement in statements]
    change(checkpoint, "add", asked, wait=wait, as_json=json)


def to_add(statement: CreateQuery, *, replace: bool = False) -> dict[str, object]:
    """Return the arguments of a request to add a query; of a plain one, as earlier versions sent them."""
    given: dict[str, object] = {"name": statement.name, "text": statement.select}
    return {**given, "replace": True} if replace or statement.replace else given


def drop(checkpoint: Checkpoint, names: Names, wait: Wait = 30.0, json: Json = False) -> None:
    """End queries, with the batch under way; their results stay.

    Example: weft drop state/ largest by_symbol
    """
    _change_by_name(checkpoint, "drop", names, wait=wait, as_json=json)


def pause(checkpoint: Checkpoint, names: Names, wait: Wait = 30.0, json: Json = False) -> None:
    """Have queries give no results until they are resumed.

    Example: weft pause state/ largest
    """
    _change_by_name(checkpoint, "pause", names, wait=wait, as_json=json)


def resume(checkpoint: Checkpoint, names: Names, wait: Wait = 30.0, json: Json = False) -> None:
    """Have paused or failed queries answer again, and show the first window that they answer.

    Example: weft resume state/ largest
    """
    _change_by_name(checkpoint, "resume", names, wait=wait, as_json=json)


def list_queries(
    checkpoint: Checkpoint,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that ended, or were dropped earlier.")
    ] = False,
    wait: Wait = 30.0,
    json: Json = False,
) -> None:
    """List the queries of a checkpoint and their status, whether an engine runs or not.

    Example: weft list state/
    """
    found = answer(checkpoint, wait, "list")
    if json:
        print_json(found)
    else:
        print_list(Console(), [read_listed(query) for query in found["queries"]], everything=everything)


def show(checkpoint: Checkpoint, name: Name, wait: Wait = 30.0, json: Json = False) -> None:
    """Show a query: its text, its state, the first window that it answers, its error.

    Example: weft show state/ largest
    """
    found = answer(checkpoint, wait, "show", name)
    if json:
        print_json(found)
    else:
        print_query(Console(), read_listed(found["query"]))


def stop(checkpoint: Checkpoint, wait: Wait = 30.0, json: Json = False) -> None:
    """Stop a running engine: it finishes its batch, commits and delivers; then this returns.

    Example: weft stop state/ --wait 120
    """
    caller = Caller(open_checkpoint(checkpoint), seconds=wait)
    with Console(stderr=True).status(f"waiting for {caller.engine} to stop"):
        reply = caller.stop()
    report([reply], as_json=json)


def change(checkpoint: str, what: str, asked: Sequence[Asked], *, wait: float, as_json: bool) -> None:
    """Have the engine change queries, by requests in one file, and print what was done."""
    report(_ask(Caller(open_checkpoint(checkpoint), seconds=wait), what, asked), as_json=as_json)


def _change_by_name(checkpoint: str, do: str, names: Sequence[str], *, wait: float, as_json: bool) -> None:
    asked = [(do, {"name": name}) for name in dict.fromkeys(names)]
    change(checkpoint, do, asked, wait=wait, as_json=as_json)


def _ask(caller: Caller, what: str, asked: Sequence[Asked]) -> list[Reply]:
    """Send requests in one file, show that the engine is waited for to do that, and return the replies."""
    began = monotonic()
    task = f"waiting for {caller.engine} to {what}" + (f" {len(asked):,} queries" if len(asked) > 1 else "")
    with Console(stderr=True).status(task) as status:
        return caller.ask_each(
            asked, on_wait=lambda: status.update(f"{task}, {monotonic() - began:.0f} s so far")
        )


def answer(checkpoint: str, wait: float, do: str, name: str | None = None) -> Mapping[str, Any]:
    """Return what the running engine says of its queries, or of one; without an engine, what is stored."""
    caller = Caller(open_checkpoint(checkpoint), seconds=wait)
    if caller.engine is not None:
        [reply] = _ask(caller, do, [(do, {} if name is None else {"name": name})])
        if not reply.ok:
            raise EngineError(reply.said)
        return reply.found
    queries = {query.name: query.as_record() for query in read_registry(checkpoint)}
    if name is None:
        return {"queries": list(queries.values())}
    if name not in queries:
        raise UnknownName(f'unknown query "{name}"{suggestion(name, queries)}')
    return {"query": queries[name]}


def report(replies: Sequence[Reply], *, as_json: bool) -> None:
    """Print what was done; exit with 1 if something was not."""
    for (ok, said), alike in groupby(replies, key=lambda reply: (reply.ok, reply.said)):
        if as_json:
            for reply in alike:
                print_json(reply.found if ok else {**reply.found, "error": said})
        elif ok:
            print(said)
        else:
            print(f"error: {said}", file=sys.stderr)
    if not all(reply.ok for reply in replies):
        raise typer.Exit(1)


def print_json(answer: Mapping[str, Any]) -> None:
    """Print an answer for programs."""
    # When the engine answered is for the mailbox alone.
    fields = {name: value for name, value in answer.items() if name != "answered_at"}
    print(json.dumps(fields, ensure_ascii=False))


def _parse_query(text: str, name: str) -> CreateQuery:
    try:
        return parse_select(text, name=name, limits=NO_LIMITS)
    except NameMissing:
        raise NameMissing("the query has no name; give one with --name") from None


def _parse_file(path: Path) -> list[CreateQuery]:
    text = sys.stdin.read() if str(path) == "-" else read_text(path)
    statements = read_changes(path, text, limits=NO_LIMITS)
    queries = [statement for statement in statements if isinstance(statement, CreateQuery)]
    if len(queries) < len(statements):
        raise EngineError(
            f"{path} has other statements than CREATE QUERY; streams, tables and sinks are declared when an "
            "engine starts, and weft drop ends queries"
        )
    if not queries:
        raise EngineError(f"{path} has no queries; write CREATE QUERY name AS SELECT …")
    return queries
