"""Static tables, joined to the stream once for all queries.

Every table is joined from the left, so no row of the stream is lost, and its rows of equal key are numbered.
A relation that joins a table takes the rows with a partner (or all, for LEFT JOIN); one that does not takes
the first copy of each row. So relations with different joins still read the same rows in the same job.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from weft.expression import columns
from weft.optimizer.plan import Relation
from weft.query.logical import Join, JoinKind
from weft.spark.columns import Translator, Udf, named


@dataclass(frozen=True, slots=True)
class StaticTable:
    """A table as it was read when the engine started."""

    frame: DataFrame


@dataclass(frozen=True, slots=True)
class _Joined:
    """A table joined under a number, whatever its kind of join in each query."""

    table: str
    alias: str
    on: tuple[tuple[object, object], ...]
    before: tuple[int, ...]
    """The joins that its condition reads."""


class Joins:
    """The tables that relations join, each once."""

    def __init__(
        self, relations: Sequence[Relation], tables: Mapping[str, StaticTable], functions: Mapping[str, Udf]
    ) -> None:
        self._functions = functions
        self._numbers: dict[_Joined, int] = {}
        self._tables: list[tuple[DataFrame, Column]] = []
        self._places: dict[tuple[Join, ...], dict[str, int]] = {(): {}}
        self._translators: dict[tuple[Join, ...], Translator] = {}
        for relation in relations:
            if relation.joins not in self._places:
                self._places[relation.joins] = self._add(relation.joins, tables)

    def translator(self, relation: Relation) -> Translator:
        """Return what turns a relation's expressions into columns of the joined rows."""
        if relation.joins not in self._translators:
            self._translators[relation.joins] = self._translator(self._places[relation.joins])
        return self._translators[relation.joins]

    def apply(self, rows: DataFrame) -> DataFrame:
        """Return the stream's rows with the tables' columns."""
        for table, condition in self._tables:
            rows = rows.join(F.broadcast(table), condition, "left")
        return rows

    def taken(self, relation: Relation) -> list[Column]:
        """Return the conditions under which a joined row is one of the relation's."""
        places = self._places[relation.joins]
        inner = {places[join.alias] for join in relation.joins if join.kind is JoinKind.INNER}
        partners = [F.col(_copy(number)).isNotNull() for number in sorted(inner)]
        return [*partners, *self._firsts(set(range(len(self._tables))) - set(places.values()))]

    def first_copy(self) -> Column:
        """Return whether a joined row is the first of its stream row, so that rows read can be counted."""
        return reduce(Column.__and__, self._firsts(set(range(len(self._tables)))), F.lit(True))

    def __bool__(self) -> bool:
        return bool(self._tables)

    def _firsts(self, numbers: set[int]) -> list[Column]:
        return [F.coalesce(F.col(_copy(number)), F.lit(0)) == 0 for number in sorted(numbers)]

    def _add(self, joins: Sequence[Join], tables: Mapping[str, StaticTable]) -> dict[str, int]:
        places: dict[str, int] = {}
        for join in joins:
            read = {name.split(".")[0] for left, _ in join.on for name in columns(left)} & set(places)
            before = tuple(sorted(places[alias] for alias in read))
            joined = _Joined(join.table, join.alias, join.on, before)
            fresh = joined not in self._numbers
            places[join.alias] = self._numbers.setdefault(joined, len(self._numbers))
            if fresh:
                self._tables.append(self._numbered(join, places, tables[join.table]))
        return places

    def _numbered(self, join: Join, places: dict[str, int], table: StaticTable) -> tuple[DataFrame, Column]:
        """Return the table with its rows of equal key numbered from 0, and the condition that joins it."""
        number, translate = places[join.alias], self._translator(dict(places))
        names = [(name, _column(number, name)) for name in table.frame.columns]
        renamed = table.frame.select(*(named(name).alias(new) for name, new in names))
        keys = [translate(right) for _, right in join.on]
        copy = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(0))) - 1
        pairs = [translate(left) == translate(right) for left, right in join.on]
        return renamed.withColumn(_copy(number), copy).persist(), reduce(Column.__and__, pairs)

    def _translator(self, places: Mapping[str, int]) -> Translator:
        def column(name: str) -> Column:
            alias, dot, rest = name.partition(".")
            return named(_column(places[alias], rest) if dot and alias in places else name)

        return Translator(self._functions, column=column)


def _column(number: int, name: str) -> str:
    return f"__weft_table{number}_{name}"


def _copy(number: int) -> str:
    return f"__weft_copy{number}"
