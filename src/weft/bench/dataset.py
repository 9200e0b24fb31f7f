"""Folders of Parquet files in the order of event time, made once and kept."""

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

DEFAULT_DATA = Path("data") / "bench"
"""Where data sets are kept by default."""
DELAY = "10 seconds"
"""How far behind the newest row the watermark is, on all sides."""
NOON_MS = 1_101_902_400_000
"""2004-12-01 12:00:00 UTC, the paper's first moment."""
_TIMESTAMPS = "spark.sql.parquet.outputTimestampType"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A stream's files: each holds a stretch of event time, and they are read in that order."""

    stream: str
    folder: Path
    columns: str
    """The schema, as DDL."""
    rows: int
    files: int
    span_ms: int
    """Event time from the first row to the end."""
    begin_ms: int = NOON_MS
    """Event time of the first row."""

    def __post_init__(self) -> None:
        if not 0 < self.files <= self.rows:
            raise ValueError(f"{self.rows} rows do not fill {self.files} files")

    def statement(self, files_per_trigger: int) -> str:
        """Return the CREATE STREAM that reads the files."""
        return (
            f"CREATE STREAM {self.stream} ({self.columns}) USING parquet OPTIONS "
            f"(path '{_quoted(self.folder)}', maxFilesPerTrigger '{files_per_trigger}') "
            f"EVENT TIME time DELAY '{DELAY}'"
        )

    def read_stream(self, spark: SparkSession, files_per_trigger: int) -> DataFrame:
        """Return the same as ordinary Spark reads it."""
        reader = spark.readStream.schema(self.columns).option("maxFilesPerTrigger", files_per_trigger)
        return reader.parquet(str(self.folder.resolve()))

    def read(self, spark: SparkSession) -> DataFrame:
        """Return all rows as a static DataFrame."""
        return spark.read.schema(self.columns).parquet(str(self.folder.resolve()))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFiles:
    """A static table's files."""

    name: str
    folder: Path
    columns: str
    """The schema, as DDL."""

    def statement(self) -> str:
        """Return the CREATE TABLE that reads the files."""
        return (
            f"CREATE TABLE {self.name} ({self.columns}) USING parquet OPTIONS (path '{_quoted(self.folder)}')"
        )

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the same as ordinary Spark reads it."""
        return spark.read.schema(self.columns).parquet(str(self.folder.resolve()))


def _quoted(folder: Path) -> str:
    return str(folder.resolve()).replace("'", "''")


def make(spark: SparkSession, dataset: Dataset, rows: Callable[[DataFrame], DataFrame]) -> Dataset:
    """Write the files, or use those of an earlier run; `rows` turns numbered rows into the stream's."""

    def write(unfinished: Path) -> None:
        _write(rows(spark.range(0, dataset.rows, 1, dataset.files)), unfinished / "spark")
        _put_in_order(unfinished / "spark", unfinished / "files")

    write_once(dataset.folder, write)
    return dataset


def write_tables(folder: Path, tables: Iterable[pa.Table]) -> None:
    """Write a file for each table, to be streamed in that order, or keep those of an earlier run."""

    def write(unfinished: Path) -> None:
        (unfinished / "files").mkdir()
        for number, table in enumerate(tables):
            path = unfinished / "files" / _part(number)
            pq.write_table(table, path)
            _set_age(path, number)

    write_once(folder, write)


def write_once(folder: Path, write: Callable[[Path], None]) -> None:
    """Make a folder, whole or not at all; `write` is given one in which to make `files`."""
    if folder.is_dir():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        write(unfinished)
        (unfinished / "files").rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(rows: DataFrame, folder: Path) -> None:
    # Microseconds decode faster than Spark's legacy INT96: the scan that all share should be a good one.
    conf = rows.sparkSession.conf
    before = conf.get(_TIMESTAMPS)
    conf.set(_TIMESTAMPS, "TIMESTAMP_MICROS")
    try:
        rows.write.parquet(str(folder))
    finally:
        conf.set(_TIMESTAMPS, before or "INT96")


def _put_in_order(written: Path, folder: Path) -> None:
    """Keep the data files only."""
    folder.mkdir()
    for number, path in enumerate(sorted(written.glob("part-*.parquet"))):
        _set_age(path.rename(folder / _part(number)), number)


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
