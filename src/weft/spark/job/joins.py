"""Join static tables to the stream, once for all queries.

Every table is joined from the left, so no row of the stream is lost, and its rows of equal key are numbered.
A relation that joins a table takes the rows with a partner (or all, for LEFT JOIN); one that does not takes
the first copy of each row. So relations with different joins still read the same rows in the same job.

Tables that are looked up by the same columns of the stream, each with at most one row for a key, are merged
into one table beforehand: then a row of the stream is looked up once. And what depends on a table's columns
alone can be derived there, once for a row of the table instead of once for every row of the stream.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.expression import Call, Expression, columns
from weft.expression import Column as ColumnName
from weft.optimizer.plan import Relation
from weft.query.coercion import common_type
from weft.query.logical import Join, JoinKind
from weft.spark.columns import Translator, Udf, named
from weft.spark.input.tables import COPY, KeyedTable, LocalTable, StaticTable, merged_column, merged_key


@dataclass(frozen=True, slots=True)
class _Joined:
    """A join that has a number, whatever its kind in each query."""

    table: str
    alias: str
    on: tuple[tuple[Expression, Expression], ...]
    before: tuple[int, ...]
    """The joins that its condition reads."""


@dataclass(frozen=True, slots=True)
class _Partner:
    """A table to join; its contents are fetched for each batch, as it may have been read again."""

    number: int
    table: StaticTable
    keys: Mapping[Expression, Column]
    """The keys, over the table's own columns."""
    names: tuple[tuple[str, str], ...]
    """The table's columns, and their names in the joined rows."""
    condition: Column
    looked_up_by: tuple[Expression, ...] | None
    """The stream's side of the join; None if it reads other tables, too, or has another type."""

    def contents(self, reader: object) -> KeyedTable:
        """Return the table as it is now."""
        return self.table.by_key(self.keys, reader)


Derive = Callable[[Callable[[str], Column]], Column]
"""Makes a column from a table's columns, which it is given by name."""


