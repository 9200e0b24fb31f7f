"""Keep what is not aggregated: quarantined and late rows, written before the batch is committed."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from weft.runtime.clock import RowCounts
from weft.spark.quarantine import Kept, batch_folder, batch_of, write_set_aside
from weft.storage import Folder
from weft.storage.marks import Mark, put_mark
from weft.storage.names import file_name

Rows = Callable[[], DataFrame]
"""Finds the rows of a batch that were not aggregated, in a second pass over it."""


def part_of(folder: Folder, origin: str) -> Folder:
    """Return the part of a shared folder that runs of one origin write to, and remove things from."""
    return folder.folder(f"origin={origin}")


def stream_folder(stream: str) -> str:
    """Return the name of the folder that holds what a stream has set aside.

    >>> stream_folder("a/b")
    'stream=a%2Fb'
    """
    return f"stream={file_name(stream)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """Where a stream's rows go that are not aggregated; None for those that are only counted."""

    stream: str
    origin: str
    """The name of the checkpoint, or of the run: what it did not make, it does not remove."""
    quarantine: Folder | None
    late: Folder | None

    def keep(self, rows: Rows | None, counts: RowCounts, batch: int) -> None:
        """Write a batch's rows; what an earlier try of the batch has written is replaced."""
        wanted: list[tuple[Folder, Kept]] = []
        if self.quarantine is not None and (counts.quarantined or counts.missing):
            wanted.append((self.quarantine, "quarantine"))
        if self.late is not None and counts.late:
            wanted.append((self.late, "late"))
        if rows is None or not wanted:
            return
        found = rows()
        for folder, kind in wanted:
            own = self._claimed(folder)
            own.delete_tree(batch_folder(batch), made_by=self.origin)
            # Spark does not wait for the disk; the commit that counts the rows does.
            write_set_aside(found, own.uri, batch=batch, kind=kind)
            own.sync(batch_folder(batch))

    def forget_after(self, batch: int) -> None:
        """Remove what was written for batches that were never committed: they will be judged anew."""
        for folder in (self.quarantine, self.late):
            if folder is None:
                continue
            own = folder.folder(stream_folder(self.stream))
            for name in own.names():
                number = batch_of(name)
                if number is not None and number > batch:
                    self._claimed(folder).delete_tree(name, made_by=self.origin)

    def _claimed(self, folder: Folder) -> Folder:
        """Return the stream's folder in one that only this checkpoint writes to, with its mark."""
        own = folder.folder(stream_folder(self.stream))
        put_mark(own, Mark(checkpoint=self.origin, stream=self.stream))
        return own
