"""What Spark hands over to the driver of rows, where the driver evaluates expressions itself.

Only the columns that expressions read are handed over, and what only Spark can evaluate: registered
functions, a few others (weft.evaluation). So neither the code that Spark generates nor what is handed over
grows with the number of queries.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark.sql import Column as SparkColumn

from weft.evaluation import can_evaluate
from weft.expression import Call, Column, Expression
from weft.spark.columns import Translator, named
from weft.types import BOOLEAN, DataType


@dataclass(slots=True)
class Handover:
    """The columns that are handed over, each once."""

    columns: dict[Column, SparkColumn] = field(default_factory=dict)
    """By what they are called over here."""
    _known: dict[object, Column] = field(default_factory=dict)

    def over(self, translate: Translator, expression: Expression) -> Expression:
        """Return an expression over the columns handed over, with the values of one over joined rows."""
        if not can_evaluate(expression):
            return self._hand_over((translate, expression), translate(expression), expression.type)
        if isinstance(expression, Column):
            name = translate.name(expression.name)
            return self._hand_over(name, named(name), expression.type)
        if isinstance(expression, Call):
            return replace(expression, args=tuple(self.over(translate, one) for one in expression.args))
        return expression

    def condition(self, key: object, holds: SparkColumn) -> Column:
        """Return the column of a condition that Spark evaluates, known by a key."""
        return self._hand_over(key, holds, BOOLEAN)

    def fields(self) -> list[SparkColumn]:
        """Return what Spark is to select."""
        return [column.alias(one.name) for one, column in self.columns.items()]

    def _hand_over(self, key: object, column: SparkColumn, type: DataType) -> Column:
        if key not in self._known:
            own = self._known[key] = Column(f"__weft_given{len(self._known)}", type)
            self.columns[own] = column.cast(str(type))
        return self._known[key]


def taken_over(rows: pa.Table, given: Iterable[Column]) -> dict[Column, pa.Array]:
    """Return the columns that were handed over."""
    return {one: rows[one.name].combine_chunks() for one in given}
