"""A stream of trades: files that a test writes one after the other, each a batch."""

import os
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import weft

START = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[float, str | None, float | None, int | None]
"""Seconds after START, symbol, price, volume."""
SCHEMA = pa.schema([
    ("time", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64()),
    ("vol", pa.int64()),
])  # fmt: skip


def at(seconds: float) -> datetime:
    """Return a moment of the test's day."""
    return datetime.fromtimestamp(START.timestamp() + seconds, UTC)


class Feed:
    """Write rows as the next file of a stream's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def __call__(self, *rows: Row) -> Path:
        number = len(list(self.folder.iterdir()))
        columns = [[at(row[0]) for row in rows], *([row[place] for row in rows] for place in (1, 2, 3))]
        path = self.folder / f"{number:04d}.parquet"
        # Under a name that Spark does not see, until it is whole.
        unfinished = self.folder.parent / f"{self.folder.name}.unfinished"
        pq.write_table(pa.table(columns, schema=SCHEMA), unfinished)
        # Spark takes files in the order of their times, which may be equal for files just written.
        os.utime(unfinished, (1_700_000_000 + number, 1_700_000_000 + number))
        unfinished.rename(path)
        return self.folder

    def at(self, *seconds: float) -> Path:
        """Write plain rows of some moments."""
        return self(*((second, "a", 1.0, 1) for second in seconds))


def stream(
    engine: weft.Engine, spark: SparkSession, folder: Path, delay: str = "0 seconds", *, name: str = "trades"
) -> None:
    """Declare the folder as a stream, one file a batch."""
    reader = spark.readStream.schema("time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT")
    engine.stream(name, reader.option("maxFilesPerTrigger", 1).parquet(str(folder)), time="time", delay=delay)


def ends(table: pa.Table) -> list[float]:
    """Return window ends as seconds after START."""
    return [(end - START).total_seconds() for end in table["window_end"].to_pylist()]


def counted(table: pa.Table, column: str = "n") -> dict[float, int]:
    """Return a column by window end; each window is there once."""
    found = dict(zip(ends(table), table[column].to_pylist(), strict=True))
    assert len(found) == table.num_rows
    return found


def windows(
    moments: Iterable[float], *, range: int, slide: int, until: float, since: float = float("-inf")
) -> dict[float, int]:
    """Return the rows in each window that has any, begins at `since` or later, and ends by `until`."""
    found: Counter[float] = Counter()
    for moment in moments:
        end = (moment // slide + 1) * slide
        while end - range <= moment:
            if since <= end - range and end <= until:
                found[end] += 1
            end += slide
    return dict(found)


def seconds(window: Iterable[datetime] | None) -> tuple[float, ...]:
    """Return the start and end of a window as seconds after START."""
    return () if window is None else tuple((one - START).total_seconds() for one in window)
