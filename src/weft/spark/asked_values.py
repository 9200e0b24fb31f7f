"""Which predicates of a plan are evaluated by value, and what has to be known of each value for them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame

from weft.expression import Call, Expression, columns
from weft.optimizer.plan import SharedPlan
from weft.optimizer.values import evaluable
from weft.predicates import tests
from weft.query.logical import StreamDef
from weft.spark.columns import Udf, sites
from weft.spark.functions import calls_in, relation_values
from weft.spark.known_values import KnownColumn


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

    def __bool__(self) -> bool:
        return bool(self.columns)

    @property
    def version(self) -> tuple[int, ...]:
        """What columns that look values up depend on."""
        return tuple(one.version for one in self.columns.values())

    def prepare(self, batch: DataFrame) -> None:
        """Know what is asked before a batch is aggregated."""
        for one in self.columns.values():
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
    tested = {one.expression for relation in plan.relations for p in relation.predicates for one in tests(p)}
    judged = {site for one in plan.answers if one.query.predicate for site in sites(one.query.predicate)}
    own = {one: _column(one, plan.by_value) for one in (*tested, *judged)}
    chosen = {one for one in tested if own[one] and evaluable(one)}
    failing = {one for one in judged if own[one] and any(calls_in([one], functions))}
    values = [value for relation in plan.relations for value in relation_values(relation)]
    while True:
        by_row = set(calls_in([*values, *tested - chosen, *judged - failing], functions))
        rest = [{one for one in some if _fit(one, by_row, functions)} for some in (chosen, failing)]
        if rest == [chosen, failing]:
            break
        chosen, failing = rest
    types = {column.name: column.type for column in stream.columns}
    found = AskedValues({}, {}, {}, functions)
    for name in sorted({name for one in chosen if (name := own[one])}):
        column = known.columns.setdefault(name, KnownColumn(name, types[name]))
        mine = [one for one in sorted(chosen, key=str) if own[one] == name]
        fails = [one for one in sorted(failing, key=str) if own[one] == name]
        column.ask(mine, fails)
        found.columns[name] = column
        found.expressions |= dict.fromkeys(mine, column)
        found.failing |= dict.fromkeys(fails, column)
    _forget_others(known, found.columns)
    return found


def _forget_others(known: KnownValues, kept: Iterable[str]) -> None:
    for name in known.columns.keys() - set(kept):
        del known.columns[name]


def _column(expression: Expression, by_value: Sequence[str]) -> str | None:
    """Return the only column that an expression reads, if it is one whose values are evaluated."""
    read = columns(expression)
    (name,) = read if len(read) == 1 else (None,)
    return name if name in by_value else None


def _fit(expression: Expression, by_row: set[Call], functions: Mapping[str, Udf]) -> bool:
    calls = list(calls_in([expression], functions))
    steady = all(getattr(functions[call.function], "deterministic", True) for call in calls)
    return steady and not by_row.intersection(calls)
