"""Static tables: read once, and read again when asked.

A table is read into a snapshot that Spark keeps. For each set of keys that it is joined by, it is prepared
from the snapshot once, for all plans that join it so. A replaced snapshot is released when no batch uses it
any more.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count
from threading import RLock
from time import monotonic
from weakref import WeakSet

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from weft.arrays import Numbers, Rows
from weft.errors import SourceError
from weft.expression import Expression
from weft.notices import Failure
from weft.query.logical import ColumnDef
from weft.spark.columns import named
from weft.spark.input.rows import column_defs
from weft.spark.session.causes import kind_of
from weft.spark.session.local import utc
from weft.types import Kind

NOWHERE = -1
COPY = "__weft_copy"
"""The column that numbers the rows of equal key, from 0."""
READING = "__weft_reading"
"""The column that tells snapshots of the same files apart."""
_MOST_CODES = 1 << 62
_MOST_LOCAL_ROWS = 1_000_000
"""Small files may hold many rows; the driver keeps no more than these."""


class LocalTable:
    """A table's rows in the driver, by key; those with a NULL in it match nothing."""

    def __init__(self, keys: Sequence[pa.Array], columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._values = [key.unique().drop_null() for key in keys]
        codes = self._codes(keys)
        rows = np.flatnonzero(codes != NOWHERE)
        order = rows[np.argsort(codes[rows], kind="stable")]
        self._ordered, self._rows = codes[order], order
        self.unique = bool((np.diff(self._ordered) != 0).all())
        """Whether no key has two rows."""

    def find(self, keys: Sequence[pa.Array]) -> Rows:
        """Return for each row of some keys the row of the table that has them; NOWHERE without one.

        No key has two rows.
        """
        codes = self._codes(keys)
        if not len(self._ordered):
            return np.full(len(codes), NOWHERE)
        indices = np.minimum(np.searchsorted(self._ordered, codes), len(self._ordered) - 1)
        matches = (self._ordered[indices] == codes) & (codes != NOWHERE)
        return np.where(matches, self._rows[indices], NOWHERE)

    def column(self, name: str, rows: Rows) -> pa.Array:
        """Return a column's values in some rows; NULL for NOWHERE."""
        return self._columns[name].take(pa.array(rows, mask=rows == NOWHERE))

    def _codes(self, keys: Sequence[pa.Array]) -> Numbers:
        """Return each row's keys as one number; NOWHERE for NULL, or if a key is not in the table."""
        whole: Numbers = np.zeros(len(keys[0]), dtype=np.int64)
        known = np.ones(len(whole), dtype=bool)
        for key, values in zip(keys, self._values, strict=True):
            encoded = key.dictionary_encode()
            indices = pc.fill_null(pc.index_in(encoded.dictionary, value_set=values), NOWHERE)
            # NULL is not in the dictionary: it gets the last number, which is NOWHERE.
            numbers = np.append(np.asarray(indices).astype(np.int64), NOWHERE)
            own = numbers[np.asarray(pc.fill_null(encoded.indices, len(numbers) - 1))]
            known &= own != NOWHERE
            whole = whole * (len(values) + 1) + own
        return np.where(known, whole, NOWHERE)


class KeyedTable:
    """A snapshot of a table by key, and the jobs that read it."""

    def __init__(self, snapshot: DataFrame, keys: Sequence[Column], *, small: bool = False) -> None:
        self.keys = tuple(keys)
        with utc(snapshot.sparkSession):
            local = _fetched(snapshot, keys) if small else None
            if local is not None:
                self.unique = local.unique
            else:
                names = [f"key{index}" for index in range(len(keys))]
                named_keys = [key.alias(name) for key, name in zip(keys, names, strict=True)]
                counts = _with_keys(snapshot.select(*named_keys), names).groupBy(*names).count()
                most = counts.agg(F.max("count")).first()
                self.unique = most is None or most[0] in (None, 1)
            """Whether no key has two rows."""
            self.local = local if self.unique else None
            """The rows in the driver; None if they are too many, or a key has several."""
            copy = F.lit(0)
            if not self.unique:
                copy = F.row_number().over(Window.partitionBy(*keys).orderBy(F.lit(0))) - 1
            self.rows = snapshot.drop(READING).withColumn(COPY, copy)
            if not self.unique:
                self.rows.persist()
        # Weak references: a job that is gone reads no more.
        self.readers: WeakSet[object] = WeakSet()
        self.spared = False
        """Whether it had no reader at the last sweep."""
        self.merged: tuple[tuple[KeyedTable, ...], DataFrame | None] | None = None
        """What it was last merged with, and into what."""

    def release(self) -> None:
        """Release what Spark keeps of it."""
        if not self.unique:
            self.rows.unpersist()
        self._forget_merged()

    def _forget_merged(self) -> None:
        if self.merged is not None and self.merged[1] is not None:
            self.merged[1].unpersist()
        self.merged = None

    def merge(self, others: Sequence["KeyedTable"]) -> DataFrame | None:
        """Return this and other tables as one, with a row for each key; None if a key has several rows.

        Its columns are named by `merged_key` and `merged_column`.
        """
        if self.merged is None or self.merged[0] != tuple(others):
            self._forget_merged()
            tables = (self, *others)
            self.merged = tuple(others), _merge(tables) if all(table.unique for table in tables) else None
        return self.merged[1]


def merged_key(index: int) -> str:
    """Return the name of a key of merged tables."""
    return f"key{index}"


def merged_column(table: int, name: str) -> str:
    """Return the name of a table's column in merged tables."""
    return f"table{table}_{name}"


def _merge(tables: Sequence[KeyedTable]) -> DataFrame:
    merged: DataFrame | None = None
    names = {f"__weft_right{index}": merged_key(index) for index in range(len(tables[0].keys))}
    for number, table in enumerate(tables):
        keys = [key.alias(right) for key, right in zip(table.keys, names, strict=True)]
        columns = [named(name).alias(merged_column(number, name)) for name in table.rows.columns]
        own = _with_keys(table.rows.select(*keys, *columns), list(names))
        if merged is None:
            merged = own.withColumnsRenamed(names)
            continue
        pairs = [F.col(key) == F.col(right) for right, key in names.items()]
        both = merged.join(own, reduce(Column.__and__, pairs), "full")
        filled = {key: F.coalesce(F.col(key), F.col(right)) for right, key in names.items()}
        merged = both.withColumns(filled).drop(*names)
    assert merged is not None
    return merged.persist()


def _with_keys(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the rows that can have a partner: NULL has none, but NaN has (`dropna` would drop both)."""
    return rows.where(reduce(Column.__and__, [F.col(key).isNotNull() for key in keys]))


def _fetched(snapshot: DataFrame, keys: Sequence[Column]) -> LocalTable | None:
    """Return a table's rows by key; None for too many, and for doubles: for Spark, NaNs are equal."""
    names = [f"__weft_right{index}" for index in range(len(keys))]
    fields = [key.alias(name) for key, name in zip(keys, names, strict=True)]
    # Queries cannot use columns of other types, and Arrow may not have them.
    used = [column.name for column in column_defs(snapshot.schema) if column.type.kind is not Kind.OTHER]
    used.remove(READING)
    rows = snapshot.select(*fields, *map(named, used)).limit(_MOST_LOCAL_ROWS + 1).toArrow()
    if len(rows) > _MOST_LOCAL_ROWS:
        return None
    fetched = [column.combine_chunks() for column in rows.columns]
    columns = dict(zip(used, fetched[len(keys) :], strict=True))
    values = fetched[: len(keys)]
    # Rows are numbered by their keys.
    is_numbered = math.prod(len(key) + 1 for key in values) < _MOST_CODES
    if any(pa.types.is_floating(key.type) for key in values) or not is_numbered:
        return None
    return LocalTable(values, columns)


_UNREADABLE = (PySparkException, Py4JError, OSError)
_SMALL_BYTES = 16 << 20
_READINGS = count()


class _Contents:
    """The contents of a table at one reading."""

    def __init__(self, frame: DataFrame, columns: Sequence[ColumnDef], *, check: bool) -> None:
        # Spark takes two readings of the same path for the same data, and would use its snapshot of the first
        # for the second. The number of the reading tells them apart.
        kept = [named(column.name).alias(column.name) for column in columns]
        with utc(frame.sparkSession):
            chosen = frame.select(*kept, F.lit(next(_READINGS)).alias(READING))
            # Small enough for one task, and for the driver's memory: then Spark finds equal keys without a
            # shuffle, and starts one task to broadcast the table with every batch.
            size = frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
            self._small = int(str(size)) <= _SMALL_BYTES
            self.snapshot = (chosen.coalesce(1) if self._small else chosen).persist()
            try:
                if check:
                    self.snapshot.count()
            except BaseException:
                self.snapshot.unpersist()
                raise
        self._keyed: dict[tuple[Expression, ...], KeyedTable] = {}

    def by_key(self, keys: Mapping[Expression, Column], reader: object) -> KeyedTable:
        expressions = tuple(keys)
        if expressions not in self._keyed:
            self._keyed[expressions] = KeyedTable(self.snapshot, list(keys.values()), small=self._small)
        self._keyed[expressions].readers.add(reader)
        return self._keyed[expressions]

    def forget(self, reader: object) -> None:
        for table in self._keyed.values():
            table.readers.discard(reader)

    def sweep(self, *, spare: bool = False) -> bool:
        """Release what has no reader, or spare it the first time; return whether anything is left."""
        for keys, table in list(self._keyed.items()):
            unread = not table.readers
            if unread and (table.spared or not spare):
                self._keyed.pop(keys).release()
            table.spared = unread
        if not self._keyed:
            self.snapshot.unpersist()
        return bool(self._keyed)

    def release(self) -> None:
        for table in self._keyed.values():
            table.readers.clear()
        self.sweep()


class StaticTable:
    """A table: how it is opened, and its contents when it was last read."""

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
        self.failure: Failure | None = None
        """Why the last reading failed, if it did."""
        self._name = name
        self._columns = column_defs(frame.schema)
        self._reopen = reopen
        self._refresh_ms = refresh_ms
        self._asked = False
        self._opened_before = False
        self._tried_at = 0.0
        self._contents: _Contents | None = None
        self._replaced: list[_Contents] = []
        # Batches run in threads of their own, and queries are tried meanwhile.
        self._lock = RLock()

    def by_key(self, keys: Mapping[Expression, Column], reader: object) -> KeyedTable:
        """Return the current contents by key.

        They are retained while the reader lives, or until it calls this again, as it does for every batch.
        """
        with self._lock:
            if self._contents is None:
                self._contents = self._read()
            for contents in self._replaced:
                contents.forget(reader)
            self._replaced = [contents for contents in self._replaced if contents.sweep()]
            try:
                return self._contents.by_key(keys, reader)
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

        After a failure the contents stay as they were. A table that is not in use is read at its next use.
        """
        with self._lock:
            waited_ms = (monotonic() - self._tried_at) * 1000
            is_due = self._asked or (self._refresh_ms is not None and waited_ms >= self._refresh_ms)
            if self._contents is None or not is_due:
                return True
            try:
                fresh = self._read()
            except SourceError as error:
                self.failure = Failure(kind=kind_of(error), text=str(error))
                return False
            self._replaced.append(self._contents)
            self._contents = fresh
            return True

    def sweep(self) -> None:
        """Release what has had no reader since the last sweep.

        What a query was tried with is still there when it joins, and a plan's when it changes.
        """
        with self._lock:
            self._replaced = [contents for contents in self._replaced if contents.sweep()]
            if self._contents is not None and not self._contents.sweep(spare=True):
                self._contents = None

    def release(self) -> None:
        """Release everything; the next use reads the table again."""
        with self._lock:
            for contents in (*self._replaced, *([self._contents] if self._contents else [])):
                contents.release()
            self._replaced, self._contents = [], None

    def _read(self) -> _Contents:
        self._asked, self._tried_at = False, monotonic()
        try:
            # The first reading uses what was opened when the table was declared.
            frame = self.frame
            if self._opened_before and self._reopen is not None:
                frame = self._reopen()
            elif self._opened_before:
                # It sees the files that are there now, if it reads any.
                frame._jdf.queryExecution().analyzed().refresh()
            self._opened_before = True
            # Queries may use the columns that it had.
            types = {column.name.casefold(): column.type for column in column_defs(frame.schema)}
            for column in self._columns:
                type, what = types.get(column.name.casefold()), f'table {self._name}: column "{column.name}"'
                if type is None:
                    raise SourceError(f"{what} is gone; now there are {', '.join(frame.columns)}")
                if type != column.type:
                    raise SourceError(f"{what} was {column.type} and is {type} now")
            # Contents may be replaced only by what can be read; without any, the first use will show.
            contents = _Contents(frame, self._columns, check=self._contents is not None)
        except _UNREADABLE as error:
            raise self._unreadable(error) from error
        self.frame, self.failure = frame, None
        return contents

    def _unreadable(self, error: Exception) -> SourceError:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return SourceError(f"table {self._name} cannot be read: {reason[0]}")
