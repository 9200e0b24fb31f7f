"""Keep what is not aggregated: quarantined and late rows, written before the batch is committed."""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from weft.errors import Fenced
from weft.runtime.clock import RowCounts
from weft.sinks.fence import Claim, Lineage, read_claim
from weft.spark.quarantine import Kept, batch_folder, batch_of, write_set_aside
from weft.storage import Folder
from weft.storage.marks import Mark, put_mark
from weft.storage.names import file_name

_CLAIM = "_claim.json"
"""Tells who wrote last; readers of datasets skip it."""
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
    lineage: Lineage | None = None
    """The checkpoint's, by which these folders know who wrote to them."""
    held: Callable[[], None] | None = None
    """Raises an error if the checkpoint may be another engine's by now."""

    def keep(self, rows: Rows | None, counts: RowCounts, batch: int) -> None:
        """Write a batch's rows; what an earlier try of the batch has written is replaced."""
        wanted: list[tuple[Folder, Kept]] = []
        if self.quarantine is not None and (counts.quarantined or counts.missing):
            wanted.append((self.quarantine, "quarantine"))
        if self.late is not None and counts.late:
            wanted.append((self.late, "late"))
        if rows is None or not wanted:
            return
        if self.held is not None:
            self.held()
        found = rows()
        for folder, kind in wanted:
            own = self._claimed(folder)
            own.delete_tree(batch_folder(batch), made_by=self.origin)
            # Spark does not wait for the disk; the commit that counts the rows does.
            write_set_aside(found, own.spark_uri, batch=batch, kind=kind)
            own.sync(batch_folder(batch))

    def forget_after(self, batch: int, *, rewind: bool = False) -> None:
        """Remove what was written for batches that were never committed: they will be judged anew.

        What an incarnation wrote that the checkpoint does not know goes only with `rewind`.
        """
        for folder in (self.quarantine, self.late):
            if folder is None:
                continue
            own = folder.folder(stream_folder(self.stream))
            for name in own.names():
                number = batch_of(name)
                if number is not None and number > batch:
                    self._claimed(folder, rewind=rewind).delete_tree(name, made_by=self.origin)

    def _claimed(self, folder: Folder, *, rewind: bool = False) -> Folder:
        """Return the stream's folder in one that only this checkpoint writes to, with its mark."""
        own = folder.folder(stream_folder(self.stream))
        put_mark(own, Mark(checkpoint=self.origin, stream=self.stream))
        if self.lineage is not None:
            _claim(own, self.lineage, rewind=rewind)
        return own


def _claim(folder: Folder, lineage: Lineage, *, rewind: bool) -> None:
    """Have a folder know the current incarnation; raise Fenced if it knows one that the lineage does not."""
    name = f"{folder.uri}/{_CLAIM}"
    try:
        seen = read_claim(folder.read(_CLAIM), name=name).lineage
    except FileNotFoundError:
        seen = None
    if seen is not None and seen.current.token == lineage.current.token:
        return
    if seen is not None and lineage.last_of(seen.current.token) is None and not rewind:
        raise Fenced(
            f"{folder.uri} has rows that {seen.current} has set aside, which this checkpoint "
            f"({lineage.place}) does not know: it is an older copy, or was run beside the other. Nothing was "
            "changed there. Go on with the other checkpoint, name another folder, or take this one back with "
            "weft run --rewind"
        )
    folder.write(_CLAIM, Claim(through=-1, lineage=lineage).as_json().encode(), replace=True)
