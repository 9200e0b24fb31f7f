"""Folders on this machine: files are there whole, or not at all."""

import errno
import os
import threading
from pathlib import Path
from uuid import uuid4

import pytest

from weft.storage import LocalFolder, is_local, local, open_folder


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """Return a folder that is not there yet."""
    return LocalFolder(tmp_path / "deep" / "folder")


def test_a_file_comes_back_as_it_was(folder: LocalFolder) -> None:
    assert folder.names() == []
    for name, data in (("b", b""), ("a", bytes(range(256)) * 1000)):
        assert not folder.has(name)
        folder.write(name, data)
        assert folder.has(name)
        assert folder.read(name) == data
    assert folder.names() == ["a", "b"]
    assert LocalFolder(folder.path).names() == ["a", "b"]


def test_folders_are_inside_one_another(folder: LocalFolder) -> None:
    inner = folder.folder("inner")
    assert inner.names() == []
    inner.write("x", b"1")
    assert (folder.names(), inner.names()) == (["inner"], ["x"])
    assert inner.uri == f"{folder.uri}/inner" == str(folder.path / "inner")


def test_what_is_no_folder_has_nothing_in_it(folder: LocalFolder) -> None:
    folder.write("file", b"1")
    assert folder.folder("file").names() == []
    assert folder.folder("file").folder("inner").names() == []


def test_a_file_is_written_once(folder: LocalFolder) -> None:
    folder.write("x", b"first")
    with pytest.raises(FileExistsError):
        folder.write("x", b"second")
    assert folder.read("x") == b"first"
    folder.write("x", b"third", replace=True)
    folder.write("y", b"new", replace=True)
    assert (folder.read("x"), folder.read("y")) == (b"third", b"new")
    assert sorted(os.listdir(folder.path)) == ["x", "y"]


def test_of_many_writers_one_wins(folder: LocalFolder) -> None:
    won: list[int] = []

    def write(number: int) -> None:
        try:
            folder.write("x", str(number).encode())
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    (winner,) = won
    assert folder.read("x") == str(winner).encode()


def test_what_is_not_there(folder: LocalFolder) -> None:
    with pytest.raises(FileNotFoundError):
        folder.read("x")
    folder.delete("x")
    folder.tidy()
    assert folder.names() == []


def test_files_are_deleted(folder: LocalFolder) -> None:
    folder.write("x", b"1")
    folder.delete("x")
    assert folder.names() == []


def test_a_file_gets_another_name(folder: LocalFolder) -> None:
    folder.write("a", b"1")
    folder.rename("a", "b")
    assert (folder.names(), folder.read("b")) == (["b"], b"1")
    folder.write("a", b"2")
    folder.rename("a", "b")
    assert (folder.names(), folder.read("b")) == (["b"], b"2")
    with pytest.raises(FileNotFoundError):
        folder.rename("a", "b")


def test_a_link_is_deleted_and_not_what_it_leads_to(folder: LocalFolder, tmp_path: Path) -> None:
    folder.write("x", b"1")
    other = LocalFolder(tmp_path / "other")
    other.write("y", b"2")
    (folder.path / "link").symlink_to(other.path)
    folder.delete("link")
    assert (folder.names(), other.names()) == (["x"], ["y"])


