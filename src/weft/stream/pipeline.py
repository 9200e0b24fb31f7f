"""One stream's pipeline: what happens to a batch, from Spark's partials to each query's new results.

Everything here is the state between batches; nothing here knows how batches come or where results go.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter, time

from pyspark.sql import DataFrame, SparkSession

from weft.aggregates import arrow_type
from weft.durability.checkpoint import Placed, Recovered
from weft.durability.ledger import Outcome, as_it_joined, registered
from weft.durability.registry import Registry
from weft.durability.rejoining import Rejoined
from weft.durability.stored_names import predicate_name
from weft.finals.answering import Answered, Asked, answer_due
from weft.finals.readings import Reading, readings
from weft.limits import DEFAULTS, Limits
from weft.optimizer.cost import Fragmentation
from weft.optimizer.plan import Answer, Grouping, Relation, Selection, SharedPlan
from weft.optimizer.rules import Sharing
from weft.optimizer.slices import Slicing
from weft.predicates import Formula
from weft.query.logical import LogicalQuery, StreamDef
from weft.spark.columns import Udf
from weft.spark.input.declarations import Tables
from weft.spark.input.quarantine import set_aside
from weft.spark.input.schema_changes import SchemaWatch
from weft.spark.input.unread import (
    SPARK_ERRORS,
    FileAccount,
    UnreadFile,
    count_missing,
    file_notices,
    readable,
)
from weft.spark.job.batch_groups import BatchGroups
from weft.spark.job.verdicts import Bounds
from weft.spark.session.local import utc
from weft.state.clock import ALWAYS, Clock, RowCounts, Seen, oldest_needed, shapes
from weft.state.driver_store import DriverStore
from weft.state.report import BatchReport
from weft.state.running_query import (
    NEVER,
    Derivation,
    RunningQuery,
    after_all,
    expected_span,
    kept_since,
    through_start,
    until_of,
)
from weft.state.store import Block, PartialStore
from weft.stream import decode
from weft.stream.plan_in_effect import ActivePlan, PlanInEffect
from weft.stream.warm_start import History, WarmStart

_US = 1000
_FIRST_SPAN = 600_000_000
"""Event time that the first batch is assumed to cover, in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aggregated:
    """An aggregated batch."""

    rows: DataFrame
    """The rows that could be read."""
    unread: list[UnreadFile]
    active: ActivePlan
    groups: BatchGroups
    seconds: dict[str, float]


