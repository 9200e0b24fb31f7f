"""The groups that a batch's rows make: what a job gives."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]


class BatchGroups:
    """The groups of all relations, and of rows that are in none."""

    def __init__(
        self, counts: pa.Table, fragment: str, rows: str, relations: Sequence[pa.Table] | None = None
    ) -> None:
        self.counts = counts
        """Of every group, its fragment and what is counted; where Spark made groups, all else as well."""
        self._rows = rows
        self._relations = relations
        self.fragment: npt.NDArray[np.int32] = np.asarray(counts[fragment])
        """The fragment of every group."""

    def __len__(self) -> int:
        return len(self.fragment)

    def of_relation(self, index: int, first: int, end: int, columns: Sequence[str]) -> pa.Table:
        """Return some columns of the groups of a relation, whose fragments are those from first to end."""
        if self._relations is not None:
            return self._relations[index].select(columns)
        mine = (self.fragment >= first) & (self.fragment < end)
        return self.counts.select(columns).filter(pa.array(mine))

    @cached_property
    def rows_in_fragments(self) -> Numbers:
        """How many rows each fragment has that is numbered from 0, up to the last that has any."""
        numbered = np.flatnonzero(self.fragment >= 0)
        counts = np.asarray(self.counts[self._rows])[numbered]
        found = np.bincount(self.fragment[numbered], weights=counts, minlength=1)
        return found.astype(np.int64)
