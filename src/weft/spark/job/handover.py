"""The columns that Spark hands over to the driver, where the driver evaluates expressions itself.

Only the columns that expressions read are handed over, and what only Spark can evaluate: registered
functions, a few others (weft.evaluation). So neither the code that Spark generates nor what is handed over
grows with the number of queries. Where all tables are small, the driver looks their rows up as well: then
Spark joins nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column as SparkColumn

from weft.evaluation import Evaluator, can_evaluate
from weft.expression import Call, Column, Expression, columns
from weft.optimizer.plan import Relation
from weft.spark.columns import Translator, named
from weft.spark.input.tables import NOWHERE, LocalTable
from weft.spark.job.joins import Joins
from weft.types import BOOLEAN, DataType


@dataclass(slots=True)
class Handover:
    """The columns that are handed over or looked up, each once, by their names in the driver."""

    joins: Joins
    looks_up: bool
    """Whether the driver looks up the rows of tables, rather than Spark joining them."""
    needs_joins: bool = False
    """Whether Spark must join tables all the same, because it evaluates something over them."""
    columns: dict[Column, SparkColumn] = field(default_factory=dict)
    """What Spark selects."""
    _looked_up: dict[Column, tuple[int, str | None]] = field(default_factory=dict)
    """Tables and columns of them; None instead of a column for whether a row has a partner."""
    _keys: dict[int, tuple[Expression, ...]] = field(default_factory=dict)
    """The keys that tables are looked up by."""
    _known: dict[object, Column] = field(default_factory=dict)

    def over(self, translate: Translator, expression: Expression) -> Expression:
        """Return an expression over the columns handed over, with the values of one over joined rows."""
        if not can_evaluate(expression):
            self._read_by_spark(translate, expression)
            return self._hand_over((translate, expression), translate(expression), expression.type)
        if isinstance(expression, Column):
            return self._column(translate.name(expression.name), expression.type)
        if isinstance(expression, Call):
            return replace(
                expression, args=tuple(self.over(translate, argument) for argument in expression.args)
            )
        return expression

    def taken(self, relation: Relation) -> Expression | None:
        """Return whether a joined row is one of a relation's; None if all are."""
        if self.looks_up:
            inner = [self._look_up(number, None, BOOLEAN) for number in self.joins.inner(relation)]
            return Call("and", tuple(inner), BOOLEAN) if len(inner) > 1 else inner[0] if inner else None
        conditions = self.joins.taken(relation)
        if not conditions:
            return None
        return self._hand_over(relation.joins, reduce(SparkColumn.__and__, conditions), BOOLEAN)

    def condition(
        self, key: object, holds: SparkColumn, translate: Translator, *reads: Expression
    ) -> Expression:
        """Return the column of a condition that Spark evaluates, over what some expressions read."""
        for expression in reads:
            self._read_by_spark(translate, expression)
        return self._hand_over(key, holds, BOOLEAN)

    def fields(self) -> list[SparkColumn]:
        """Return what Spark is to select."""
        return [column.alias(given.name) for given, column in self.columns.items()]

    def evaluator(self, rows: pa.Table, tables: Mapping[int, LocalTable]) -> Evaluator:
        """Return the evaluator of expressions over rows that were handed over."""
        given = {column: rows[column.name].combine_chunks() for column in self.columns}
        if self._looked_up:
            own = Evaluator(given, len(rows))
            partners = {
                number: tables[number].find([own.values(key) for key in keys])
                for number, keys in self._keys.items()
            }
            for column, (number, name) in self._looked_up.items():
                if name is None:
                    given[column] = pa.array(partners[number] != NOWHERE)
                else:
                    given[column] = tables[number].column(name, partners[number])
        return Evaluator(given, len(rows))

    def _column(self, name: str, type: DataType) -> Column:
        table = self.joins.table_column(name) if self.looks_up else None
        if table is not None:
            return self._look_up(*table, type)
        # Each column is made only once: that takes a call to Java.
        return self._known.get(name) or self._hand_over(name, named(name), type)

    def _look_up(self, number: int, name: str | None, type: DataType) -> Column:
        if number not in self._keys:
            stream = self.joins.stream
            self._keys[number] = tuple(self.over(stream, key) for key in self.joins.looked_up_by(number))
        key = number, name
        if key not in self._known:
            self._known[key] = own = self._own(type)
            self._looked_up[own] = key
        return self._known[key]

    def _read_by_spark(self, translate: Translator, expression: Expression) -> None:
        tables = (self.joins.table_column(translate.name(name)) for name in columns(expression))
        self.needs_joins |= any(table is not None for table in tables)

    def _hand_over(self, key: object, column: SparkColumn, type: DataType) -> Column:
        if key not in self._known:
            self._known[key] = own = self._own(type)
            self.columns[own] = column.cast(str(type))
        return self._known[key]

    def _own(self, type: DataType) -> Column:
        return Column(f"__weft_given{len(self._known)}", type)
