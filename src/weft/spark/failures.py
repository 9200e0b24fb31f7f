"""Count, for each query, the rows where an expression of it failed and became NULL."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.expression import Expression
from weft.query.logical import LogicalQuery
from weft.spark.columns import Translator


class Failures:
    """The ways in which the queries of a job can fail, each a column that is not NULL where it happened."""

    def __init__(self, queries: Sequence[tuple[LogicalQuery, Translator]], good: Column) -> None:
        self.columns: dict[str, Column] = {}
        self.queries: dict[str, tuple[str, ...]] = {}
        """For each column, the queries that it concerns."""
        alike: dict[tuple[Translator, Expression | None, tuple[Expression, ...]], list[str]] = {}
        for query, translate in queries:
            alike.setdefault((translate, query.predicate, _arguments(query)), []).append(query.name)
        for (translate, predicate, arguments), names in alike.items():
            failed = _failed(translate, predicate, arguments)
            if failed is not None:
                name = f"failed{len(self.columns)}"
                self.columns[name] = F.when(good & failed, F.lit(1)).alias(name)
                self.queries[name] = tuple(names)

    def counts(self) -> list[Column]:
        """Return the aggregates that count failures."""
        return [F.count(F.col(name)).alias(name) for name in self.columns]

    def fields(self, counted: Column) -> list[Column]:
        """Return the columns; they are NULL in copies of a row that must not count again."""
        return [F.when(counted, column).alias(name) for name, column in self.columns.items()]


def _failed(
    translate: Translator, predicate: Expression | None, arguments: Sequence[Expression]
) -> Column | None:
    """A row fails in its predicate, or passes it and fails in what is aggregated or grouped by."""
    found = [part for part in map(translate.failure, arguments) if part is not None]
    inside = [reduce(Column.__or__, found)] if found else []
    if predicate is None:
        return inside[0] if inside else None
    outside = translate.failure(predicate)
    parts = [translate(predicate) & part for part in inside]
    parts += [] if outside is None else [outside]
    return reduce(Column.__or__, parts) if parts else None


def _arguments(query: LogicalQuery) -> tuple[Expression, ...]:
    calls = [one for call in query.aggregates for one in (call.argument, call.filter) if one is not None]
    return (*(key.expression for key in query.keys), *calls)
