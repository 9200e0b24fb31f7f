"""Whether Spark or the driver groups a batch's rows, by the expected numbers of rows and groups.

Spark repeats a row for every relation and sends its groups through a shuffle: about 10 µs of computing for a
group, whatever its rows, and 0.3 µs for a row and relation. The driver receives every row once: about 3 µs
for a row of 14 columns, and 0.15 µs for a row and relation. So the driver groups rows where groups are not
much fewer than rows, and where there are so few rows that a second stage of a job costs more than they do. It
also groups rows with many words as long as they fit into its memory: Spark takes 3 to 5 µs for those of a
row.
"""

from dataclasses import dataclass
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

FEW_ROWS: Final = 16_384
"""The driver groups up to this number of rows, however few their groups…"""
_ROWS_PER_GROUP = 2.0
"""…and this number more for each expected group…"""
MOST_ROWS: Final = 1_000_000
"""…but no more than this: they must fit into its memory."""
_UNKNOWN_GROUPS_ROWS = 250_000
"""Maximum number of rows of a first batch, with unknown groups, that the driver groups: it takes a second at
most, while Spark may find a group for each row and relation."""
_LIKELY_BYTES = 16.0
"""Assumed size of a row of a file before the first batch: compressed columns are small."""
_UNKNOWN_BYTES = 1 << 50
"""Spark assumes at least this size where it does not know it."""


@dataclass(slots=True)
class Forms:
    """The rows and groups of a job's batches so far, or of those of the job before it."""

    _bytes_per_row: float | None = None
    _groups_per_row: float | None = None
    _groups_per_row_before: float | None = None

    def driver_groups(
        self, size: int | None, groups_per_row: float | None, *, many_words: bool = False
    ) -> bool:
        """Say whether the driver should group a batch of `size` bytes; None is an unknown size.

        `groups_per_row` is what the planner expects, used until this job has had a batch: 0 if it expects
        nothing and the job before is to be used; None if there has been no batch at all. `many_words` says
        that Spark is slow to give rows their words (weft.spark.job.word_coder).
        """
        if not size:
            # Queries are tried on a batch without rows: Spark should analyse all that it may compute.
            return False
        rows = size / (self._bytes_per_row or _LIKELY_BYTES)
        if many_words:
            return rows <= MOST_ROWS
        estimates = (
            self._groups_per_row,
            groups_per_row or None,
            self._groups_per_row_before,
            groups_per_row,
        )
        per_row = next((estimate for estimate in estimates if estimate is not None), None)
        if per_row is None:
            return rows <= min(MOST_ROWS, _UNKNOWN_GROUPS_ROWS)
        return rows <= min(MOST_ROWS, FEW_ROWS + _ROWS_PER_GROUP * rows * per_row)

    def note(self, size: int | None, rows: int, groups: int) -> None:
        """Record the size, rows and groups of a batch."""
        if rows:
            self._groups_per_row = groups / rows
            self._bytes_per_row = None if size is None else max(size, 1) / rows

    def for_next_job(self) -> "Forms":
        """Return what the job that replaces this one begins with."""
        last = self._groups_per_row_before if self._groups_per_row is None else self._groups_per_row
        return Forms(_bytes_per_row=self._bytes_per_row, _groups_per_row_before=last)


def batch_bytes(batch: DataFrame) -> int | None:
    """Return the size of a batch's files; None for rows that come from elsewhere."""
    try:
        # Both Java's and Scala's integers print as digits.
        size = int(str(batch._jdf.queryExecution().analyzed().stats().sizeInBytes()))
    except Py4JError:
        return None
    return size if size < _UNKNOWN_BYTES else None