class Pipeline:
    """Run the queries of one stream."""

    def __init__(
        self,
        stream: StreamDef,
        *,
        tables: Tables | None = None,
        functions: Mapping[str, Udf] | None = None,
        slicing: Slicing = Slicing.PAIRED,
        sharing: Sharing = Sharing.AUTO,
        limits: Limits = DEFAULTS,
    ) -> None:
        self.stream = stream
        self._limits = limits
        self.clock = Clock()
        self.tables = tables if tables is not None else Tables()
        self.functions = functions if functions is not None else {}
        self.plans = PlanInEffect(
            stream, self.tables, self.functions, slicing=slicing, sharing=sharing, on_adopt=self._adopted
        )
        self.queries: dict[str, RunningQuery] = {}
        self.stores: dict[Grouping, PartialStore] = {}
        self.fragmentations: Sequence[tuple[Relation, Fragmentation]] = ()
        """How the predicates of each shared relation of the current plan split the last batch."""
        self._span = _FIRST_SPAN
        self._history = History(slicing)
        self._derivations: dict[Selection, Derivation] = {}
        self._reading: tuple[Sequence[Answer], Sequence[Reading]] | None = None
        """All answers of the plan, and what they read."""
        self.watch = SchemaWatch(stream)

    @property
    def plan(self) -> SharedPlan:
        """The plan in effect; an empty one before the first batch."""
        return self.plans.plan

    @property
    def behind(self) -> set[str]:
        """The queries that are not answered through the watermark."""
        now = self.clock.reached
        return {name for name, running in self.queries.items() if running.answered_through < now}

    def add(self, query: LogicalQuery, *, warm: bool = True, answered_through: int = ALWAYS) -> RunningQuery:
        """Let a query join before the next batch.

        Its windows begin after all data already aggregated, or earlier if it starts `warm` and the retained
        partials answer them exactly; those that have ended by now are answered with the next report. None
        ends by the time through which an earlier query of its name was answered.
        """
        since, derivation, start = after_all(self.clock), None, self._enter(query)
        if start is not None and warm and start.since != since:
            selection = self.plans.planner.leaf(query).selection
            since, derivation = start.since, self._derivations.get(selection)
        running = RunningQuery(
            query=query,
            answered_through=max(answered_through, through_start(since, query.window)),
            until=until_of(query, self.clock),
            derivation=derivation,
        )
        self.queries[query.name] = running
        return running

    def replace(self, query: LogicalQuery) -> RunningQuery:
        """Let a query take the place of the one of its name, if that runs; no window is repeated.

        Of those that have not ended by the watermark it answers what retained partials answer exactly.
        """
        if query.name in self.queries:
            self.remove(query.name)
        return self.add(query, answered_through=self.clock.reached)

    def put_back(self, running: RunningQuery) -> None:
        """Let a query continue that has left since the last batch, as if it had not."""
        self._enter(running.query)
        self.queries[running.query.name] = running

    def _enter(self, query: LogicalQuery) -> WarmStart | None:
        """Have the plan answer one more query; return which retained partials answer it, if any do."""
        leaf = self.plans.planner.leaf(query)
        start = self._history.find(leaf)
        if not self.plans.join(query, leaf, start) or start is None:
            return None
        if (derived := start.derived) is not None:
            # Partials that are retained tell of the predicate, too.
            self.stores[leaf.selection[0]].derive(derived.predicate, derived.sources, derived.patterns)
            self._history.note(leaf, derived)
            self._derivations[leaf.selection] = Derivation(
                predicate=predicate_name(derived.predicate),
                sources=tuple(map(predicate_name, derived.sources)),
                patterns=tuple(derived.patterns),
            )
        return start

    def remove(self, name: str) -> None:
        """Let a query leave before the next batch.

        What only it needed is computed until the next change of the plan, but not for many batches.
        """
        del self.queries[name]
        self.plans.leave(name)

    def process(self, batch: DataFrame, listed: Mapping[str, int] | None = None) -> BatchReport:
        """Aggregate a batch and answer the windows due after it; `listed` are its files with their times."""
        with utc(batch.sparkSession):
            former, before = self.plans.active, self.clock
            self.tables.refresh_due()
            account, bounds = FileAccount(batch, self.stream, listed or {}), self.bounds()

            aggregated = self._aggregate(account, bounds)
            active, groups, unread = aggregated.active, aggregated.groups, aggregated.unread
            seen, began = decode.seen(active.job, groups), perf_counter()
            lost = RowCounts(corrupt=sum(file.rows for file in unread), missing=count_missing(unread))
            counts = seen.counts + lost

            blocks = decode.blocks(active, groups)
            for (grouping, _), block in blocks.items():
                self.stores[grouping].add(block)
            self.clock = before.after(replace(seen, counts=counts), self.stream)
            self._note(active, groups, seen, {} if before.watermark is None else blocks)
            self._span = expected_span(self._span, before, self.clock)
            if before.oldest is None and self.clock.oldest is not None:
                for running in self.queries.values():
                    running.decide(self.clock.oldest)

            # Queries may leave with the answers.
            readers, failures = active.readers, Counter(decode.failures(active.job, groups))
            report = self._answer(batch.sparkSession, moved=self.clock.watermark != before.watermark)

            only_files = not (seen.counts.quarantined or seen.counts.late)
            aside = partial(set_aside, aggregated.rows, self.stream, bounds, unread, only_files=only_files)
            return replace(
                report,
                counts=counts,
                seconds={**aggregated.seconds, "finals": perf_counter() - began},
                failures=failures + Counter(report.failures),
                blocks=blocks,
                fragmentations=self.fragmentations,
                replanned=active is not former,
                partial_ops=sum(block.rows for block in blocks.values()),
                unshared_ops=decode.unshared_operations(active.job, readers, groups),
                set_aside=aside if unread or not only_files else None,
                notices=(*file_notices(unread, self.stream), *self.watch.look(aggregated.rows)),
            )

    def _aggregate(self, account: FileAccount, bounds: Bounds) -> _Aggregated:
        """Plan, if necessary, and run the job; files that cannot be read are left out."""
        rows, unread, began = account.batch, list[UnreadFile](), perf_counter()
        while True:
            try:
                active = self.plans.for_batch(self._logical(), rows)
                planned = perf_counter()
                groups = self.plans.run(active, rows, bounds)
                break
            except SPARK_ERRORS:
                rows, files = readable(rows, self.stream)
                if not files:
                    # Something else is wrong.
                    raise
                unread += files
        unread += account.missing(unread)
        seconds = {"plan": planned - began, "spark": perf_counter() - planned}
        return _Aggregated(rows=rows, unread=unread, active=active, groups=groups, seconds=seconds)

    def _logical(self) -> list[LogicalQuery]:
        return [running.query for running in self.queries.values()]

    def _note(
        self, active: ActivePlan, groups: BatchGroups, seen: Seen, blocks: Mapping[Placed, Block]
    ) -> None:
        """Remember what the batch tells of the plan."""
        rows = seen.counts.good
        self.fragmentations = decode.fragmentations(active.plan, active.job, groups, rows)
        if seen.newest is not None and seen.oldest is not None:
            span = (seen.newest - seen.oldest) / _US
            sizes = [len(blocks[root.grouping, root.id]) for root in active.plan.roots if blocks]
            self.plans.planner.note(active.plan, rows=rows, span_ms=span, groups=sizes)

    def finish(self, spark: SparkSession) -> BatchReport:
        """Close every window: the input has ended."""
        ranges = (running.query.window.range_ms for running in self.queries.values())
        return self._move(spark, self.clock.ended(max(ranges, default=0)))

    def idle(self, spark: SparkSession) -> BatchReport:
        """Close the windows that only the delay holds open: the stream is idle."""
        return self._move(spark, self.clock.idle())

    def _move(self, spark: SparkSession, clock: Clock) -> BatchReport:
        """Answer what is due at a later time, without a batch."""
        self.plans.ahead(self._logical())
        self.clock = clock
        with utc(spark):
            return self._answer(spark, moved=True)

    def answer_warm(self, spark: SparkSession) -> BatchReport:
        """Answer the past windows of queries that joined since the last report, without a batch."""
        with utc(spark):
            return self._answer(spark, moved=False)

    def _adopted(self, plan: SharedPlan) -> None:
        """Keep the retained partials that a new plan needs."""
        self.fragmentations, former, self.stores = (), self.stores, {}
        for grouping in dict.fromkeys(relation.grouping for relation in plan.relations):
            store = former.get(grouping)
            if store is None:
                store = DriverStore([arrow_type(key.type) for key in grouping[1]])
            else:
                mine = [relation for relation in plan.relations if relation.grouping == grouping]
                store.keep(
                    [primitive for relation in mine for primitive in relation.primitives],
                    [predicate for relation in mine for predicate in relation.predicates],
                )
            self.stores[grouping] = store
        self._history.adopt(plan, since=after_all(self.clock))
        asked = set(plan.selections)
        self._derivations = {key: own for key, own in self._derivations.items() if key in asked}

    def bounds(self) -> Bounds:
        """Return the bounds by which the next batch's rows are late or in the future."""
        skew = self.stream.skew_ms
        future = None if skew is None else int(time() * 1_000_000) + skew * _US
        groups = self.plans.planner.groups_per_slice
        return Bounds(watermark=self.clock.watermark, future=future, span=self._span, groups=groups)

    def _answer(self, spark: SparkSession, *, moved: bool) -> BatchReport:
        """Answer every query through the watermark, which has moved or not."""
        answered, behind, oldest = Answered(), self.behind, None
        if behind:
            asked = Asked(
                stores=self.stores, queries=self.queries, clock=self.clock, functions=self.functions,
                limits=self._limits,
            )  # fmt: skip
            answered = answer_due(spark, *self._read(None if moved else behind), asked)
            for name in behind:
                self.queries[name].answered_through = self.clock.reached
        if moved:
            oldest = self.oldest_needed()
            for store in self.stores.values():
                store.evict(oldest)
            self._history.evict(min(oldest, after_all(self.clock)))
        for name in answered.broken:
            self.remove(name)
        ended = [name for name, running in self.queries.items() if running.is_over(self.clock.watermark)]
        for name in ended:
            self.remove(name)
        return BatchReport(
            counts=RowCounts(), results=answered.results, final_ops=answered.final_ops,
            failures=answered.failures, broken=answered.broken, ended=tuple(ended), oldest_kept=oldest,
        )  # fmt: skip

    def _read(self, some: Collection[str] | None) -> tuple[Sequence[Answer], Sequence[Reading]]:
        """Return what some queries read, or all."""
        answers = self.plan.answers
        if some is not None:
            answers = tuple(answer for answer in answers if answer.query.name in some)
            return answers, readings(answers, self.queries)
        if self._reading is None or self._reading[0] is not answers:
            self._reading = answers, readings(answers, self.queries)
        return self._reading

    def oldest_needed(self) -> int:
        """Return the start of the oldest open window: earlier slices can be evicted."""
        if self.clock.watermark is None:
            return ALWAYS
        windows = shapes({running.query.window for running in self.queries.values()})
        return oldest_needed(windows, self.clock.watermark) if len(windows) else NEVER

    def outcome(self, report: BatchReport) -> Outcome:
        """Return what is to be committed of a report."""
        return Outcome(
            stream=self.stream, clock=self.clock, queries=self.queries, report=report, retained=self._retained
        )

    def _retained(self) -> dict[Placed, Block]:
        return {
            (grouping, number): block
            for grouping, store in self.stores.items()
            for number, block in enumerate(store.snapshot())
        }

    def restore(self, clock: Clock, known: Mapping[str, RunningQuery]) -> None:
        """Restore a clock; queries that are not among those known then join after it."""
        self.clock, after = clock, after_all(clock)
        for name, joined in self.queries.items():
            running = known.get(name) or replace(
                joined,
                answered_through=through_start(after, joined.query.window),
                until=until_of(joined.query, clock),
            )
            running.answered_through = max(running.answered_through, clock.reached)
            self.queries[name] = running
        own = {
            name: self.plans.planner.leaf(running.query)
            for name, running in known.items()
            if name in self.queries
        }
        for name, leaf in own.items():
            if (derivation := known[name].derivation) is not None:
                self._derivations[leaf.selection] = derivation
        self._history.recall((leaf, kept_since(known[name], clock.watermark)) for name, leaf in own.items())
        self.plans.outdate()
        self.plans.ahead(self._logical())


