"""One stream's pipeline: what happens to a batch, from Spark's partials to each query's new results.

Everything here is the state between batches; nothing here knows how batches come or where results go.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter, time

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.aggregates import arrow_type
from weft.errors import EngineError, InternalError
from weft.optimizer.plan import Answer, Relation, SharedPlan
from weft.optimizer.rules import optimize
from weft.optimizer.slices import Slicing
from weft.query.logical import LogicalQuery, StreamDef
from weft.runtime import decode
from weft.runtime.answers import by_query, select
from weft.runtime.clock import Clock, RowCounts
from weft.runtime.due import Advance, due_windows, every_window, oldest_needed, shapes
from weft.runtime.finals import Finals, Rows, Times, Windows, finals
from weft.runtime.programs import Program, programs
from weft.runtime.state import Block, RelationState
from weft.spark.columns import Udf
from weft.spark.job import BatchJob, Bounds
from weft.spark.schemas import ddl
from weft.spark.session import utc
from weft.spark.tables import StaticTable

_US = 1000
_END_OF_TIME = (1 << 63) - 1


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
    blocks: Mapping[object, Block] = field(default_factory=dict)
    """What the batch added to each relation, by the relation's grouping."""

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
        tables: Mapping[str, StaticTable] | None = None,
        functions: Mapping[str, Udf] | None = None,
        slicing: Slicing = Slicing.PAIRED,
    ) -> None:
        self.stream = stream
        self.clock = Clock()
        self.tables = tables if tables is not None else {}
        self.functions = functions if functions is not None else {}
        self.slicing = slicing
        self.queries: dict[str, LiveQuery] = {}
        self.states: dict[object, RelationState] = {}
        self.plan: SharedPlan = optimize((), slicing)
        self._job: BatchJob | None = None
        self._programs: Mapping[Program, Sequence[Answer]] = {}
        self._windows = np.empty((0, 3), dtype=np.int64)
        self._span = 0

    def add(self, query: LogicalQuery) -> None:
        """Let a query join before the next batch."""
        # Its first window is the first that begins after all data already aggregated.
        newest = self.clock.newest
        self.queries[query.name] = LiveQuery(query=query, first_start=None if newest is None else newest + 1)
        self._job = None

    def try_out(self, query: LogicalQuery, spark: SparkSession) -> None:
        """Have Spark look at a query before it joins others: what it refuses must not stop them."""
        try:
            job = BatchJob(optimize([query], self.slicing), self.stream, self.tables, self.functions)
            job.run(spark.createDataFrame([], ddl(self.stream.columns)), self._bounds())
        except (PySparkException, TypeError, InternalError) as error:
            raise EngineError(f"query {query.name} cannot be run: {str(error).splitlines()[0]}") from error

    def remove(self, name: str) -> None:
        """Let a query leave before the next batch."""
        del self.queries[name]
        self._job = None

    def process(self, batch: DataFrame) -> BatchReport:
        """Aggregate a batch and answer the windows that are due after it."""
        with utc(batch.sparkSession):
            return self._process(batch)

    def _process(self, batch: DataFrame) -> BatchReport:
        began = perf_counter()
        job = self._compiled()
        planned = perf_counter()
        before = self.clock
        result = job.run(batch, self._bounds())
        ran = perf_counter()
        seen = decode.seen(job, result)
        blocks = self._blocks(job, result)
        self.clock = before.after(seen, self.stream)
        self._span = self._expected_span(before)
        report = self._answer(batch.sparkSession, self.clock.advance_from(before))
        return replace(
            report,
            counts=seen.counts,
            seconds={"plan": planned - began, "spark": ran - planned, "finals": perf_counter() - ran},
            failures=Counter(report.failures) + Counter(decode.failures(job, result)),
            blocks=blocks,
            partial_ops=sum(block.rows for block in blocks.values()),
            unshared_ops=sum(
                blocks[relation.grouping].rows * len(self.plan.answers_of(number))
                for number, relation in enumerate(self.plan.relations)
            ),
        )

    def finish(self, spark: SparkSession) -> BatchReport:
        """Close every window: the input has ended."""
        self._compiled()
        with utc(spark):
            report = self._answer(spark, Advance(before=self.clock.watermark, now=None))
        self.clock = self.clock.ended(
            max((one.query.window.range_ms for one in self.queries.values()), default=0)
        )
        return report

    def idle(self, spark: SparkSession) -> BatchReport:
        """Close the windows that only the delay holds open: the stream has fallen silent."""
        self._compiled()
        before, self.clock = self.clock, self.clock.idle()
        with utc(spark):
            return self._answer(spark, self.clock.advance_from(before))

    def _compiled(self) -> BatchJob:
        """Return the job of the current plan, made anew only when queries came or went."""
        if self._job is None:
            self.plan = optimize([live.query for live in self.queries.values()], self.slicing)
            self._job = BatchJob(self.plan, self.stream, self.tables, self.functions)
            self._programs = programs(self.plan)
            self.states = {relation.grouping: self._state(relation) for relation in self.plan.relations}
            self._windows = shapes({live.query.window for live in self.queries.values()})
        return self._job

    def _state(self, relation: Relation) -> RelationState:
        """Return a relation's partials so far, less those that nobody asks for any more."""
        state = self.states.get(relation.grouping)
        if state is None:
            return RelationState([arrow_type(key.type) for key in relation.keys])
        state.keep(relation.primitives)
        return state

    def _bounds(self) -> Bounds:
        skew = self.stream.skew_ms
        future = None if skew is None else int(time() * 1_000_000) + skew * _US
        return Bounds(watermark=self.clock.watermark, future=future, span=self._span)

    def _blocks(self, job: BatchJob, result: pa.Table) -> dict[object, Block]:
        added: dict[object, Block] = {}
        for index, relation in enumerate(self.plan.relations):
            block = decode.block(job, index, result)
            self.states[relation.grouping].add(block)
            added[relation.grouping] = block
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
        relation = self.plan.relations[program.relation]
        state = self.states[relation.grouping]
        due = self._due(program, answers, advance, state)
        return finals(state, relation.primitives, program, due) if len(due) else ()

    def _due(
        self, program: Program, answers: Sequence[Answer], advance: Advance, state: RelationState
    ) -> Windows:
        windows = shapes(answer.query.window for answer in answers)
        find = self._every if program.emit_empty else due_windows
        query, end = find(windows, advance, state.starts())
        start = end - windows[query, 0] * _US
        firsts = [self.queries[answer.query.name].first_start for answer in answers]
        joined = np.array([-_END_OF_TIME if first is None else first for first in firsts], dtype=np.int64)
        late = Windows(query=query.astype(np.int32), start=start, end=end)
        return late.take(np.flatnonzero(start >= joined[query]))

    def _every(self, windows: Times, advance: Advance, starts: Times) -> tuple[Rows, Times]:
        """Return all windows in the stream's span, with or without rows."""
        oldest, newest = self.clock.oldest, self.clock.newest
        if oldest is None or newest is None:
            return due_windows(windows, advance, starts[:0])
        after = oldest if advance.before is None else max(oldest, advance.before)
        return every_window(windows, after_us=after, newest_us=newest, now_us=advance.now)

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
        self._job = None
        self._compiled()
