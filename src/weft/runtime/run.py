"""A run: the streams that are being answered together, each in a loop of its own."""

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from time import monotonic
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa

from weft.errors import EngineError
from weft.limits import Limits
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.query.logical import LogicalQuery
from weft.runtime.aside import Aside
from weft.runtime.checkpoint import Checkpoint, Recovered
from weft.runtime.ledger import Ledger, registered, restore
from weft.runtime.lives import LiveQuery
from weft.runtime.loop import Loop, Trigger
from weft.runtime.pipeline import Pipeline
from weft.runtime.registry import QueryState, Registry
from weft.runtime.rejoining import Bind, check, rejoin
from weft.runtime.report import BatchReport
from weft.runtime.requests import Carrier, Requests
from weft.runtime.results import result_schema
from weft.runtime.status import EngineStatus, StreamStatus
from weft.sinks import REFUSED, Delivery, MemorySink, ParquetSink, Sink
from weft.spark.declarations import Declarations
from weft.storage import Folder, open_folder
from weft.storage.lock import Holder, Lock
from weft.storage.mailbox import Mailbox

OnBatch = Callable[[str, BatchReport], None]
"""Told the stream's name and what a batch did."""
Tell = Callable[[str, pa.Table], None]
"""Told a query's name and its new results."""
MakeSink = Callable[[], Sink]
"""Makes a sink; each stream has its own."""
_QUARANTINE = "quarantine"
_RESERVED = frozenset({_QUARANTINE, "requests", "answers"})
"""Folders of a checkpoint that are no stream's."""
_LOOK_SECONDS = 0.5
"""How often who waits looks whether a stop was asked for."""
_log = logging.getLogger("weft.runtime")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How streams are answered, and where results go."""

    slicing: Slicing
    sharing: Sharing
    limits: Limits
    out: str | Path | None
    checkpoint: str | Path | None
    sinks: tuple[Sink | MakeSink, ...]
    keep: bool
    """Whether all results are held in memory."""
    quarantine: str | Path | None = None
    late: str | Path | None = None
    """Where rows go that cannot be used, and late ones; quarantined rows go into a checkpoint by default."""
    trigger: Trigger
    idle_seconds: float | None


@dataclass(frozen=True, slots=True)
class Live:
    """A stream that is being answered, or was last."""

    pipeline: Pipeline
    ledger: Ledger
    loop: Loop
    memory: MemorySink | None
    out: ParquetSink | None
    notices: list[str]


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
        self.active = True
        self.stop_asked = threading.Event()
        """Set when another terminal has asked for a stop."""
        self._stopping = threading.Event()
        self._lock: Lock | None = None
        self._requests: Requests | None = None
        self._root: Folder | None = None
        self.origin = ""
        """What the checkpoint's commits are counted in."""
        if options.checkpoint is not None:
            self._root = open_folder(options.checkpoint, lambda: declared.session)
            try:
                self._lock = Lock(self._root, on_loss=self._lost)
                self.origin = _identity(self._root)
                mailbox = Mailbox(self._root)
                mailbox.discard("stop", "list", "show")
                self._requests = Requests(mailbox, control)
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
        there = set(self._root.names())
        return [name for name in self._declared.streams if _folder_of(name) in there]

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
        frame = self._declared.rows(name)
        checkpoint = None if self._root is None else Checkpoint(self._root.folder(_folder_of(name)))
        recovered = None
        if checkpoint is not None:
            checkpoint.tidy()
            recovered = checkpoint.recover()
        pipeline = self._pipeline(name)
        registry, watermark = Registry(), None
        if checkpoint is not None and recovered is not None:
            check(pipeline.stream, recovered, queries, checkpoint.folder.uri)
            registry, watermark = recovered.registry, recovered.last.clock.watermark
        found = rejoin(queries, registry, self._bind, watermark=watermark)
        for query in found.running.values():
            pipeline.add(query)
        if recovered is not None:
            restore(pipeline, found.running, recovered)
        for query in found.new:
            number = -1 if recovered is None else recovered.last.number
            joined = registered(pipeline.queries[query.name], commit=number + 1, added_live=live)
            registry.put(joined)
        made = self._live(name, frame, pipeline, registry, checkpoint, recovered, found.notices)
        self.streams[name] = made
        self._known |= {**found.resting, **found.running}
        made.loop.start(self._options.trigger)

    def accept_requests(self) -> None:
        """Begin to carry out what other terminals ask for."""
        if self._requests is not None:
            self._requests.start()

    def _live(
        self,
        name: str,
        frame: object,
        pipeline: Pipeline,
        registry: Registry,
        checkpoint: Checkpoint | None,
        recovered: Recovered | None,
        notices: list[str],
    ) -> Live:
        memory = MemorySink() if self._options.keep else None
        out = self._parquet(pipeline)
        made = [one if isinstance(one, Sink) else one() for one in self._options.sinks]
        ledger = Ledger(
            registry=registry,
            checkpoint=checkpoint,
            recovered=recovered,
            deliveries=self._deliveries([*([out] if out else []), *made], name, checkpoint),
            inline=[memory] if memory else [],
        )
        loop = Loop(
            pipeline,
            frame,  # type: ignore[arg-type]
            ledger,
            spark_folder=None if checkpoint is None else checkpoint.spark_uri,
            aside=self._aside(name),
            on_batch=self._observer(name),
            idle_seconds=self._options.idle_seconds,
        )
        return Live(pipeline, ledger, loop, memory, out, notices)

    def add(self, query: LogicalQuery) -> LiveQuery | None:
        """Let a query join at the next batch boundary, or its stream start with it."""
        live = self.streams.get(query.stream)
        if live is None:
            return self._start_with(query)
        live.pipeline.try_out(query, live.loop.spark)
        joined = live.loop.add(query)
        if live.out is not None:
            live.out.expect(query.name, result_schema(query))
        return joined

    def _start_with(self, query: LogicalQuery) -> LiveQuery | None:
        """Start a stream with a query; if that fails, it was never started."""
        try:
            self.start(query.stream, [query], live=True)
        except BaseException:
            begun = self.streams.pop(query.stream, None)
            if begun is not None:
                begun.loop.stop()
            self._known.pop(query.name, None)
            raise
        return self.streams[query.stream].pipeline.queries.get(query.name)

    def leave(self, query: LogicalQuery, state: QueryState | None) -> None:
        """Let a query leave at the next batch boundary."""
        self.streams[query.stream].loop.leave(query.name, state)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all streams have ended (True), or the time is up; raise what went wrong in any."""
        deadline = inf if seconds is None else monotonic() + seconds
        while not self.stop_asked.is_set():
            # Streams may start meanwhile, and a stop may be asked for.
            streams, left = list(self.streams.values()), max(0.0, deadline - monotonic())
            ended = [live.loop.wait(min(left, _LOOK_SECONDS)) for live in streams]
            if all(ended):
                return True
            if monotonic() >= deadline:
                return False
        return True

    def process_available(self) -> None:
        """Wait until all rows at hand have been processed."""
        for live in self.streams.values():
            live.loop.process_available()

    def stop(self, *, flush: bool) -> None:
        """Stop all streams between batches; their state can still be looked at."""
        if self._requests is not None:
            self._requests.close()
        # Who asks for a stop does not say that the input has ended.
        flush = flush and not self.stop_asked.is_set()
        self._stopping.set()
        errors: list[Exception] = []
        try:
            for name, live in self.streams.items():
                # The trouble of one stream leaves no other running, without the lock.
                try:
                    if not live.loop.stop(flush=flush):
                        _log.warning("results wait for a sink", extra={"stream": name})
                except Exception as error:
                    errors.append(error)
        finally:
            self._declared.tables.release()
            if self._lock is not None:
                self._lock.release()
            self.active = False
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
                notices=(*live.notices, *self._declared.tables.notices(), *_refusals(live.ledger)),
            )
            for name, live in list(self.streams.items())
        }
        sinks = [one.status for live in list(self.streams.values()) for one in live.ledger.deliveries]
        return EngineStatus(streams=streams, sinks=tuple(sinks))

    def _lost(self, other: Holder) -> None:
        _log.error("another engine has taken the checkpoint over", extra={"holder": str(other)})
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

    def _aside(self, stream: str) -> Aside:
        options, root = self._options, self._root
        quarantine = None if root is None else root.folder(_QUARANTINE)
        if options.quarantine is not None:
            quarantine = open_folder(options.quarantine, lambda: self._declared.session)
        late = None
        if options.late is not None:
            late = open_folder(options.late, lambda: self._declared.session)
        return Aside(stream=stream, quarantine=quarantine, late=late)

    def _parquet(self, pipeline: Pipeline) -> ParquetSink | None:
        if self._options.out is None:
            return None
        schemas = {name: result_schema(live.query) for name, live in pipeline.queries.items()}
        return ParquetSink(open_folder(self._options.out, lambda: self._declared.session), queries=schemas)

    def _deliveries(
        self, sinks: Sequence[Sink], stream: str, checkpoint: Checkpoint | None
    ) -> list[Delivery]:
        if checkpoint is None:
            return [Delivery(sink) for sink in sinks]
        done = {sink.name: checkpoint.delivered(sink.name) for sink in sinks}
        # Before they begin: a delivery notes its own progress.
        checkpoint.deliver_to(done)
        return [
            Delivery(
                sink,
                after=done[sink.name],
                origin=f"{self.origin} {stream}",
                outbox=checkpoint.results,
                on_done=checkpoint.set_delivered,
                stop=self._stopping,
            )
            for sink in sinks
        ]

    def _observer(self, stream: str) -> Callable[[BatchReport], None]:
        def observe(report: BatchReport) -> None:
            for name, rows in report.results.items():
                self._tell(name, rows)
            live = self.streams.get(stream)
            if live is not None:
                live.notices.extend(f"query {name} failed: {error}" for name, error in report.broken.items())
                live.notices.extend(f"query {name} has ended" for name in report.ended)
                live.notices.extend(report.notices)
                del live.notices[:-100]
            if self._on_batch is not None:
                self._on_batch(stream, report)

        return observe


def _out_of_reach(problem: str, error: OSError) -> EngineError:
    return EngineError(
        f"{problem}: a file cannot be read or written ({error}); free space, or mend what is wrong there, "
        "and try again"
    )


def _refusals(ledger: Ledger) -> list[str]:
    """Return what to tell of rows that sinks have set aside."""
    return [
        f"sink {one.sink}: {one.refused:,} rows are set aside in its table {REFUSED}, for it cannot take them"
        for one in (delivery.status for delivery in ledger.deliveries)
        if one.refused
    ]


def _folder_of(stream: str) -> str:
    """Return the name of a stream's folder in a checkpoint."""
    quoted = quote(stream, safe="")
    return f"{quoted}%20" if quoted in _RESERVED else quoted


def _identity(root: Folder) -> str:
    """Return the checkpoint's own name, given to it once."""
    try:
        return root.read("id").decode()
    except FileNotFoundError:
        root.write("id", uuid4().hex.encode())
        return root.read("id").decode()
