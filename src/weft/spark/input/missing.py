"""Files that Spark listed for a batch and that were not read as they were then, named.

Spark records which files a batch consists of, and when each was last changed. Between that and the end of the
batch's job a file may vanish, or be replaced by another of the same name:

    listed ──────── planned ──────── read ──────── looked at again
       └── gone: Spark leaves it out,  └── gone: the job fails, and runs again
           silently                        without it (damaged.py)

What was read of a file that changed counts as rows do; the file is named, because that may be part of the old
contents, of the new, or of both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

from weft.query.logical import StreamDef
from weft.spark.input.file_status import FileStatus, is_on_this_machine, statuses
from weft.spark.input.files import planned_files
from weft.spark.input.sources import read_files

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

    def notice(self, stream: StreamDef) -> str:
        """Return a sentence for the user."""
        lost = "its rows are missing" if self.reason == VANISHED else "rows may be missing, or read in part"
        return f"stream {stream.name}: file {self.path} {self.reason}; {lost}"


class Named(Protocol):
    """Anything that names a file."""

    @property
    def path(self) -> str:
        """The file."""


class FileAccount:
    """The files that Spark listed for a batch, each to be read as it was listed."""

    def __init__(self, batch: DataFrame, stream: StreamDef, listed: Mapping[str, int]) -> None:
        """Inspect a batch that is about to be read; `listed` has its files with their times."""
        self._spark, self._listed = batch.sparkSession, listed
        planned = planned_files(batch) if listed else None
        self._sizes = None if planned is None else planned.sizes
        """The files that will be read, with their sizes; None if unknown."""
        self._skips = bool(listed) and _skips_missing(batch, stream)
        # Elsewhere a status takes time: one, after the job, shows all but a change before a file vanished.
        self._before = statuses(self._spark, filter(is_on_this_machine, listed))
        self.batch = batch
        """The batch, with each file in it once."""
        if planned is not None and planned.repeated:
            present = statuses(self._spark, planned.sizes)
            self._sizes = {path: size for path, size in planned.sizes.items() if path in present}
            self.batch = read_files(self._spark, stream, list(self._sizes))

    def missing(self, known: Iterable[Named]) -> list[MissingFile]:
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
            if status is None or not (self._differs(path, status) or _is_passed_over(path, status)):
                return VANISHED
            return CHANGED if self._differs(path, status) else None
        if now is None and self._skips:
            return VANISHED
        # A file that is gone now was there when it was read: the job would have failed.
        return CHANGED if any(status and self._differs(path, status) for status in (before, now)) else None

    def _differs(self, path: str, status: FileStatus) -> bool:
        size = (self._sizes or {}).get(path, status.size)
        return status.modified_ms != self._listed[path] or status.size != size


def _is_passed_over(path: str, status: FileStatus) -> bool:
    """Say whether Spark lists a file and rightly never plans to read it: it has no rows."""
    return status.size == 0 or path.rpartition("/")[2].startswith("_")


def _skips_missing(batch: DataFrame, stream: StreamDef) -> bool:
    """Say whether a job continues without a file that is gone, because the user has set that option."""
    options = {} if stream.source is None else {key.casefold(): value for key, value in stream.source.options}
    setting = options.get("ignoremissingfiles") or batch.sparkSession.conf.get(_SKIP_MISSING)
    return str(setting).casefold() == "true"


def count_missing(files: Iterable[object]) -> int:
    """Return how many of a batch's files are missing."""
    return sum(isinstance(file, MissingFile) for file in files)


def missing_notices(files: Sequence[MissingFile], stream: StreamDef) -> list[str]:
    """Return sentences for the user that name missing files, and the number of further ones."""
    notices = [file.notice(stream) for file in files[:_MOST_NAMED]]
    more = len(files) - len(notices)
    if more:
        notices.append(
            f"stream {stream.name}: and {more:,} more files vanished or were changed after they were listed; "
            "the quarantine names them, if one is kept"
        )
    return notices
