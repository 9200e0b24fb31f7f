"""What a checkpoint's folders are called, and what it calls itself."""

import re
from urllib.parse import quote
from uuid import uuid4
from zlib import crc32

from weft.errors import DamagedFile
from weft.storage import Folder

QUARANTINE = "quarantine"
"""Where rows go that cannot be used, unless another place is given."""
_ID = "id"
_FOLDERS = frozenset({QUARANTINE, "requests", "answers"})
_RESERVED = _FOLDERS | {_ID, "lock.json"}
"""Names in a checkpoint that are no stream's."""
_WRITTEN = re.compile(rb"([0-9a-f]{32})(?: ([0-9a-f]{8}))?\n?")
"""A checkpoint's name and its checksum, which it is not without unless it is older, or written by hand."""


def folder_of(stream: str) -> str:
    """Return the name of a stream's folder in a checkpoint."""
    quoted = quote(stream, safe="")
    return f"{quoted}%20" if quoted in _RESERVED else quoted


def identity(root: Folder) -> str:
    """Return the checkpoint's own name, given to it once; raise DamagedFile if it cannot be told."""
    try:
        written = root.read(_ID)
    except FileNotFoundError:
        # Under another name sinks would take what is there for another history's.
        if _has_history(root):
            raise _lost(root, "is missing") from None
        written = _checked(uuid4().hex.encode())
        root.write(_ID, written)
    except DamagedFile as error:
        raise _lost(root, f"is damaged ({error})") from error
    found = _WRITTEN.fullmatch(written)
    if found is None or (found[2] is not None and written != _checked(found[1])):
        raise _lost(root, "is damaged")
    return found[1].decode()


def _checked(name: bytes) -> bytes:
    return b"%b %08x\n" % (name, crc32(name))


def _has_history(root: Folder) -> bool:
    streams = [root.folder(name) for name in root.names() if name not in _FOLDERS]
    return any(one.folder(kind).names() for one in streams for kind in ("commits", "snapshots"))


def _lost(root: Folder, problem: str) -> DamagedFile:
    return DamagedFile(
        f"{root.uri}/{_ID} {problem}: it is the name by which sinks know the checkpoint's results; restore "
        "it from a copy (its 32 digits are also in the name of a folder origin=… where --quarantine or "
        "--late say, and in PostgreSQL's table weft_delivered), or begin with a new checkpoint"
    )
