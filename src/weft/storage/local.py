"""Folders on this machine."""

import fcntl
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from weft.errors import EngineError
from weft.storage.folder import check_made_by, component

_UNFINISHED = "."
"""Prefix of the names of files that are being written."""
_OWN_UNFINISHED = re.compile(r"\..+\.([0-9a-f]{8}|[0-9a-f-]{36}\.tmp)", re.DOTALL)
"""Their names, as `LocalFolder` and Hadoop's writer of checkpoints make them."""
_TRIAL_BYTES = 64 << 10
"""How much is written to find out whether there is room."""
_ALONE = ".weft.lock"
"""The file that `alone` locks."""
_ALONE_SECONDS = 20.0
"""How long `alone` waits for another process."""


class LocalFolder:
    """A folder on a local disk."""

    def __init__(self, path: Path, *, at: Path | None = None) -> None:
        """Resolve a path against the working directory of now; `at` is its absolute path, if known."""
        self._given = path
        # The folder stays the same when the process changes its working directory.
        self.path = path.absolute() if at is None else at

    @property
    def uri(self) -> str:
        """The folder's path, as it was given."""
        return str(self._given)

    @property
    def spark_uri(self) -> str:
        """The folder's URI, for a Java process with another working directory or default file system."""
        return f"file://{self.path}"

    def folder(self, name: str) -> "LocalFolder":
        """Return a folder inside."""
        return LocalFolder(self._given / name, at=self._inside(name))

    def names(self) -> list[str]:
        """Return the sorted names of files and folders inside."""
        try:
            return sorted(name for name in os.listdir(self.path) if not name.startswith(_UNFINISHED))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def has(self, name: str) -> bool:
        """Say whether a file or folder exists."""
        return self._inside(name).exists()

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        return self._inside(name).read_bytes()

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        """Write a file and wait until it is durable."""
        path = self._inside(name)
        make_folder(self.path)
        unfinished = self.path / f"{_UNFINISHED}{name}.{uuid4().hex[:8]}"
        try:
            with open(unfinished, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if replace:
                os.replace(unfinished, path)
            else:
                # A link fails where the name is taken; a rename would not.
                os.link(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
        try:
            sync(self.path)
        except OSError:
            if not replace:
                # After an error the caller may write the file again.
                path.unlink(missing_ok=True)
            raise

    def rename(self, name: str, to: str) -> None:
        """Rename a file or folder in one step, and wait until that is durable."""
        os.replace(self._inside(name), self._inside(to))
        sync(self.path)

    def tidy(self) -> None:
        """Remove unfinished files; other hidden ones belong to a user, or to the file system."""
        for path in self.path.glob(f"{_UNFINISHED}*"):
            if _OWN_UNFINISHED.fullmatch(path.name) and path.is_file():
                path.unlink()

    def delete(self, name: str) -> None:
        """Remove a file, or a link."""
        self._inside(name).unlink(missing_ok=True)

    def delete_tree(self, name: str, *, made_by: str) -> None:
        """Remove a folder that a checkpoint created, with its contents."""
        path = self._inside(name)
        if path.is_symlink():
            raise EngineError(f"{path} is not removed: it is a link, and no folder; remove it yourself")
        if path.exists():
            check_made_by(self, name, made_by)
            shutil.rmtree(path)

    def make(self) -> None:
        """Create the folder and its parents, and wait until they are durable."""
        make_folder(self.path)

    def prepare(self, names: Iterable[str]) -> None:
        """Create folders inside, if missing, and wait once until they are durable."""
        missing = [path for path in map(self._inside, names) if not path.is_dir()]
        if missing:
            make_folder(self.path)
            for path in missing:
                _make(path)
            sync(self.path)

    def sync(self, name: str) -> None:
        """Wait until what other programs wrote is durable, with the checksum files that Hadoop writes."""
        for path in (self._inside(name), self.path / f".{name}.crc"):
            if path.is_file():
                sync(path)
        for folder, _, files in os.walk(self.path / name):
            for file in files:
                sync(Path(folder, file))
            sync(Path(folder))
        sync(self.path)

    def try_out(self) -> None:
        """Write a file and remove it again, with the folders that were missing."""
        missing = [folder for folder in (self.path, *self.path.parents) if not folder.exists()]
        try:
            name = f"{_UNFINISHED}weft-trial.{uuid4().hex[:8]}"
            self.write(name, bytes(_TRIAL_BYTES))
            self.delete(name)
        finally:
            for folder in missing:
                # Another engine may have begun to write there.
                with suppress(OSError):
                    folder.rmdir()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold a lock on the folder, which the operating system releases when the process ends."""
        make_folder(self.path)
        descriptor = os.open(self.path / _ALONE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            # A process that was suspended may hold it for ever.
            if not try_lock(descriptor, seconds=_ALONE_SECONDS):
                raise TimeoutError(
                    f"another engine has locked {self.path} for more than {_ALONE_SECONDS:g} s; stop it, "
                    "or wait"
                )
            yield
        finally:
            os.close(descriptor)

    def _inside(self, name: str) -> Path:
        return self.path / component(name)


def try_lock(descriptor: int, *, seconds: float) -> bool:
    """Lock an open file for this process; return False if another still holds it after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
        time.sleep(0.02)


def make_folder(path: Path) -> None:
    """Create a folder and its missing parents, each durable before the next."""
    if not path.is_dir():
        make_folder(path.parent)
        _make(path)
        sync(path.parent)


def _make(path: Path) -> None:
    try:
        path.mkdir(exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(f"{path} is a file, and no folder") from None


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's entries, are durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