@pytest.mark.parametrize(
    ("step", "replace"), [("fsync", False), ("fsync", True), ("link", False), ("replace", True)]
)
def test_a_write_that_fails_leaves_nothing(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch, step: str, replace: bool
) -> None:
    folder.write("other", b"1")
    if replace:
        folder.write("x", b"before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            folder.write("x", b"after", replace=replace)
    assert sorted(os.listdir(folder.path)) == (["other", "x"] if replace else ["other"])
    folder.write("x", b"after", replace=replace)
    assert folder.read("x") == b"after"


def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that what is synced from now on will be in, in order."""
    found: list[Path] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    return found


def test_a_name_whose_folder_cannot_be_synced_is_free_again(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("other", b"1")
    real = os.fsync

    def broken(descriptor: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{descriptor}")) == folder.path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(OSError, match="Input/output error"):
            folder.write("x", b"failed")
    assert sorted(os.listdir(folder.path)) == ["other"]
    folder.write("x", b"again")
    assert folder.read("x") == b"again"


@pytest.mark.parametrize("replace", [True, False])
def test_a_file_is_on_the_disk_before_it_has_its_name(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch, replace: bool
) -> None:
    steps: list[str] = []
    folder.path.mkdir(parents=True)
    real = {name: getattr(os, name) for name in ("fsync", "link", "replace")}

    def sync(descriptor: int) -> None:
        place = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append("folder is safe" if place == folder.path else "file is safe")
        if place != folder.path:
            assert place.read_bytes() == b"data"
        real["fsync"](descriptor)

    def rename(kind: str) -> None:
        def named(source: Path, target: Path) -> None:
            steps.append(f"it is named {target.name}")
            real[kind](source, target)

        monkeypatch.setattr(os, kind, named)

    monkeypatch.setattr(os, "fsync", sync)
    rename("link")
    rename("replace")
    folder.write("x", b"data", replace=replace)
    assert steps == ["file is safe", "it is named x", "folder is safe"]


def test_a_new_folder_is_on_the_disk_before_what_is_in_it(
    folder: LocalFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = synced(monkeypatch)
    folder.write("x", b"1")
    assert found[:2] == [tmp_path, tmp_path / "deep"]
    assert found[2].name.startswith(".x.")
    assert found[3:] == [folder.path]
    del found[:]
    folder.write("y", b"2")
    assert len(found) == 2


def test_a_file_is_no_folder(folder: LocalFolder) -> None:
    folder.write("x", b"1")
    with pytest.raises(NotADirectoryError, match="folder/x is a file, and no folder"):
        folder.folder("x").folder("y").write("z", b"2")


def test_what_others_wrote_is_brought_to_the_disk(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("batch/a", "batch/.a.crc", "batch/inner/b", "other"):
        path = folder.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"1")
    found = synced(monkeypatch)
    folder.sync("batch")
    places = [str(path.relative_to(folder.path)) for path in found]
    assert sorted(places) == [".", "batch", "batch/.a.crc", "batch/a", "batch/inner", "batch/inner/b"]
    assert places[-1] == "."
    # A folder is synced after its files.
    assert places.index("batch") > places.index("batch/a")


def test_unfinished_files_are_not_seen_and_can_be_removed(folder: LocalFolder) -> None:
    folder.write("x", b"1")
    (folder.path / ".y.0123abcd").write_bytes(b"cut o")
    (folder.path / ".hidden").mkdir()
    assert folder.names() == ["x"]
    folder.tidy()
    assert sorted(os.listdir(folder.path)) == [".hidden", "x"]


def test_hidden_files_of_others_stay(folder: LocalFolder) -> None:
    folder.make()
    others = [".gitkeep", ".nfs000000000012abcd00000001", ".weft.lock", ".x.crc", ".x.swp", ".DS_Store"]
    spark = f".000000001.{uuid4()}.tmp"
    for name in (*others, spark):
        (folder.path / name).write_bytes(b"1")
    folder.tidy()
    assert sorted(os.listdir(folder.path)) == sorted(others)


@pytest.mark.parametrize(
    ("place", "local"),
    [
        ("results/", True),
        ("/tmp/results", True),
        ("C:results", True),
        ("a:b", True),
        (Path("hdfs:/results"), True),
        ("hdfs://name/results", False),
        ("s3a://bucket/results", False),
        ("file:///tmp/results", False),
        ("file:/tmp/results", False),
    ],
)
def test_a_uri_is_told_from_a_path(place: str | Path, local: bool) -> None:
    assert is_local(place) is local


def test_a_path_needs_no_spark(tmp_path: Path) -> None:
    def spark() -> None:
        raise AssertionError("Spark was asked for")

    found = open_folder(str(tmp_path), spark)  # type: ignore[arg-type]
    assert isinstance(found, LocalFolder)
    assert found.path == tmp_path


def test_who_wants_to_be_alone_in_a_folder_waits_for_another_but_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "_ALONE_SECONDS", 0.05)
    folder, other = LocalFolder(tmp_path), LocalFolder(tmp_path)
    with folder.alone():
        with (
            pytest.raises(TimeoutError, match=r"another engine has locked .* for more than 0\.05 s"),
            other.alone(),
        ):
            pass
        assert folder.names() == []
    with other.alone():
        pass
