"""A run: the streams that are being answered together, each in a loop of its own."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from time import monotonic
from uuid import uuid4

import pyarrow as pa

from weft.durability.ledger import Ledger, registered
from weft.durability.past import Past, read_past
from weft.durability.places import has_folder, identity, remove_folder
from weft.durability.registry import QueryState, Registry
from weft.durability.rejoining import Bind, check, check_names, rejoin
from weft.durability.rewinding import rewind
from weft.errors import EngineError
from weft.finals.results import result_schema
from weft.query.logical import LogicalQuery
from weft.service.carrying import Carrier
from weft.service.info import QueryInfo, stored_info
from weft.service.leaving import Leaving
from weft.service.options import RunOptions
from weft.service.outlets import deliveries, make_sinks, refusals
from weft.service.requests import Requests
from weft.service.running_stream import Live
from weft.service.status import EngineStatus, StreamStatus
from weft.sinks import MemorySink
from weft.spark.input.declarations import Declarations
from weft.state.lives import LiveQuery
from weft.state.report import BatchReport
from weft.storage import Folder, open_folder
from weft.storage.lock import Lock
from weft.storage.mailbox import Mailbox, Reply, Request
from weft.stream.changes import Changes
from weft.stream.loop import Loop
from weft.stream.pipeline import Pipeline
from weft.stream.restoring import restore

OnBatch = Callable[[str, BatchReport], None]
"""Told the stream's name and what a batch did."""
Tell = Callable[[str, pa.Table], None]
"""Told a query's name and its new results."""
_LOOK_SECONDS = 0.5
"""How often who waits looks whether a stop was asked for."""
_SINK_SECONDS = 10.0
"""How long a start waits to hear whether sinks refuse it."""
_log = logging.getLogger("weft.service")


