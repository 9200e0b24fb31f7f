"""Answer the windows that are due, program by program: the trouble of one is not that of others."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from weft.limits import Limits, over_limit
from weft.optimizer.plan import Answer, Grouping
from weft.predicates import Formula
from weft.query.logical import LogicalQuery
from weft.runtime.answers import by_query, select
from weft.runtime.blame import culprits
from weft.runtime.clock import Clock
from weft.runtime.due import Advance, shapes
from weft.runtime.finals import finals
from weft.runtime.lives import LiveQuery, due, every_end, kept_since
from weft.runtime.programs import Program
from weft.runtime.state import RelationState
from weft.spark.columns import Udf
from weft.window import Window

_US = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What there is to answer from, and by what rules."""

    states: Mapping[Grouping, RelationState]
    queries: Mapping[str, LiveQuery]
    waiting: Collection[str]
    """Queries whose past windows are due, too."""
    clock: Clock
    functions: Mapping[str, Udf]
    limits: Limits


@dataclass(slots=True)
class Answered:
    """New results, and what became of the queries."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    final_ops: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    broken: dict[str, str] = field(default_factory=dict)

    def results(self) -> dict[str, pa.Table]:
        """Return each query's results as one table."""
        return {name: pa.concat_tables(parts) for name, parts in self.tables.items()}

    def add(self, other: "Answered") -> None:
        """Take in what other queries were answered."""
        self.tables |= other.tables
        self.final_ops += other.final_ops
        self.failures += other.failures
        self.broken |= other.broken


def answer_due(
    spark: SparkSession, programs: Mapping[Program, Sequence[Answer]], advance: Advance, asked: Asked
) -> Answered:
    """Return the results of all windows that are due."""
    found = Answered()
    for program, answers in programs.items():
        fitting, too_large = _within_limit(answers, advance, asked)
        fitting, too_many = _with_few_windows(fitting, advance, asked)
        found.broken |= too_large | too_many
        found.add(_answered(spark, program, fitting, advance, asked))
    for name in list(found.tables):
        rows = sum(table.num_rows for table in found.tables[name])
        if rows > asked.limits.result_rows:
            del found.tables[name]
            found.broken[name] = over_limit("result_rows", rows, asked.limits)
    return found


def _answered(
    spark: SparkSession, program: Program, answers: Sequence[Answer], advance: Advance, asked: Asked
) -> Answered:
    """Answer a program's queries; those that are shown to make it fail are left out."""

    def answer_some(queries: Sequence[LogicalQuery]) -> Answered:
        names = {query.name for query in queries}
        some = [one for one in answers if one.query.name in names]
        return _answer(spark, program, some, advance, asked)

    queries = [one.query for one in answers]
    try:
        return answer_some(queries)
    except Exception as error:
        broken = culprits(queries, answer_some, error)
        if not broken:
            raise
    found = answer_some([query for query in queries if query.name not in broken])
    found.broken |= broken
    return found


def _answer(
    spark: SparkSession, program: Program, answers: Sequence[Answer], advance: Advance, asked: Asked
) -> Answered:
    found = Answered()
    if not answers:
        return found
    state = asked.states[answers[0].grouping]
    windows, predicates = due(answers, asked.queries, asked.waiting, advance, asked.clock, state.starts())
    for piece in finals(state, program, windows, predicates) if len(windows) else ():
        found.final_ops += piece.operations
        shown, broken = select(spark, program, piece.table, asked.functions)
        found.failures.update(answers[number].query.name for number in (*piece.overflows, *broken))
        for name, table in by_query(shown, answers):
            found.tables.setdefault(name, []).append(table)
    return found


def _within_limit(
    answers: Sequence[Answer], advance: Advance, asked: Asked
) -> tuple[Sequence[Answer], dict[str, str]]:
    """Return the answers that do not hold too many groups, and what to say of each of the other queries."""
    state, limit = asked.states[answers[0].grouping], asked.limits.groups_per_query
    state.settle()
    if len(state.groups) <= limit:
        return answers, {}
    # All queries together are over the limit; each is judged by what it holds itself.
    size = len(state.fragments)
    shards = sum((np.bincount(run.fragment, minlength=size) for run in state.runs()), np.zeros(size))
    known: dict[tuple[Formula, Window, int], int] = {}
    fitting, broken = [], {}
    for one in answers:
        name, window = one.query.name, one.query.window
        since = kept_since(asked.queries[name], None if name in asked.waiting else advance.before)
        key = one.predicate, window, since
        if key not in known:
            satisfied = state.fragments.bits([one.predicate], np.arange(size))[0]
            # Every group has a shard: where these are few, groups need not be counted.
            many = shards[satisfied].sum() > limit
            known[key] = _groups(state, satisfied, window, since) if many else 0
        if known[key] > limit:
            broken[name] = over_limit("groups_per_query", known[key], asked.limits)
        else:
            fitting.append(one)
    return fitting, broken


def _with_few_windows(
    answers: Sequence[Answer], advance: Advance, asked: Asked
) -> tuple[Sequence[Answer], dict[str, str]]:
    """Return the answers whose windows are within the limit of results, and what to say of the others.

    With EMIT EMPTY, windows are as many as time is long: years between two rows must not be spelled out.
    """
    if not answers or not answers[0].query.emit_empty:
        return answers, {}
    counts = every_end(answers, asked.queries, asked.waiting, advance, asked.clock).count.tolist()
    broken = {
        one.query.name: over_limit("result_rows", count, asked.limits)
        for one, count in zip(answers, counts, strict=True)
        if count > asked.limits.result_rows
    }
    return [one for one in answers if one.query.name not in broken], broken


def _groups(state: RelationState, counting: npt.NDArray[np.bool_], window: Window, since: int) -> int:
    """Return how many keys are in windows that begin at a time or later, and in fragments that count."""
    range_us, slide_us, offset_us = shapes([window])[0] * _US
    held = np.zeros(len(state.groups), dtype=bool)
    for run in state.runs():
        rows = slice(int(np.searchsorted(run.start, since)), None)
        # What lies between two windows is in neither.
        inside = (run.start[rows] - offset_us) % slide_us >= slide_us - range_us
        held[run.key[rows][inside & counting[run.fragment[rows]]]] = True
    return int(held.sum())
