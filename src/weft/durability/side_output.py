"""Store rows that are not aggregated, quarantined and late ones, before the batch is committed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyspark.sql import DataFrame

from weft.errors import DamagedFile, Fenced
from weft.sinks.fence import Claim, Lineage, read_claim
from weft.spark.input.quarantine import Kept, batch_folder, batch_of, write_set_aside
from weft.state.clock import RowCounts
from weft.storage import Folder
from weft.storage.folder import Mark, put_mark
from weft.storage.names import file_name

_CLAIM = "_claim.json"
"""Says which engine wrote last; readers of datasets skip it."""
Rows = Callable[[], DataFrame]
"""Finds the rows of a batch that were not aggregated, in a second pass over it."""


def part_of(folder: Folder, origin: str) -> Folder:
    """Return the part of a shared folder that runs of one origin write to, and remove things from."""
    return folder.folder(f"origin={origin}")


def stream_folder(stream: str) -> str:
    """Return the name of the folder for the rows of a stream.

    >>> stream_folder("a/b")
    'stream=a%2Fb'
    """
    return f"stream={file_name(stream)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """Where rows of a stream go that are not aggregated; None for rows that are only counted."""

    stream: str
    origin: str
    """The name of the checkpoint, or of the execution: it removes only what it made."""
    quarantine: Folder | None
    late: Folder | None
    lineage: Lineage | None = None
    """The checkpoint's lineage, by which these folders know which engine wrote to them."""
    inside: Folder | None = None
    """The folder among them that lies in the checkpoint; copies may have it later than the commits."""
    held: Callable[[], None] | None = None
    """Raises an error if another engine may have taken over the checkpoint."""

    def keep(self, rows: Rows | None, counts: RowCounts, batch: int) -> tuple[Folder, ...]:
        """Write a batch's rows in place of those of an earlier attempt; return the folders that got any.

        `note_commit` needs these.
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
        frame = rows()
        for folder, kind in wanted:
            own = self._claimed(folder)
            own.delete_tree(batch_folder(batch), made_by=self.origin)
            # Spark does not wait for the disk; the commit that counts the rows does.
            write_set_aside(frame, own.spark_uri, batch=batch, kind=kind)
            own.sync(batch_folder(batch))
        return tuple(folder for folder, _ in wanted)

    def note_commit(self, kept: Iterable[Folder], commit: int) -> None:
        """Store in folders through which commit they have rows; older copies are refused from then on.

        Only once it is durable: an engine that died in the middle of a batch is not an older copy.
        """
        for folder in kept if self.lineage is not None else ():
            # The commit is made, and the next one will store as much.
            with suppress(OSError):
                self._claimed(folder, through=commit)

    def forget_after(self, batch: int, *, rewind: bool = False) -> None:
        """Remove what was written for batches that were never committed: they will be processed again.

        What an incarnation that the checkpoint does not know has written is removed only with `rewind`.
        """
        outdated: list[tuple[Folder, list[str]]] = []
        for folder in (self.quarantine, self.late):
            if folder is None:
                continue
            own = folder.folder(stream_folder(self.stream))
            names = [
                name for name in own.names() if (number := batch_of(name)) is not None and number > batch
            ]
            if names or (rewind and own.has(_CLAIM)):
                outdated.append((self._claimed(folder, rewind=rewind), names))
        # Only once each of them is known to be this checkpoint's.
        for own, names in outdated:
            for name in names:
                own.delete_tree(name, made_by=self.origin)

    def _claimed(self, folder: Folder, *, through: int | None = None, rewind: bool = False) -> Folder:
        """Return the stream's folder in another, with the mark and the claim of this checkpoint."""
        own = folder.folder(stream_folder(self.stream))
        put_mark(own, Mark(checkpoint=self.origin, stream=self.stream))
        if self.lineage is not None:
            seen = _seen(own, rewind=rewind)
            if seen is not None and not rewind:
                _refuse_unknown(own.uri, self.lineage, seen, shared=folder is not self.inside)
            current, before = self.lineage.current, self.lineage.current.after
            by = None if seen is None or seen.lineage is None else seen.lineage.current
            is_own = by is not None and by.token == current.token
            if seen is not None and is_own:
                before = seen.through
            new = before if through is None else max(before, through)
            if not is_own or new != before:
                claim = Claim(through=new, lineage=self.lineage)
                own.write(_CLAIM, claim.as_json().encode(), replace=True)
        return own


def _seen(folder: Folder, *, rewind: bool) -> Claim | None:
    """Return which engine wrote to a folder last; with `rewind`, None if that cannot be read."""
    try:
        return read_claim(folder.read(_CLAIM), name=f"{folder.uri}/{_CLAIM}")
    except FileNotFoundError:
        return None
    except DamagedFile:
        if rewind:
            return None
        raise


def _refuse_unknown(uri: str, lineage: Lineage, seen: Claim, *, shared: bool) -> None:
    """Raise Fenced if a folder has rows of an incarnation, or of a commit, that a lineage does not know."""
    if seen.lineage is None:
        return
    by = seen.lineage.current
    known = lineage.last_of(by.token)
    # Claims of older versions have no commit.
    if known is None or (shared and seen.through > known):
        until = f" through commit {seen.through:09d}" if seen.through >= 0 else ""
        raise Fenced(
            f"{uri} has rows that {by} has set aside{until}, which this checkpoint "
            f"({lineage.path}) does not know: it is an older copy, or was run beside the other. Nothing was "
            "changed there. Go on with the other checkpoint, name another folder, or take this one back with "
            "weft run --rewind"
        )
