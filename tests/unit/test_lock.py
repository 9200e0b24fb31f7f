"""One engine at a time has a checkpoint, however the one before it ended."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.errors import EngineError, InUse
from weft.storage import Folder, LocalFolder, lock
from weft.storage.hadoop import HadoopFolder
from weft.storage.lock import Lock, holder

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


def test_on_a_local_disk_a_lock_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Lock(LocalFolder(tmp_path))
    monkeypatch.setattr(lock, "_now", lambda: 1e12)
    own.check()
    assert own.guard is None
    own.release()


# By its path and by its URI: Hadoop's folder, without a JVM.


def by_uri(path: Path) -> HadoopFolder:
    """Return a folder of this machine as its URI names it; what is asked of Java fails."""
    found = HadoopFolder(None, f"file://{path}")  # type: ignore[arg-type]
    found.local = LocalFolder(path)
    return found


@pytest.mark.parametrize("uri_first", [False, True])
def test_a_path_and_a_uri_of_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri_first: bool
) -> None:
    monkeypatch.setattr(lock, "_LOOKING_SECONDS", 0.0)
    folders: list[Folder] = [LocalFolder(tmp_path), by_uri(tmp_path)]
    first, second = reversed(folders) if uri_first else folders
    own = Lock(first)
    # An hour later nobody has renewed anything, and need not have.
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now + 3_600)
    with pytest.raises(InUse, match=f"checkpoint {second.uri} is in use by process {os.getpid()} on "):
        Lock(second)
    for folder in folders:
        found = holder(folder)
        assert found is not None
        assert found.id == own._holder.id
    own.release()
    assert [holder(folder) for folder in folders] == [None, None]
    Lock(second).release()


def test_a_uri_finds_the_lock_of_a_killed_holder_free(tmp_path: Path, other: "subprocess.Popen[str]") -> None:
    folder = by_uri(tmp_path)
    with pytest.raises(InUse, match=f"in use by process {other.pid} on "):
        Lock(folder)
    other.kill()
    other.wait()
    assert holder(folder) is None
    Lock(folder).release()
