"""When files were last changed and how large they are, wherever they are."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from weft.errors import SourceError
from weft.spark.session.gateway import java_class

_STATUS = re.compile(
    r"; isDirectory=false; length=(\d+); replication=\d+; blocksize=\d+; modification_time=(\d+);"
)
"""A file as Hadoop describes it."""
_BETWEEN = "\0"
"""What stands between names, for it is in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What tells whether a file is as it was, without a look inside."""

    modified_ms: int
    size: int


def is_on_this_machine(path: str) -> bool:
    """Say whether a file is on this machine, so that a look at it costs next to nothing."""
    return path.startswith("file:/")


def statuses(spark: SparkSession, paths: Iterable[str]) -> dict[str, FileStatus]:
    """Return how files are now, without those that are not there; paths are as Spark has them, unquoted.

    Raise SourceError if the storage does not tell.
    """
    found, elsewhere = dict[str, FileStatus](), list[str]()
    for path in paths:
        if not is_on_this_machine(path):
            elsewhere.append(path)
        elif (status := _status_here(path)) is not None:
            found[path] = status
    if elsewhere:
        told = zip(elsewhere, _statuses_elsewhere(spark, elsewhere), strict=True)
        found.update({path: status for path, status in told if status is not None})
    return found


def _status_here(path: str) -> FileStatus | None:
    try:
        # As Hadoop does: what a link leads to counts, and parts of a millisecond do not.
        found = os.stat("/" + path.removeprefix("file:").lstrip("/"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _hidden(path, str(error.strerror)) from error
    return FileStatus(modified_ms=found.st_mtime_ns // 1_000_000, size=found.st_size)


def _hidden(path: str, reason: str) -> SourceError:
    return SourceError(f"file {path} cannot be looked at ({reason}); mend that, and start the stream again")


def _statuses_elsewhere(spark: SparkSession, paths: Sequence[str]) -> Sequence[FileStatus | None]:
    """Return what a file system of Hadoop's tells of files; None for those that are gone."""
    try:
        first = java_class("org.apache.hadoop.fs.Path")(paths[0])
        files = first.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return _told_together(files, paths) or [_told_alone(files, path) for path in paths]
    except Py4JJavaError as error:
        raise _hidden(paths[0], str(error.java_exception)) from error


def _told_together(files: Any, paths: Sequence[str]) -> list[FileStatus]:
    """Return what a file system tells of files in one call, however many they are; nothing if one is gone."""
    names = java_class("java.util.regex.Pattern").compile(_BETWEEN).split(_BETWEEN.join(paths))
    places = java_class("org.apache.hadoop.util.StringUtils").stringToPath(names)
    try:
        answer = java_class("scala.Predef").genericWrapArray(files.listStatus(places))
    except Py4JJavaError as error:
        if _is_gone(error):
            return []
        raise
    told = _STATUS.findall(answer.mkString("\n"))
    # A name may read like a status, and a folder may have taken a file's place.
    is_clear = len(told) == len(paths) == answer.length()
    return [FileStatus(modified_ms=int(modified), size=int(size)) for size, modified in told if is_clear]


def _told_alone(files: Any, path: str) -> FileStatus | None:
    try:
        found = files.getFileStatus(java_class("org.apache.hadoop.fs.Path")(path))
    except Py4JJavaError as error:
        if _is_gone(error):
            return None
        raise
    return FileStatus(modified_ms=int(found.getModificationTime()), size=int(found.getLen()))


def _is_gone(error: Py4JJavaError) -> bool:
    return str(error.java_exception.getClass().getName()) == "java.io.FileNotFoundException"
