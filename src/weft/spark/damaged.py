"""Files that Spark cannot read as declared: found when a batch fails, and set aside as a whole.

The batch's files are halved until each that fails is known. The rest is read as if they were not there.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.errors import SourceError
from weft.query.logical import StreamDef
from weft.spark.causes import java_causes
from weft.spark.changes import TELL_COLUMNS, in_words, retyped_columns
from weft.spark.files import batch_files, length, stored_columns
from weft.spark.records import reader_schema
from weft.spark.sources import FILE_FORMATS, read_files

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job raises."""
_ABOUT_CONTENTS = ("org.apache.parquet.", "org.apache.orc.", "java.lang.ClassCastException")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]")
"""What an error of Spark's begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideFile:
    """A file that Spark cannot read as declared."""

    path: str
    reason: str
    """For the quarantine; it may repeat values of rows."""
    told: str
    """The reason as notices and logs tell it."""
    rows: int
    """How many rows it says it has; one that does not say counts as one."""

    def notice(self, stream: StreamDef) -> str:
        """Return a sentence for the user."""
        return f"stream {stream.name}: file {self.path} {self.told}; its rows ({self.rows:,}) are set aside"


def readable(batch: DataFrame, stream: StreamDef) -> tuple[DataFrame, list[SetAsideFile]]:
    """Return a failed batch without the files that made it fail, and those files.

    A file is at fault if the storage hands out all its bytes and Spark still cannot read it. No file is where
    the batch failed for another reason, or where the stream is a DataFrame of the user's.
    """
    if stream.source is None or stream.source.format not in FILE_FORMATS:
        return batch, []
    spark, files = batch.sparkSession, batch_files(batch)
    broken = list(_broken(spark, stream, files)) if files else []
    if not broken:
        return batch, []
    bad = {file.path for file in broken}
    rest = [path for path in files if path not in bad]
    if not rest:
        return spark.createDataFrame([], reader_schema(stream)), broken
    return read_files(spark, stream, rest), broken


def _broken(spark: SparkSession, stream: StreamDef, files: Sequence[str]) -> Iterator[SetAsideFile]:
    """Halve the files that cannot be read together until each is known."""
    error = _failure(spark, stream, files)
    if error is None:
        return
    if len(files) > 1:
        yield from _broken(spark, stream, files[: len(files) // 2])
        yield from _broken(spark, stream, files[len(files) // 2 :])
    elif _is_about_contents(error) and _has_all_bytes(spark, files[0]):
        yield _diagnosed(spark, stream, files[0], error)


def _failure(spark: SparkSession, stream: StreamDef, files: Sequence[str]) -> Exception | None:
    """Read files to the end, in all declared columns, and return what went wrong."""
    try:
        read_files(spark, stream, files).write.format("noop").mode("overwrite").save()
    except (*SPARK_ERRORS, SourceError) as error:
        return error
    return None


def _is_about_contents(error: Exception) -> bool:
    for cause in java_causes(error):
        message = str(cause.getMessage())
        if "[FAILED_READ_FILE.FILE_NOT_EXIST]" in message:
            return False
        if "[FAILED_READ_FILE." in message or cause.getClass().getName().startswith(_ABOUT_CONTENTS):
            return True
    return False


def _has_all_bytes(spark: SparkSession, path: str) -> bool:
    """Say whether the storage hands a file out: only then is its content to blame."""
    try:
        read, there = length(spark, path)
    except Py4JJavaError:
        return False
    return read == there


def _diagnosed(spark: SparkSession, stream: StreamDef, path: str, error: Exception) -> SetAsideFile:
    assert stream.source is not None
    format, rows, retyped = stream.source.format, 1, list[str]()
    if format in TELL_COLUMNS:
        try:
            retyped = [
                in_words(*pair) for pair in retyped_columns(stream, stored_columns(spark, format, path))
            ]
            rows = spark.read.format(format).option("__globPaths__", "false").load(path).count()
        except SPARK_ERRORS:
            pass  # A file that does not even tell its columns.
    if retyped:
        reason = told = f"has {', '.join(retyped)}"
    else:
        problem = f"cannot be read as {format}"
        reason, told = f"{problem}: {_said(error)}", f"{problem} ({_kind(error)})"
    return SetAsideFile(path=path, reason=reason, told=told, rows=rows)


def _said(error: Exception) -> str:
    first = str(java_causes(error)[-1].getMessage()).strip().splitlines()
    return first[0][:200] if first else type(error).__name__


def _kind(error: Exception) -> str:
    """Return what kind of error it is: Spark's name for it, and the class of what lies deepest."""
    causes = java_causes(error)
    named = [found[1] for cause in causes if (found := _CONDITION.match(str(cause.getMessage())))]
    return ", ".join((*named[-1:], str(causes[-1].getClass().getSimpleName())))
