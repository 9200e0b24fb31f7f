"""Folders that Hadoop reaches; here, through its client for local files."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, counted, stream
from tests.unit.checkpoint_samples import GROUPING, commit, one_row, starts, wrote
from tests.unit.odd_names import NASTY
from tests.unit.state_samples import Row, block
from weft.durability.checkpoint import Checkpoint
from weft.durability.registry import Registry
from weft.errors import DamagedFile, EngineError, InternalError, InUse
from weft.service.status import read_registry
from weft.storage import LocalFolder, lock, open_folder
from weft.storage.folder import Mark, put_mark
from weft.storage.hadoop import HadoopFolder
from weft.storage.lock import Lock, holder
from weft.storage.mailbox import Mailbox, Reply
from weft.storage.names import file_name


@pytest.fixture
def folder(spark: SparkSession, tmp_path: Path) -> HadoopFolder:
    """Return a folder that is not there yet."""
    found = open_folder(f"file://{tmp_path}/deep/folder/", lambda: spark)
    assert isinstance(found, HadoopFolder)
    return found


def test_a_file_comes_back_as_it_was(folder: HadoopFolder, tmp_path: Path) -> None:
    assert folder.names() == []
    for name, data in (("b", b""), ("a", bytes(range(256)) * 1000)):
        assert not folder.has(name)
        folder.write(name, data)
        assert folder.has(name)
        assert folder.read(name) == data
    assert folder.names() == ["a", "b"]
    assert (tmp_path / "deep" / "folder" / "a").read_bytes() == bytes(range(256)) * 1000


def test_files_are_replaced_at_once_whatever_writes_sparks_own(folder: HadoopFolder) -> None:
    assert folder._manager.getClass().getSimpleName() == "FileContextBasedCheckpointFileManager"


def test_folders_are_inside_one_another(folder: HadoopFolder, tmp_path: Path) -> None:
    inner = folder.folder("in ner%2F")
    assert inner.names() == []
    inner.write("x", b"1")
    assert (folder.names(), inner.names(), inner.read("x")) == (["in ner%2F"], ["x"], b"1")
    assert inner.uri == f"file://{tmp_path}/deep/folder/in ner%2F"
    with pytest.raises(OSError, match="in ner%2F"):
        folder.delete("in ner%2F")
    assert inner.read("x") == b"1"


def test_a_folder_is_removed_by_the_checkpoint_that_made_it(folder: HadoopFolder, tmp_path: Path) -> None:
    inner = folder.folder("inner")
    inner.folder("most").write("x", b"1")
    (tmp_path / "deep" / "folder" / "link").symlink_to(tmp_path / "deep" / "folder" / "inner")
    for name in ("inner", "link"):
        with pytest.raises(EngineError, match=f"folder/{name} is not removed"):
            folder.delete_tree(name, made_by="me")
    put_mark(inner, Mark(checkpoint="me", stream="s"))
    with pytest.raises(EngineError, match=r"folder/inner is not removed: .* made by checkpoint me"):
        folder.delete_tree("inner", made_by="you")
    # So it is where no local disk is known.
    folder.local = None  # type: ignore[misc]
    with pytest.raises(EngineError, match=r"folder/inner is not removed: .* made by checkpoint me"):
        folder.delete_tree("inner", made_by="you")
    folder.delete_tree("inner", made_by="me")
    folder.delete_tree("inner", made_by="me")
    assert os.listdir(tmp_path / "deep" / "folder") == ["link"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "../a", "a\0b"])
def test_a_name_leads_to_no_other_folder(folder: HadoopFolder, name: str) -> None:
    for call in (folder.folder, folder.has, folder.read, folder.delete, folder.sync):
        with pytest.raises(InternalError, match="is no name of a file in a folder"):
            call(name)
    folder.write("x", b"1")
    for pair in ((name, "x"), ("x", name)):
        with pytest.raises(InternalError, match="is no name of a file in a folder"):
            folder.rename(*pair)
    with pytest.raises(InternalError, match="is no name of a file in a folder"):
        folder.write(name, b"2", replace=True)
    assert folder.read("x") == b"1"


def test_files_may_be_of_any_name(folder: HadoopFolder) -> None:
    for name in NASTY:
        folder.folder(file_name(name)).write(file_name(name), name.encode(errors="surrogatepass"))
    assert folder.names() == sorted(map(file_name, NASTY))
    for name in NASTY:
        inner = folder.folder(file_name(name))
        assert inner.names() == [file_name(name)]
        assert inner.read(file_name(name)) == name.encode(errors="surrogatepass")


def test_a_file_is_written_once(folder: HadoopFolder) -> None:
    folder.write("x", b"first")
    with pytest.raises(FileExistsError, match="deep/folder/x"):
        folder.write("x", b"second")
    assert folder.read("x") == b"first"
    folder.write("x", b"third", replace=True)
    folder.write("y", b"new", replace=True)
    assert (folder.read("x"), folder.read("y")) == (b"third", b"new")


def test_a_file_gets_another_name(folder: HadoopFolder) -> None:
    for data in (b"1", b"2"):
        folder.write("a", data)
        folder.rename("a", "b")
        assert (folder.names(), folder.read("b")) == (["b"], data)
    with pytest.raises(FileNotFoundError, match="deep/folder/a"):
        folder.rename("a", "b")
    assert folder.names() == ["b"]


def test_whoever_looks_while_a_file_is_replaced_finds_it_whole(folder: HadoopFolder) -> None:
    written = [str(number).encode() * 1000 for number in range(60)]
    folder.write("x", written[0])

    def replace() -> None:
        for data in written:
            folder.write("x", data, replace=True)

    with ThreadPoolExecutor(1) as pool:
        replaced, seen = pool.submit(replace), set()
        while not replaced.done():
            # Between the old one and the new one there may be none.
            with suppress(FileNotFoundError):
                seen.add(folder.read("x"))
        replaced.result()
    assert seen <= set(written)
    assert len(seen) > 1
    assert folder.read("x") == written[-1]


def test_what_is_not_there(folder: HadoopFolder) -> None:
    with pytest.raises(FileNotFoundError, match="deep/folder/x"):
        folder.read("x")
    folder.delete("x")
    folder.tidy()
    assert folder.names() == []


def test_a_file_whose_bytes_changed_is_told(
    spark: SparkSession, folder: HadoopFolder, tmp_path: Path
) -> None:
    # A file system that keeps checksums finds out.
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    folder._files = spark._jvm.org.apache.hadoop.fs.FileSystem.getLocal(conf)
    stream = folder._files.create(folder._path("x"))
    stream.write(bytearray(b"0123456789"))
    stream.close()
    (tmp_path / "deep" / "folder" / "x").write_bytes(b"0123456780")
    with pytest.raises(DamagedFile, match="deep/folder/x is damaged: it is not as it was written"):
        folder.read("x")


def test_a_file_and_its_folder_are_on_the_disk(
    folder: HadoopFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda one: found.append(os.readlink(f"/proc/self/fd/{one}")))
    folder.write("x", b"1")
    deep = tmp_path / "deep"
    assert found == [str(tmp_path), str(deep), str(deep / "folder" / "x"), str(deep / "folder")]


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_snapshot_and_a_note_that_are_damaged_are_done_without(
    folder: HadoopFolder, tmp_path: Path
) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, *map(one_row, (0, 10, 20)))
    for number, starting in enumerate([(0,), (0, 10)]):
        rows = block([Row(start, None, None, None, None) for start in starting])
        checkpoint.snapshot(commit(number), Registry(), {(GROUPING, 0): rows})
    checkpoint.prune(1)
    checkpoint.set_delivered("parquet", 1)
    place = tmp_path / "deep" / "folder"
    _flip(place / "snapshots" / "000000001")
    _flip(place / "delivered" / "parquet")
    assert starts(folder) == [[0], [10], [20]]
    assert checkpoint.delivered("parquet") == 0
    _flip(place / "commits" / "000000002")
    with pytest.raises(DamagedFile, match="commits/000000002 is damaged"):
        starts(folder)


KEEPING = """
package weft.tests;

