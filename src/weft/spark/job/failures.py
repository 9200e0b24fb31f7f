"""Count, for each query, the rows where an expression of it failed and became NULL.

Predicates that differ in their constants only fail together, so they are counted together; and what fails in
an aggregate's argument or a key counts for the queries whose fragments the row is in.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.expression import Expression
from weft.optimizer.plan import Answer
from weft.query.allowed_functions import sites
from weft.query.logical import LogicalQuery
from weft.spark.columns import Translator

_Sites = tuple[Translator, tuple[Expression, ...]]


class Failures:
    """The ways in which the queries of a job can fail, each a column that is not NULL where they do."""

    def __init__(self, answers: Sequence[tuple[Answer, Translator]], good: Column) -> None:
        in_predicates: dict[_Sites, list[str]] = {}
        in_values: dict[_Sites, list[Answer]] = {}
        for answer, translate in answers:
            predicate = () if answer.query.predicate is None else sites(answer.query.predicate)
            values = tuple(dict.fromkeys(site for value in _values(answer.query) for site in sites(value)))
            if predicate:
                in_predicates.setdefault((translate, predicate), []).append(answer.query.name)
            if values:
                in_values.setdefault((translate, values), []).append(answer)
        self.sites = tuple(dict.fromkeys(site for _, own in (*in_predicates, *in_values) for site in own))
        """The operations that may fail; canonical predicates may lack some of them."""
        self._tests = {f"failed{number}": _failed(key, good) for number, key in enumerate(in_predicates)}
        self._values = {f"spoilt{number}": _failed(key, good) for number, key in enumerate(in_values)}
        self.failing = dict(zip((*self._tests, *self._values), (*in_predicates, *in_values), strict=True))
        """For each column, the operations that may fail, and their translator."""
        self.tested = dict(zip(self._tests, (own for _, own in in_predicates), strict=True))
        """For each column that counts failed predicates, the operations that may fail."""
        self.queries = dict(zip(self._tests, map(tuple, in_predicates.values()), strict=True))
        """For each column that counts failed predicates, their queries."""
        self.answers = dict(zip(self._values, map(tuple, in_values.values()), strict=True))
        """For each column that counts failed values, their queries; it counts for those that have the row."""

    def counts(self) -> list[Column]:
        """Return the aggregates that count failures."""
        return [F.count(F.col(name)).alias(name) for name in (*self._tests, *self._values)]

    def failed(self, name: str) -> Column:
        """Return one of the columns, not NULL where a good row failed, in every copy of it."""
        return self._tests[name] if name in self._tests else self._values[name]

    def fields(self, counted: Column) -> list[Column]:
        """Return the columns; predicates fail once for a row, however many copies of it there are."""
        tests = [F.when(counted, column).alias(name) for name, column in self._tests.items()]
        return [*tests, *(column.alias(name) for name, column in self._values.items())]


def _failed(key: _Sites, good: Column) -> Column:
    translate, own = key
    return F.when(good & reduce(Column.__or__, map(translate.failure_at, own)), F.lit(1))


def _values(query: LogicalQuery) -> tuple[Expression, ...]:
    inputs = [
        value for call in query.aggregates for value in (call.argument, call.filter) if value is not None
    ]
    return (*(key.expression for key in query.keys), *inputs)
