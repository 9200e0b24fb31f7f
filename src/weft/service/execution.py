"""From a start to a stop: the streams of an engine, each in a loop of its own."""

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from math import inf
from time import monotonic
from typing import Any
from uuid import uuid4

from weft.durability.delivered import was_delivered_to
from weft.durability.ledger import Ledger
from weft.durability.past import Past, read_past, rewind
from weft.durability.places import find_folder, has_folder, identity, remove_folder
from weft.durability.registry import QueryState, Registry
from weft.durability.rejoining import Bind, check, check_meaning, check_names, rejoin
from weft.errors import EngineError, UserError
from weft.finals.results import result_schema
from weft.notices import Notice, NoticeKind
from weft.query.logical import LogicalQuery
from weft.service.observers import Observers, OnBatch
from weft.service.options import RunOptions, deliveries, make_outlets
from weft.service.requests import Carrier, Requests
from weft.service.roster import Roster
from weft.service.running_stream import RunningStream
from weft.service.status import EngineStatus, stored_info
from weft.sinks import MemorySink
from weft.sinks.declared import Surroundings, check_queries, try_out
from weft.spark.input.declarations import Declarations
from weft.state.report import BatchReport
from weft.storage import Folder, open_folder
from weft.storage.lock import Lock
from weft.storage.mailbox import Mailbox, Reply, Request
from weft.stream.boundary import Change
from weft.stream.loop import Loop
from weft.stream.membership import Changes
from weft.stream.pipeline import Pipeline, begin

_POLL_SECONDS = 0.5
"""Poll interval for stop requests."""
_SINK_SECONDS = 10.0
"""How long a start waits for sinks to accept or refuse it."""
_TELL_SECONDS = 10.0
"""How long a stop waits for subscribers and `on_batch` to take what is queued for them."""
_log = logging.getLogger("weft.service")


