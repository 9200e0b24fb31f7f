"""Answer the windows that are due, program by program: the trouble of one is not that of others."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.errors import TooLarge
from weft.limits import Limits
from weft.optimizer.plan import Answer, Grouping
from weft.runtime.answers import by_query, select
from weft.runtime.clock import Clock
from weft.runtime.due import Advance
from weft.runtime.finals import finals
from weft.runtime.lives import LiveQuery, due
from weft.runtime.programs import Program
from weft.runtime.state import RelationState
from weft.spark.columns import Udf
from weft.spark.damaged import SPARK_ERRORS, in_a_line


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


def answer_due(
    spark: SparkSession, programs: Mapping[Program, Sequence[Answer]], advance: Advance, asked: Asked
) -> Answered:
    """Return the results of all windows that are due."""
    found = Answered()
    for program, answers in programs.items():
        try:
            _answer(spark, program, answers, advance, asked, found)
        except SPARK_ERRORS as error:
            _break(found, answers, in_a_line(error))
        except TooLarge as error:
            _break(found, answers, error.problem)
    for name in list(found.tables):
        rows = sum(table.num_rows for table in found.tables[name])
        try:
            asked.limits.enforce("result_rows", rows, query=name)
        except TooLarge as error:
            del found.tables[name]
            found.broken[name] = error.problem
    return found


def _answer(
    spark: SparkSession,
    program: Program,
    answers: Sequence[Answer],
    advance: Advance,
    asked: Asked,
    found: Answered,
) -> None:
    state = asked.states[answers[0].grouping]
    state.settle()
    asked.limits.enforce("groups_per_query", len(state.groups))
    windows, predicates = due(answers, asked.queries, asked.waiting, advance, asked.clock, state.starts())
    for piece in finals(state, program, windows, predicates) if len(windows) else ():
        found.final_ops += piece.operations
        shown, broken = select(spark, program, piece.table, asked.functions)
        found.failures.update(answers[number].query.name for number in (*piece.overflows, *broken))
        for name, table in by_query(shown, answers):
            found.tables.setdefault(name, []).append(table)


def _break(found: Answered, answers: Sequence[Answer], reason: str) -> None:
    """Give up a program's queries: some of their results may be missing."""
    for one in answers:
        found.broken[one.query.name] = reason
        found.tables.pop(one.query.name, None)
