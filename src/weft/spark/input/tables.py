"""Static tables: read once, and read again when asked.

A table is read into a snapshot that Spark keeps. Each way to join it is prepared from the snapshot once, and
kept for all plans that join it so. What a later reading replaces is let go when the last batch on it is over.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from itertools import count
from threading import RLock
from time import monotonic
from weakref import WeakSet

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from weft.errors import SourceError
from weft.expression import Expression
from weft.query.logical import ColumnDef
from weft.spark.columns import named
from weft.spark.input.lookups import LocalTable
from weft.spark.input.schemas import column_defs
from weft.spark.session.local import utc
from weft.types import Kind

COPY = "__weft_copy"
"""The column that numbers the rows of equal key, from 0."""
_UNREADABLE = (PySparkException, Py4JError, OSError)
_SMALL_BYTES = 16 << 20
_MOST_LOCAL_ROWS = 1_000_000
"""Small files may hold many rows; the driver keeps no more than these."""
_READING = "__weft_reading"
_READINGS = count()


class Prepared:
    """A snapshot numbered by key, and those who read it."""

    def __init__(self, snapshot: DataFrame, keys: Sequence[Column], *, small: bool = False) -> None:
        self.keys = tuple(keys)
        with utc(snapshot.sparkSession):
            local = _fetched(snapshot, keys) if small else None
            self.unique = _unique(snapshot, keys) if local is None else local.unique
            """Whether no key has two rows."""
            self.local = local if self.unique else None
            """The rows in the driver; None where they are too many, or a key has several."""
            copy = F.lit(0)
            if not self.unique:
                copy = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(0))) - 1
            self.rows = snapshot.drop(_READING).withColumn(COPY, copy)
            if not self.unique:
                self.rows.persist()
        # Known weakly: a job that is gone reads no more.
        self.readers: WeakSet[object] = WeakSet()
        self.spared = False
        """Whether nobody read it at the last sweep."""
        self.merged: tuple[tuple[Prepared, ...], DataFrame | None] | None = None
        """What it was last merged with, and into what."""

    def release(self) -> None:
        """Let go of what Spark keeps of it."""
        if not self.unique:
            self.rows.unpersist()
        self._forget_merged()

    def _forget_merged(self) -> None:
        if self.merged is not None and self.merged[1] is not None:
            self.merged[1].unpersist()
        self.merged = None

    def merge(self, others: Sequence["Prepared"]) -> DataFrame | None:
        """Return this and other tables as one, with a row for each key of any; None if a key has several."""
        same = self.merged is not None and all(
            one is two for one, two in zip(self.merged[0], others, strict=False)
        )
        if self.merged is None or not same or len(self.merged[0]) != len(others):
            self._forget_merged()
            several = (self, *others)
            whole = _merge(several) if all(one.unique for one in several) else None
            self.merged = tuple(others), whole
        return self.merged[1]


def merged(several: Sequence[Prepared]) -> DataFrame | None:
    """Return tables as one, by their keys: see `merged_key` and `merged_column`; None if that cannot be."""
    return several[0].merge(several[1:])


def merged_key(place: int) -> str:
    """Return the name of a key of merged tables."""
    return f"key{place}"


def merged_column(table: int, name: str) -> str:
    """Return the name of a table's column in merged tables."""
    return f"table{table}_{name}"


def _merge(several: Sequence[Prepared]) -> DataFrame:
    whole: DataFrame | None = None
    places = range(len(several[0].keys))
    for number, one in enumerate(several):
        keys = [key.alias(f"__weft_right{place}") for place, key in enumerate(one.keys)]
        names = [named(name).alias(merged_column(number, name)) for name in one.rows.columns]
        own = _with_keys(one.rows.select(*keys, *names), [f"__weft_right{place}" for place in places])
        if whole is None:
            whole = own.withColumnsRenamed({f"__weft_right{place}": merged_key(place) for place in places})
            continue
        pairs = [F.col(merged_key(place)) == F.col(f"__weft_right{place}") for place in places]
        both = whole.join(own, reduce(Column.__and__, pairs), "full")
        filled = {
            merged_key(place): F.coalesce(F.col(merged_key(place)), F.col(f"__weft_right{place}"))
            for place in places
        }
        whole = both.withColumns(filled).drop(*(f"__weft_right{place}" for place in places))
    assert whole is not None
    return whole.persist()


