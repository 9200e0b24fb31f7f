"""Folders on this machine."""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from weft.errors import EngineError
from weft.storage.folder import component
from weft.storage.marks import check_made_by

_UNFINISHED = "."
"""Names of files that are being written begin with it."""
_OWN_UNFINISHED = re.compile(r"\..+\.([0-9a-f]{8}|[0-9a-f-]{36}\.tmp)", re.DOTALL)
"""What they are called, by `LocalFolder` and by Hadoop's writer of checkpoints."""
_ALONE = ".weft.lock"
"""The file that is locked by whoever wants to be alone in a folder."""
_ALONE_SECONDS = 20.0
"""How long who wants to be alone waits for another to leave."""


class LocalFolder:
    """A folder on a local disk."""

    def __init__(self, path: Path, *, at: Path | None = None) -> None:
        """Take a path as of now; `at` is where it leads to, if that is known."""
        self._given = path
        # It stays there when the process goes to work in another folder.
        self.path = path.absolute() if at is None else at

    @property
    def uri(self) -> str:
        """The folder's path, as it was given."""
        return str(self._given)

    @property
    def spark_uri(self) -> str:
        """The folder's path, also for a Java process in another folder or with another file system."""
        return f"file://{self.path}"

    def folder(self, name: str) -> "LocalFolder":
        """Return a folder inside."""
        return LocalFolder(self._given / name, at=self._inside(name))

    def names(self) -> list[str]:
        """Return the files and folders inside, in order."""
        try:
            return sorted(name for name in os.listdir(self.path) if not name.startswith(_UNFINISHED))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def has(self, name: str) -> bool:
        """Say whether there is such a file or folder."""
        return self._inside(name).exists()

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        return self._inside(name).read_bytes()

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file and wait until it is on the disk."""
        path = self._inside(name)
        make_folder(self.path)
        with self._unfinished(name) as unfinished:
            with open(unfinished, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.replace(unfinished, path)
            else:
                # A link fails where the name is taken; a rename would not.
                os.link(unfinished, path)
        try:
            sync(self.path)
        except OSError:
            if not replace:
                # Whoever is told that it failed may write it again.
                path.unlink(missing_ok=True)
            raise

    def rename(self, name: str, to: str) -> None:
        """Give a file or folder another name, at once, and wait until that is on the disk."""
        os.replace(self._inside(name), self._inside(to))
        sync(self.path)

    def tidy(self) -> None:
        """Remove unfinished files; other hidden ones are a user's, or the file system's."""
        for found in self.path.glob(f"{_UNFINISHED}*"):
            if _OWN_UNFINISHED.fullmatch(found.name) and found.is_file():
                found.unlink()

    def delete(self, name: str) -> None:
        """Remove a file, or a link."""
        self._inside(name).unlink(missing_ok=True)

    def delete_tree(self, name: str, *, made_by: str) -> None:
        """Remove a folder that a checkpoint made, with all that is in it."""
        path = self._inside(name)
        if path.is_symlink():
            raise EngineError(f"{path} is not removed: it is a link, and no folder; remove it yourself")
        if path.exists():
            check_made_by(self, name, made_by)
            shutil.rmtree(path)

    def make(self) -> None:
        """Make the folder, and those above it, and wait until they are on the disk."""
        make_folder(self.path)

    def sync(self, name: str) -> None:
        """Wait until what others wrote is on the disk, with the checksums that Hadoop keeps beside a file."""
        for path in (self._inside(name), self.path / f".{name}.crc"):
            if path.is_file():
                sync(path)
        for place, _, files in os.walk(self.path / name):
            for file in files:
                sync(Path(place, file))
            sync(Path(place))
        sync(self.path)

    def _inside(self, name: str) -> Path:
        return self.path / component(name)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock on the folder, which the operating system lets go of with the process."""
        make_folder(self.path)
        descriptor = os.open(self.path / _ALONE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _await_lock(descriptor, self.path)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _unfinished(self, name: str) -> Iterator[Path]:
        path = self.path / f"{_UNFINISHED}{name}.{uuid4().hex[:8]}"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)


def _await_lock(descriptor: int, folder: Path) -> None:
    """Lock a file; raise TimeoutError if another process has it for long, for that one may be stopped."""
    deadline = time.monotonic() + _ALONE_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"another engine is at {folder} for more than {_ALONE_SECONDS:g} s; stop it, or wait"
                ) from None
        time.sleep(0.02)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, as far as they are not there, each on the disk before the next."""
    if not path.is_dir():
        make_folder(path.parent)
        try:
            path.mkdir(exist_ok=True)
        except FileExistsError:
            raise NotADirectoryError(f"{path} is a file, and no folder") from None
        sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's list of files, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
