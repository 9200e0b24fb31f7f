"""Keep what is not aggregated: quarantined and late rows, written before the batch is committed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame

from weft.errors import DamagedFile, Fenced
from weft.sinks.fence import Claim, Lineage, read_claim
from weft.spark.input.quarantine import Kept, batch_folder, batch_of, write_set_aside
from weft.state.clock import RowCounts
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
    inside: Folder | None = None
    """Which of them lies in the checkpoint, and is copied with it, perhaps a moment after its commits."""
    held: Callable[[], None] | None = None
    """Raises an error if the checkpoint may be another engine's by now."""

    def keep(self, rows: Rows | None, counts: RowCounts, batch: int) -> tuple[Folder, ...]:
        """Write a batch's rows; what an earlier try of the batch has written is replaced.

        Return the folders that have some, which `note_commit` is to be told.
        """
        wanted: list[tuple[Folder, Kept]] = []
        if self.quarantine is not None and (counts.quarantined or counts.missing):
            wanted.append((self.quarantine, "quarantine"))
        if self.late is not None and counts.late:
            wanted.append((self.late, "late"))
        if rows is None or not wanted:
            return ()
        if self.held is not None:
            self.held()
        found = rows()
        for folder, kind in wanted:
            own = self._claimed(folder)
            own.delete_tree(batch_folder(batch), made_by=self.origin)
            # Spark does not wait for the disk; the commit that counts the rows does.
            write_set_aside(found, own.spark_uri, batch=batch, kind=kind)
            own.sync(batch_folder(batch))
        return tuple(folder for folder, _ in wanted)

    def note_commit(self, kept: Iterable[Folder], commit: int) -> None:
        """Have folders know through which commit they have rows: copies without it are refused from then on.

        Not before it is durable: an engine that dies with a batch half done is not a copy of itself.
        """
        for folder in kept if self.lineage is not None else ():
            # The commit stands, and the next one tells as much.
            with suppress(OSError):
                self._claimed(folder, through=commit)

    def forget_after(self, batch: int, *, rewind: bool = False) -> None:
        """Remove what was written for batches that were never committed: they will be judged anew.

        What an incarnation wrote that the checkpoint does not know goes only with `rewind`.
        """
        found: list[tuple[Folder, list[str]]] = []
        for folder in (self.quarantine, self.late):
            if folder is None:
                continue
            own = folder.folder(stream_folder(self.stream))
            names = [
                name for name in own.names() if (number := batch_of(name)) is not None and number > batch
            ]
            if names or (rewind and own.has(_CLAIM)):
                found.append((self._claimed(folder, rewind=rewind), names))
        # Not before each of them has been found to be this checkpoint's.
        for own, names in found:
            for name in names:
                own.delete_tree(name, made_by=self.origin)

    def _claimed(self, folder: Folder, *, through: int | None = None, rewind: bool = False) -> Folder:
        """Return the stream's folder in one that only this checkpoint writes to, with its mark."""
        own = folder.folder(stream_folder(self.stream))
        put_mark(own, Mark(checkpoint=self.origin, stream=self.stream))
        if self.lineage is not None:
            seen = _seen(own, rewind=rewind)
            if seen is not None and not rewind:
                _judge(own.uri, self.lineage, seen, shared=folder is not self.inside)
            _claim(own, self.lineage, seen, through=through)
        return own


def _seen(folder: Folder, *, rewind: bool) -> Claim | None:
    """Return who wrote to a folder last; with `rewind`, it does not matter that this cannot be told."""
    try:
        return read_claim(folder.read(_CLAIM), name=f"{folder.uri}/{_CLAIM}")
    except FileNotFoundError:
        return None
    except DamagedFile:
        if rewind:
            return None
        raise


def _judge(place: str, lineage: Lineage, seen: Claim, *, shared: bool) -> None:
    """Raise Fenced if a folder has rows of an incarnation, or of a commit, that a lineage does not know."""
    if seen.lineage is None:
        return
    by = seen.lineage.current
    known = lineage.last_of(by.token)
    # Claims of older versions tell of no commit.
    if known is None or (shared and seen.through > known):
        raise Fenced(
            f"{place} has rows that {by} has set aside{_until(seen)}, which this checkpoint "
            f"({lineage.path}) does not know: it is an older copy, or was run beside the other. Nothing was "
            "changed there. Go on with the other checkpoint, name another folder, or take this one back with "
            "weft run --rewind"
        )


def _until(seen: Claim) -> str:
    return f" through commit {seen.through:09d}" if seen.through >= 0 else ""


def _claim(folder: Folder, lineage: Lineage, seen: Claim | None, *, through: int | None) -> None:
    """Have a folder know the current incarnation, and through which commit it has rows, if that is more."""
    current = lineage.current
    own = seen is not None and seen.lineage is not None and seen.lineage.current.token == current.token
    before = seen.through if own and seen is not None else current.after
    new = before if through is None else max(before, through)
    if not own or new != before:
        folder.write(_CLAIM, Claim(through=new, lineage=lineage).as_json().encode(), replace=True)
