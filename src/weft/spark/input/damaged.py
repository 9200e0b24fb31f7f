"""Files that Spark cannot read as declared: found when a batch fails, and set aside as a whole.

The batch's files are halved until each that fails is known. The rest is read as if they were not there. So is
the rest of a batch whose files have gone since it was planned.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.errors import SourceError
from weft.query.logical import StreamDef
from weft.spark.input.file_status import FileStatus, statuses
from weft.spark.input.files import batch_files, length, planned_files, stored_columns
from weft.spark.input.missing import CHANGED, VANISHED, MissingFile, missing_notices
from weft.spark.input.schema_changes import TELL_COLUMNS, in_words, retyped_columns
from weft.spark.input.sources import FILE_FORMATS, read_files
from weft.spark.session.causes import java_causes

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


UnreadFile = SetAsideFile | MissingFile
"""A file that a batch is read without, or that is not read as it was listed."""


def file_notices(files: Sequence[UnreadFile], stream: StreamDef) -> list[str]:
    """Return sentences for the user that name files; of missing ones, no more than a few."""
    missing = [file for file in files if isinstance(file, MissingFile)]
    others = [file.notice(stream) for file in files if not isinstance(file, MissingFile)]
    return others + missing_notices(missing, stream)


def readable(batch: DataFrame, stream: StreamDef) -> tuple[DataFrame, list[UnreadFile]]:
    """Return a failed batch without the files that made it fail, and those files.

    A file is at fault if it is gone, or if the storage hands out all its bytes and Spark still cannot read
    it. One that has another size than the batch was planned for is read as it is now. No file is at fault
    where the batch failed for another reason, or where the stream is a DataFrame of the user's.
    """
    if stream.source is None or stream.source.format not in FILE_FORMATS:
        return batch, []
    spark, planned = batch.sparkSession, planned_files(batch)
    files = batch_files(batch)
    there = statuses(spark, files)
    unread: list[UnreadFile] = [_vanished(path) for path in files if path not in there]
    unread += _broken(spark, stream, [path for path in files if path in there])
    left_out = {file.path for file in unread}
    unread = unread or list(_resized({} if planned is None else planned.sizes, there))
    if not unread:
        return batch, []
    return read_files(spark, stream, [path for path in files if path not in left_out]), unread


def _vanished(path: str) -> MissingFile:
    return MissingFile(path=path, reason=VANISHED)


def _resized(planned: Mapping[str, int], there: Mapping[str, FileStatus]) -> Iterator[MissingFile]:
    """Yield the files that cannot be read by a plan that was made for other contents."""
    for path, size in planned.items():
        if there[path].size != size:
            yield MissingFile(path=path, reason=CHANGED)


def _broken(spark: SparkSession, stream: StreamDef, files: Sequence[str]) -> Iterator[UnreadFile]:
    """Halve the files that cannot be read together until each is known."""
    error = _failure(spark, stream, files) if files else None
    if error is None:
        return
    if len(files) > 1:
        yield from _broken(spark, stream, files[: len(files) // 2])
        yield from _broken(spark, stream, files[len(files) // 2 :])
    elif not statuses(spark, files):
        yield _vanished(files[0])
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
