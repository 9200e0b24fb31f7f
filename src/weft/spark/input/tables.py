"""Static tables: read once, and read again when asked.

A table is read into a snapshot that Spark keeps. For each set of keys that it is joined by, it is prepared
from the snapshot once, for all plans that join it so. A replaced snapshot is released when no batch uses it
any more.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from threading import RLock
from time import monotonic

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from weft.errors import SourceError
from weft.expression import Expression
from weft.query.logical import ColumnDef
from weft.spark.columns import named
from weft.spark.input.keyed_tables import READING, KeyedTable
from weft.spark.input.rows import column_defs
from weft.spark.session.local import utc

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
        self.error: str | None = None
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
                self.error = str(error)
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
        self.frame, self.error = frame, None
        return contents

    def _unreadable(self, error: Exception) -> SourceError:
        reason = str(error).strip().splitlines() or [type(error).__name__]
        return SourceError(f"table {self._name} cannot be read: {reason[0]}")
