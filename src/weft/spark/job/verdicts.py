"""Verdicts on rows: which are good, and why the others are not aggregated."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F

from weft.optimizer.plan import RelationId

TIME = "__weft_time"
"""The column of a row's event time."""
BAD = "__weft_bad"
"""The column of the verdict: a fragment number, or NULL for good rows."""
NO_TIME, LATE, FUTURE, CORRUPT = -1, -2, -3, -4
"""The fragment numbers of rows that are not good."""
_NEVER_LATE, _NEVER_FUTURE = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of the event times of good rows, in microseconds, and what is expected of a batch."""

    watermark: int | None
    """Rows before it are late."""
    future: int | None
    """Rows after it are set aside."""
    begin: int | None = None
    """When rows are expected to begin if there is no watermark; affects speed only."""
    span: int = 0
    """Expected time from that to the last row; affects speed only."""
    groups: Mapping[RelationId, float] = field(default_factory=dict)
    """Expected number of groups in a slice of each relation, if not one; affects speed only."""
    groups_per_row: float | None = 0.0
    """Expected number of groups per row, in all relations; affects speed only."""

    @property
    def limits(self) -> tuple[int, int]:
        """The first and the last time of good rows."""
        return (
            _NEVER_LATE if self.watermark is None else self.watermark,
            _NEVER_FUTURE if self.future is None else self.future,
        )


def verdict(time: Column, first: Column, last: Column, unread: Column | None) -> Column:
    """Return why a row is not aggregated, as a fragment number; NULL for good rows."""
    by_time = (
        F.when(time.isNull(), F.lit(NO_TIME)).when(time < first, F.lit(LATE)).when(time > last, F.lit(FUTURE))
    )
    return by_time if unread is None else F.when(unread, F.lit(CORRUPT)).otherwise(by_time)
