"""One stream's pipeline: what happens to a batch, from Spark's partials to each query's new results.

Everything here is the state between batches; nothing here knows how batches come or where results go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import perf_counter, time

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.aggregates import arrow_type
from weft.errors import EngineError, InternalError
from weft.optimizer.cost import Fragmentation
from weft.optimizer.plan import Answer, Grouping, Relation, SharedPlan
from weft.optimizer.rules import Sharing, leaves, optimize
from weft.optimizer.slices import Slicing
from weft.optimizer.statistics import Sample
from weft.query.logical import LogicalQuery, StreamDef
from weft.runtime import decode
from weft.runtime.answers import by_query, select
from weft.runtime.clock import Clock, RowCounts, Seen
from weft.runtime.due import Advance, due_windows, every_window, oldest_needed, shapes
from weft.runtime.finals import Finals, Rows, Times, Windows, finals
from weft.runtime.fragments import Signatures
from weft.runtime.planner import Planner
from weft.runtime.programs import Program, programs
from weft.runtime.state import Block, RelationState
from weft.spark.columns import Udf
from weft.spark.declarations import Tables
from weft.spark.job import BatchJob, Bounds
from weft.spark.sampling import take_sample
from weft.spark.schemas import ddl
from weft.spark.session import utc

_US = 1000
_END_OF_TIME = (1 << 63) - 1
_FIRST_SPAN = 600_000_000
"""How much event time the first batch is taken to cover, in microseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveQuery:
    """A query and the time from which its windows may begin."""

    query: LogicalQuery
    first_start: int | None = None
    """None for a query that was there before the first row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchReport:
    """What one batch did."""

    counts: RowCounts
    results: Mapping[str, pa.Table]
    """New results by query."""
    partial_ops: int = 0
    """Rows aggregated into partials."""
    final_ops: int = 0
    """Partials combined into results."""
    unshared_ops: int = 0
    """Rows that the queries would aggregate if each ran alone."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Where the time went."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """By query, how many rows or results failed in this batch and became NULL."""
    blocks: Mapping[tuple[Grouping, int], Block] = field(default_factory=dict)
    """What the batch added to each relation, by the relation's grouping and number in the plan."""
    fragmentations: Sequence[tuple[Relation, Fragmentation]] = ()
    """How the predicates of each shared relation split the batch's rows."""
    replanned: bool = False
    """Whether the plan is another than that of the batch before."""

    @property
    def windows(self) -> int:
        """How many result rows there are."""
        return sum(table.num_rows for table in self.results.values())


