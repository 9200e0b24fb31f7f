"""One engine at a time: each checkpoint has a lock.

On a local disk the operating system holds the lock, and releases it when the process ends, however it ends.
That holds whether the folder is given by path or by URI, for the locked file is never replaced.

Elsewhere the lock is a lease: a file that names its holder, who renews it. Another engine takes it over once
it looks stale and was not renewed while that engine watched it: clocks of two machines may differ. A holder
that could not renew its lease gives up before that.
"""

import fcntl
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from uuid import uuid4

from weft.errors import DamagedFile, EngineError, InUse
from weft.storage.folder import Folder
from weft.storage.hadoop import HadoopFolder
from weft.storage.local import LocalFolder, try_lock

_NAME = "lock.json"
RENEWED_SECONDS = 10.0
_WATCHED = 1.5
"""Number of renewal periods for which a lease that looks stale is watched before it is taken over."""
_LOOKING_SECONDS = 0.5
"""How long to wait for a process that holds the lock only to look at it."""
_STALE_SECONDS = 6 * RENEWED_SECONDS
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Keeps counting while the machine sleeps, where there is such a clock."""
_log = logging.getLogger("weft.storage")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """The engine that holds a checkpoint."""

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
        self._former: Holder | None = None
        """The engine whose lease was taken over, if any."""
        self._released = threading.Event()
        self._descriptor: int | None = None
        self._renewed = _now()
        self._renewer = threading.Thread(target=self._renew, name="weft-lock", daemon=True)
        local = _on_disk(folder)
        if local is not None:
            self._descriptor = self._lock_file(local)
        else:
            self._take_lease()
            self._renewer.start()

    @property
    def guard(self) -> Callable[[], None] | None:
        """What to call before anything is made visible, or None where the lock cannot be lost."""
        return self.check if self._descriptor is None else None

    def check(self) -> None:
        """Raise EngineError if the lease was lost, or another engine may take it at any moment."""
        age = _now() - self._renewed
        # Shorter than other engines respect it: what is about to be made visible still takes time.
        if not self._loss and self._descriptor is None and age > _STALE_SECONDS - RENEWED_SECONDS:
            self._loss = (
                f"the lock of checkpoint {self._folder.uri} was not renewed for {age:.0f} s, "
                "and may be another's"
            )
        if self._loss:
            raise EngineError(f"the engine stops: {self._loss}; start it again if no other runs")

    def release(self) -> None:
        """Release the checkpoint."""
        if self._released.is_set():
            return
        self._released.set()
        if self._descriptor is not None:
            os.close(self._descriptor)
            return
        if self._renewer is not threading.current_thread():
            # A renewal under way would write the file again.
            self._renewer.join()
        if self._is_ours(_read_holder(self._folder)):
            self._folder.delete(_NAME)

    def _lock_file(self, folder: LocalFolder) -> int:
        folder.make()
        descriptor = os.open(folder.path / _NAME, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            if not try_lock(descriptor, seconds=_LOOKING_SECONDS):
                raise self._in_use(holder(folder))
            os.ftruncate(descriptor, 0)
            os.write(descriptor, _encoded(self._holder))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _take_lease(self) -> None:
        former = _read_holder(self._folder)
        if former is not None:
            # If the age is negative, the two clocks differ: only watching tells.
            fresh = 0 <= time.time() - former.renewed < _STALE_SECONDS
            if fresh or _is_renewed(self._folder, former):
                raise self._in_use(former)
        try:
            # Only one of several engines can create the file; a stale one is replaced.
            self._folder.write(_NAME, _encoded(self._holder), replace=_NAME in self._folder.names())
        except FileExistsError:
            raise self._in_use(holder(self._folder)) from None
        if not self._is_ours(_read_holder(self._folder)):
            raise self._in_use(holder(self._folder))
        self._former = former

    def _renew(self) -> None:
        while not self._released.wait(RENEWED_SECONDS):
            try:
                self.check()
                began, stored = _now(), _read_holder(self._folder)
                if self._is_ours(stored) or self._is_late(stored):
                    renewed = replace(self._holder, renewed=time.time())
                    self._folder.write(_NAME, _encoded(renewed), replace=True)
                    # Another engine may have taken the lease over between reading and writing.
                    self.check()
                    self._renewed = began
                else:
                    # Never written again: if the file is gone, another engine may have had the lease and
                    # released it.
                    checkpoint = f"checkpoint {self._folder.uri}"
                    lost = f"the lock of {checkpoint} is gone"
                    self._loss = lost if stored is None else f"{stored} has taken over {checkpoint}"
                self.check()
            except EngineError as error:
                if self._on_loss is not None:
                    self._on_loss(error)
                return
            except (OSError, DamagedFile) as error:
                # There is time for several more tries.
                _log.warning("the lock cannot be renewed", extra={"error": str(error)})

    def _is_ours(self, stored: Holder | None) -> bool:
        return stored is not None and stored.id == self._holder.id

    def _is_late(self, stored: Holder | None) -> bool:
        """Say whether the file is a renewal that the former holder began before its lease was taken over.

        It was stopped while it wrote, and ends now: no engine takes a lease twice.
        """
        return stored is not None and self._former is not None and stored.id == self._former.id

    def _in_use(self, other: Holder | None) -> InUse:
        checkpoint = self._folder.uri
        return InUse(
            f"checkpoint {checkpoint} is in use by {other or self._holder}; stop that engine first "
            f"(weft stop {checkpoint}), or choose another checkpoint"
        )


def holder(folder: Folder) -> Holder | None:
    """Return the engine that holds a checkpoint now, or None."""
    local = _on_disk(folder)
    try:
        stored = _read_holder(folder if local is None else local)
    except DamagedFile as error:
        raise DamagedFile(f"{error}; remove it if no engine runs on {folder.uri}") from error
    if stored is None:
        return None
    if local is not None:
        descriptor = os.open(local.path / _NAME, os.O_RDONLY)
        try:
            # Shared, so that several processes can look at the same time.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return stored
        finally:
            os.close(descriptor)
        return None
    # A holder whose clock was set back looks stale, but is not.
    fresh = time.time() - stored.renewed < _STALE_SECONDS
    return stored if fresh or _is_renewed(folder, stored) else None


def _on_disk(folder: Folder) -> LocalFolder | None:
    """Return the folder as one on this machine's disks, if it is."""
    if isinstance(folder, HadoopFolder):
        return folder.local
    return folder if isinstance(folder, LocalFolder) else None


def _now() -> float:
    return time.clock_gettime(_CLOCK)


def _read_holder(folder: Folder) -> Holder | None:
    """Return the holder that the lock's file names, stale or not."""
    try:
        stored = json.loads(folder.read(_NAME))
        return Holder(id=stored["id"], host=stored["host"], pid=stored["pid"], renewed=stored["renewed"])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None


def _encoded(engine: Holder) -> bytes:
    record = {"id": engine.id, "host": engine.host, "pid": engine.pid, "renewed": engine.renewed}
    return json.dumps(record).encode()


def _is_renewed(folder: Folder, stored: Holder) -> bool:
    """Watch whether a lease is renewed: then its holder is alive, and one of the two clocks is wrong."""
    deadline = time.monotonic() + _WATCHED * RENEWED_SECONDS
    while time.monotonic() < deadline:
        if _read_holder(folder) not in (None, stored):
            return True
        time.sleep(RENEWED_SECONDS / 20)
    return False
