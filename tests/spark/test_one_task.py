"""Small batches that one task reads are grouped without a shuffle."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import weft.spark.input.files as files
from weft.spark.input.files import in_one_task

ROWS = 40


def grouped(spark: SparkSession, folder: Path, *, count: int) -> list[tuple[bool, list[tuple[int, int]]]]:
    """Return, for each batch of so many files, whether its rows are shuffled, and its groups."""
    folder.mkdir()
    for number in range(count):
        pq.write_table(pa.table({"k": [one % 3 for one in range(ROWS)]}), folder / f"{number}.parquet")
    told: list[tuple[bool, list[tuple[int, int]]]] = []

    def note(batch: DataFrame, _: int) -> None:
        groups = in_one_task(batch).groupBy("k").agg(F.count("k").alias("rows"))
        plan = groups._jdf.queryExecution().executedPlan().toString()
        told.append(("Exchange" in plan, sorted((row["k"], row["rows"]) for row in groups.collect())))

    stream = spark.readStream.schema("k BIGINT").parquet(str(folder)).writeStream.foreachBatch(note)
    stream.trigger(availableNow=True).start().awaitTermination()
    return told


def test_a_batch_of_one_task_is_not_shuffled(spark: SparkSession, tmp_path: Path) -> None:
    assert grouped(spark, tmp_path / "one", count=1) == [(False, [(0, 14), (1, 13), (2, 13)])]


def test_a_large_batch_is_shuffled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_SMALL_BYTES", 10)
    assert grouped(spark, tmp_path / "large", count=1) == [(True, [(0, 14), (1, 13), (2, 13)])]


def test_a_batch_that_reads_no_files_stays_as_it_is(spark: SparkSession) -> None:
    rows = spark.range(5)
    assert in_one_task(rows) is rows
