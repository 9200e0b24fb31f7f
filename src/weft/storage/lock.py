"""One engine at a time: a checkpoint is held by whoever runs on it.

On a local disk the operating system holds the lock, and lets go of it when the process ends, however it ends.
Elsewhere a file tells who holds it; its holder renews it, and who finds it old enough takes it over.
"""

import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from uuid import uuid4

from weft.errors import DamagedFile, InUse
from weft.storage.folder import Folder
from weft.storage.local import LocalFolder, make_folder

_NAME = "lock.json"
RENEWED_SECONDS = 10.0
_LOOKING_SECONDS = 0.5
"""Someone who only looks holds the lock for a moment."""
_STALE_SECONDS = 6 * RENEWED_SECONDS
_log = logging.getLogger("weft.storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a checkpoint."""

    id: str
    host: str
    pid: int
    since: float
    renewed: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lock:
    """A checkpoint held by this engine, until it is released."""

    def __init__(self, folder: Folder, *, on_loss: Callable[[Holder], None] | None = None) -> None:
        self._folder = folder
        now = time.time()
        self._holder = Holder(
            id=uuid4().hex, host=socket.gethostname(), pid=os.getpid(), since=now, renewed=now
        )
        self._on_loss = on_loss
        self._released = threading.Event()
        self._descriptor: int | None = None
        self._renewer = threading.Thread(target=self._renew, name="weft-lock", daemon=True)
        if isinstance(folder, LocalFolder):
            self._descriptor = _locked(folder.path, self._holder)
        else:
            self._take()
            self._renewer.start()

    def release(self) -> None:
        """Let others have the checkpoint."""
        if self._released.is_set():
            return
        self._released.set()
        if self._descriptor is not None:
            os.close(self._descriptor)
            return
        if self._renewer is not threading.current_thread():
            # A renewal under way would write the file again.
            self._renewer.join()
        if _held_by(self._folder, self._holder):
            self._folder.delete(_NAME)

    def _take(self) -> None:
        found = holder(self._folder)
        if found is not None:
            raise _in_use(self._folder.uri, found)
        try:
            # Of those who find no file one can write it; a stale one is replaced.
            self._folder.write(_NAME, _written(self._holder), replace=_NAME in self._folder.names())
        except FileExistsError:
            raise _in_use(self._folder.uri, holder(self._folder) or self._holder) from None
        if not _held_by(self._folder, self._holder):
            raise _in_use(self._folder.uri, holder(self._folder) or self._holder)

    def _renew(self) -> None:
        while not self._released.wait(RENEWED_SECONDS):
            try:
                held = _held_by(self._folder, self._holder)
                # A file that is gone is nobody's: a renewal may have removed it, and failed then.
                if not held and _NAME in self._folder.names():
                    other = holder(self._folder)
                    if other is not None and self._on_loss is not None:
                        self._on_loss(other)
                    return
                renewed = replace(self._holder, renewed=time.time())
                self._folder.write(_NAME, _written(renewed), replace=held)
            except (OSError, DamagedFile) as error:
                # There is time for several more tries.
                _log.warning("the lock cannot be renewed", extra={"error": str(error)})


def holder(folder: Folder) -> Holder | None:
    """Return who holds a checkpoint now, or None."""
    try:
        found = Holder(**json.loads(folder.read(_NAME)))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    except DamagedFile as error:
        raise DamagedFile(f"{error}; remove it if no engine runs on {folder.uri}") from error
    if isinstance(folder, LocalFolder):
        return found if _is_locked(folder.path) else None
    return found if time.time() - found.renewed < _STALE_SECONDS else None


def _locked(path: Path, own: Holder) -> int:
    make_folder(path)
    descriptor = os.open(path / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _LOOKING_SECONDS
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            os.close(descriptor)
            raise _in_use(str(path), holder(LocalFolder(path)) or own)
        time.sleep(0.02)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, _written(own))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path / _NAME, os.O_RDONLY)
    try:
        # Shared, so that those who only look do not see one another.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _held_by(folder: Folder, own: Holder) -> bool:
    try:
        return bool(json.loads(folder.read(_NAME))["id"] == own.id)
    except (FileNotFoundError, ValueError):
        return False


def _written(own: Holder) -> bytes:
    return json.dumps(asdict(own)).encode()


def _in_use(place: str, found: Holder) -> InUse:
    return InUse(
        f"checkpoint {place} is in use by {found}; stop that engine first "
        f"(weft stop {place}), or choose another checkpoint"
    )
