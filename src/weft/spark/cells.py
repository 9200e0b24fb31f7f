"""From positions to fragments, in the driver: what Spark's look-ups do when it groups rows itself."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.predicates.codebook import Codes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CellPart:
    """What a column of rows adds to the number of a cell."""

    column: str
    table: Codes | None = None
    """Where the column's numbers are looked up; None where they are added as they are."""
    otherwise: npt.NDArray[np.int64] | None = None
    """What NULL stands for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """From columns of rows to the fragments of one relation, in the driver."""

    parts: tuple[CellPart, ...]
    fragments: npt.NDArray[np.int64]
    """For each cell, its fragment; less than the relation's first for none."""

    def look_up(self, column: Callable[[str], pa.ChunkedArray]) -> npt.NDArray[np.int64]:
        """Return the fragment of each row."""
        cell: npt.NDArray[np.integer] | int = 0
        for part in self.parts:
            values = column(part.column)
            if part.otherwise is not None:
                values = pc.fill_null(values, int(part.otherwise[0]))
            found = values.to_numpy()
            cell = cell + (found if part.table is None else part.table[found])
        numbers: npt.NDArray[np.int64] = self.fragments[cell]
        return numbers
