"""Whether Spark or the driver groups a batch's rows: by how many rows are expected, and how many groups.

Spark repeats a row for every relation and sends its groups through a shuffle: about 10 µs of computing for
a group, whatever its rows, and 0.3 µs for a row and relation. The driver is handed every row once: about 3 µs
for a row of 14 columns, and 0.15 µs for a row and relation. So the driver groups rows where groups are not
much fewer than rows, and where rows are so few that a second stage of a job costs more than they do.
Rows with many words are the driver's as long as it can hold them: Spark takes 3 to 5 µs for those of a row.
"""

from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

FEW_ROWS: Final = 16_384
"""The driver groups so many rows, whatever becomes of them…"""
_ROWS_PER_GROUP = 2.0
"""…and so many for each group that is expected…"""
MOST_ROWS: Final = 1_000_000
"""…but no more than these: they must fit into its memory."""
_UNKNOWN_GROUPS_ROWS = 250_000
"""The driver groups so many rows of a first batch, whose groups nobody knows: it takes a second at most,
while Spark may meet a group for each row and relation."""
_LIKELY_BYTES = 16.0
"""How large a row of a file is taken to be while no batch has told: compressed columns are small."""
_UNKNOWN_BYTES = 1 << 50
"""Spark takes what it does not know the size of to be at least so large."""


@dataclass(slots=True)
class Forms:
    """What a job's batches have told of rows and groups, or those of the job before it."""

    _bytes_per_row: float | None = None
    _groups_per_row: float | None = None
    _groups_per_row_before: float | None = None

    def driver_groups(
        self, size: int | None, groups_per_row: float | None, *, many_words: bool = False
    ) -> bool:
        """Say whether the driver should group a batch of so many bytes; None if nobody knows how many.

        `groups_per_row` is what the planner expects, for as long as no batch of this job has told: 0 if it
        expects nothing, and the job before tells; None if no batch at all has been seen. `many_words` says
        that Spark is slow to give rows their words (weft.spark.job.word_coder).
        """
        if not size:
            # A batch without rows is how queries are tried: Spark should look at all that it may compute.
            return False
        rows = size / (self._bytes_per_row or _LIKELY_BYTES)
        if many_words:
            return rows <= MOST_ROWS
        told = (self._groups_per_row, groups_per_row or None, self._groups_per_row_before, groups_per_row)
        per_row = next((one for one in told if one is not None), None)
        if per_row is None:
            return rows <= min(MOST_ROWS, _UNKNOWN_GROUPS_ROWS)
        return rows <= min(MOST_ROWS, FEW_ROWS + _ROWS_PER_GROUP * rows * per_row)

    def note(self, size: int | None, rows: int, groups: int) -> None:
        """Take in what a batch was."""
        if rows:
            self._groups_per_row = groups / rows
            self._bytes_per_row = None if size is None else max(size, 1) / rows

    def for_next_job(self) -> "Forms":
        """Return what a job begins with that takes the place of this one's."""
        last = self._groups_per_row_before if self._groups_per_row is None else self._groups_per_row
        return Forms(_bytes_per_row=self._bytes_per_row, _groups_per_row_before=last)


def batch_bytes(batch: DataFrame) -> int | None:
    """Return how large a batch's files are; None for rows that come from elsewhere."""
    try:
        # Java's and Scala's whole numbers both read as they print.
        size = int(str(batch._jdf.queryExecution().analyzed().stats().sizeInBytes()))
    except Py4JError:
        return None
    return size if size < _UNKNOWN_BYTES else None
