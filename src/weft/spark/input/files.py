"""The files that a batch reads, wherever they are, and the columns that they have."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from weft.query.logical import ColumnDef
from weft.spark.input.schemas import column_defs
from weft.spark.session.gateway import java_class

HEAD_BYTES = 1 << 14
"""Maximum number of bytes of a text file that are looked at."""
_PIECE_BYTES = 1 << 12
"""Number of bytes read at once: a reply of the JVM that is longer than 8 KiB takes 40 ms."""
_FILES_TOGETHER = 16
"""Number of files described at once, for the same reason."""
_SMALL_BYTES = 8 << 20
"""Maximum size of a batch that one task reads and groups."""
_FORMATS = "org.apache.spark.sql.execution.datasources"
_PART = re.compile(r"^path: (\S+), range: (\d+)-(\d+), ", re.MULTILINE)
"""A part of a file as Spark describes it, with the bytes that it begins with and ends before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFiles:
    """The files that a batch was planned to read."""

    sizes: Mapping[str, int]
    """In order, each with its size then; files without a byte are not planned."""
    repeated: bool
    """Whether any would be read twice: Spark does that if a file has a name like a pattern."""
    tasks: int
    """Number of tasks that read them."""


_planned: WeakKeyDictionary[DataFrame, PlannedFiles | None] = WeakKeyDictionary()
"""The files of current batches: listing a thousand takes 30 ms, and they are needed several times."""


def batch_files(batch: DataFrame) -> list[str]:
    """Return the files that a batch of a stream reads, in order; none if it reads something else."""
    planned = planned_files(batch)
    return [unquote(url) for url in batch.inputFiles()] if planned is None else list(planned.sizes)


def planned_files(batch: DataFrame) -> PlannedFiles | None:
    """Return the files that a batch of a stream was planned to read.

    None for a static DataFrame, or one that reads something else.
    """
    if batch not in _planned:
        partitions = _file_partitions(batch)
        _planned[batch] = None if partitions is None else _put_together(partitions)
    return _planned[batch]


def in_one_task(batch: DataFrame) -> DataFrame:
    """Return a small batch that one task reads as one that Spark need not shuffle to group its rows.

    A shuffle is another stage, which costs more than a few thousand rows do.
    """
    planned = planned_files(batch)
    if planned is None or planned.tasks != 1 or sum(planned.sizes.values()) > _SMALL_BYTES:
        return batch
    whole = batch.coalesce(1)
    _planned[whole] = planned
    return whole


def _put_together(partitions: Any) -> PlannedFiles:
    """Return the files that tasks read; large ones are read in several parts."""
    sizes, begins, parts, tasks = dict[str, int](), set[tuple[str, int]](), 0, 0
    for partition in partitions:
        tasks += 1
        for path, begin, end in _parts(partition.files()):
            sizes[path] = max(end, sizes.get(path, 0))
            begins.add((path, begin))
            parts += 1
    return PlannedFiles(sizes=sizes, repeated=len(begins) < parts, tasks=tasks)


def _file_partitions(batch: DataFrame) -> Any:
    """Return which files each task reads; None for a static DataFrame, or one that reads something else.

    Spark hands a batch over as steps already planned. They have the partitions of the first, which reads the
    files.
    """
    plan = batch._jdf.queryExecution().logical()
    if plan.getClass().getSimpleName() != "LogicalRDD":
        return None
    partitions = plan.rdd().partitions()
    # There are none if all files are gone, or empty.
    is_of_files = len(partitions) == 0 or partitions[0].getClass().getSimpleName() == "FilePartition"
    return partitions if is_of_files else None


def _parts(files: Any) -> list[tuple[str, int, int]]:
    """Return a task's files, and where its part of each begins and ends.

    Describing each by itself would take ten times as long.
    """
    wrapped, count = java_class("scala.Predef").genericWrapArray(files), len(files)
    slices = (wrapped.slice(at, at + _FILES_TOGETHER) for at in range(0, count, _FILES_TOGETHER))
    parts = _PART.findall("\n".join(files.mkString("\n") for files in slices))
    if len(parts) != count:
        # Values of partitions, which are in the text, too, read like files.
        parts = [
            (str(file.filePath().urlEncoded()), file.start(), file.start() + file.length()) for file in files
        ]
    return [(unquote(url), int(begin), int(end)) for url, begin, end in parts]


def stored_columns(spark: SparkSession, format: str, path: str) -> tuple[ColumnDef, ...]:
    """Return the columns of a Parquet or ORC file; only its footer is read."""
    location = java_class("org.apache.hadoop.fs.Path")(path)
    schema = _parquet_schema(spark, location) if format == "parquet" else _orc_schema(spark, location)
    return column_defs(StructType.fromJson(json.loads(schema.json())))


def _parquet_schema(spark: SparkSession, location: Any) -> Any:
    settings = _hadoop(spark)
    file = java_class("org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(location, settings)
    # Without options, the reader would look for Hadoop's settings files, each time.
    options = java_class("org.apache.parquet.HadoopReadOptions").builder(settings, location).build()
    reader = java_class("org.apache.parquet.hadoop.ParquetFileReader").open(file, options)
    try:
        stored = reader.getFooter().getFileMetaData().getSchema()
    finally:
        reader.close()
    converter = java_class(f"{_FORMATS}.parquet.ParquetToSparkSchemaConverter")
    return converter(spark._jsparkSession.sessionState().conf()).convert(stored)


def _orc_schema(spark: SparkSession, location: Any) -> Any:
    orc = java_class("org.apache.orc.OrcFile")
    reader = orc.createReader(location, orc.readerOptions(_hadoop(spark)))
    try:
        stored = reader.getSchema()
    finally:
        reader.close()
    return java_class(f"{_FORMATS}.orc.OrcUtils").toCatalystSchema(stored)


def head(spark: SparkSession, path: str) -> bytes:
    """Return the beginning of a text file, compressed or not: all of it, or as much as is looked at."""
    files, location = _located(spark, path)
    stream = files.open(location)
    try:
        codecs = java_class("org.apache.hadoop.io.compress.CompressionCodecFactory")(_hadoop(spark))
        codec = codecs.getCodec(location)
        text = stream if codec is None else codec.createInputStream(stream)
        content = b""
        while len(content) < HEAD_BYTES and (piece := text.readNBytes(_PIECE_BYTES)):
            content += piece
        return content
    finally:
        stream.close()


def length(spark: SparkSession, path: str) -> tuple[int, int]:
    """Return the number of bytes of a file that can be read, and its size."""
    files, location = _located(spark, path)
    stream = files.open(location)
    try:
        read = java_class("org.apache.commons.io.IOUtils").consume(stream)
    finally:
        stream.close()
    return int(read), int(files.getFileStatus(location).getLen())


def _located(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return the file system that a path is on, and Hadoop's path."""
    location = java_class("org.apache.hadoop.fs.Path")(path)
    return location.getFileSystem(_hadoop(spark)), location


def _hadoop(spark: SparkSession) -> Any:
    return spark._jsparkSession.sessionState().newHadoopConf()