class Pipeline:
    """Run the live queries of one stream."""

    def __init__(
        self,
        stream: StreamDef,
        *,
        tables: Tables | None = None,
        functions: Mapping[str, Udf] | None = None,
        slicing: Slicing = Slicing.PAIRED,
        sharing: Sharing = Sharing.AUTO,
    ) -> None:
        self.stream = stream
        self.clock = Clock()
        self.tables = tables if tables is not None else Tables()
        self.functions = functions if functions is not None else {}
        self.planner = Planner(slicing=slicing, sharing=sharing)
        self.queries: dict[str, LiveQuery] = {}
        self.states: dict[Grouping, RelationState] = {}
        self.plan: SharedPlan = optimize((), slicing)
        self.fragmentations: Sequence[tuple[Relation, Fragmentation]] = ()
        """How the predicates of each shared relation of the current plan split the last batch."""
        self._stale = True
        self._job: BatchJob | None = None
        self._signatures: Sequence[Signatures] = ()
        self._programs: Mapping[Program, Sequence[Answer]] = {}
        self._windows = np.empty((0, 3), dtype=np.int64)
        self._span = _FIRST_SPAN

    def add(self, query: LogicalQuery) -> None:
        """Let a query join before the next batch."""
        # Its first window is the first that begins after all data already aggregated.
        newest = self.clock.newest
        self.queries[query.name] = LiveQuery(query=query, first_start=None if newest is None else newest + 1)
        self._stale = True

    def try_out(self, query: LogicalQuery, spark: SparkSession) -> None:
        """Have Spark look at a query before it joins others: what it refuses must not stop them."""
        try:
            plan = leaves([query], self.planner.slicing)
            job = BatchJob(plan, self.stream, self.tables, self.functions)
            job.run(spark.createDataFrame([], ddl(self.stream.columns)), Bounds(watermark=None, future=None))
        except (PySparkException, TypeError, InternalError) as error:
            raise EngineError(f"query {query.name} cannot be run: {str(error).splitlines()[0]}") from error

    def remove(self, name: str) -> None:
        """Let a query leave before the next batch."""
        del self.queries[name]
        self._stale = True

    def process(self, batch: DataFrame) -> BatchReport:
        """Aggregate a batch and answer the windows that are due after it."""
        with utc(batch.sparkSession):
            return self._process(batch)

    def _process(self, batch: DataFrame) -> BatchReport:
        began = perf_counter()
        self.tables.refresh_due()
        former = self.plan
        job = self._compiled(batch)
        planned = perf_counter()
        before = self.clock
        result = job.run(batch, self._bounds())
        ran = perf_counter()
        seen = decode.seen(job, result)
        blocks = self._blocks(job, result)
        self.clock = before.after(seen, self.stream)
        self._note(job, result, seen, () if before.watermark is None else list(blocks.values()))
        self._span = self._expected_span(before)
        report = self._answer(batch.sparkSession, self.clock.advance_from(before))
        return replace(
            report,
            counts=seen.counts,
            seconds={"plan": planned - began, "spark": ran - planned, "finals": perf_counter() - ran},
            failures=Counter(report.failures) + Counter(decode.failures(job, result)),
            blocks=blocks,
            fragmentations=self.fragmentations,
            replanned=self.plan is not former,
            partial_ops=sum(block.rows for block in blocks.values()),
            unshared_ops=decode.unshared_operations(self.plan, job, result),
        )

    def _note(self, job: BatchJob, result: pa.Table, seen: Seen, blocks: Sequence[Block]) -> None:
        """Remember what the batch tells of the plan."""
        rows = seen.counts.good
        self.fragmentations = [
            (relation, decode.fragmentation(numbered, result, rows))
            for relation, numbered in zip(self.plan.relations, job.fragments.numbered, strict=True)
            if relation.shared
        ]
        if seen.newest is not None and seen.oldest is not None:
            span = (seen.newest - seen.oldest) / _US
            self.planner.note(self.plan, rows=rows, span_ms=span, groups=list(map(len, blocks)))

    def finish(self, spark: SparkSession) -> BatchReport:
        """Close every window: the input has ended."""
        self._compiled(None)
        with utc(spark):
            report = self._answer(spark, Advance(before=self.clock.watermark, now=None))
        self.clock = self.clock.ended(
            max((one.query.window.range_ms for one in self.queries.values()), default=0)
        )
        return report

    def idle(self, spark: SparkSession) -> BatchReport:
        """Close the windows that only the delay holds open: the stream has fallen silent."""
        self._compiled(None)
        before, self.clock = self.clock, self.clock.idle()
        with utc(spark):
            return self._answer(spark, self.clock.advance_from(before))

    def _compiled(self, batch: DataFrame | None) -> BatchJob:
        """Return the job of the current plan, made anew when queries came or went or another plan pays.

        What is planned without a batch at hand is planned again with the first.
        """
        queries = [live.query for live in self.queries.values()]
        if self._stale or self._job is None or (self.planner.provisional and batch is not None):
            sampler = None if batch is None else partial(self._sample, batch)
            plan = self.planner.plan(queries, sampler)
            self._stale = False
        else:
            plan = self.plan if batch is None else self.planner.reconsider(self.plan, queries)
        if self._job is None or plan is not self.plan:
            self._adopt(plan)
        assert self._job is not None
        return self._job

    def _sample(self, batch: DataFrame, apart: SharedPlan) -> Sample:
        return take_sample(batch, apart, self.stream, self.tables, self.functions)

    def _adopt(self, plan: SharedPlan) -> None:
        """Let a plan take effect; what was aggregated under others stays as it is."""
        self.plan, self.fragmentations = plan, ()
        self._job = BatchJob(plan, self.stream, self.tables, self.functions)
        self._signatures = [
            Signatures(predicates=one.predicates, bits=one.signatures) for one in self._job.fragments.numbered
        ]
        self._programs = programs(plan)
        self.states = {relation.grouping: self._state(relation.grouping) for relation in plan.relations}
        self._windows = shapes({live.query.window for live in self.queries.values()})

    def _state(self, grouping: Grouping) -> RelationState:
        """Return a grouping's partials so far, less those that nobody asks for any more."""
        state = self.states.get(grouping)
        if state is None:
            return RelationState([arrow_type(key.type) for key in grouping[1]])
        mine = [relation for relation in self.plan.relations if relation.grouping == grouping]
        state.keep(
            [one for relation in mine for one in relation.primitives],
            [one for relation in mine for one in relation.predicates],
        )
        return state

    def _bounds(self) -> Bounds:
        skew = self.stream.skew_ms
        future = None if skew is None else int(time() * 1_000_000) + skew * _US
        return Bounds(
            watermark=self.clock.watermark,
            future=future,
            span=self._span,
            groups=self.planner.groups_per_slice(self.plan),
        )

    def _blocks(self, job: BatchJob, result: pa.Table) -> dict[tuple[Grouping, int], Block]:
        added: dict[tuple[Grouping, int], Block] = {}
        for index, relation in enumerate(self.plan.relations):
            block = decode.block(job, index, result, self._signatures[index])
            self.states[relation.grouping].add(block)
            added[relation.grouping, index] = block
        return added

    def _expected_span(self, before: Clock) -> int:
        """Return how far past the watermark the next batch is expected to reach: twice as far as this one."""
        newest, oldest = self.clock.newest, self.clock.oldest
        if newest is None or oldest is None:
            return 0
        if before.watermark is None:
            return 2 * (newest - oldest)
        return max(self._span // 2, 2 * (newest - before.watermark))

    def _answer(self, spark: SparkSession, advance: Advance) -> BatchReport:
        tables: dict[str, list[pa.Table]] = {}
        final_ops, failed = 0, Counter[str]()
        if advance.now is None or advance.now != advance.before:
            for program, answers in self._programs.items():
                for piece in self._program(program, answers, advance):
                    final_ops += piece.operations
                    shown, broken = select(spark, program, piece.table, self.functions)
                    failed.update(answers[number].query.name for number in (*piece.overflows, *broken))
                    for name, table in by_query(shown, answers):
                        tables.setdefault(name, []).append(table)
            oldest = self.oldest_needed() if advance.now is not None else _END_OF_TIME
            for state in self.states.values():
                state.evict(oldest)
        results = {name: pa.concat_tables(parts) for name, parts in tables.items()}
        return BatchReport(counts=RowCounts(), results=results, final_ops=final_ops, failures=failed)

    def _program(self, program: Program, answers: Sequence[Answer], advance: Advance) -> Iterable[Finals]:
        state = self.states[answers[0].grouping]
        predicates = dict.fromkeys(answer.predicate for answer in answers)
        numbers = {predicate: number for number, predicate in enumerate(predicates)}
        tested = np.array([numbers[answer.predicate] for answer in answers], dtype=np.int32)
        due = self._due(program, answers, advance, state, tested)
        return finals(state, program, due, list(predicates)) if len(due) else ()

    def _due(
        self,
        program: Program,
        answers: Sequence[Answer],
        advance: Advance,
        state: RelationState,
        tested: npt.NDArray[np.int32],
    ) -> Windows:
        windows = shapes(answer.query.window for answer in answers)
        find = self._every if program.emit_empty else due_windows
        query, end = find(windows, advance, state.starts())
        start = end - windows[query, 0] * _US
        firsts = [self.queries[answer.query.name].first_start for answer in answers]
        joined = np.array([-_END_OF_TIME if first is None else first for first in firsts], dtype=np.int64)
        due = Windows(query=query.astype(np.int32), start=start, end=end, predicate=tested[query])
        return due.take(np.flatnonzero(start >= joined[query]))

    def _every(self, windows: Times, advance: Advance, starts: Times) -> tuple[Rows, Times]:
        """Return all windows in the stream's span, with or without rows."""
        oldest, newest = self.clock.oldest, self.clock.newest
        if oldest is None or newest is None:
            return due_windows(windows, advance, starts[:0])
        after = oldest if advance.before is None else max(oldest, advance.before)
        return every_window(windows, after_us=after, newest_us=newest, now_us=advance.now)

    def answers(self, queries: Sequence[LogicalQuery]) -> bool:
        """Say whether the current plan is that of exactly these queries."""
        return {answer.query.name for answer in self.plan.answers} == {query.name for query in queries}

    def oldest_needed(self) -> int:
        """Return the start of the oldest window still open: what lies before it can be forgotten."""
        if self.clock.watermark is None:
            return -_END_OF_TIME
        return oldest_needed(self._windows, self.clock.watermark) if len(self._windows) else _END_OF_TIME

    def restore(self, clock: Clock, first_starts: Mapping[str, int | None]) -> None:
        """Go back to a clock; queries it does not know join after it."""
        self.clock = clock
        for name, live in self.queries.items():
            joins_late = None if clock.newest is None else clock.newest + 1
            self.queries[name] = replace(live, first_start=first_starts.get(name, joins_late))
        self._stale = True
        self._compiled(None)
