"""Where no operating system holds a lock, its file is renewed; who cannot, stops before another begins."""

import json
import os
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from weft.errors import EngineError, InUse
from weft.storage import Folder, LocalFolder, lock
from weft.storage.lock import Holder, Lock, holder


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
    return Holder(id="other", host="far", pid=7, renewed=then)


def written(one: Holder) -> bytes:
    return json.dumps(asdict(one)).encode()


def test_elsewhere_a_lease_is_held(elsewhere: Elsewhere) -> None:
    first = Lock(elsewhere)
    with pytest.raises(InUse, match=rf"checkpoint there://folder is in use by process {os.getpid()} on "):
        Lock(elsewhere)
    first.release()
    assert elsewhere.names() == []
    Lock(elsewhere).release()


@pytest.mark.parametrize("behind", [7_200, -7_200], ids=["behind", "ahead"])
def test_elsewhere_a_holder_whose_clock_is_wrong_is_respected(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, behind: float
) -> None:
    monkeypatch.setattr(lock, "RENEWED_SECONDS", 0.5)
    over = threading.Event()

    def renew() -> None:
        while not over.wait(0.01):
            elsewhere.write("lock.json", written(someone(renewed=behind)), replace=True)

    elsewhere.write("lock.json", written(someone(renewed=behind)))
    renewer = threading.Thread(target=renew)
    renewer.start()
    try:
        with pytest.raises(InUse, match="in use by process 7 on far"):
            Lock(elsewhere)
        found = holder(elsewhere)
        assert found is not None
        assert found.pid == 7
    finally:
        over.set()
        renewer.join()


def test_elsewhere_a_lease_that_was_renewed_is_respected(elsewhere: Elsewhere) -> None:
    elsewhere.write("lock.json", written(someone(renewed=50)))
    with pytest.raises(InUse, match="in use by process 7 on far; stop that engine first"):
        Lock(elsewhere)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("renewed", [61, -7_200], ids=["long ago", "by a clock that is ahead"])
def test_elsewhere_a_lease_that_nobody_renews_is_taken_over(elsewhere: Elsewhere, renewed: float) -> None:
    elsewhere.write("lock.json", written(someone(renewed=renewed)))
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