class Joins:
    """The tables that relations join, each once."""

    def __init__(
        self, relations: Sequence[Relation], tables: Mapping[str, StaticTable], functions: Mapping[str, Udf]
    ) -> None:
        self._functions = functions
        self.stream = Translator(functions)
        """The translator of expressions over the stream alone."""
        self._numbers: dict[_Joined, int] = {}
        self._tables: list[_Partner] = []
        self._numbers_by_alias: dict[tuple[Join, ...], dict[str, int]] = {(): {}}
        self._translators: dict[tuple[Join, ...], Translator] = {}
        for relation in relations:
            if relation.joins not in self._numbers_by_alias:
                self._numbers_by_alias[relation.joins] = self._add(relation.joins, tables)
        self._table_columns = {
            new: (partner.number, name) for partner in self._tables for name, new in partner.names
        }
        self._together = _together(self._tables)
        self._derived: dict[int, dict[str, Derive]] = {}
        """By number of a table: the columns that are derived from its own."""
        self._merged: dict[int, tuple[DataFrame, DataFrame, Column]] = {}
        """By number of a merged table: itself, what is joined, and on what."""
        self._prepare()

    def translator(self, relation: Relation) -> Translator:
        """Return the translator of a relation's expressions into columns of the joined rows."""
        if relation.joins not in self._translators:
            self._translators[relation.joins] = self._translator(self._numbers_by_alias[relation.joins])
        return self._translators[relation.joins]

    def table_of(self, relation: Relation, expression: Expression) -> tuple[int, str] | None:
        """Return the number of a table and its column, if an expression is a table's column."""
        alias, dot, name = expression.name.partition(".") if isinstance(expression, ColumnName) else ("",) * 3
        number = self._numbers_by_alias[relation.joins].get(alias) if dot else None
        return None if number is None else (number, name)

    def derive(self, number: int, name: str, make: Derive) -> None:
        """Add a column to the joined rows that is made from a table's own; NULL without a partner."""
        self._derived.setdefault(number, {})[name] = make
        self._merged.clear()

    def apply(self, rows: DataFrame) -> DataFrame:
        """Return a batch's rows with the columns of the tables as they are now; called once per batch."""
        for number, partners in enumerate(self._together):
            contents = [partner.contents(self) for partner in partners]
            merged = contents[0].merge(contents[1:]) if len(partners) > 1 else None
            if merged is not None:
                rows = self._join_merged(rows, number, partners, merged)
                continue
            for partner, own in zip(partners, contents, strict=True):
                fields = [named(name).alias(new) for name, new in partner.names]
                fields += self._derivations(partner, named)
                table = own.rows.select(*fields)
                rows = rows.join(F.broadcast(table), partner.condition, "left")
        return rows

    def _join_merged(
        self, rows: DataFrame, number: int, partners: Sequence[_Partner], merged: DataFrame
    ) -> DataFrame:
        """Join a table that holds the rows of several."""
        known = self._merged.get(number)
        if known is not None and known[0] is merged:
            return rows.join(known[1], known[2], "left")
        looked_up_by = partners[0].looked_up_by or ()
        stream = self.stream
        keys = [f"__weft_key{number}_{index}" for index in range(len(looked_up_by))]
        fields = [F.col(merged_key(index)).alias(key) for index, key in enumerate(keys)]
        for index, partner in enumerate(partners):
            fields += [_merged_column(index, name).alias(new) for name, new in partner.names]
            fields += self._derivations(partner, partial(_merged_column, index))
        pairs = [stream(left) == F.col(key) for left, key in zip(looked_up_by, keys, strict=True)]
        table, condition = F.broadcast(merged.select(*fields)), reduce(Column.__and__, pairs)
        self._merged[number] = merged, table, condition
        return rows.join(table, condition, "left")

    def _derivations(self, partner: _Partner, column: Callable[[str], Column]) -> list[Column]:
        derived = self._derived.get(partner.number, {})
        return [make(column).alias(name) for name, make in derived.items()]

    def _prepare(self) -> None:
        """Read all tables: those of the plan before are retained, and unreadable ones are reported early.

        In threads: reading a small table is mostly waiting.
        """
        if len(self._tables) > 1:
            with ThreadPoolExecutor(max_workers=4) as threads:
                list(threads.map(lambda partner: partner.contents(self), self._tables))
        for partner in self._tables:
            partner.contents(self)

    def local_tables(self) -> dict[int, LocalTable] | None:
        """Return all tables as they are now, by number, to be looked up in the driver; None if any cannot be.

        Spark is needed for joins that read other tables, keys with several rows, and doubles, whose NaNs are
        equal.
        """
        tables: dict[int, LocalTable] = {}
        for partner in self._tables:
            local = None if partner.looked_up_by is None else partner.contents(self).local
            if local is None:
                return None
            tables[partner.number] = local
        return tables

    def table_column(self, name: str) -> tuple[int, str] | None:
        """Return the number of a table and its own column, given its name in joined rows."""
        return self._table_columns.get(name)

    def looked_up_by(self, number: int) -> tuple[Expression, ...]:
        """Return the stream's side of a table's join."""
        return self._tables[number].looked_up_by or ()

    def inner(self, relation: Relation) -> list[int]:
        """Return the tables in which a row must have a partner to be one of the relation's."""
        numbers = self._numbers_by_alias[relation.joins]
        return sorted({numbers[join.alias] for join in relation.joins if join.kind is JoinKind.INNER})

    def taken(self, relation: Relation) -> list[Column]:
        """Return the conditions under which a joined row is one of the relation's."""
        partners = [F.col(_copy(number)).isNotNull() for number in self.inner(relation)]
        others = set(range(len(self._tables))) - set(self._numbers_by_alias[relation.joins].values())
        return [*partners, *self._firsts(others)]

    def first_copy(self) -> Column:
        """Return whether a joined row is the first of its stream row, so that rows read can be counted."""
        return reduce(Column.__and__, self._firsts(set(range(len(self._tables)))), F.lit(True))

    def __bool__(self) -> bool:
        return bool(self._tables)

    @property
    def repeats_rows(self) -> bool:
        """Whether a table has several rows of one key now, so that a row of the stream may come in copies."""
        return any(not partner.contents(self).unique for partner in self._tables)

    def _firsts(self, numbers: set[int]) -> list[Column]:
        if not self.repeats_rows:
            return []
        return [F.coalesce(F.col(_copy(number)), F.lit(0)) == 0 for number in sorted(numbers)]

    def _add(self, joins: Sequence[Join], tables: Mapping[str, StaticTable]) -> dict[str, int]:
        by_alias: dict[str, int] = {}
        for join in joins:
            read = {name.split(".")[0] for left, _ in join.on for name in columns(left)} & set(by_alias)
            before = tuple(sorted(by_alias[alias] for alias in read))
            joined = _Joined(join.table, join.alias, join.on, before)
            fresh = joined not in self._numbers
            by_alias[join.alias] = self._numbers.setdefault(joined, len(self._numbers))
            if fresh:
                self._tables.append(self._partner(join, by_alias, tables[join.table]))
        return by_alias

    def _partner(self, join: Join, by_alias: dict[str, int], table: StaticTable) -> _Partner:
        number, translate = by_alias[join.alias], self._translator(dict(by_alias))
        names = [(name, _column(number, name)) for name in table.columns]
        own = Translator(self._functions)
        keys = [_key(left, right, join.alias) for left, right in join.on]
        pairs = [translate(left) == translate(right) for left, right in join.on]
        return _Partner(
            number=number,
            table=table,
            keys={key: own(key) for key in keys},
            names=(*names, (COPY, _copy(number))),
            condition=reduce(Column.__and__, pairs),
            looked_up_by=_looked_up_by(join, by_alias),
        )

    def _translator(self, by_alias: Mapping[str, int]) -> Translator:
        def joined(name: str) -> str:
            alias, dot, rest = name.partition(".")
            return _column(by_alias[alias], rest) if dot and alias in by_alias else name

        return Translator(self._functions, name=joined)


