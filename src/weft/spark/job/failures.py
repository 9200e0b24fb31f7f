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
from weft.query.failures import sites
from weft.query.logical import Join, LogicalQuery
from weft.spark.columns import Translator

_Sites = tuple[tuple[Join, ...], tuple[Expression, ...]]
"""Operations that may fail, and the tables that are joined where they are evaluated."""


class Failures:
    """The ways in which the queries of a job can fail, each a column that is not NULL where they do."""

    def __init__(self, answers: Sequence[tuple[Answer, Translator]], good: Column) -> None:
        translators: dict[tuple[Join, ...], Translator] = {}
        in_predicates: dict[_Sites, list[str]] = {}
        in_values: dict[_Sites, list[Answer]] = {}
        for answer, translate in answers:
            translators[answer.query.joins] = translate
            predicate, values = _sites_of(answer.query)
            if predicate[1]:
                in_predicates.setdefault(predicate, []).append(answer.query.name)
            if values[1]:
                in_values.setdefault(values, []).append(answer)
        self.sites = tuple(dict.fromkeys(site for _, own in (*in_predicates, *in_values) for site in own))
        """The operations that may fail; canonical predicates may lack some of them."""
        self._test_names = {key: f"failed{number}" for number, key in enumerate(in_predicates)}
        self._value_names = {key: f"spoilt{number}" for number, key in enumerate(in_values)}
        self.failing = {
            name: (translators[joins], own)
            for names in (self._test_names, self._value_names)
            for (joins, own), name in names.items()
        }
        """For each column, the operations that may fail, and their translator."""
        columns = {name: _failed(*failing, good) for name, failing in self.failing.items()}
        self._tests = {name: columns[name] for name in self._test_names.values()}
        self._values = {name: columns[name] for name in self._value_names.values()}
        self.tested = {name: own for (_, own), name in self._test_names.items()}
        """For each column that counts failed predicates, the operations that may fail."""
        self.queries = dict(zip(self._tests, map(tuple, in_predicates.values()), strict=True))
        """For each column that counts failed predicates, their queries."""
        self.answers = dict(zip(self._values, map(tuple, in_values.values()), strict=True))
        """For each column that counts failed values, their queries; it counts for those that have the row."""

    def share(self, answer: Answer) -> bool:
        """Count the failures of a query that joins with those of others; False if none fails like it."""
        predicate, values = _sites_of(answer.query)
        test, value = self._test_names.get(predicate), self._value_names.get(values)
        if (predicate[1] and test is None) or (values[1] and value is None):
            return False
        if test is not None:
            self.queries[test] = (*self.queries[test], answer.query.name)
        if value is not None:
            self.answers[value] = (*self.answers[value], answer)
        return True

    def forget(self, query: str) -> None:
        """Count no failures of a query any more."""
        for column, names in self.queries.items():
            if query in names:
                self.queries[column] = tuple(name for name in names if name != query)
        for column, answers in self.answers.items():
            self.answers[column] = tuple(answer for answer in answers if answer.query.name != query)

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


def _failed(translate: Translator, own: Sequence[Expression], good: Column) -> Column:
    return F.when(good & reduce(Column.__or__, map(translate.failure_at, own)), F.lit(1))


def _sites_of(query: LogicalQuery) -> tuple[_Sites, _Sites]:
    """Return what may fail in a query's predicate, and in its keys and aggregates."""
    inputs = [value for call in query.aggregates for value in (*call.arguments, call.filter)]
    values = [value for value in (*(key.expression for key in query.keys), *inputs) if value is not None]
    in_values = dict.fromkeys(site for value in values for site in sites(value))
    in_predicate = () if query.predicate is None else sites(query.predicate)
    return (query.joins, in_predicate), (query.joins, tuple(in_values))
