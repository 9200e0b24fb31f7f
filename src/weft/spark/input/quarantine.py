"""Rows that are not aggregated, as rows of their own: why, and where they came from.

A batch's job counts them. Only if there are any, they are found in a second pass over the batch, which judges
each row as the job did, by the same bounds. They are kept by batch, in Parquet:

    <folder>/stream=trades/batch=000000012/…      reason, event_time, source, position, row

A batch that is processed again replaces its own files and no others. In a folder that several checkpoints may
share, each has its own below origin=….
"""

import json
import re
from collections.abc import Sequence
from typing import Literal

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.query.logical import StreamDef
from weft.spark.columns import named
from weft.spark.input.files import batch_files
from weft.spark.input.paths import FILE_FORMATS
from weft.spark.input.rows import TEXT_FORMATS, corrupt_column, event_time, is_corrupt, why_corrupt
from weft.spark.input.sources import read_files
from weft.spark.input.unread import SetAsideFile, UnreadFile
from weft.spark.job.verdicts import BAD, CORRUPT, FUTURE, LATE, NO_TIME, TIME, Bounds, verdict
from weft.spark.session.local import setting, utc

Kept = Literal["quarantine", "late"]
"""The rows that a dataset keeps: late ones, or all others that are not aggregated."""
REASONS = {NO_TIME: "no event time", LATE: "late", FUTURE: "time in the future"}
"""Why a row is not aggregated; that of a corrupt one is found from its record."""
_SCHEMA = "reason string, event_time timestamp, source string, position bigint, row string"
_SOURCE, _POSITION = "__weft_source", "__weft_position"
_BATCH = re.compile(r"batch=(\d+)")


def set_aside(
    batch: DataFrame,
    stream: StreamDef,
    bounds: Bounds,
    files: Sequence[UnreadFile] = (),
    *,
    only_files: bool = False,
) -> DataFrame:
    """Return the rows of a batch that its job did not aggregate, late ones too, each with its reason.

    `bounds` are those that the job ran with. `source` is the row's file, or its topic, partition and offset;
    `position` is its number in a Parquet file, the beginning of its part of a text file, or its offset. Files
    set aside as a whole and missing ones give one row each; with `only_files`, the batch is not read again.
    """
    spark = batch.sparkSession
    if only_files:
        return _whole_files(spark, files)
    with utc(spark):
        first, last = (F.lit(limit).cast("bigint") for limit in bounds.limits)
        corrupt = corrupt_column(stream)
        rows, source, position = _located(batch, stream)
        placed = rows.select("*", source.alias(_SOURCE), position.cast("bigint").alias(_POSITION))
        rows = placed.withColumn(TIME, event_time(stream))
        unread = None if corrupt is None else is_corrupt(corrupt, stream)
        rows = rows.withColumn(BAD, verdict(F.col(TIME), first, last, unread)).where(F.col(BAD).isNotNull())
        reason = F.lit(None).cast("string") if corrupt is None else why_corrupt(corrupt, stream)
        for number, text in REASONS.items():
            reason = F.when(F.col(BAD) == number, F.lit(text)).otherwise(reason)
        columns = F.struct(*(named(column.name) for column in stream.columns))
        record = F.to_json(columns, {"ignoreNullFields": "false", "timeZone": "UTC"})
        if corrupt is not None:
            record = F.when(F.col(BAD) == CORRUPT, named(corrupt)).otherwise(record)
        not_aggregated = rows.select(
            reason.alias("reason"),
            F.timestamp_micros(TIME).alias("event_time"),
            F.col(_SOURCE).alias("source"),
            F.col(_POSITION).alias("position"),
            record.alias("row"),
        )
        return not_aggregated.unionByName(_whole_files(spark, files)) if files else not_aggregated


def _located(batch: DataFrame, stream: StreamDef) -> tuple[DataFrame, Column, Column]:
    """Return a batch's rows, and the columns of their source and position."""
    if stream.source is not None and stream.source.format in FILE_FORMATS:
        files = batch_files(batch)
        if files:
            rows = read_files(batch.sparkSession, stream, files)
            metadata, position = rows.metadataColumn("_metadata"), F.lit(None)
            if stream.source.format == "parquet":
                position = metadata.getField("row_index")
            elif stream.source.format in TEXT_FORMATS:
                position = metadata.getField("file_block_start")
            return rows, metadata.getField("file_path"), position
    if {"topic", "partition", "offset"} <= set(batch.columns):
        source = F.concat_ws("/", "topic", "partition", "offset")
        return batch, source, F.col("offset").try_cast("bigint")
    path = F.input_file_name()
    return batch, F.when(path != "", path), F.lit(None)


def _whole_files(spark: SparkSession, files: Sequence[UnreadFile]) -> DataFrame:
    # The number of rows of a missing file is unknown.
    counts = [json.dumps({"rows": file.rows}) if isinstance(file, SetAsideFile) else None for file in files]
    rows = [(file.reason, None, file.path, None, count) for file, count in zip(files, counts, strict=True)]
    return spark.createDataFrame(rows, _SCHEMA)


def write_set_aside(rows: DataFrame, stream_uri: str, *, batch: int, kind: Kept) -> None:
    """Write the rows that `set_aside` found to one file below the stream's folder.

    The batch must have no folder there yet: Spark must not remove anything.
    """
    late = F.col("reason") == REASONS[LATE]
    folder = f"{stream_uri.rstrip('/')}/{batch_folder(batch)}"
    # Times in the far future do not fit Spark's default type.
    micros = setting(rows.sparkSession, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    with utc(rows.sparkSession), micros:
        kept = rows.where(late if kind == "late" else ~late)
        kept.repartition(1).write.parquet(folder)


def batch_folder(batch: int) -> str:
    """Return the name of a batch's folder inside its stream's folder."""
    return f"batch={batch:09d}"


def batch_of(folder: str) -> int | None:
    """Return the batch of a folder inside a stream's folder; None if it is no batch's."""
    match = _BATCH.fullmatch(folder)
    return None if match is None else int(match[1])
