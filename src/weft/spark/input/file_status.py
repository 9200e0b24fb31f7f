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
"""The separator of names, as it is in none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """What shows, without reading a file, whether it has changed."""

    modified_ms: int
    size: int


def is_on_this_machine(path: str) -> bool:
    """Say whether a file is on this machine, so that its status costs next to nothing."""
    return path.startswith("file:/")


def statuses(spark: SparkSession, paths: Iterable[str]) -> dict[str, FileStatus]:
    """Return the present statuses of files, without those that do not exist; paths are Spark's, unquoted.

    Raise SourceError if the storage fails.
    """
    by_path, elsewhere = dict[str, FileStatus](), list[str]()
    for path in paths:
        if not is_on_this_machine(path):
            elsewhere.append(path)
        elif (status := _status_here(path)) is not None:
            by_path[path] = status
    if elsewhere:
        remote = zip(elsewhere, _statuses_elsewhere(spark, elsewhere), strict=True)
        by_path.update({path: status for path, status in remote if status is not None})
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


def _statuses_elsewhere(spark: SparkSession, paths: Sequence[str]) -> Sequence[FileStatus | None]:
    """Return the statuses of files on another file system; None for those that are gone."""
    try:
        first = java_class("org.apache.hadoop.fs.Path")(paths[0])
        files = first.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
        return _statuses_together(files, paths) or [_status_alone(files, path) for path in paths]
    except Py4JJavaError as error:
        raise _unavailable(paths[0], str(error.java_exception)) from error


def _statuses_together(files: Any, paths: Sequence[str]) -> list[FileStatus]:
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
