"""The names of a checkpoint's folders, and the checkpoint's own name."""

import logging
import re
from urllib.parse import quote, unquote
from uuid import uuid4
from zlib import crc32

from weft.errors import DamagedFile, EngineError
from weft.storage import Folder
from weft.storage.folder import Mark, mark_of, put_mark
from weft.storage.names import file_name

QUARANTINE = "quarantine"
"""The folder of rows that cannot be used, unless another is given."""
_ID = "id"
_FOLDERS = frozenset({QUARANTINE, "requests", "answers"})
_RESERVED = _FOLDERS | {_ID, "lock.json"}
"""Names in a checkpoint that are not those of streams."""
_WRITTEN = re.compile(rb"([0-9a-f]{32})(?: ([0-9a-f]{8}))?\n?")
"""A checkpoint's name and its checksum, which only older and hand-written ones lack."""
_LONGEST = 255
"""Maximum length of a name in file systems."""
_log = logging.getLogger("weft.durability")


def folder_of(stream: str) -> str:
    """Return the name of a stream's folder in a checkpoint.

    >>> folder_of("trades"), folder_of("a/b"), folder_of("requests")
    ('trades', 'a%2Fb', '%72equests')
    """
    return file_name(stream, reserved=_RESERVED)


def find_folder(root: Folder, stream: str) -> Folder:
    """Return a stream's folder, which may not exist; one named by an older version is renamed."""
    name, older = folder_of(stream), _older_folder_of(stream)
    if older is not None and older != name and not root.has(name) and _has_commits(root.folder(older)):
        mark = mark_of(root.folder(older))
        # If it has another stream's mark, a newer version named it, for that stream.
        if mark is None or mark.stream == stream:
            root.rename(older, name)
    return root.folder(name)


def has_folder(root: Folder, stream: str) -> bool:
    """Return whether a checkpoint has a folder of a stream."""
    find_folder(root, stream)
    return root.has(folder_of(stream))


def claim_folder(folder: Folder, stream: str, *, checkpoint: str) -> None:
    """Make a stream's folder if there is none, and mark it."""
    put_mark(folder, Mark(checkpoint=checkpoint, stream=stream))


def remove_folder(root: Folder, stream: str, *, checkpoint: str) -> None:
    """Remove the folder of a stream that did not start; if that fails, log it."""
    try:
        root.delete_tree(folder_of(stream), made_by=checkpoint)
    except (OSError, EngineError) as error:
        fields = {"stream": stream, "problem": str(error)}
        _log.warning("a stream that did not start leaves its folder", extra=fields)


def stream_of(folder: Folder, name: str) -> str:
    """Return the stream of a checkpoint's folder, by its mark, or by its name if it is an older one."""
    mark = mark_of(folder)
    return unquote(name).strip() if mark is None else mark.stream


def _older_folder_of(stream: str) -> str | None:
    """Return a stream's folder name in versions without marks; None if it was outside the checkpoint."""
    quoted = quote(stream, safe="", errors="surrogatepass")
    if quoted in ("", ".", "..") or len(quoted) > _LONGEST:
        return None
    return f"{quoted}%20" if quoted in _RESERVED else quoted


def identity(root: Folder) -> str:
    """Return the checkpoint's own name, made once; raise DamagedFile if it cannot be read."""
    try:
        written = root.read(_ID)
    except FileNotFoundError:
        # With a new name, sinks would take their results for those of another checkpoint.
        if any(_has_commits(root.folder(name)) for name in root.names() if name not in _FOLDERS):
            raise _lost(root, "is missing") from None
        written = _checked(uuid4().hex.encode())
        root.write(_ID, written)
    except DamagedFile as error:
        raise _lost(root, f"is damaged ({error})") from error
    parts = _WRITTEN.fullmatch(written)
    if parts is None or (parts[2] is not None and written != _checked(parts[1])):
        raise _lost(root, "is damaged")
    return parts[1].decode()


def _checked(name: bytes) -> bytes:
    return b"%b %08x\n" % (name, crc32(name))


def _has_commits(stream: Folder) -> bool:
    return any(stream.folder(kind).names() for kind in ("commits", "snapshots"))


def _lost(root: Folder, problem: str) -> DamagedFile:
    return DamagedFile(
        f"{root.uri}/{_ID} {problem}: it is the name by which sinks know the checkpoint's results; restore "
        "it from a copy (its 32 digits are also in the name of a folder origin=… where --quarantine or "
        "--late say, and in PostgreSQL's table weft_delivered), or begin with a new checkpoint"
    )