public class Keeping extends org.apache.hadoop.fs.RawLocalFileSystem {
    public java.net.URI getUri() { return java.net.URI.create("keeping:///"); }

    public boolean rename(org.apache.hadoop.fs.Path from, org.apache.hadoop.fs.Path to)
            throws java.io.IOException {
        return !exists(to) && super.rename(from, to);
    }
}
"""
"""A file system whose renames replace nothing, and which Hadoop has no FileContext for."""


@pytest.fixture
def keeping(spark: SparkSession, tmp_path: Path) -> HadoopFolder:
    """Return a folder of such a file system."""
    found = open_folder(f"keeping://{tmp_path}/folder", lambda: spark)
    assert isinstance(found, HadoopFolder)
    compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()  # type: ignore[union-attr,operator]
    compiler.setParentClassLoader(found._conf.getClassLoader())
    compiler.cook(KEEPING)
    found._conf.setClassLoader(compiler.getClassLoader())
    found._conf.set("fs.keeping.impl", "weft.tests.Keeping")
    return found


def test_a_file_is_replaced_where_a_rename_replaces_nothing(keeping: HadoopFolder) -> None:
    for data in (b"first", b"second", b"third"):
        keeping.write("x", data, replace=True)
        assert (keeping.names(), keeping.read("x")) == (["x"], data)
    with pytest.raises(FileExistsError, match="folder/x"):
        keeping.write("x", b"fourth")
    assert [name for name in keeping._listed() if name != "x"] == []


def test_a_lock_is_renewed_where_a_rename_replaces_nothing(
    keeping: HadoopFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "RENEWED_SECONDS", 0.01)
    lost: list[str] = []
    own = Lock(keeping, on_loss=lambda loss: lost.append(str(loss)))
    first = holder(keeping)
    assert first is not None
    deadline = time.monotonic() + 60
    while (later := holder(keeping)) is None or later == first:
        assert time.monotonic() < deadline
    assert later.id == first.id
    own.check()
    # One that is gone was another's meanwhile, perhaps, and is not written again.
    while not lost:
        keeping.delete("lock.json")
        assert time.monotonic() < deadline
    assert "is gone" in lost[0]
    with pytest.raises(EngineError, match="is gone"):
        own.check()
    own.release()
    assert holder(keeping) is None


def test_what_cannot_be_written_is_told_and_leaves_nothing(folder: HadoopFolder, tmp_path: Path) -> None:
    folder.write("file", b"1")
    with pytest.raises(OSError, match="folder/file"):
        folder.folder("file").write("x", b"2")
    assert folder.names() == ["file"]


def test_unfinished_files_are_not_seen_and_can_be_removed(folder: HadoopFolder, tmp_path: Path) -> None:
    folder.write("x", b"1")
    place = tmp_path / "deep" / "folder"
    (place / ".y.01234567-89ab-cdef-0123-456789abcdef.tmp").write_bytes(b"cut o")
    assert folder.names() == ["x"]
    folder.tidy()
    assert [name for name in os.listdir(place) if name.endswith(".tmp")] == []
    assert folder.read("x") == b"1"


def test_a_lock_and_a_mailbox_work_there(folder: HadoopFolder) -> None:
    own = Lock(folder)
    with pytest.raises(InUse, match=r"checkpoint file:///.*/deep/folder is in use by process"):
        Lock(folder)
    box = Mailbox(folder)
    request = box.ask("list")
    assert box.waiting() == [request]
    box.answer(request, Reply(ok=True, said="ü"))
    reply = box.fetch(request, seconds=0)
    assert reply is not None
    assert reply.said == "ü"
    own.release()
    assert holder(folder) is None


def test_a_lock_is_the_same_by_path_and_by_uri(folder: HadoopFolder, tmp_path: Path) -> None:
    by_path = LocalFolder(tmp_path / "deep" / "folder")
    for first, second in ((by_path, folder), (folder, by_path)):
        own = Lock(first)
        assert own.guard is None
        found = holder(second)
        assert found is not None
        assert found == holder(first)
        with pytest.raises(InUse, match=f"checkpoint {second.uri} is in use by process {os.getpid()} on "):
            Lock(second)
        own.release()
        assert holder(first) is holder(second) is None


def test_an_engine_runs_on_uris(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    checkpoint, out = f"file://{tmp_path}/check point", f"file://{tmp_path}/out"
    texts = {
        "q": "SELECT symbol, count(*) AS n FROM trades [RANGE '10 s'] GROUP BY symbol",
        "sliding": "SELECT sum(vol) AS n FROM trades [RANGE '20 s' SLIDE '5 s'] WHERE price > 0",
    }
    for moments in ((1, 12), (13, 22, 31)):
        feed.at(*moments)
        engine = weft.Engine(spark)
        stream(engine, spark, feed.folder)
        for name, text in texts.items():
            engine.add(text, name=name)
        engine.run(checkpoint=checkpoint, out=out, flush=moments[-1] == 31)
    assert {(one.name, one.state, one.stream) for one in read_registry(checkpoint)} == {
        (name, "running", "trades") for name in texts
    }
    assert counted(pq.read_table(tmp_path / "out" / "q")) == {10: 1, 20: 2, 30: 1, 40: 1}
    assert counted(pq.read_table(tmp_path / "out" / "sliding")) == {
        5: 1, 10: 1, 15: 3, 20: 3, 25: 3, 30: 3, 35: 2, 40: 2, 45: 1, 50: 1,
    }  # fmt: skip
    assert not (Path.cwd() / "file:").exists()
