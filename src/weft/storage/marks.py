"""Marks in folders: which checkpoint created a folder, and for which stream.

A folder is removed with its contents only if it, or the folder around it, has the mark of the checkpoint that
removes it. The mark is a file that readers of datasets skip, under a name that no stream, query or sink gets.
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
        stored = json.dumps({**asdict(mark), "crc32": _checksum(mark)}).encode()
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


def _checksum(mark: Mark) -> int:
    return crc32(json.dumps(asdict(mark)).encode())
