"""The interface of a folder, wherever it is, and marks of the checkpoint that created a folder.

A folder is removed with its contents only if it, or the folder around it, has the mark of the checkpoint that
removes it. The mark is a file that readers of datasets skip, under a name that no stream, query or sink gets.
"""

import json
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

from weft.errors import DamagedFile, EngineError, InternalError


def component(name: str) -> str:
    """Return the name of a file or folder inside a folder; raise InternalError if it could lead elsewhere.

    >>> component("lock.json")
    'lock.json'
    """
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise InternalError(
            f"{name!r} is no name of a file in a folder; names that people give go through file_name"
        )
    return name


class Folder(Protocol):
    """A folder of whole files: a file is either complete and durable, or not there.

    Every name is one component of a path: a name that could lead out of the folder raises InternalError.
    """

    @property
    def uri(self) -> str:
        """The folder's path or URI, for messages."""

    @property
    def spark_uri(self) -> str:
        """The folder's URI for Spark."""

    def folder(self, name: str) -> "Folder":
        """Return a folder inside; it need not exist yet."""

    def names(self) -> list[str]:
        """Return the sorted names of files and folders inside, without unfinished ones."""

    def has(self, name: str) -> bool:
        """Say whether a file or folder exists, without listing the folder."""

    def read(self, name: str) -> bytes:
        """Return a file's bytes; raise FileNotFoundError if there is no such file.

        Raise DamagedFile if the file system knows that they are not those that were written.
        """

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file; raise FileExistsError if it exists and is not to be replaced."""

    def rename(self, name: str, to: str) -> None:
        """Rename a file or folder; a file that has the new name is replaced."""

    def tidy(self) -> None:
        """Remove the remains of interrupted writes; no other writer may be active."""

    def delete(self, name: str) -> None:
        """Remove a file, if it exists. A folder that is not empty raises OSError."""

    def delete_tree(self, name: str, *, made_by: str) -> None:
        """Remove a folder with its contents, if it exists. Links are not followed.

        Raise EngineError unless the folder, or the one around it, has the mark of the checkpoint `made_by`.
        """

    def make(self) -> None:
        """Create the folder and its parents, if missing: for other programs to write into."""

    def prepare(self, names: Iterable[str]) -> None:
        """Create folders inside, if missing, where that would make the first write into each slower."""

    def sync(self, name: str) -> None:
        """Wait until what other programs wrote is durable: a file, or a folder with its contents.

        A remote file system is left to its own guarantees.
        """

    def try_out(self) -> None:
        """Raise OSError if no file can be written into the folder; what was there stays as it is."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep other engines out for the duration of the block, on this machine's disks."""


MARK = "_made.json"
"""The name of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Who created a folder."""

    checkpoint: str
    """The id of the checkpoint, or of the run if it has none."""
    stream: str
    """The stream whose data the folder holds."""


def mark_of(folder: Folder) -> Mark | None:
    """Return a folder's mark; None if it has none, or a damaged one."""
    try:
        stored = json.loads(folder.read(MARK))
        mark = Mark(checkpoint=str(stored["checkpoint"]), stream=str(stored["stream"]))
        return mark if stored["crc32"] == _checksum(mark) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, DamagedFile):
        return None


def put_mark(folder: Folder, mark: Mark) -> None:
    """Create a folder with its mark, before anything else is in it; an existing mark stays."""
    if mark_of(folder) is None:
        stored = json.dumps({**_record(mark), "crc32": _checksum(mark)}).encode()
        folder.write(MARK, stored, replace=True)


def check_made_by(folder: Folder, name: str, checkpoint: str) -> None:
    """Raise EngineError unless a checkpoint created a folder inside this one, or this one."""
    marks = [mark for mark in (mark_of(folder.folder(name)), mark_of(folder)) if mark is not None]
    if any(mark.checkpoint == checkpoint for mark in marks):
        return
    makers = " or ".join(mark.checkpoint for mark in marks)
    reason = f"it was made by checkpoint {makers}" if marks else f"it has no mark {MARK}"
    raise EngineError(
        f"{folder.uri}/{name} is not removed: checkpoint {checkpoint} did not make it, for {reason}; remove "
        "it yourself if nobody needs it"
    )


def _record(mark: Mark) -> dict[str, str]:
    return {"checkpoint": mark.checkpoint, "stream": mark.stream}


def _checksum(mark: Mark) -> int:
    return crc32(json.dumps(_record(mark)).encode())
