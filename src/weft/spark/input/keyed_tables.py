"""Static tables by key: rows per key, several tables merged into one, rows looked up in the driver.

Spark sends a table to its tasks with every batch, and returns its columns for every row. The driver can look
rows up itself where a table is small and no key has two rows.
"""

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from weft.spark.columns import named
from weft.spark.input.rows import column_defs
from weft.spark.session.local import utc
from weft.types import Kind

Rows = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.int64]
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
