"""Which predicates of a plan are evaluated by value, and what has to be known of each value for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.evaluation import can_evaluate
from weft.expression import Call, Expression, columns
from weft.optimizer.by_value import evaluable
from weft.optimizer.plan import SharedPlan
from weft.predicates import tests
from weft.predicates.words import stands_whole
from weft.query.fallible import sites
from weft.query.logical import StreamDef
from weft.spark.columns import Udf
from weft.spark.job.calls import calls_in, relation_values
from weft.spark.job.known_values import KnownColumn


@dataclass(slots=True, eq=False)
class KnownValues:
    """The values of a stream's columns that are known, whatever plan is in effect."""

    columns: dict[str, KnownColumn] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class AskedValues:
    """The columns whose values a plan asks about."""

    columns: dict[str, KnownColumn]
    expressions: dict[Expression, KnownColumn]
    """The tested expressions that are evaluated by value."""
    failing: dict[Expression, KnownColumn]
    """The calls in predicates whose failures are known by value."""
    functions: Mapping[str, Udf]
    known: KnownValues
    """What is known of all columns; other jobs may have asked for other things."""

    @property
    def version(self) -> tuple[int, ...]:
        """What columns that look values up depend on."""
        return tuple(one.version for one in self.columns.values())

    @property
    def are_ours(self) -> bool:
        """Whether the driver can evaluate all that is asked itself: there is no registered function."""
        return not self.failing and all(map(can_evaluate, self.expressions))

    def prepare(self, batch: DataFrame) -> None:
        """Know what is asked before a batch is aggregated."""
        for name in self.known.columns.keys() - self.columns.keys():
            del self.known.columns[name]
        for name, one in self.columns.items():
            self.known.columns[name] = one
            asked = [test for test, column in self.expressions.items() if column is one]
            one.ask(asked, [site for site, column in self.failing.items() if column is one])
            one.prepare(batch, self.functions)

    def learn(self, batch: DataFrame, missed: Mapping[str, pa.Array]) -> None:
        """Know the values that a batch showed for the first time."""
        for name, values in missed.items():
            self.columns[name].learn(batch.sparkSession, values, self.functions)


def asked_values(
    plan: SharedPlan, stream: StreamDef, functions: Mapping[str, Udf], known: KnownValues
) -> AskedValues:
    """Return what a plan asks of values.

    A function that is called for each row anyway, or that gives another result each time, is not asked so.
    """
    tested = {one.expression for relation in plan.roots for p in relation.predicates for one in tests(p)}
    judged = {site for one in plan.answers if one.query.predicate for site in sites(one.query.predicate)}
    own = {one: _column(one, plan.by_value) for one in (*tested, *judged)}
    chosen = {one for one in tested if own[one] and evaluable(one)}
    failing = {one for one in judged if own[one] and any(calls_in([one], functions))}
    values = [value for relation in plan.roots for value in relation_values(relation)]
    while True:
        whole = _in_whole_predicates(plan, {one: own[one] for one in chosen})
        by_row = set(calls_in([*values, *whole, *tested - chosen, *judged - failing], functions))
        rest = [{one for one in some if _fit(one, by_row, functions)} for some in (chosen, failing)]
        if rest == [chosen, failing]:
            break
        chosen, failing = rest
    types = {column.name: column.type for column in stream.columns}
    found = AskedValues({}, {}, {}, functions, known)
    for name in sorted({name for one in chosen if (name := own[one])}):
        column = known.columns.get(name) or KnownColumn(name, types[name])
        found.columns[name] = column
        found.expressions |= dict.fromkeys(
            (one for one in sorted(chosen, key=str) if own[one] == name), column
        )
        found.failing |= dict.fromkeys((one for one in sorted(failing, key=str) if own[one] == name), column)
    return found


def _in_whole_predicates(plan: SharedPlan, by_value: Mapping[Expression, object]) -> list[Expression]:
    """Return what is tested by predicates that are evaluated as they stand, and so for each row."""
    return [
        one.expression
        for relation in plan.roots
        for predicate in relation.predicates
        if stands_whole(predicate, lambda tested: by_value.get(tested, tested), bitwise=not relation.shared)
        for one in tests(predicate)
    ]


def _column(expression: Expression, by_value: Sequence[str]) -> str | None:
    """Return the only column that an expression reads, if it is one whose values are evaluated."""
    read = columns(expression)
    (name,) = read if len(read) == 1 else (None,)
    return name if name in by_value else None


def _fit(expression: Expression, by_row: set[Call], functions: Mapping[str, Udf]) -> bool:
    calls = list(calls_in([expression], functions))
    steady = all(getattr(functions[call.function], "deterministic", True) for call in calls)
    return steady and not by_row.intersection(calls)