def begin(
    pipeline: Pipeline,
    rejoined: Rejoined,
    registry: Registry,
    recovered: Recovered | None,
    *,
    live: bool = False,
) -> None:
    """Let queries continue, take the places of others, and join; the next commit makes that durable.

    `live` says that those that join are added while the engine runs.
    """
    for query in rejoined.running.values():
        pipeline.add(query)
    if recovered is not None:
        restore(pipeline, rejoined.running, recovered)
    commit = 0 if recovered is None else recovered.last.number + 1
    for query in rejoined.new:
        registry.put(registered(pipeline.queries[query.name], commit=commit, added_live=live))
    for query in rejoined.replaced.values():
        registry.put(registered(pipeline.replace(query), commit=commit, added_live=False))


def restore(pipeline: Pipeline, queries: Mapping[str, LogicalQuery], recovered: Recovered) -> None:
    """Restore a pipeline from the last commit, for the queries that continue."""
    known = {
        entry.name: as_it_joined(entry, queries[entry.name])
        for entry in recovered.registry
        if entry.name in queries
    }
    pipeline.restore(recovered.last.clock, known)
    relations = pipeline.plan.relations
    predicates: dict[Grouping, list[Formula]] = {}
    for relation in relations:
        predicates.setdefault(relation.grouping, []).extend(relation.predicates)
    derivations = [running.derivation for running in known.values() if running.derivation is not None]
    for grouping, stored, signatures in recovered.blocks(predicates, derivations):
        own = (relation for relation in relations if relation.grouping == grouping)
        primitives = {primitive for relation in own for primitive in relation.primitives}
        pipeline.stores[grouping].add(stored.block(primitives, signatures))
