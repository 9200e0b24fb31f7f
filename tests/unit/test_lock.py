"""One engine at a time has a checkpoint, however the one before it ended."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from weft.errors import EngineError, InUse
from weft.storage import Folder, LocalFolder, lock
from weft.storage.lock import Holder, Lock, holder

HOLD = """
import sys, time
from pathlib import Path
from weft.storage import LocalFolder
from weft.storage.lock import Lock
lock = Lock(LocalFolder(Path(sys.argv[1])))
print("held", flush=True)
sys.stdin.read()
lock.release()
print("released", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Return another process that holds the checkpoint until it reads an end of input."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


# On a local disk.


def test_nobody_holds_a_checkpoint_that_is_not_there(tmp_path: Path) -> None:
    assert holder(LocalFolder(tmp_path / "none")) is None


def test_two_in_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "_LOOKING_SECONDS", 0.0)
    folder = LocalFolder(tmp_path)
    first = Lock(folder)
    found = holder(folder)
    assert found is not None
    assert found.pid == os.getpid()
    with pytest.raises(InUse) as caught:
        Lock(folder)
    assert isinstance(caught.value, EngineError)
    assert str(caught.value) == (
        f"checkpoint {tmp_path} is in use by process {os.getpid()} on {found.host}; stop that engine first "
        f"(weft stop {tmp_path}), or choose another checkpoint"
    )
    # Who was refused has not let go of what is another's.
    assert holder(folder) == found
    first.release()
    first.release()
    assert holder(folder) is None
    second = Lock(folder)
    first.release()
    assert holder(folder) is not None
    second.release()