def _with_keys(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows that can have a partner: NULL has none, but NaN has (`dropna` would drop both)."""
    return rows.where(reduce(Column.__and__, [F.col(key).isNotNull() for key in keys]))


def _fetched(snapshot: DataFrame, keys: Sequence[Column]) -> LocalTable | None:
    """Return a table's rows by key; None for many, and for doubles, which Spark compares: NaNs are equal."""
    names = [f"__weft_right{place}" for place in range(len(keys))]
    fields = [key.alias(name) for key, name in zip(keys, names, strict=True)]
    # Queries cannot use columns of other types, and Arrow may not have them.
    used = [one.name for one in column_defs(snapshot.schema) if one.type.kind is not Kind.OTHER]
    used.remove(_READING)
    rows = snapshot.select(*fields, *map(named, used)).limit(_MOST_LOCAL_ROWS + 1).toArrow()
    if len(rows) > _MOST_LOCAL_ROWS:
        return None
    fetched = [column.combine_chunks() for column in rows.columns]
    columns = dict(zip(used, fetched[len(keys) :], strict=True))
    found = fetched[: len(keys)]
    if any(pa.types.is_floating(key.type) for key in found) or not LocalTable.fits(found):
        return None
    return LocalTable(found, columns)


def _unique(snapshot: DataFrame, keys: Sequence[Column]) -> bool:
    names = [f"key{place}" for place in range(len(keys))]
    named_keys = [key.alias(name) for key, name in zip(keys, names, strict=True)]
    most = _with_keys(snapshot.select(*named_keys), names).groupBy(*names).count()
    found = most.agg(F.max("count")).first()
    return found is None or found[0] in (None, 1)


class _Contents:
    """What one reading of a table found."""

    def __init__(self, frame: DataFrame, columns: Sequence[ColumnDef], *, check: bool) -> None:
        # Spark takes two readings of the same path for the same data, and would answer the second from what
        # it keeps of the first. The number of the reading tells them apart.
        kept = [named(column.name).alias(column.name) for column in columns]
        with utc(frame.sparkSession):
            chosen = frame.select(*kept, F.lit(next(_READINGS)).alias(_READING))
            self._small = _is_small(frame)
            self.snapshot = (chosen.coalesce(1) if self._small else chosen).persist()
            try:
                if check:
                    self.snapshot.count()
            except BaseException:
                self.snapshot.unpersist()
                raise
        self._prepared: dict[tuple[Expression, ...], Prepared] = {}

    def prepared(self, keys: Mapping[Expression, Column], reader: object) -> Prepared:
        name = tuple(keys)
        if name not in self._prepared:
            self._prepared[name] = Prepared(self.snapshot, list(keys.values()), small=self._small)
        self._prepared[name].readers.add(reader)
        return self._prepared[name]

    def forget(self, reader: object) -> None:
        for prepared in self._prepared.values():
            prepared.readers.discard(reader)

    def sweep(self, *, spare: bool = False) -> bool:
        """Let go of what nobody reads, or spare it the first time; return whether anything is left."""
        for name, prepared in list(self._prepared.items()):
            unread = not prepared.readers
            if unread and (prepared.spared or not spare):
                self._prepared.pop(name).release()
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
        self._opened_before = False
        self._tried_at = 0.0
        self._contents: _Contents | None = None
        self._replaced: list[_Contents] = []
        # Batches run in threads of their own, and queries are tried out beside them.
        self._lock = RLock()

    def prepared(self, keys: Mapping[Expression, Column], reader: object) -> Prepared:
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
            try:
                return self._contents.prepared(keys, reader)
            except _UNREADABLE as error:
                raise self._unreadable(error) from error

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
            # What was opened when the table was declared is good for the first reading.
            frame = self._reopen() if self._opened_before else self.frame
            self._opened_before = True
            _check_columns(self._name, self._columns, column_defs(frame.schema))
            # What is there may be replaced only by what can be read; without it, the first use will tell.
            contents = _Contents(frame, self._columns, check=self._contents is not None)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        self.frame, self.error = frame, None
        return contents

    def _unreadable(self, error: Exception) -> SourceError:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return SourceError(f"table {self._name} cannot be read: {reason[0]}")


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


def _is_small(frame: DataFrame) -> bool:
    """Say whether one task can do all there is to do with a table, and the driver hold it.

    Then Spark shuffles nothing to find equal keys, and starts one task to broadcast it with every batch.
    """
    size = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
    return int(str(size)) <= _SMALL_BYTES


def _relisted(frame: DataFrame) -> DataFrame:
    """Return a DataFrame that sees the files that are there now, if it reads any."""
    frame._jdf.queryExecution().analyzed().refresh()
    return frame
