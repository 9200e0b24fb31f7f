"""What is committed: queries and their states, partials, and results on their way to sinks."""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic

from weft.durability.checkpoint import Checkpoint, Placed, Recovered
from weft.durability.commits import Commit
from weft.durability.declared import columns_read, declared, partials_read
from weft.durability.registry import QueryState, Registered, Registry
from weft.faultpoints import reach
from weft.query.logical import LogicalQuery, StreamDef
from weft.sinks import Delivery, Sink
from weft.state.clock import Clock
from weft.state.report import BatchReport
from weft.state.running_query import RunningQuery, derivation_from
from weft.state.store import Block

_log = logging.getLogger("weft.durability")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a commit makes durable: what a batch did, and where the stream is after it."""

    stream: StreamDef
    clock: Clock
    queries: Mapping[str, RunningQuery]
    """The queries that continue."""
    report: BatchReport
    retained: Callable[[], Mapping[Placed, Block]]
    """Returns all retained partials, for a snapshot."""


class Ledger:
    """The commits of one stream, continued from the last one before the start."""

    def __init__(
        self,
        *,
        registry: Registry,
        checkpoint: Checkpoint | None = None,
        recovered: Recovered | None = None,
        deliveries: Iterable[Delivery] = (),
        inline: Iterable[Sink] = (),
    ) -> None:
        self.registry = registry
        self.deliveries = tuple(deliveries)
        self._inline = tuple(inline)
        self._checkpoint = checkpoint
        self.number = -1 if recovered is None else recovered.last.number
        """The last commit."""
        self.batch = -1 if recovered is None else recovered.last.batch
        """The last of Spark's batches that is committed."""
        self._position = "" if recovered is None else recovered.last.position
        self._left: dict[str, int] = {}
        """Queries that have left, each with the last commit that may hold results of it."""
        self._broken: dict[str, None] = {}
        """Queries that have failed since the start."""
        for sink in self._inline:
            sink.resume(self.number)
        # What was committed but not delivered before the start waits in the outbox.
        for delivery in self.deliveries:
            if checkpoint is not None and delivery.status.done > self.number:
                raise checkpoint.missing(self.number + 1)
            for number in range(delivery.status.done + 1, self.number + 1):
                delivery.offer(number, None)

    def has(self, batch: int) -> bool:
        """Say whether a batch is committed already; refuse one that is neither that nor the next.

        Spark offers only the last batch again, if it does not know that the batch is complete.
        """
        checkpoint = self._checkpoint
        if checkpoint is None:
            return batch <= self.batch
        if batch > self.batch + 1:
            # Spark has completed a batch in between.
            raise checkpoint.missing(self.number + 1)
        if batch > self.batch:
            return False
        if batch < self.batch or self._position not in ("", checkpoint.position(batch)):
            raise checkpoint.replanned(batch, self.batch)
        return True

    @property
    def failed(self) -> tuple[str, ...]:
        """The queries that have failed since the start and were neither resumed nor dropped since."""
        # Another thread may look while a batch adds to them.
        entries = filter(None, map(self.registry.get, list(self._broken)))
        return tuple(entry.name for entry in entries if entry.state is QueryState.FAILED)

    @property
    def delivered(self) -> int:
        """The last commit that all sinks have."""
        return min((delivery.status.done for delivery in self.deliveries), default=self.number)

    def note_leaving(self, query: str) -> None:
        """Record that a query has left: until they are delivered, its results are known by its name."""
        delivered = self.delivered
        self._left = {name: commit for name, commit in self._left.items() if commit > delivered}
        if self.number > delivered:
            self._left[query] = self.number

    def still_delivers(self, query: str) -> bool:
        """Say whether results of a query that has left are still on their way to a sink."""
        return self._left.get(query, -1) > self.delivered

    def may_be_ahead(self) -> bool:
        """Say whether a commit that could not be written may be durable all the same."""
        try:
            return self._checkpoint is not None and self._checkpoint.has(self.number + 1)
        except OSError:
            return True

    def await_room(self) -> None:
        """Wait while the backlog of a sink is full; raise Fenced if one refuses this engine.

        Only batches wait like this; changes of queries and the windows that a stop closes do not.
        """
        for delivery in self.deliveries:
            delivery.await_room()

    def await_sinks(self, seconds: float) -> None:
        """Wait until every sink was tried; raise Fenced if one refuses this engine."""
        deadline = monotonic() + seconds
        for delivery in self.deliveries:
            delivery.await_begun(max(0.0, deadline - monotonic()))

    def commit_change(self, outcome: Outcome) -> None:
        """Commit a change of queries, if anything outlives the process, or there are results."""
        if self._checkpoint is not None or outcome.report.results:
            self.commit(outcome)
        else:
            self.registry.committed()

    def commit(self, outcome: Outcome, *, batch: int | None = None) -> None:
        """Make an outcome durable, then offer its results to sinks."""
        reach("commit.before")
        report = outcome.report
        self._update_registry(outcome, of_batch=batch is not None)
        position = self._position
        if batch is not None and self._checkpoint is not None:
            position = self._checkpoint.position(batch, settled=True)
        commit = Commit(
            number=self.number + 1,
            batch=self.batch if batch is None else batch,
            stream=declared(outcome.stream),
            clock=outcome.clock,
            position=position,
        )
        if self._checkpoint is not None:
            blocks, oldest = report.blocks, report.oldest_kept
            if oldest is not None:
                # Windows that are answered already are in the results.
                blocks = {relation: block.since(oldest) for relation, block in blocks.items()}
            self._checkpoint.write(commit, self.registry.changes(), blocks, report.results)
        self.registry.committed()
        self.number, self.batch, self._position = commit.number, commit.batch, commit.position
        for sink in self._inline:
            sink.deliver(commit.number, report.results)
        for delivery in self.deliveries:
            delivery.offer(commit.number, report.results)
        if self._checkpoint is not None and self._checkpoint.wants_snapshot:
            self._snapshot(self._checkpoint, commit, outcome)

    def _snapshot(self, checkpoint: Checkpoint, commit: Commit, outcome: Outcome) -> None:
        """Write a snapshot; if that fails, the commits stay, and it is tried again after the next one."""
        try:
            checkpoint.snapshot(commit, self.registry, outcome.retained())
            checkpoint.prune(self.delivered)
        except OSError as error:
            fields = {"commit": commit.number, "error": str(error)}
            _log.warning("a snapshot cannot be written, and is tried again", extra=fields)

    def _update_registry(self, outcome: Outcome, *, of_batch: bool) -> None:
        """Enter into the registry what a batch, or the answers to queries that joined, did to queries."""
        report = outcome.report
        for name, count in report.failures.items():
            if (entry := self.registry.get(name)) is not None:
                self.registry.put(replace(entry, failures=entry.failures + count))
        # Only rows decide when a lifetime is over.
        for name, running in outcome.queries.items() if of_batch else ():
            entry = self.registry.get(name)
            if entry is not None and entry.until != running.until:
                self.registry.change(name, until=running.until)
        for name in report.ended:
            if name in self.registry:
                self.registry.change(name, state=QueryState.ENDED)
                _log.info("query ended", extra={"query": name, "commit": self.number + 1})
        for name, failure in report.broken.items():
            if name in self.registry:
                self.registry.change(name, state=QueryState.FAILED, error=failure.text)
                self._broken[name] = None
                # The error itself may hold values of rows: `weft show` shows it to those who may see them.
                _log.error("query failed", extra={"query": name, "kind": failure.kind})
        if report.oldest_kept is not None:
            self.registry.evict(report.oldest_kept)

    def begin_drain(self) -> None:
        """Have sinks write what they keep back, as nothing follows for now."""
        for delivery in self.deliveries:
            delivery.begin_drain()

    def drain(self, seconds: float) -> bool:
        """Deliver all that waits; return whether every sink has it."""
        deadline, done = monotonic() + seconds, True
        for delivery in self.deliveries:
            done = delivery.drain(max(0.0, deadline - monotonic())) and done
        return done

    def close(self) -> None:
        """Close the sinks; what they lack stays in the outbox."""
        for delivery in self.deliveries:
            delivery.close()
        for sink in self._inline:
            sink.close()


def registered(
    running: RunningQuery, *, commit: int, added_live: bool, instead_of: str | None = None
) -> Registered:
    """Return a query that joins as the registry keeps it."""
    return Registered(
        name=running.query.name,
        text=running.query.text,
        live=added_live,
        answered_through=running.answered_through,
        until=running.until,
        derivation=None if running.derivation is None else running.derivation.as_record(),
        commit=commit,
        reads=columns_read(running.query),
        partials=partials_read(running.query),
        instead_of=instead_of,
    )


def as_it_joined(entry: Registered, query: LogicalQuery) -> RunningQuery:
    """Return a query of the registry as it joined."""
    return RunningQuery(
        query=query,
        answered_through=entry.answered_through,
        until=entry.until,
        derivation=None if entry.derivation is None else derivation_from(entry.derivation),
    )
