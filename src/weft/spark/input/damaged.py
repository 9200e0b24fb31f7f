"""Files that Spark cannot read as declared: found when a batch fails, and set aside as a whole.

The batch's files are halved until each that fails is known, and the rest is read without them. So is the rest
of a batch from which files have vanished since it was planned.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.errors import SourceError
from weft.query.logical import StreamDef
from weft.spark.input.file_status import statuses
from weft.spark.input.files import batch_files, length, planned_files, stored_columns
from weft.spark.input.missing import CHANGED, VANISHED, MissingFile, missing_notices
from weft.spark.input.schema_changes import TELL_COLUMNS, in_words, retyped_columns
from weft.spark.input.sources import FILE_FORMATS, read_files
from weft.spark.session.causes import java_causes

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job raises."""
_ABOUT_CONTENTS = ("org.apache.parquet.", "org.apache.orc.", "java.lang.ClassCastException")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_.]*)\]")
"""The error condition that a message of Spark's begins with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideFile:
    """A file that Spark cannot read as declared."""

    path: str
    reason: str
    """For the quarantine; it may repeat values of rows."""
    public_reason: str
    """The reason for notices and logs."""
    rows: int
    """The number of rows according to the file; 1 if it does not say."""

    def notice(self, stream: StreamDef) -> str:
        """Return a sentence for the user."""
        rows = f"its rows ({self.rows:,}) are set aside"
        return f"stream {stream.name}: file {self.path} {self.public_reason}; {rows}"


UnreadFile = SetAsideFile | MissingFile
"""A file that a batch is read without, or that was not read as listed."""


def file_notices(files: Sequence[UnreadFile], stream: StreamDef) -> list[str]:
    """Return sentences for the user that name files, of missing ones only a few."""
    missing = [file for file in files if isinstance(file, MissingFile)]
    others = [file.notice(stream) for file in files if not isinstance(file, MissingFile)]
    return others + missing_notices(missing, stream)


def readable(batch: DataFrame, stream: StreamDef) -> tuple[DataFrame, list[UnreadFile]]:
    """Return a failed batch without the files that made it fail, and those files.

    A file is at fault if it is gone, or if the storage returns all its bytes and Spark still cannot read it.
    A file whose size has changed since the batch was planned is read as it is now. No file is at fault if the
    batch failed for another reason, or if the stream is a DataFrame of the user's.
    """
    if stream.source is None or stream.source.format not in FILE_FORMATS:
        return batch, []
    spark, planned = batch.sparkSession, planned_files(batch)
    files = batch_files(batch)
    present = statuses(spark, files)
    unread: list[UnreadFile] = [_vanished(path) for path in files if path not in present]
    unread += _broken(spark, stream, [path for path in files if path in present])
    left_out = {file.path for file in unread}
    if not unread and planned is not None:
        # Files that cannot be read by a plan that was made for other contents.
        resized = [path for path, size in planned.sizes.items() if present[path].size != size]
        unread += [MissingFile(path=path, reason=CHANGED) for path in resized]
    if not unread:
        return batch, []
    return read_files(spark, stream, [path for path in files if path not in left_out]), unread


def _vanished(path: str) -> MissingFile:
    return MissingFile(path=path, reason=VANISHED)


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
    """Say whether the storage returns all of a file: only then is its content to blame."""
    try:
        read, size = length(spark, path)
    except Py4JJavaError:
        return False
    return read == size


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
            pass  # Not even the columns of the file can be read.
    if retyped:
        reason = public = f"has {', '.join(retyped)}"
    else:
        problem = f"cannot be read as {format}"
        reason, public = f"{problem}: {_message(error)}", f"{problem} ({_kind(error)})"
    return SetAsideFile(path=path, reason=reason, public_reason=public, rows=rows)


def _message(error: Exception) -> str:
    lines = str(java_causes(error)[-1].getMessage()).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _kind(error: Exception) -> str:
    """Return the kind of an error: Spark's condition, and the class of the root cause."""
    causes = java_causes(error)
    conditions = [match[1] for cause in causes if (match := _CONDITION.match(str(cause.getMessage())))]
    return ", ".join((*conditions[-1:], str(causes[-1].getClass().getSimpleName())))
