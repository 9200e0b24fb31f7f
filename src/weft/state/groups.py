"""Numbers for groups, so that merging never compares keys."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.arrays import Numbers, as_one

_DENSE = 16
"""Maximum number of possible codes a row for which distinct codes are found without sorting."""
_NAN = object()
"""Stands for NaN in a key: all NaNs are one group, as in Spark."""


class GroupIndex:
    """Number the groups of a relation in the order in which they appear."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._schema = pa.schema([(f"k{index}", type) for index, type in enumerate(types)])
        self._ids: dict[tuple[object, ...], int] = {}
        self._values: list[pa.Table] = []

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def grouped(self) -> bool:
        """Whether there is anything to group by."""
        return len(self._schema) > 0

    def ids(self, keys: pa.Table) -> Numbers:
        """Return the number of each row's group, numbering those not seen before."""
        if not self.grouped:
            if not self._ids and keys.num_rows:
                self._ids[()] = 0
            return np.zeros(keys.num_rows, dtype=np.int64)
        keys = keys.rename_columns(self._schema.names).cast(self._schema)
        firsts, inverse = distinct_rows(keys)
        known = keys.take(pa.array(firsts))
        groups = list(zip(*map(_values, known.columns), strict=True))
        # Most keys have been seen before.
        numbers = list(map(self._ids.get, groups))
        fresh = []
        for row in [row for row, number in enumerate(numbers) if number is None]:
            size = len(self._ids)
            numbers[row] = self._ids.setdefault(groups[row], size)
            if len(self._ids) > size:
                fresh.append(row)
        if fresh:
            self._values.append(known.take(pa.array(fresh)))
        ids: Numbers = np.array(numbers, dtype=np.int64)[inverse]
        return ids

    def values(self, ids: Numbers) -> pa.Table:
        """Return the keys of the given groups."""
        if not self.grouped:
            # A table without columns keeps its number of rows only in this way.
            return pa.table({"rows": np.zeros(len(ids), dtype=np.int8)}).select([])
        if len(self._values) != 1:
            self._values = [pa.concat_tables(self._values or [self._schema.empty_table()]).combine_chunks()]
        return self._values[0].take(pa.array(ids))

    def keep(self, ids: Numbers) -> Numbers:
        """Forget all groups but these; return the new number of each."""
        if not self.grouped:
            return np.zeros(len(ids), dtype=np.int64)
        kept = self.values(ids)
        self._ids, self._values = {}, []
        return self.ids(kept)


def _values(column: pa.ChunkedArray) -> list[object]:
    """Return a key's values; times as numbers, since Python has none after the year 9999.

    Strings are their bytes, which need not be UTF-8.
    """
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    values: list[object] = column.to_pylist()
    if pa.types.is_floating(column.type):
        return [_NAN if value != value else value for value in values]
    return values


def distinct_rows(keys: pa.Table) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the first row of each distinct key, and for each row which of those it equals."""
    encoded = (_encoded(column) for column in keys.columns)
    codes = as_one((np.asarray(column.indices) for column in encoded), keys.num_rows)
    size = int(codes.max(initial=0)) + 1
    if size <= _DENSE * len(codes):
        # Several times as fast as sorting. Of equal rows the first is written last, and stays.
        table = np.full(size, -1, dtype=np.intp)
        table[codes[::-1]] = np.arange(len(codes))[::-1]
        firsts = table[table >= 0]
        table[codes[firsts]] = np.arange(len(firsts))
        return firsts, table[codes]
    _, firsts, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return firsts, inverse


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a key's values as numbers; there is one zero."""
    if pa.types.is_floating(column.type):
        column = pc.add(column, pa.scalar(0.0, column.type))
    return column.combine_chunks().dictionary_encode(null_encoding="encode")
