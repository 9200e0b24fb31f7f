"""What Weft asks of a place to keep files in."""

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
    """A folder of whole files: one is there with all its bytes, on the disk, or not at all.

    Every name is one component of a path: what could lead out of the folder raises InternalError.
    """

    @property
    def uri(self) -> str:
        """Where it is, as people are told."""

    @property
    def spark_uri(self) -> str:
        """Where it is, as Spark is told."""

    def folder(self, name: str) -> "Folder":
        """Return a folder inside; it need not be there yet."""

    def names(self) -> list[str]:
        """Return the files and folders inside, in order, without unfinished ones."""

    def has(self, name: str) -> bool:
        """Say whether there is such a file or folder; that takes no list of all."""

    def read(self, name: str) -> bytes:
        """Return a file's bytes; raise FileNotFoundError if there is none.

        Raise DamagedFile if the place knows that they are not those that were written.
        """

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file; raise FileExistsError if there is one already and it is not to be replaced."""

    def rename(self, name: str, to: str) -> None:
        """Give a file or folder another name; a file that has it is replaced."""

    def tidy(self) -> None:
        """Remove what writes that never ended left behind; nobody may be writing."""

    def delete(self, name: str) -> None:
        """Remove a file; it need not be there. A folder with something in it raises OSError."""

    def delete_tree(self, name: str, *, made_by: str) -> None:
        """Remove a folder with all that is in it; it need not be there. No link is followed.

        Raise EngineError unless it has the mark of the checkpoint `made_by`, or lies in a folder that has.
        """

    def make(self) -> None:
        """Make the folder, and those above it, if it is not there: for others to write into."""

    def sync(self, name: str) -> None:
        """Wait until what others wrote is on the disk: a file, or a folder with all that is in it.

        A place that is not this machine's disk makes it as safe as it can by itself.
        """

    def alone(self) -> AbstractContextManager[None]:
        """Have no other engine be here for as long as the block runs, as far as this machine's disks go."""
