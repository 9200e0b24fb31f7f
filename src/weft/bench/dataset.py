"""Folders of Parquet files in the order of event time, generated once and kept."""

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.spark.session.local import setting

DEFAULT_DATA = Path("data") / "bench"
"""Where data sets are kept by default."""
DELAY = "10 seconds"
"""How far behind the newest row the watermark is, on all sides."""
NOON_MS = 1_101_902_400_000
"""2004-12-01 12:00:00 UTC, the paper's first moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """A static table's files."""

    name: str
    folder: Path
    columns: str
    """The schema, as DDL."""

    def statement(self) -> str:
        """Return the CREATE TABLE that reads the files."""
        return f"CREATE TABLE {self.name} ({self.columns}) USING parquet OPTIONS (path {self._path})"

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all rows as a static DataFrame."""
        return spark.read.schema(self.columns).parquet(str(self.folder.resolve()))

    @property
    def _path(self) -> str:
        return "'" + str(self.folder.resolve()).replace("'", "''") + "'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset(TableFiles):
    """A stream's files: each holds a stretch of event time, and they are read in that order."""

    rows: int
    files: int
    span_ms: int
    """Event time from the first row to the end."""
    begin_ms: int = NOON_MS
    """Event time of the first row."""

    def __post_init__(self) -> None:
        if not 0 < self.files <= self.rows:
            raise ValueError(f"{self.rows} rows do not fill {self.files} files")

    def statement(self, files_per_trigger: int = 1) -> str:
        """Return the CREATE STREAM that reads the files."""
        return (
            f"CREATE STREAM {self.name} ({self.columns}) USING parquet OPTIONS "
            f"(path {self._path}, maxFilesPerTrigger '{files_per_trigger}') "
            f"EVENT TIME time DELAY '{DELAY}'"
        )

    def read_stream(self, spark: SparkSession, files_per_trigger: int) -> DataFrame:
        """Return the same as ordinary Spark reads it."""
        reader = spark.readStream.schema(self.columns).option("maxFilesPerTrigger", files_per_trigger)
        return reader.parquet(str(self.folder.resolve()))


def make(
    spark: SparkSession, dataset: Dataset, rows: Callable[[DataFrame, Dataset, int], DataFrame], seed: int
) -> Dataset:
    """Write the files, or use those of an earlier run; `rows` turns numbered rows into the stream's."""

    def write(unfinished: Path) -> None:
        numbered = spark.range(0, dataset.rows, 1, dataset.files)
        # Microseconds decode faster than Spark's legacy INT96: the scan that all share should be a good one.
        with setting(spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"):
            rows(numbered, dataset, seed).write.parquet(str(unfinished / "spark"))
        for number, path in enumerate(sorted((unfinished / "spark").glob("part-*.parquet"))):
            _set_age(path.rename(unfinished / "files" / _part(number)), number)

    _write_once(dataset.folder, write)
    return dataset


def write_tables(folder: Path, tables: Iterable[pa.Table]) -> None:
    """Write a file for each table, to be streamed in that order, or keep those of an earlier run."""

    def write(unfinished: Path) -> None:
        for number, table in enumerate(tables):
            path = unfinished / "files" / _part(number)
            pq.write_table(table, path)
            _set_age(path, number)

    _write_once(folder, write)


def _write_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a folder, whole or not at all; `write` is given one with an empty folder `files` to fill."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        (unfinished / "files").mkdir()
        write(unfinished)
        (unfinished / "files").rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _part(number: int) -> str:
    return f"part-{number:05d}.parquet"


def _set_age(path: Path, number: int) -> None:
    # Spark streams the oldest file first: each is a second younger than the one before.
    os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))


def uniform(seed: int, salt: int) -> Column:
    """Return a number in [0, 1) for each numbered row: the same whatever the files and the cores."""
    bits = F.shiftrightunsigned(F.xxhash64(F.col("id"), F.lit(seed), F.lit(salt)), 11)
    return bits / F.lit(float(1 << 53))


def moment(dataset: Dataset, within: Column) -> Column:
    """Return evenly spread event times, in order."""
    step = dataset.span_ms * 1000 / dataset.rows
    micros = F.floor((F.col("id") + within) * F.lit(step)) + F.lit(dataset.begin_ms * 1000)
    return F.timestamp_micros(micros.cast("bigint"))
