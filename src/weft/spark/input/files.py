"""The files that a batch reads, wherever they are: their status, their columns, and their contents."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from weft.errors import SourceError
from weft.query.logical import ColumnDef
from weft.spark.input.rows import column_defs
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
    if batch in _planned:
        return _planned[batch]
    _planned[batch] = None
    # Spark hands a batch over as steps already planned. They have the partitions of the first, which reads
    # the files.
    plan = batch._jdf.queryExecution().logical()
    partitions = plan.rdd().partitions() if plan.getClass().getSimpleName() == "LogicalRDD" else None
    # There are none if all files are gone, or empty.
    if partitions is not None and (
        len(partitions) == 0 or partitions[0].getClass().getSimpleName() == "FilePartition"
    ):
        sizes, begins, tasks = dict[str, int](), list[tuple[str, int]](), 0
        for partition in partitions:
            tasks += 1
            # Large files are read in several parts.
            for path, begin, end in _parts(partition.files()):
                sizes[path] = max(end, sizes.get(path, 0))
                begins.append((path, begin))
        repeated = len(set(begins)) < len(begins)
        _planned[batch] = PlannedFiles(sizes=sizes, repeated=repeated, tasks=tasks)
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
    location, settings = java_class("org.apache.hadoop.fs.Path")(path), _hadoop(spark)
    if format == "parquet":
        file = java_class("org.apache.parquet.hadoop.util.HadoopInputFile").fromPath(location, settings)
        # Without options, the reader would look for Hadoop's settings files, each time.
        options = java_class("org.apache.parquet.HadoopReadOptions").builder(settings, location).build()
        reader = java_class("org.apache.parquet.hadoop.ParquetFileReader").open(file, options)
    else:
        orc = java_class("org.apache.orc.OrcFile")
        reader = orc.createReader(location, orc.readerOptions(settings))
    try:
        stored = reader.getFooter().getFileMetaData() if format == "parquet" else reader
        stored = stored.getSchema()
    finally:
        reader.close()
    if format == "parquet":
        converter = java_class(f"{_FORMATS}.parquet.ParquetToSparkSchemaConverter")
        schema = converter(spark._jsparkSession.sessionState().conf()).convert(stored)
    else:
        schema = java_class(f"{_FORMATS}.orc.OrcUtils").toCatalystSchema(stored)
    return column_defs(StructType.fromJson(json.loads(schema.json())))


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


_STATUS = re.compile(
    r"; isDirectory=false; length=(\d+); replication=\d+; blocksize=\d+; modification_time=(\d+);"
)
"""A file as Hadoop describes it."""
ON_THIS_MACHINE = "file:/"
"""The beginning of the paths of files on this machine, whose status costs next to nothing."""
_BETWEEN = "\0"
"""The separator of names, as it is in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What shows, without reading a file, whether it has changed."""

    modified_ms: int
    size: int


def statuses(spark: SparkSession, paths: Iterable[str]) -> dict[str, FileStatus]:
    """Return the present statuses of files, without those that do not exist; paths are Spark's, unquoted.

    Raise SourceError if the storage fails.
    """
    by_path, elsewhere = dict[str, FileStatus](), list[str]()
    for path in paths:
        if not path.startswith(ON_THIS_MACHINE):
            elsewhere.append(path)
        elif (status := _status_here(path)) is not None:
            by_path[path] = status
    if elsewhere:
        try:
            files, _ = _located(spark, elsewhere[0])
            remote = _statuses_together(files, elsewhere) or [
                _status_alone(files, path) for path in elsewhere
            ]
        except Py4JJavaError as error:
            raise _unavailable(elsewhere[0], str(error.java_exception)) from error
        by_path |= {
            path: status for path, status in zip(elsewhere, remote, strict=True) if status is not None
        }
    return by_path


def _status_here(path: str) -> FileStatus | None:
    try:
        # As Hadoop does: links are followed, and parts of a millisecond do not count.
        status = os.stat("/" + path.removeprefix("file:").lstrip("/"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unavailable(path, str(error.strerror)) from error
    return FileStatus(modified_ms=status.st_mtime_ns // 1_000_000, size=status.st_size)


def _unavailable(path: str, reason: str) -> SourceError:
    return SourceError(f"file {path} cannot be looked at ({reason}); mend that, and start the stream again")


def _statuses_together(files: Any, paths: Sequence[str]) -> list[FileStatus | None]:
    """Return the statuses of any number of files in one call; none if a file is gone."""
    names = java_class("java.util.regex.Pattern").compile(_BETWEEN).split(_BETWEEN.join(paths))
    locations = java_class("org.apache.hadoop.util.StringUtils").stringToPath(names)
    try:
        answer = java_class("scala.Predef").genericWrapArray(files.listStatus(locations))
    except Py4JJavaError as error:
        if _is_gone(error):
            return []
        raise
    matches = _STATUS.findall(answer.mkString("\n"))
    # A name may read like a status, and a folder may have taken a file's place.
    is_clear = len(matches) == len(paths) == answer.length()
    return [FileStatus(modified_ms=int(modified), size=int(size)) for size, modified in matches if is_clear]


def _status_alone(files: Any, path: str) -> FileStatus | None:
    try:
        status = files.getFileStatus(java_class("org.apache.hadoop.fs.Path")(path))
    except Py4JJavaError as error:
        if _is_gone(error):
            return None
        raise
    return FileStatus(modified_ms=int(status.getModificationTime()), size=int(status.getLen()))


def _is_gone(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException"
