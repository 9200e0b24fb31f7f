"""A static table in the driver: its rows are looked up by key where the driver evaluates a batch itself.

Spark would send the table to its tasks with every batch, and hand over what they found for every row.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Rows = npt.NDArray[np.intp]
Numbers = npt.NDArray[np.int64]
NOWHERE = -1
_MOST_CODES = 1 << 62


class LocalTable:
    """Rows by key; those with a NULL in it have no partner."""

    def __init__(self, keys: Sequence[pa.Array], columns: Mapping[str, pa.Array]) -> None:
        self._columns = columns
        self._values = [key.unique().drop_null() for key in keys]
        codes = self._codes(keys)
        rows = np.flatnonzero(codes != NOWHERE)
        order = rows[np.argsort(codes[rows], kind="stable")]
        self._ordered, self._rows = codes[order], order
        self.unique = bool((np.diff(self._ordered) != 0).all())
        """Whether no key has two rows."""

    @staticmethod
    def fits(keys: Sequence[pa.Array]) -> bool:
        """Say whether rows can be numbered by such keys."""
        size = 1
        for key in keys:
            size *= len(key) + 1
        return size < _MOST_CODES

    def find(self, keys: Sequence[pa.Array]) -> Rows:
        """Return for each row of some keys the row of the table that has them; NOWHERE without one.

        No key has two rows.
        """
        codes = self._codes(keys)
        if not len(self._ordered):
            return np.full(len(codes), NOWHERE)
        places = np.minimum(np.searchsorted(self._ordered, codes), len(self._ordered) - 1)
        found = (self._ordered[places] == codes) & (codes != NOWHERE)
        return np.where(found, self._rows[places], NOWHERE)

    def column(self, name: str, rows: Rows) -> pa.Array:
        """Return a column's values in some rows; NULL for those that are nowhere."""
        return self._columns[name].take(pa.array(rows, mask=rows == NOWHERE))

    def _codes(self, keys: Sequence[pa.Array]) -> Numbers:
        """Return each row's keys as one number; NOWHERE if the table has none of them, or for NULL."""
        whole: Numbers = np.zeros(len(keys[0]), dtype=np.int64)
        known = np.ones(len(whole), dtype=bool)
        for key, values in zip(keys, self._values, strict=True):
            encoded = key.dictionary_encode()
            places = pc.fill_null(pc.index_in(encoded.dictionary, value_set=values), NOWHERE)
            # NULL has no place in the dictionary: it finds the last, which is nowhere.
            numbers = np.append(np.asarray(places).astype(np.int64), NOWHERE)
            own = numbers[np.asarray(pc.fill_null(encoded.indices, len(numbers) - 1))]
            known &= own != NOWHERE
            whole = whole * (len(values) + 1) + own
        return np.where(known, whole, NOWHERE)
