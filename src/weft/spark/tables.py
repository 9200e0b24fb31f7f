"""Static tables: read once, read again when asked, and joined to the stream once for all queries.

A table is read into a snapshot that Spark keeps. Each way to join it is prepared from the snapshot once, and
kept for all plans that join it so. What a later reading replaces is let go when the last batch on it is over.

Every table is joined from the left, so no row of the stream is lost, and its rows of equal key are numbered.
A relation that joins a table takes the rows with a partner (or all, for LEFT JOIN); one that does not takes
the first copy of each row. So relations with different joins still read the same rows in the same job.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import count
from threading import RLock
from time import monotonic
from weakref import WeakSet

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from weft.errors import SourceError
from weft.expression import Call, Expression, columns
from weft.expression import Column as ColumnName
from weft.optimizer.plan import Relation
from weft.query.coercion import common_type
from weft.query.logical import ColumnDef, Join, JoinKind
from weft.spark.columns import Translator, Udf, named
from weft.spark.schemas import column_defs
from weft.spark.session import utc

COPY = "__weft_copy"
"""The column that numbers the rows of equal key, from 0."""
_READING = "__weft_reading"
_READINGS = count()


class _Prepared:
    """A snapshot numbered by key, and those who read it."""

    def __init__(self, snapshot: DataFrame, keys: Sequence[Column]) -> None:
        copy = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(0))) - 1
        with utc(snapshot.sparkSession):
            self.rows = snapshot.drop(_READING).withColumn(COPY, copy).persist()
        # Known weakly: a job that is gone reads no more.
        self.readers: WeakSet[object] = WeakSet()
        self.spared = False
        """Whether the last sweep found no reader."""


class _Contents:
    """What one reading of a table found."""

    def __init__(self, frame: DataFrame, columns: Sequence[ColumnDef]) -> None:
        # Spark takes two readings of the same path for the same data, and would answer the second from what
        # it keeps of the first. The number of the reading tells them apart.
        kept = [named(column.name).alias(column.name) for column in columns]
        with utc(frame.sparkSession):
            self.snapshot = frame.select(*kept, F.lit(next(_READINGS)).alias(_READING)).persist()
            try:
                self.snapshot.count()
            except BaseException:
                self.snapshot.unpersist()
                raise
        self._prepared: dict[tuple[Expression, ...], _Prepared] = {}

    def rows(self, keys: Mapping[Expression, Column], reader: object) -> DataFrame:
        name = tuple(keys)
        if name not in self._prepared:
            self._prepared[name] = _Prepared(self.snapshot, list(keys.values()))
        self._prepared[name].readers.add(reader)
        self._prepared[name].spared = False
        return self._prepared[name].rows

    def forget(self, reader: object) -> None:
        for prepared in self._prepared.values():
            prepared.readers.discard(reader)

    def sweep(self, *, spare: bool = False) -> bool:
        """Let go of what nobody reads, or spare it the first time; return whether anything is left."""
        for name, prepared in list(self._prepared.items()):
            unread = not prepared.readers
            if unread and (prepared.spared or not spare):
                self._prepared.pop(name).rows.unpersist()
            prepared.spared = unread
        if not self._prepared:
            self.snapshot.unpersist()
        return bool(self._prepared)

    def release(self) -> None:
        for prepared in self._prepared.values():
            prepared.readers.clear()
        self.sweep()


class StaticTable:
    """A table: how it is opened, and what was in it when it was last read."""

    def __init__(
        self,
        frame: DataFrame,
        *,
        name: str = "",
        reopen: Callable[[], DataFrame] | None = None,
        refresh_ms: int | None = None,
    ) -> None:
        self.frame = frame
        """The table as it was last opened."""
        self.error: str | None = None
        """Why the last reading failed, if it did."""
        self._name = name
        self._columns = column_defs(frame.schema)
        self._reopen = reopen or partial(_relisted, frame)
        self._refresh_ms = refresh_ms
        self._asked = False
        self._tried_at = 0.0
        self._contents: _Contents | None = None
        self._replaced: list[_Contents] = []
        # Batches run in threads of their own, and queries are tried out beside them.
        self._lock = RLock()

    def rows(self, keys: Mapping[Expression, Column], reader: object) -> DataFrame:
        """Return the current contents, with rows of equal key numbered in `COPY`.

        They are kept while the reader lives. It asks anew for every batch; what it was given for the last one
        may be let go then.
        """
        with self._lock:
            if self._contents is None:
                self._contents = self._read()
            for contents in self._replaced:
                contents.forget(reader)
            self._replaced = [contents for contents in self._replaced if contents.sweep()]
            return self._contents.rows(keys, reader)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that queries may use."""
        return tuple(column.name for column in self._columns)

    def ask(self) -> None:
        """Have the table read again before the next batch."""
        self._asked = True

    def refresh_if_due(self) -> bool:
        """Read the table again if that was asked for or its time has come; return False if it failed.

        After a failure the contents are what they were. A table that is not in use is read when it is used.
        """
        with self._lock:
            if self._contents is None or not self._due():
                return True
            try:
                fresh = self._read()
            except SourceError as error:
                self.error = str(error)
                return False
            self._replaced.append(self._contents)
            self._contents = fresh
            return True

    def sweep(self) -> None:
        """Let go of what no living reader has asked for since the last sweep.

        What a query was tried out with is still there when it joins, and so is a plan's when it changes.
        """
        with self._lock:
            self._replaced = [contents for contents in self._replaced if contents.sweep()]
            if self._contents is not None and not self._contents.sweep(spare=True):
                self._contents = None

    def release(self) -> None:
        """Let go of everything; the next use reads the table again."""
        with self._lock:
            for contents in (*self._replaced, *([self._contents] if self._contents else [])):
                contents.release()
            self._replaced, self._contents = [], None

    def _due(self) -> bool:
        waited_ms = (monotonic() - self._tried_at) * 1000
        return self._asked or (self._refresh_ms is not None and waited_ms >= self._refresh_ms)

    def _read(self) -> _Contents:
        self._asked, self._tried_at = False, monotonic()
        try:
            frame = self._reopen()
            _check_columns(self._name, self._columns, column_defs(frame.schema))
            contents = _Contents(frame, self._columns)
        except (PySparkException, Py4JError, OSError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise SourceError(f"table {self._name} cannot be read: {reason[0]}") from error
        self.frame, self.error = frame, None
        return contents


@dataclass(frozen=True, slots=True)
class _Joined:
    """A table joined under a number, whatever its kind of join in each query."""

    table: str
    alias: str
    on: tuple[tuple[Expression, Expression], ...]
    before: tuple[int, ...]
    """The joins that its condition reads."""


@dataclass(frozen=True, slots=True)
class _Partner:
    """A table to join: its rows are asked for at each batch, for they may have been read again."""

    table: StaticTable
    keys: Mapping[Expression, Column]
    """What rows are numbered by, over the table's own columns."""
    names: tuple[tuple[str, str], ...]
    """The table's columns, and what they are called in the joined rows."""
    condition: Column

    def rows(self, reader: object) -> DataFrame:
        """Return the table as it is now, under the names that the condition reads."""
        found = self.table.rows(self.keys, reader)
        return found.select(*(named(name).alias(new) for name, new in self.names))


class Joins:
    """The tables that relations join, each once."""

    def __init__(
        self, relations: Sequence[Relation], tables: Mapping[str, StaticTable], functions: Mapping[str, Udf]
    ) -> None:
        self._functions = functions
        self._numbers: dict[_Joined, int] = {}
        self._tables: list[_Partner] = []
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
        """Return a batch's rows with the columns of the tables as they are now; called once per batch."""
        for table in self._tables:
            rows = rows.join(F.broadcast(table.rows(self)), table.condition, "left")
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
                self._tables.append(self._partner(join, places, tables[join.table]))
        return places

    def _partner(self, join: Join, places: dict[str, int], table: StaticTable) -> _Partner:
        number, translate = places[join.alias], self._translator(dict(places))
        names = [(name, _column(number, name)) for name in table.columns]
        own = Translator(self._functions)
        keys = [_key(left, right, join.alias) for left, right in join.on]
        pairs = [translate(left) == translate(right) for left, right in join.on]
        partner = _Partner(
            table=table,
            keys={key: own(key) for key in keys},
            names=(*names, (COPY, _copy(number))),
            condition=reduce(Column.__and__, pairs),
        )
        # Asked for now, so that what the plan before joined is kept, and an unreadable table is told early.
        partner.rows(self)
        return partner

    def _translator(self, places: Mapping[str, int]) -> Translator:
        def column(name: str) -> Column:
            alias, dot, rest = name.partition(".")
            return named(_column(places[alias], rest) if dot and alias in places else name)

        return Translator(self._functions, column=column)


def _column(number: int, name: str) -> str:
    return f"__weft_table{number}_{name}"


def _copy(number: int) -> str:
    return f"__weft_copy{number}"


def _key(left: Expression, right: Expression, alias: str) -> Expression:
    """Return a table's side of an equality over its own columns, in the type in which both sides meet.

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


def _check_columns(table: str, bound: Sequence[ColumnDef], found: Sequence[ColumnDef]) -> None:
    """Refuse contents that lack a column which queries may use, or have it in another type."""
    types = {column.name.casefold(): column.type for column in found}
    for column in bound:
        type = types.get(column.name.casefold())
        if type is None:
            known = ", ".join(one.name for one in found)
            raise SourceError(f'table {table}: column "{column.name}" is gone; now there are {known}')
        if type != column.type:
            raise SourceError(f'table {table}: column "{column.name}" was {column.type} and is {type} now')


def _relisted(frame: DataFrame) -> DataFrame:
    """Return a DataFrame that sees the files that are there now, if it reads any."""
    frame._jdf.queryExecution().analyzed().refresh()
    return frame