def test_a_lock_whose_file_cannot_be_written_is_held_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError("no space left")

    monkeypatch.setattr(lock, "_LOOKING_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        with pytest.raises(OSError, match="no space left"):
            Lock(LocalFolder(tmp_path))
    Lock(LocalFolder(tmp_path)).release()


def test_different_checkpoints_are_held_side_by_side(tmp_path: Path) -> None:
    locks = [Lock(LocalFolder(tmp_path / name)) for name in "ab"]
    for one in locks:
        one.release()


def test_two_processes(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    folder = LocalFolder(tmp_path)
    with pytest.raises(InUse, match=f"in use by process {other.pid} on "):
        Lock(folder)
    found = holder(folder)
    assert found is not None
    assert found.pid == other.pid
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.close()
    assert other.stdout.readline() == "released\n"
    Lock(folder).release()


def test_a_holder_that_is_killed_lets_go(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    folder = LocalFolder(tmp_path)
    other.kill()
    other.wait()
    # The file is still there, and tells of the dead.
    assert json.loads(folder.read("lock.json"))["pid"] == other.pid
    assert holder(folder) is None
    own = Lock(folder)
    found = holder(folder)
    assert found is not None
    assert found.pid == os.getpid()
    own.release()


def test_who_only_looks_stands_in_nobodys_way(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    Lock(folder).release()
    looking, seen = threading.Event(), threading.Event()

    def look() -> None:
        while not looking.is_set():
            holder(folder)
            seen.set()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        seen.wait()
        for _ in range(20):
            Lock(folder).release()
    finally:
        looking.set()
        thread.join()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 1}'])
def test_a_lock_file_that_cannot_be_read_is_held_by_nobody(tmp_path: Path, text: str) -> None:
    folder = LocalFolder(tmp_path)
    folder.write("lock.json", text.encode())
    assert holder(folder) is None
    Lock(folder).release()


# Elsewhere.


class Elsewhere:
    """A folder that is not on a local disk, as far as a lock can tell."""

    def __init__(self, path: Path) -> None:
        self._folder = LocalFolder(path)
        self.uri = "there://folder"
        self.broken = False
        """Whether the place cannot be reached just now."""
        self.writes = 0

    def folder(self, name: str) -> Folder:
        return self._folder.folder(name)

    def names(self) -> list[str]:
        return self._folder.names()

    def read(self, name: str) -> bytes:
        if self.broken:
            raise OSError("the network is down")
        return self._folder.read(name)

    def write(self, name: str, data: bytes, *, replace: bool = False) -> None:
        if self.broken:
            raise OSError("the network is down")
        self._folder.write(name, data, replace=replace)
        self.writes += 1

    def rename(self, name: str, to: str) -> None:
        self._folder.rename(name, to)

    def tidy(self) -> None:
        self._folder.tidy()

    def delete(self, name: str) -> None:
        self._folder.delete(name)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Elsewhere:
    """Return a folder elsewhere."""
    return Elsewhere(tmp_path)


def someone(*, renewed: float) -> Holder:
    """Return another engine, which renewed its lease some seconds ago."""
    then = time.time() - renewed
    return Holder(id="other", host="far", pid=7, since=then, renewed=then)


def written(one: Holder) -> bytes:
    return json.dumps(asdict(one)).encode()


def test_elsewhere_a_lease_is_held(elsewhere: Elsewhere) -> None:
    first = Lock(elsewhere)
    with pytest.raises(InUse, match=rf"checkpoint there://folder is in use by process {os.getpid()} on "):
        Lock(elsewhere)
    first.release()
    assert elsewhere.names() == []
    Lock(elsewhere).release()


def test_elsewhere_a_lease_that_was_renewed_is_respected(elsewhere: Elsewhere) -> None:
    elsewhere.write("lock.json", written(someone(renewed=50)))
    with pytest.raises(InUse, match="in use by process 7 on far; stop that engine first"):
        Lock(elsewhere)


def test_elsewhere_a_stale_lease_is_taken_over(elsewhere: Elsewhere) -> None:
    elsewhere.write("lock.json", written(someone(renewed=61)))
    assert holder(elsewhere) is None
    own = Lock(elsewhere)
    found = holder(elsewhere)
    assert found is not None
    assert found.pid == os.getpid()
    own.release()
    assert holder(elsewhere) is None


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have leases renewed often."""
    monkeypatch.setattr(lock, "RENEWED_SECONDS", 0.01)


@pytest.mark.usefixtures("quick")
def test_elsewhere_a_lease_is_renewed(elsewhere: Elsewhere) -> None:
    own = Lock(elsewhere)
    first = holder(elsewhere)
    assert first is not None
    while holder(elsewhere) == first:
        time.sleep(0.01)
    later = holder(elsewhere)
    assert later is not None
    assert later.renewed > first.renewed
    assert replace(later, renewed=first.renewed) == first
    own.release()


@pytest.mark.usefixtures("quick")
def test_elsewhere_nothing_is_renewed_after_a_release(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, write = Lock(elsewhere), elsewhere.write
    renewing, go_on = threading.Event(), threading.Event()

    def slowly(name: str, data: bytes, *, replace: bool = False) -> None:
        renewing.set()
        go_on.wait()
        write(name, data, replace=replace)

    monkeypatch.setattr(elsewhere, "write", slowly)
    renewing.wait()
    releasing = threading.Thread(target=own.release)
    releasing.start()
    releasing.join(0.2)
    go_on.set()
    for thread in threading.enumerate():
        if thread is releasing or thread.name == "weft-lock":
            thread.join()
    assert elsewhere.names() == []


@pytest.mark.usefixtures("quick")
def test_elsewhere_who_loses_its_lease_is_told(elsewhere: Elsewhere) -> None:
    lost, by = threading.Event(), []

    def tell(other: Holder) -> None:
        by.append(other)
        lost.set()

    own = Lock(elsewhere, on_loss=tell)
    other = someone(renewed=0)
    # The own renewal may come in between, as any other engine's.
    while not lost.is_set():
        elsewhere.write("lock.json", written(other), replace=True)
        lost.wait(0.05)
    assert by == [other]
    own.release()
    # A lease that is another's is not released.
    assert holder(elsewhere) == other


@pytest.mark.usefixtures("quick")
def test_elsewhere_a_renewal_that_fails_is_tried_again(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    lost = threading.Event()
    own = Lock(elsewhere, on_loss=lambda other: lost.set())
    elsewhere.broken = True
    while not caplog.records:
        time.sleep(0.01)
    elsewhere.broken = False
    before = elsewhere.writes
    while elsewhere.writes == before:
        time.sleep(0.01)
    assert not lost.is_set()
    assert "the lock cannot be renewed" in caplog.text
    own.release()
    assert elsewhere.names() == []
