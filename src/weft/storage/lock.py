"""One engine at a time: a checkpoint is held by whoever runs on it.

On a local disk the operating system holds the lock, and lets go of it when the process ends, however it ends.
So it does whether the folder is named by its path or by its URI: the file that is locked is never replaced.
Elsewhere a file tells who holds it; its holder renews it, and who finds it old enough, and not renewed for a
while of watching, takes it over: clocks of two machines may differ. A holder that could not renew it gives up
before that.
"""

import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from uuid import uuid4

from weft.errors import DamagedFile, EngineError, InUse
from weft.storage.folder import Folder
from weft.storage.hadoop import HadoopFolder
from weft.storage.local import LocalFolder

_NAME = "lock.json"
RENEWED_SECONDS = 10.0
_WATCHED = 1.5
"""For how many renewals a lock that looks stale is watched before it is taken over."""
_LOOKING_SECONDS = 0.5
"""Someone who only looks holds the lock for a moment."""
_STALE_SECONDS = 6 * RENEWED_SECONDS
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Goes on while the machine sleeps, where there is such a clock."""
_log = logging.getLogger("weft.storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Who holds a checkpoint."""

    id: str
    host: str
    pid: int
    renewed: float

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


class Lock:
    """A checkpoint held by this engine, until it is released."""

    def __init__(self, folder: Folder, *, on_loss: Callable[[EngineError], None] | None = None) -> None:
        self._folder = folder
        self._holder = Holder(id=uuid4().hex, host=socket.gethostname(), pid=os.getpid(), renewed=time.time())
        self._on_loss = on_loss
        self._loss = ""
        """How the lock was lost, if it was."""
        self._released = threading.Event()
        self._descriptor: int | None = None
        self._renewed = _now()
        self._renewer = threading.Thread(target=self._renew, name="weft-lock", daemon=True)
        local = _on_disk(folder)
        if local is not None:
            self._descriptor = _locked(local, self._holder, folder.uri)
        else:
            self._take()
            self._renewer.start()

    @property
    def guard(self) -> Callable[[], None] | None:
        """What to call before anything is made visible, or None where the lock cannot be lost."""
        return self.check if self._descriptor is None else None

    def check(self) -> None:
        """Raise EngineError if the lock was lost, or others may take it any moment."""
        # There is time left for what is to be made visible.
        if not self._loss and self._descriptor is None and _now() - self._renewed > _own_seconds():
            self._loss = (
                f"the lock of checkpoint {self._folder.uri} was not renewed for "
                f"{_now() - self._renewed:.0f} s, and may be another's"
            )
        if self._loss:
            raise EngineError(f"the engine stops: {self._loss}; start it again if no other runs")

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
        found = _found(self._folder)
        if found is not None and (_is_fresh(found) or _is_renewed(self._folder, found)):
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
                self.check()
                self._prolong()
                self.check()
            except EngineError as error:
                if self._on_loss is not None:
                    self._on_loss(error)
                return
            except (OSError, DamagedFile) as error:
                # There is time for several more tries.
                _log.warning("the lock cannot be renewed", extra={"error": str(error)})

    def _prolong(self) -> None:
        began, renewed = _now(), replace(self._holder, renewed=time.time())
        if _held_by(self._folder, self._holder):
            self._folder.write(_NAME, _written(renewed), replace=True)
            self._renewed = began
            return
        # One that is gone was another's meanwhile, perhaps: it is not written again.
        other, place = _found(self._folder), f"checkpoint {self._folder.uri}"
        self._loss = f"the lock of {place} is gone" if other is None else f"{other} has taken over {place}"


def holder(folder: Folder) -> Holder | None:
    """Return who holds a checkpoint now, or None."""
    local = _on_disk(folder)
    try:
        found = _found(folder if local is None else local)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; remove it if no engine runs on {folder.uri}") from error
    if found is None:
        return None
    if local is not None:
        return found if _is_locked(local.path) else None
    # A holder whose clock was set back looks stale, and is not.
    fresh = time.time() - found.renewed < _STALE_SECONDS
    return found if fresh or _is_renewed(folder, found) else None


def _on_disk(folder: Folder) -> LocalFolder | None:
    """Return the folder as one of this machine's disks, if it is."""
    if isinstance(folder, HadoopFolder):
        return folder.local
    return folder if isinstance(folder, LocalFolder) else None


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _own_seconds() -> float:
    """Return for how long a lock is relied on that is not renewed: less long than others respect it."""
    return _STALE_SECONDS - RENEWED_SECONDS


def _found(folder: Folder) -> Holder | None:
    """Return whom the lock's file names, be it stale or not."""
    try:
        read = json.loads(folder.read(_NAME))
        return Holder(**{one.name: read[one.name] for one in fields(Holder)})
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _locked(folder: LocalFolder, own: Holder, place: str) -> int:
    folder.make()
    descriptor = os.open(folder.path / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
    deadline = time.monotonic() + _LOOKING_SECONDS
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            os.close(descriptor)
            raise _in_use(place, holder(folder) or own)
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


def _is_fresh(found: Holder) -> bool:
    """Say whether a lock was renewed a short time ago, if its holder's clock and this one agree."""
    return 0 <= time.time() - found.renewed < _STALE_SECONDS


def _is_renewed(folder: Folder, found: Holder) -> bool:
    """Watch whether a lock is renewed: then its holder is alive, and one of the two clocks is wrong."""
    deadline = time.monotonic() + _WATCHED * RENEWED_SECONDS
    while time.monotonic() < deadline:
        if _found(folder) not in (None, found):
            return True
        time.sleep(RENEWED_SECONDS / 20)
    return False


def _held_by(folder: Folder, own: Holder) -> bool:
    found = _found(folder)
    return found is not None and found.id == own.id


def _written(own: Holder) -> bytes:
    return json.dumps(asdict(own)).encode()


def _in_use(place: str, found: Holder) -> InUse:
    return InUse(
        f"checkpoint {place} is in use by {found}; stop that engine first "
        f"(weft stop {place}), or choose another checkpoint"
    )
