"""The interface of a folder, wherever it is."""

from contextlib import AbstractContextManager
from typing import Protocol

from weft.errors import InternalError


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

    def sync(self, name: str) -> None:
        """Wait until what other programs wrote is durable: a file, or a folder with its contents.

        A remote file system is left to its own guarantees.
        """

    def alone(self) -> AbstractContextManager[None]:
        """Keep other engines out for the duration of the block, on this machine's disks."""