class Told:
    """What an engine that loses its lock is told."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._lost = threading.Event()

    def __call__(self, loss: EngineError) -> None:
        self.said.append(str(loss))
        self._lost.set()

    def wait(self) -> str:
        assert self._lost.wait(30)
        (said,) = self.said
        return said


def ended(own: Lock) -> None:
    """Wait until a lock is not renewed any more."""
    own._renewer.join(30)
    assert not own._renewer.is_alive()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("renewed", [0, 3_600])
def test_elsewhere_who_loses_its_lease_is_told(elsewhere: Elsewhere, renewed: int) -> None:
    told = Told()
    own = Lock(elsewhere, on_loss=told)
    # The other may have died since.
    other = someone(renewed=renewed)
    # The own renewal may come in between, as any other engine's.
    while not told.said:
        elsewhere.write("lock.json", written(other), replace=True)
        time.sleep(0.05)
    assert told.wait() == (
        "the engine stops: process 7 on far has taken over checkpoint there://folder; start it again if no "
        "other runs"
    )
    with pytest.raises(EngineError, match="process 7 on far has taken over checkpoint there://folder"):
        own.check()
    own.release()
    # A lease that is another's is not released.
    assert json.loads(elsewhere.read("lock.json"))["id"] == "other"


@pytest.mark.usefixtures("quick")
def test_elsewhere_a_lease_that_is_gone_was_anothers_and_is_not_taken_again(elsewhere: Elsewhere) -> None:
    told = Told()
    own = Lock(elsewhere, on_loss=told)
    while not told.said:
        elsewhere.delete("lock.json")
        time.sleep(0.05)
    assert "the lock of checkpoint there://folder is gone" in told.wait()
    ended(own)
    elsewhere.delete("lock.json")
    with pytest.raises(EngineError, match="is gone"):
        own.check()
    own.release()
    assert elsewhere.names() == []


def test_elsewhere_a_lease_that_was_not_renewed_is_not_relied_on(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Lock(elsewhere)
    own.check()
    assert own.guard == own.check
    now = lock._now()
    monkeypatch.setattr(lock, "_now", lambda: now + 49)
    own.check()
    # Others respect it for some more seconds.
    monkeypatch.setattr(lock, "_now", lambda: now + 52)
    with pytest.raises(EngineError, match=r"the engine stops: the lock of .* was not renewed for 5\d s"):
        own.check()
    monkeypatch.undo()
    # It stays lost.
    with pytest.raises(EngineError, match="was not renewed"):
        own.check()
    own.release()


@pytest.mark.usefixtures("quick")
def test_elsewhere_who_sleeps_too_long_does_not_renew(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = Told()
    own = Lock(elsewhere, on_loss=told)
    now = lock._now()
    monkeypatch.setattr(lock, "_now", lambda: now + 100)
    assert "was not renewed for 1" in told.wait()
    ended(own)
    before = elsewhere.read("lock.json")
    time.sleep(0.05)
    assert elsewhere.read("lock.json") == before
    own.release()


@pytest.mark.usefixtures("quick")
def test_elsewhere_a_renewal_counts_from_when_it_began(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, write, now = Lock(elsewhere), elsewhere.write, lock._now()
    slept = threading.Event()

    def sleepy(name: str, data: bytes, *, replace: bool = False) -> None:
        write(name, data, replace=replace)
        # The process is stopped here, for a while in which others find the lock stale.
        monkeypatch.setattr(lock, "_now", lambda: now + 100)
        slept.set()

    monkeypatch.setattr(elsewhere, "write", sleepy)
    assert slept.wait(30)
    with pytest.raises(EngineError, match="was not renewed"):
        own.check()
    own.release()


@pytest.mark.usefixtures("quick")
def test_elsewhere_a_late_renewal_of_the_former_holder_does_not_end_its_successor(
    elsewhere: Elsewhere,
) -> None:
    former = someone(renewed=61)
    elsewhere.write("lock.json", written(former))
    told = Told()
    own = Lock(elsewhere, on_loss=told)
    # It was stopped after it had read the file, and writes it when it goes on.
    elsewhere.write("lock.json", written(replace(former, renewed=time.time())), replace=True)
    while json.loads(elsewhere.read("lock.json"))["id"] == former.id:
        time.sleep(0.01)
    own.check()
    assert not told.said
    own.release()
    assert elsewhere.names() == []


@pytest.mark.usefixtures("quick")
def test_elsewhere_who_was_stopped_while_it_renewed_gives_up(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, write, now = Told(), elsewhere.write, lock._now()
    own = Lock(elsewhere, on_loss=told)

    def sleepy(name: str, data: bytes, *, replace: bool = False) -> None:
        monkeypatch.setattr(lock, "_now", lambda: now + 100)
        write(name, data, replace=replace)

    monkeypatch.setattr(elsewhere, "write", sleepy)
    assert "was not renewed for 1" in told.wait()
    ended(own)
    own.release()


def test_a_lock_that_another_version_wrote_is_respected(elsewhere: Elsewhere) -> None:
    elsewhere.write("lock.json", json.dumps({**asdict(someone(renewed=1)), "since": 3}).encode())
    assert holder(elsewhere) is not None
    with pytest.raises(InUse, match="process 7 on far"):
        Lock(elsewhere)


@pytest.mark.usefixtures("quick")
def test_elsewhere_a_renewal_that_fails_is_tried_again(
    elsewhere: Elsewhere, caplog: pytest.LogCaptureFixture
) -> None:
    told = Told()
    own = Lock(elsewhere, on_loss=told)
    elsewhere.broken = True
    while not caplog.records:
        time.sleep(0.01)
    elsewhere.broken = False
    before = elsewhere.writes
    while elsewhere.writes == before:
        time.sleep(0.01)
    assert not told.said
    own.check()
    assert "the lock cannot be renewed" in caplog.text
    own.release()
    assert elsewhere.names() == []
