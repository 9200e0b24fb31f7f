"""The predicates of a plan that are evaluated once for each value of a column (see known_values)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from weft.evaluation import can_evaluate
from weft.expression import Call, Expression, columns
from weft.optimizer.by_value import evaluable
from weft.optimizer.plan import SharedPlan
from weft.predicates import tests
from weft.predicates.words import stands_whole
from weft.query.allowed_functions import sites
from weft.query.logical import StreamDef
from weft.spark.columns import Udf
from weft.spark.job.calls import calls_in, relation_values
from weft.spark.job.known_values import KnownColumn


@dataclass(slots=True, eq=False)
class KnownValues:
    """The known values of a stream's columns, whatever plan is in effect."""

    columns: dict[str, KnownColumn] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ValuePredicates:
    """The predicates of a plan that are evaluated by value, and the columns that they read."""

    columns: dict[str, KnownColumn] = field(default_factory=dict)
    expressions: dict[Expression, KnownColumn] = field(default_factory=dict)
    """The tested expressions that are evaluated by value."""
    failing: dict[Expression, KnownColumn] = field(default_factory=dict)
    """The calls in predicates whose failures are known by value."""
    functions: Mapping[str, Udf] = field(default_factory=dict)
    known: KnownValues = field(default_factory=KnownValues)
    """What is known of all columns; other jobs may need other predicates."""

    @property
    def version(self) -> tuple[int, ...]:
        """What columns that look values up depend on."""
        return tuple(column.version for column in self.columns.values())

    @property
    def driver_can_evaluate(self) -> bool:
        """Whether the driver can evaluate all predicates itself: there is no registered function."""
        return not self.failing and all(map(can_evaluate, self.expressions))

    def prepare(self, batch: DataFrame) -> None:
        """Evaluate all predicates for known values before a batch is aggregated."""
        for name in self.known.columns.keys() - self.columns.keys():
            del self.known.columns[name]
        for name, column in self.columns.items():
            self.known.columns[name] = column
            column.require(
                [tested for tested, of in self.expressions.items() if of is column],
                [site for site, of in self.failing.items() if of is column],
            )
            column.prepare(batch, self.functions)

    def unknown_values(self, result: pa.Table) -> dict[str, pa.Array]:
        """Return the values in a job's result that were not known before it, by column, each once."""
        unknown = {
            name: pc.unique(result[column.missed_name].combine_chunks()).drop_null()
            for name, column in self.columns.items()
        }
        return {name: values for name, values in unknown.items() if len(values)}

    def learn(self, batch: DataFrame, unknown: Mapping[str, pa.Array]) -> None:
        """Evaluate all predicates for values that a batch has for the first time."""
        for name, values in unknown.items():
            self.columns[name].learn(batch.sparkSession, values, self.functions)

    def count_failures(
        self,
        tested: Mapping[str, tuple[Expression, ...]],
        result: pa.Table,
        counted: npt.NDArray[np.bool_],
        rows: str,
    ) -> pa.Table:
        """Count the failures of calls for values that have become known after the job.

        All rows of a group have one value, so that either none of them failed or all did. `tested` has, for
        each column of failures, the operations that it counts; `counted` are the groups of first copies, and
        `rows` is the column that counts their rows.
        """
        for name, operations in tested.items():
            failed = np.zeros(len(result), dtype=bool)
            for site in operations:
                column = self.failing.get(site)
                if column is None:
                    continue
                answers = column.answers(result[column.missed_name].combine_chunks())
                failed |= (answers >= 0) & (column.failed(site)[answers] == 1)
            if (failed & counted).any():
                counts = np.where(failed & counted, np.asarray(result[rows]), np.asarray(result[name]))
                result = result.set_column(result.column_names.index(name), name, pa.array(counts))
        return result


def value_predicates(
    plan: SharedPlan, stream: StreamDef, functions: Mapping[str, Udf], known: KnownValues
) -> ValuePredicates:
    """Return the predicates of a plan that are evaluated by value.

    A predicate is not if it calls a function that is called for each row anyway, or that is not
    deterministic.
    """
    tested = {test.expression for relation in plan.roots for p in relation.predicates for test in tests(p)}
    predicates = [answer.query.predicate for answer in plan.answers]
    judged = {site for predicate in predicates if predicate for site in sites(predicate)}
    column_of = {expression: _column(expression, plan.by_value) for expression in (*tested, *judged)}
    chosen = {expression for expression in tested if column_of[expression] and evaluable(expression)}
    failing = {site for site in judged if column_of[site] and any(calls_in([site], functions))}
    values = [value for relation in plan.roots for value in relation_values(relation)]
    while True:
        whole = _in_whole_predicates(plan, {expression: column_of[expression] for expression in chosen})
        by_row = set(calls_in([*values, *whole, *tested - chosen, *judged - failing], functions))
        fitting = [
            {expression for expression in expressions if _fits(expression, by_row, functions)}
            for expressions in (chosen, failing)
        ]
        if fitting == [chosen, failing]:
            break
        chosen, failing = fitting
    types = {column.name: column.type for column in stream.columns}
    by_value = ValuePredicates(functions=functions, known=known)
    for name in sorted({name for expression in chosen if (name := column_of[expression])}):
        column = by_value.columns[name] = known.columns.get(name) or KnownColumn(name, types[name])
        for expressions, by_expression in ((chosen, by_value.expressions), (failing, by_value.failing)):
            own = [expression for expression in expressions if column_of[expression] == name]
            by_expression |= dict.fromkeys(sorted(own, key=str), column)
    return by_value


def _in_whole_predicates(plan: SharedPlan, by_value: Mapping[Expression, object]) -> list[Expression]:
    """Return what is tested by predicates that are evaluated as a whole, and so for each row."""
    return [
        test.expression
        for relation in plan.roots
        for predicate in relation.predicates
        if stands_whole(predicate, lambda tested: by_value.get(tested, tested), bitwise=not relation.shared)
        for test in tests(predicate)
    ]


def _column(expression: Expression, by_value: Sequence[str]) -> str | None:
    """Return the only column that an expression reads, if predicates are evaluated by its values."""
    read = columns(expression)
    (name,) = read if len(read) == 1 else (None,)
    return name if name in by_value else None


def _fits(expression: Expression, by_row: set[Call], functions: Mapping[str, Udf]) -> bool:
    calls = list(calls_in([expression], functions))
    deterministic = all(getattr(functions[call.function], "deterministic", True) for call in calls)
    return deterministic and not by_row.intersection(calls)
