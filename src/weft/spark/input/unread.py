"""Files that were listed for a batch and not read as they were then: gone, changed, or impossible to read.

Spark records which files a batch consists of, and when each was last changed. Between that and the end of the
batch's job a file may vanish, or be replaced by another of the same name:

    listed ──────── planned ──────── read ──────── looked at again
       └── gone: Spark leaves it out,  └── gone: the job fails, and runs again
           silently                        without it

What was read of a file that changed counts as rows do; the file is named, because that may be part of the old
contents, of the new, or of both.

Files that Spark cannot read as declared are found when a batch fails, and set aside as a whole: the batch's
files are halved until each that fails is known, and the rest is read without them. So is the rest of a batch
from which files have vanished since it was planned.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.errors import SourceError
from weft.notices import Notice, NoticeKind
from weft.query.logical import StreamDef
from weft.spark.input.files import (
    ON_THIS_MACHINE,
    FileStatus,
    batch_files,
    length,
    planned_files,
    statuses,
    stored_columns,
)
from weft.spark.input.paths import FILE_FORMATS
from weft.spark.input.schema_changes import TELL_COLUMNS, in_words, retyped_columns
from weft.spark.input.sources import read_files
from weft.spark.session.causes import condition, java_causes

VANISHED = "vanished before it was read"
CHANGED = "was changed after it was listed"
_MOST_NAMED = 10
"""Maximum number of files that notices of a batch name."""
_SKIP_MISSING = "spark.sql.files.ignoreMissingFiles"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFile:
    """A file whose contents, as they were listed, were not read."""

    path: str
    reason: str
    rows: int = 0
    """The number of rows set aside with it; how many it had is unknown."""

    def notice(self, stream: StreamDef) -> Notice:
        """Return a notice for the user."""
        kind = NoticeKind.FILE_VANISHED if self.reason == VANISHED else NoticeKind.FILE_CHANGED
        return Notice(kind=kind, stream=stream.name, subject=self.path, about=self.reason)


class FileAccount:
    """The files that Spark listed for a batch, each to be read as it was listed."""

    def __init__(self, batch: DataFrame, stream: StreamDef, listed: Mapping[str, int]) -> None:
        """Inspect a batch that is about to be read; `listed` has its files with their times."""
        self._spark, self._listed = batch.sparkSession, listed
        planned = planned_files(batch) if listed else None
        self._sizes = None if planned is None else planned.sizes
        """The files that will be read, with their sizes; None if unknown."""
        options = () if stream.source is None else stream.source.options
        skips = {key.casefold(): value for key, value in options}.get("ignoremissingfiles")
        self._skips = bool(listed) and str(skips or self._spark.conf.get(_SKIP_MISSING)).casefold() == "true"
        """Whether the job continues without a file that is gone, because the user has set that option."""
        # Elsewhere a status takes time: one, after the job, shows all but a change before a file vanished.
        self._before = statuses(self._spark, [path for path in listed if path.startswith(ON_THIS_MACHINE)])
        self.batch = batch
        """The batch, with each file in it once."""
        if planned is not None and planned.repeated:
            present = statuses(self._spark, planned.sizes)
            self._sizes = {path: size for path, size in planned.sizes.items() if path in present}
            self.batch = read_files(self._spark, stream, list(self._sizes))

    def missing(self, known: "Iterable[UnreadFile]") -> list[MissingFile]:
        """Return the files that were not read as listed, besides those known already; after the job."""
        if not self._listed:
            return []
        named = {file.path for file in known}
        rest = [path for path in self._listed if path not in named]
        now = statuses(self._spark, rest)
        reasons = ((path, self._reason(path, now.get(path))) for path in rest)
        return [MissingFile(path=path, reason=reason) for path, reason in reasons if reason is not None]

    def _reason(self, path: str, now: FileStatus | None) -> str | None:
        """Return why a file counts as missing; None if it was read as listed."""
        before = self._before.get(path)
        if self._sizes is not None and path not in self._sizes:
            status = before or now
            if status is not None and self._differs(path, status):
                return CHANGED
            # Spark lists files without rows, too, and rightly never plans to read them.
            is_empty = status is not None and (status.size == 0 or path.rpartition("/")[2].startswith("_"))
            return None if is_empty else VANISHED
        if now is None and self._skips:
            return VANISHED
        # A file that is gone now was there when it was read: the job would have failed.
        return CHANGED if any(status and self._differs(path, status) for status in (before, now)) else None

    def _differs(self, path: str, status: FileStatus) -> bool:
        size = (self._sizes or {}).get(path, status.size)
        return status.modified_ms != self._listed[path] or status.size != size


def count_missing(files: Iterable[object]) -> int:
    """Return how many of a batch's files are missing."""
    return sum(isinstance(file, MissingFile) for file in files)


SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What a failed job raises."""
_ABOUT_CONTENTS = ("org.apache.parquet.", "org.apache.orc.", "java.lang.ClassCastException")


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

    def notice(self, stream: StreamDef) -> Notice:
        """Return a notice for the user."""
        return Notice(
            kind=NoticeKind.FILE_SET_ASIDE, stream=stream.name, subject=self.path, count=self.rows,
            about=self.public_reason,
        )  # fmt: skip


UnreadFile = SetAsideFile | MissingFile
"""A file that a batch is read without, or that was not read as listed."""


def file_notices(files: Sequence[UnreadFile], stream: StreamDef) -> list[Notice]:
    """Return notices for the user that name files, of missing ones only a few."""
    missing = [file.notice(stream) for file in files if isinstance(file, MissingFile)]
    notices = [file.notice(stream) for file in files if not isinstance(file, MissingFile)]
    notices += missing[:_MOST_NAMED]
    more = len(missing) - _MOST_NAMED
    if more > 0:
        notices.append(Notice(kind=NoticeKind.FILES_MISSING, subject=stream.name, count=more))
    return notices


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
    unread: list[UnreadFile] = [
        MissingFile(path=path, reason=VANISHED) for path in files if path not in present
    ]
    unread += _broken(spark, stream, [path for path in files if path in present])
    left_out = {file.path for file in unread}
    if not unread and planned is not None:
        # Files that cannot be read by a plan that was made for other contents.
        resized = [path for path, size in planned.sizes.items() if present[path].size != size]
        unread += [MissingFile(path=path, reason=CHANGED) for path in resized]
    if not unread:
        return batch, []
    return read_files(spark, stream, [path for path in files if path not in left_out]), unread


def _broken(spark: SparkSession, stream: StreamDef, files: Sequence[str]) -> Iterator[UnreadFile]:
    """Halve the files that cannot be read together until each is known."""
    try:
        if files:
            # To the end, in all declared columns.
            read_files(spark, stream, files).write.format("noop").mode("overwrite").save()
        return
    except (*SPARK_ERRORS, SourceError) as raised:
        error = raised
    if len(files) > 1:
        yield from _broken(spark, stream, files[: len(files) // 2])
        yield from _broken(spark, stream, files[len(files) // 2 :])
    elif not statuses(spark, files):
        yield MissingFile(path=files[0], reason=VANISHED)
    elif _is_of_contents(spark, files[0], error):
        yield _diagnosed(spark, stream, files[0], error)


def _is_of_contents(spark: SparkSession, path: str, error: Exception) -> bool:
    """Say whether an error is about a file's contents, of which the storage returns every byte."""
    for cause in java_causes(error):
        message = str(cause.getMessage())
        if "[FAILED_READ_FILE.FILE_NOT_EXIST]" in message:
            return False
        if "[FAILED_READ_FILE." in message or cause.getClass().getName().startswith(_ABOUT_CONTENTS):
            try:
                read, size = length(spark, path)
            except Py4JJavaError:
                return False
            return read == size
    return False


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
        causes, problem = java_causes(error), f"cannot be read as {format}"
        lines = str(causes[-1].getMessage()).strip().splitlines()
        reason = f"{problem}: {lines[0][:200] if lines else type(error).__name__}"
        # Spark's condition, and the class of the root cause.
        conditions = list(filter(None, (condition(str(cause.getMessage())) for cause in causes)))
        public = f"{problem} ({', '.join((*conditions[-1:], causes[-1].getClass().getSimpleName()))})"
    return SetAsideFile(path=path, reason=reason, public_reason=public, rows=rows)