class Execution:
    """The streams of an engine between a start and a stop."""

    def __init__(
        self,
        declared: Declarations,
        options: RunOptions,
        *,
        bind: Bind,
        roster: Roster[Any],
        observers: Observers,
        on_batch: OnBatch | None,
        control: Carrier,
    ) -> None:
        self._declared, self._options = declared, options
        self._bind, self._roster, self._observers = bind, roster, observers
        self.streams: dict[str, RunningStream] = {}
        self._starts = threading.RLock()
        """Held while a stream starts with a query that joins."""
        self._starting: LogicalQuery | None = None
        """The query that joins, and with which a stream starts now."""
        self.active = True
        self.begun = False
        """Whether the streams of the workload have started."""
        self._failure: EngineError | None = None
        self._raised: EngineError | None = None
        """The failure, once `wait` has raised it."""
        self._ended = threading.Event()
        self._stop_begun = threading.Lock()
        """Held from the first stop on."""
        self.stop_asked = threading.Event()
        """Set when a stop was requested from another terminal, or a failure ends the execution."""
        self._stopping = threading.Event()
        self._known_sinks: dict[str, bool] = {}
        """Whether the checkpoint knew a sink when this execution began, by name."""
        self._lock: Lock | None = None
        self._requests: Requests | None = None
        self._root: Folder | None = None
        self.origin = uuid4().hex
        """What numbers commits: the checkpoint's own name, or else a name of this execution."""
        if options.checkpoint is not None:
            self._root = open_folder(options.checkpoint, lambda: declared.session)
            with _in_reach(f"checkpoint {self._root.uri} cannot be opened"):
                self._lock = Lock(self._root, on_loss=self._lost)
                try:
                    self.origin = identity(self._root)
                    mailbox = Mailbox(self._root)
                    mailbox.discard("stop", "list", "show")
                    self._requests = Requests(
                        mailbox, control, able=self._able, on_refusal=self._note_refusal
                    )
                except BaseException:
                    self._lock.release()
                    raise
        roster.begin()
        observers.begin(on_batch, note=self._note)

    def stored_streams(self) -> list[str]:
        """Return the declared streams that the checkpoint knows of."""
        root = self._root
        return [] if root is None else [name for name in self._declared.streams if has_folder(root, name)]

    def check_sinks(self) -> None:
        """Raise UnknownName if a sink is for a query that there is not, once all streams are started.

        Where a sink is known already, queries may have left since: that is a warning.
        """
        known = set(self._roster.streams())
        for running in self.streams.values():
            known |= {entry.name for entry in running.ledger.registry}
        check_queries(
            self._options.sinks,
            known,
            excused=lambda sink, error: _logged(error, sink, when=self._knows(sink)),
        )

    def _knows(self, sink: str) -> bool:
        """Say whether an earlier engine on this checkpoint was ready to deliver to a sink."""
        if sink not in self._known_sinks:
            root = self._root
            folders = [] if root is None else [find_folder(root, name) for name in self.stored_streams()]
            self._known_sinks[sink] = was_delivered_to(folders, sink)
        return self._known_sinks[sink]

    def _may_wait(self, sink: str, error: UserError) -> bool:
        """Say whether a stream starts though a sink does not answer: its results wait until it does."""
        return _logged(error, sink, when=self.begun or (self._options.trigger.follow and self._knows(sink)))

    def start(self, name: str, queries: Sequence[LogicalQuery], *, live: bool = False) -> None:
        """Start a stream with the given queries and those of the checkpoint.

        `live` says that the given queries are added while the engine runs: no workload names them.
        """
        with _in_reach(f"stream {name} cannot start"):
            self._start(name, queries, live=live)

    def _start(self, name: str, queries: Sequence[LogicalQuery], *, live: bool) -> None:
        frame, past = self._declared.rows(name), read_past(self._root, name, self._guard)
        pipeline = Pipeline(
            self._declared.streams[name].definition,
            tables=self._declared.tables,
            functions=self._declared.functions,
            slicing=self._options.slicing,
            sharing=self._options.sharing,
            limits=self._options.limits,
        )
        registry = Registry()
        if past.checkpoint is not None and past.recovered is not None:
            check(pipeline.stream, past.recovered, queries, past.checkpoint.folder.uri)
            registry = past.recovered.registry
        rejoined = rejoin(queries, registry, self._bind, watermark=past.watermark)
        check_names(name, rejoined, self._roster.streams())
        if past.checkpoint is not None:
            check_meaning(rejoined.running, registry, past.checkpoint.folder.uri)
        begin(pipeline, rejoined, registry, past.recovered, live=live)
        past = past.begun(name, self.origin)
        running = self._running_stream(name, frame, pipeline, registry, past, rejoined.notices)
        self.streams = {**self.streams, name: running}
        known = {**rejoined.resting, **rejoined.running, **rejoined.replaced}.values()
        # One that joins is known once the stream has started.
        bound = [query for query in known if query is not self._starting]
        self._roster.know(bound, [stored_info(entry, name) for entry in rejoined.unbound])
        if self.begun:
            running.ledger.await_sinks(_SINK_SECONDS)
            running.loop.start(self._options.trigger)

    def begin(self) -> None:
        """Carry out the requests that wait, then start taking batches.

        Sinks are tried first: Fenced is raised if one refuses this engine.
        """
        for running in self.streams.values():
            running.ledger.await_sinks(_SINK_SECONDS)
        if self._requests is not None:
            self._requests.start_looking_for_stops()
            self._requests.look()
        self.begun = True
        for name, running in self.streams.items():
            with _in_reach(f"stream {name} cannot start"):
                running.loop.start(self._options.trigger)
        if self._requests is not None:
            self._requests.start()

    def _able(self) -> bool:
        """Say whether requests can be carried out; if not, they wait for the next start."""
        return all(running.sound for running in self.streams.values())

    def _note_refusal(self, request: Request, reply: Reply) -> None:
        """Add a notice of a refused request: its sender may have stopped waiting for the reply."""
        asked = f"{request.do} {request.given.get('name', '')}".strip()
        notice = Notice(
            kind=NoticeKind.REQUEST_REFUSED,
            subject=asked,
            error_kind=reply.error_kind or "other",
            detail=reply.said,
        )
        for running in self.streams.values():
            running.note([notice])

    def _running_stream(
        self,
        name: str,
        frame: object,
        pipeline: Pipeline,
        registry: Registry,
        past: Past,
        notices: list[Notice],
    ) -> RunningStream:
        memory, origin = MemorySink() if self._options.keep else None, f"{self.origin} {name}"
        outlets = make_outlets(
            self._options.sinks,
            Surroundings(run=origin, session=lambda: self._declared.session),
            taken=[outlet.sink for running in self.streams.values() for outlet in running.outlets],
        )
        for outlet in outlets:
            # Before the checkpoint notes that it is delivered to.
            self._knows(outlet.sink.name)
            for query, own in pipeline.queries.items():
                outlet.expect(query, result_schema(own.query))
        try_out(outlets, excused=self._may_wait)
        # Only at the start: later nobody is there to approve.
        approve = None if self.begun else self._options.rewind
        if approve is not None:
            rewind([outlet.sink for outlet in outlets], name, past, origin=origin, approve=approve)
        ledger = Ledger(
            registry=registry,
            checkpoint=past.checkpoint,
            recovered=past.recovered,
            deliveries=deliveries(
                outlets,
                past,
                origin=origin,
                on_fenced=partial(self._refused, name),
                held=self._guard,
                stop=self._stopping,
            ),
            inline=[memory] if memory else [],
        )
        loop = Loop(
            pipeline,
            frame,  # type: ignore[arg-type]
            ledger,
            spark_folder=None if past.checkpoint is None else past.checkpoint.spark,
            aside=self._options.aside(
                name,
                self._root,
                self.origin,
                lineage=past.lineage,
                held=self._guard,
                session=lambda: self._declared.session,
            ),
            rewind=approve is not None,
            on_batch=partial(self._observe, name),
            idle_seconds=self._options.idle_seconds,
            visible=self._roster.visible,
        )
        return RunningStream(pipeline, ledger, loop, memory, outlets, notices)

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Carry out changes between batches, those of each stream by one commit; each gets its outcome."""
        by_stream: dict[str | None, list[Change]] = {}
        for change in changes:
            by_stream.setdefault(change.stream, []).append(change)
        for stream, group in by_stream.items():
            waiting = deque(group)
            with self._starts:
                while waiting and stream not in self.streams:
                    # It is refused, or the stream starts with it.
                    change = waiting.popleft()
                    change.attempt()
                    change.finish()
            if stream is not None and waiting:
                self.streams[stream].loop.carry_out(waiting)

    def add(self, query: LogicalQuery) -> None:
        """Let a query join its stream, inside `carry_out`."""
        self._check_delivered(query)
        running = self.streams[query.stream]
        with running.loop.membership.together() as changes:
            running.check_free(query.name)
            changes.note(query.name, after=partial(running.expect, query))
            running.loop.membership.add(query)

    def replace(self, query: LogicalQuery) -> None:
        """Let a query take the place of the one of its name, inside `carry_out`."""
        running = self.streams[query.stream]
        with running.loop.membership.together() as changes:
            changes.note(query.name, after=partial(running.expect, query))
            running.loop.membership.replace(query)

    def leave(self, name: str, stream: str, state: QueryState | None) -> None:
        """Let a query leave, inside `carry_out`, and the registry forget it if `state` is None."""
        running = self.streams[stream]
        with running.loop.membership.together() as changes:
            running.loop.membership.leave(name, state)
            if state is None or state.is_over:
                changes.note(name, after=partial(running.expect_no_more, name))
                changes.note(name, after=partial(running.ledger.note_leaving, name))

    def together(self, stream: str) -> AbstractContextManager[Changes]:
        """Make all changes of a stream's queries inside durable by one commit, between batches; or none."""
        running = self.streams.get(stream)
        return Changes.at_once() if running is None else running.loop.membership.together()

    def is_starting(self, name: str) -> bool:
        """Say whether a stream is starting with a query of that name."""
        return self._starting is not None and self._starting.name == name

    def _check_delivered(self, query: LogicalQuery) -> None:
        """Refuse a query whose name is still another stream's.

        Sinks know results by the query's name, and each stream's are delivered by themselves.
        """
        for stream, running in self.streams.items():
            if stream != query.stream and running.ledger.still_delivers(query.name):
                raise EngineError(
                    f'results of a query "{query.name}" of stream {stream} are still on their way to sinks; '
                    "try again when they are there, or choose another name for one of stream "
                    f"{query.stream}"
                )

    def start_with(self, query: LogicalQuery) -> None:
        """Start a stream with a query that joins; if that fails, it was never started."""
        self._check_delivered(query)
        root = self._root
        new = root is not None and not has_folder(root, query.stream)
        self._starting = query
        try:
            self.start(query.stream, [query], live=True)
        except BaseException:
            begun = self.streams.get(query.stream)
            self.streams = {name: one for name, one in self.streams.items() if one is not begun}
            try:
                if begun is not None:
                    begun.loop.abandon()
            finally:
                if root is not None and new:
                    # What was committed does not count: the query is reported as failed.
                    remove_folder(root, query.stream, checkpoint=self.origin)
            raise
        finally:
            self._starting = None

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all streams have ended (True), or the time is up; raise what went wrong in any."""
        deadline = inf if seconds is None else monotonic() + seconds
        while not self.stop_asked.is_set():
            # Streams may start meanwhile, and a stop may be requested.
            streams, left = list(self.streams.values()), max(0.0, deadline - monotonic())
            ended = [running.loop.wait(min(left, _POLL_SECONDS)) for running in streams]
            if not streams and self._options.trigger.follow:
                # One may start with a query that joins.
                self.stop_asked.wait(min(left, _POLL_SECONDS))
            elif all(ended):
                return True
            if monotonic() >= deadline:
                return False
        if self._failure is not None:
            self._raised = self._failure
            raise self._failure
        return True

    def process_available(self) -> None:
        """Wait until all available rows have been processed, and observers have been told of them."""
        for running in list(self.streams.values()):
            running.loop.process_available()
        self._observers.await_told(_TELL_SECONDS)

    def stop(self, *, flush: bool) -> None:
        """Stop all streams between batches, and tell observers of the rest; state can still be read.

        An error of any stream is raised, unless `wait` has raised it. If another thread stops the streams
        already, wait for it; an observer does not, as that thread waits for it.
        """
        if not self._stop_begun.acquire(blocking=False):
            if not self._observers.is_calling():
                self._ended.wait()
            return
        try:
            self._stop(flush=flush)
        finally:
            self._ended.set()

    def _stop(self, *, flush: bool) -> None:
        # First: a request under way may wait for a batch that waits for a sink.
        self._stopping.set()
        if self._requests is not None:
            self._requests.close()
        # A requested stop does not mean that the input has ended.
        flush = flush and not self.stop_asked.is_set()
        errors: list[Exception] = []
        try:
            for name, running in list(self.streams.items()):
                # An error of one stream must not leave others running without the lock.
                try:
                    if not running.loop.stop(flush=flush):
                        _log.warning("results wait for a sink", extra={"stream": name})
                except Exception as error:
                    if error is not self._raised:
                        errors.append(error)
        finally:
            self._observers.end(_TELL_SECONDS)
            self.active = False
            try:
                if self._lock is not None:
                    self._lock.release()
            finally:
                self._declared.tables.release()
        if errors:
            raise errors[0]

    @property
    def failures(self) -> dict[str, int]:
        """By query, how many rows or results failed and became NULL."""
        with self._roster.visible:
            entries = [entry for running in self.streams.values() for entry in list(running.ledger.registry)]
        failures: Counter[str] = Counter()
        for entry in entries:
            failures[entry.name] += entry.failures
        return dict(+failures)

    def status(self) -> EngineStatus:
        """Return the status of streams and sinks, without waiting for a batch."""
        with self._roster.visible:
            streams = {}
            for name, running in self.streams.items():
                unbound = [query for query, info in self._roster.unbound.items() if info.stream == name]
                streams[name] = running.status(unbound=unbound, tables=self._declared.tables.notices())
            ledgers = [running.ledger for running in list(self.streams.values())]
            sinks = tuple(delivery.status for ledger in ledgers for delivery in ledger.deliveries)
            return EngineStatus(streams=streams, sinks=sinks)

    @property
    def _guard(self) -> Callable[[], None] | None:
        """Raises an error if another engine may have taken over the checkpoint; None without one."""
        return None if self._lock is None else self._lock.guard

    def _lost(self, loss: EngineError) -> None:
        _log.error("the checkpoint's lock is lost", extra={"error": str(loss)})
        self._fenced(loss)

    def _refused(self, stream: str, error: EngineError) -> None:
        """End the execution as a sink refuses it, unless that only keeps a stream from starting."""
        if self._starting is None or stream != self._starting.stream:
            self._fenced(error)

    def _fenced(self, error: EngineError) -> None:
        """End the execution: another engine has taken its place."""
        self._failure = error
        self.stop_asked.set()

    def _observe(self, stream: str, report: BatchReport) -> None:
        running = self.streams.get(stream)
        if running is not None:
            running.note_batch(report)
        self._observers.tell(stream, report)

    def _note(self, stream: str, notice: Notice) -> None:
        if (running := self.streams.get(stream)) is not None:
            running.note([notice])


def _logged(error: UserError, sink: str, *, when: bool) -> bool:
    """Log an error of a sink `when` it keeps nothing from starting, and return whether that is so."""
    if when:
        _log.warning("%s", error, extra={"sink": sink})
    return when


@contextmanager
def _in_reach(problem: str) -> Iterator[None]:
    """Raise errors of files as EngineErrors that begin with the problem."""
    try:
        yield
    except OSError as error:
        raise EngineError(
            f"{problem}: a file cannot be read or written ({error}); free space, or repair what is wrong "
            "there, and try again"
        ) from error