def _merged_column(table: int, name: str) -> Column:
    return F.col(merged_column(table, name))


def _column(number: int, name: str) -> str:
    return f"__weft_table{number}_{name}"


def _copy(number: int) -> str:
    return f"__weft_copy{number}"


def _key(left: Expression, right: Expression, alias: str) -> Expression:
    """Return a table's side of an equality over its own columns, in the common type of both sides.

    Rows that one row of the stream can match have equal keys then, whatever their own types tell apart.
    """
    own, type = _own(right, alias), common_type(left.type, right.type)
    return own if type is None or type == right.type else Call("cast", (own,), type)


def _own(expression: Expression, alias: str) -> Expression:
    """Return the expression with columns `alias.name` as `name`."""
    if isinstance(expression, ColumnName):
        return ColumnName(expression.name.removeprefix(f"{alias}."), expression.type)
    if isinstance(expression, Call):
        return Call(expression.function, tuple(_own(arg, alias) for arg in expression.args), expression.type)
    return expression


def _looked_up_by(join: Join, by_alias: Mapping[str, int]) -> tuple[Expression, ...] | None:
    """Return the stream's side of a join, if it reads the stream alone and both sides are of one type.

    A column of the table that is compared twice is one key with two sides: such a join is left to Spark.
    """
    lefts = tuple(left for left, _ in join.on)
    others = {name.split(".")[0] for left in lefts for name in columns(left)} & set(by_alias)
    same = all(left.type == right.type for left, right in join.on)
    once = len({right for _, right in join.on}) == len(join.on)
    return lefts if same and once and not others else None


def _together(partners: Sequence[_Partner]) -> list[list[_Partner]]:
    """Return the partners in order, grouped by the columns that they are looked up by."""
    together: dict[object, list[_Partner]] = {}
    for number, partner in enumerate(partners):
        together.setdefault(number if partner.looked_up_by is None else partner.looked_up_by, []).append(
            partner
        )
    return list(together.values())
