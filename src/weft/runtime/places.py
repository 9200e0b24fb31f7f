"""What a checkpoint's folders are called."""

from urllib.parse import quote
from uuid import uuid4

from weft.storage import Folder

QUARANTINE = "quarantine"
"""Where rows go that cannot be used, unless another place is given."""
_RESERVED = frozenset({QUARANTINE, "requests", "answers"})
"""Folders that are no stream's."""


def folder_of(stream: str) -> str:
    """Return the name of a stream's folder in a checkpoint."""
    quoted = quote(stream, safe="")
    return f"{quoted}%20" if quoted in _RESERVED else quoted


def identity(root: Folder) -> str:
    """Return the checkpoint's own name, given to it once."""
    try:
        return root.read("id").decode()
    except FileNotFoundError:
        root.write("id", uuid4().hex.encode())
        return root.read("id").decode()
