"""Marks in folders: which checkpoint made one, and for which stream.

A folder is removed with all that is in it only if it has the mark of the checkpoint that removes it, or lies
in one that has. The mark is a file that readers of datasets skip, and that no name of a stream, query or sink
can have.
"""

import json
from dataclasses import asdict, dataclass
from zlib import crc32

from weft.errors import DamagedFile, EngineError
from weft.storage.folder import Folder

MARK = "_made.json"
"""The name of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Who made a folder."""

    checkpoint: str
    """The name of the checkpoint, or of the run if it has none."""
    stream: str
    """What is in the folder is this stream's."""


def mark_of(folder: Folder) -> Mark | None:
    """Return a folder's mark; None if it has none, or none that can be relied on."""
    try:
        written = json.loads(folder.read(MARK))
        mark = Mark(checkpoint=str(written["checkpoint"]), stream=str(written["stream"]))
        return mark if written["crc32"] == _checksum(mark) else None
    except (FileNotFoundError, NotADirectoryError, ValueError, KeyError, TypeError, DamagedFile):
        return None


def put_mark(folder: Folder, mark: Mark) -> None:
    """Make a folder with its mark, before anything else is in it; one that has a mark keeps it."""
    if mark_of(folder) is None:
        written = json.dumps({**asdict(mark), "crc32": _checksum(mark)}).encode()
        folder.write(MARK, written, replace=True)


def check_made_by(folder: Folder, name: str, checkpoint: str) -> None:
    """Raise EngineError unless a checkpoint made a folder inside of this one, or this one."""
    marks = [mark_of(folder.folder(name)), mark_of(folder)]
    if any(mark is not None and mark.checkpoint == checkpoint for mark in marks):
        return
    found = " or ".join(mark.checkpoint for mark in marks if mark is not None)
    found = f"it was made by checkpoint {found}" if found else f"it has no mark {MARK}"
    raise EngineError(
        f"{folder.uri}/{name} is not removed: checkpoint {checkpoint} did not make it, for {found}; remove "
        "it yourself if nobody needs it"
    )


def _checksum(mark: Mark) -> int:
    return crc32(json.dumps(asdict(mark)).encode())