class Run:
    """Everything between a start and a stop."""

    def __init__(
        self,
        declared: Declarations,
        options: RunOptions,
        *,
        bind: Bind,
        tell: Tell,
        on_batch: OnBatch | None,
        control: Carrier,
    ) -> None:
        self._declared, self._options = declared, options
        self._bind, self._tell, self._on_batch = bind, tell, on_batch
        self.streams: dict[str, Live] = {}
        self._known: dict[str, LogicalQuery] = {}
        self._leaving = Leaving()
        self._starting: str | None = None
        """The stream that a query is starting just now."""
        self.unbound: dict[str, QueryInfo] = {}
        """Queries that the checkpoint knows and that cannot be bound any more."""
        self.active = True
        self._begun = False
        self._failure: EngineError | None = None
        self._told: EngineError | None = None
        """The failure, once `wait` has raised it."""
        self.stop_asked = threading.Event()
        """Set when another terminal has asked for a stop."""
        self._stopping = threading.Event()
        self._lock: Lock | None = None
        self._requests: Requests | None = None
        self._root: Folder | None = None
        self.origin = uuid4().hex
        """What commits are counted in: the checkpoint's own name, or else this run's."""
        if options.checkpoint is not None:
            self._root = open_folder(options.checkpoint, lambda: declared.session)
            try:
                self._lock = Lock(self._root, on_loss=self._lost)
                self.origin = identity(self._root)
                mailbox = Mailbox(self._root)
                mailbox.discard("stop", "list", "show")
                self._requests = Requests(mailbox, control, able=self._able, on_refusal=self._tell_refusal)
            except BaseException as error:
                if self._lock is not None:
                    self._lock.release()
                if isinstance(error, OSError):
                    raise _out_of_reach(f"checkpoint {self._root.uri} cannot be opened", error) from error
                raise

    def stored_streams(self) -> list[str]:
        """Return the declared streams that the checkpoint knows of."""
        if self._root is None:
            return []
        root = self._root
        return [name for name in self._declared.streams if has_folder(root, name)]

    def known(self) -> list[LogicalQuery]:
        """Return the queries of all streams, whether they run or not."""
        return list(self._known.values())

    def start(self, name: str, queries: Sequence[LogicalQuery], *, live: bool = False) -> None:
        """Begin to answer a stream, with the queries that the checkpoint knows beside the given.

        `live` tells that the given are added while the engine runs: no workload names them.
        """
        try:
            self._start(name, queries, live=live)
        except OSError as error:
            raise _out_of_reach(f"stream {name} cannot start", error) from error

    def _start(self, name: str, queries: Sequence[LogicalQuery], *, live: bool) -> None:
        frame, past = self._declared.rows(name), read_past(self._root, name, self._guard)
        pipeline = self._pipeline(name)
        registry = Registry()
        if past.checkpoint is not None and past.recovered is not None:
            check(pipeline.stream, past.recovered, queries, past.checkpoint.folder.uri)
            registry = past.recovered.registry
        found = rejoin(queries, registry, self._bind, watermark=past.watermark)
        streams = {query.name: query.stream for query in self._known.values()}
        check_names(name, found, streams | {one.name: one.stream for one in self.unbound.values()})
        for query in found.running.values():
            pipeline.add(query)
        if past.recovered is not None:
            restore(pipeline, found.running, past.recovered)
        for query in found.new:
            registry.put(registered(pipeline.queries[query.name], commit=past.last + 1, added_live=live))
        made = self._live(name, frame, pipeline, registry, past.begun(name, self.origin), found.notices)
        self.streams[name] = made
        self._known |= {**found.resting, **found.running}
        self.unbound |= {one.name: stored_info(one, name) for one in found.unbound}
        if self._begun:
            made.ledger.await_sinks(_SINK_SECONDS)
            made.loop.start(self._options.trigger)

    def begin(self) -> None:
        """Take batches, once all that other terminals asked for meanwhile is carried out.

        Nothing is done that a sink would not take: Fenced is raised if one refuses this engine.
        """
        for live in self.streams.values():
            live.ledger.await_sinks(_SINK_SECONDS)
        if self._requests is not None:
            self._requests.start_looking_for_stops()
            self._requests.look()
        self._begun = True
        for name, live in self.streams.items():
            try:
                live.loop.start(self._options.trigger)
            except OSError as error:
                raise _out_of_reach(f"stream {name} cannot start", error) from error
        if self._requests is not None:
            self._requests.start()

    def _able(self) -> bool:
        """Say whether requests can be carried out; if not, they wait for the next run."""
        return all(live.sound for live in self.streams.values())

    def _tell_refusal(self, request: Request, reply: Reply) -> None:
        """Tell of a request that was refused; whoever made it may not wait for the answer any more."""
        asked = f"{request.do} {request.given.get('name', '')}".strip()
        for live in self.streams.values():
            live.note([f"{asked} was refused: {reply.said}"])

    def _live(
        self,
        name: str,
        frame: object,
        pipeline: Pipeline,
        registry: Registry,
        past: Past,
        notices: list[str],
    ) -> Live:
        memory, origin = MemorySink() if self._options.keep else None, f"{self.origin} {name}"
        schemas = {one: result_schema(live.query) for one, live in pipeline.queries.items()}
        out = self._options.parquet(schemas, run=origin, session=lambda: self._declared.session)
        taken = [one.sink for live in self.streams.values() for one in live.ledger.deliveries]
        sinks = [*([out] if out else []), *make_sinks(self._options.sinks, taken=taken)]
        # Not while it runs: whoever could be asked is not there.
        asked = None if self._begun else self._options.rewind
        if asked is not None:
            rewind(sinks, name, past, origin=origin, approve=asked)
        ledger = Ledger(
            registry=registry,
            checkpoint=past.checkpoint,
            recovered=past.recovered,
            deliveries=deliveries(
                sinks,
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
            rewind=asked is not None,
            on_batch=self._observer(name),
            idle_seconds=self._options.idle_seconds,
        )
        return Live(pipeline, ledger, loop, memory, out, notices)

    def together(self, stream: str) -> AbstractContextManager[Changes]:
        """Make all changes of a stream's queries inside durable at once, at a batch boundary; or none."""
        live = self.streams.get(stream)
        return Changes.at_once() if live is None else live.loop.together()

    def add(self, query: LogicalQuery) -> LiveQuery | None:
        """Let a query join at the next batch boundary, or its stream start with it."""
        self._leaving.check(query)
        live = self.streams.get(query.stream)
        if live is None:
            return self._start_with(query)
        with live.loop.together() as changes:
            if live.out is not None:
                live.out.check_free(query.name)
                changes.note(query.name, after=partial(live.out.expect, query.name, result_schema(query)))
            joined = live.loop.add(query)
        return joined

    def _start_with(self, query: LogicalQuery) -> LiveQuery | None:
        """Start a stream with a query; if that fails, it was never started."""
        root = self._root
        new = root is not None and not has_folder(root, query.stream)
        self._starting = query.stream
        try:
            self.start(query.stream, [query], live=True)
        except BaseException:
            begun = self.streams.pop(query.stream, None)
            self._known.pop(query.name, None)
            try:
                if begun is not None:
                    begun.loop.abandon()
            finally:
                if root is not None and new:
                    # What was committed is nobody's: the query is told to have failed.
                    remove_folder(root, query.stream, checkpoint=self.origin)
            raise
        finally:
            self._starting = None
        return self.streams[query.stream].pipeline.queries.get(query.name)

    def leave(self, query: LogicalQuery, state: QueryState | None) -> None:
        """Let a query leave at the next batch boundary."""
        self._leave(query.name, query.stream, state)

    def forget(self, name: str) -> bool:
        """Let a query leave that cannot be bound; False if it is none."""
        known = self.unbound.get(name)
        if known is not None:
            self._leave(name, known.stream, None)
        return known is not None

    def _leave(self, name: str, stream: str, state: QueryState | None) -> None:
        loop = self.streams[stream].loop
        with loop.together() as changes:
            loop.leave(name, state)
            if state is None or state.is_over:
                changes.note(name, after=partial(self._let_go, name, stream))

    def _let_go(self, name: str, stream: str) -> None:
        """Expect no results of a query that has left."""
        live = self.streams[stream]
        if live.out is not None:
            live.out.expect_no_more(name)
        self._known.pop(name, None)
        self.unbound.pop(name, None)
        self._leaving.note(name, stream, live.ledger)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all streams have ended (True), or the time is up; raise what went wrong in any."""
        deadline = inf if seconds is None else monotonic() + seconds
        while not self.stop_asked.is_set():
            # Streams may start meanwhile, and a stop may be asked for.
            streams, left = list(self.streams.values()), max(0.0, deadline - monotonic())
            ended = [live.loop.wait(min(left, _LOOK_SECONDS)) for live in streams]
            if not streams and self._options.trigger.follow:
                # One may start with a query that joins.
                self.stop_asked.wait(min(left, _LOOK_SECONDS))
            elif all(ended):
                return True
            if monotonic() >= deadline:
                return False
        if self._failure is not None:
            self._told = self._failure
            raise self._failure
        return True

    def process_available(self) -> None:
        """Wait until all rows at hand have been processed."""
        for live in self.streams.values():
            live.loop.process_available()

    def stop(self, *, flush: bool) -> None:
        """Stop all streams between batches; their state can still be looked at.

        What went wrong in any is raised, unless `wait` has raised it.
        """
        # First: a request under way may wait for a batch that waits for a sink.
        self._stopping.set()
        if self._requests is not None:
            self._requests.close()
        # Who asks for a stop does not say that the input has ended.
        flush = flush and not self.stop_asked.is_set()
        errors: list[Exception] = []
        try:
            for name, live in self.streams.items():
                # The trouble of one stream leaves no other running, without the lock.
                try:
                    if not live.loop.stop(flush=flush):
                        _log.warning("results wait for a sink", extra={"stream": name})
                except Exception as error:
                    if error is not self._told:
                        errors.append(error)
        finally:
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
        found: Counter[str] = Counter()
        for live in self.streams.values():
            found.update({one.name: one.failures for one in live.ledger.registry if one.failures})
        return dict(found)

    def status(self) -> EngineStatus:
        """Return how everything fares now, without waiting for a batch."""
        streams = {
            name: StreamStatus(
                clock=live.pipeline.clock,
                batches=live.loop.batches,
                queries=Counter(str(one.state) for one in list(live.ledger.registry)),
                failed=(*live.ledger.failed, *(n for n, one in self.unbound.items() if one.stream == name)),
                notices=(*live.notices, *self._declared.tables.notices(), *refusals(live.ledger.deliveries)),
            )
            for name, live in list(self.streams.items())
        }
        sinks = [one.status for live in list(self.streams.values()) for one in live.ledger.deliveries]
        return EngineStatus(streams=streams, sinks=tuple(sinks))

    @property
    def _guard(self) -> Callable[[], None] | None:
        """What raises an error if the checkpoint may be another engine's by now; None if it cannot be."""
        return None if self._lock is None else self._lock.guard

    def _lost(self, loss: EngineError) -> None:
        _log.error("the checkpoint's lock is lost", extra={"error": str(loss)})
        self._fenced(loss)

    def _refused(self, stream: str, error: EngineError) -> None:
        """Have the run end, for a sink refuses it: unless that only keeps a stream from starting."""
        if stream != self._starting:
            self._fenced(error)

    def _fenced(self, error: EngineError) -> None:
        """Have the run end: another engine has taken its place."""
        self._failure = error
        self.stop_asked.set()

    def _pipeline(self, name: str) -> Pipeline:
        return Pipeline(
            self._declared.streams[name].definition,
            tables=self._declared.tables,
            functions=self._declared.functions,
            slicing=self._options.slicing,
            sharing=self._options.sharing,
            limits=self._options.limits,
        )

    def _observer(self, stream: str) -> Callable[[BatchReport], None]:
        def observe(report: BatchReport) -> None:
            for name, rows in report.results.items():
                self._tell(name, rows)
            live = self.streams.get(stream)
            if live is not None:
                live.note_batch(report)
            if self._on_batch is not None:
                self._on_batch(stream, report)

        return observe


def _out_of_reach(problem: str, error: OSError) -> EngineError:
    return EngineError(
        f"{problem}: a file cannot be read or written ({error}); free space, or mend what is wrong there, "
        "and try again"
    )
