"""Spark's notes: what a crash cut off is removed where Spark makes it anew, and refused where it does not."""

import json
from pathlib import Path

import pytest

from weft.durability.checkpoint import Checkpoint
from weft.durability.position import listed_files, mend
from weft.errors import DamagedFile
from weft.storage import LocalFolder

OFFSETS = 'v1\n{"batchWatermarkMs":0}\n{"logOffset":3}\n-\n'
COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """Return the notes of a Spark that is done with batch 4 and has planned batch 5."""
    folder = tmp_path / "spark"
    for name, text, last in (("offsets", OFFSETS, 5), ("commits", COMMIT, 4)):
        (folder / name).mkdir(parents=True)
        for number in range(last + 1):
            (folder / name / str(number)).write_text(text)
            (folder / name / f".{number}.crc").write_bytes(b"crc")
    (folder / "metadata").write_text('{"id":"x"}')
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_notes_that_are_whole_are_left_alone(spark: Path) -> None:
    before = {path: path.read_bytes() for path in spark.rglob("*") if path.is_file()}
    assert mend(LocalFolder(spark), 4) == mend(LocalFolder(spark), 5) == 5
    assert {path: path.read_bytes() for path in spark.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("left", [b"", b"v1", OFFSETS.encode()[:20], b"v1\n[1:2}", b"\0" * 40])
def test_a_plan_that_was_never_committed_is_made_anew(spark: Path, left: bytes) -> None:
    (spark / "offsets" / "5").write_bytes(left)
    assert mend(LocalFolder(spark), 4) == 4
    assert not {"5", ".5.crc"} & set(names(spark / "offsets"))


@pytest.mark.parametrize("plans", [True, False], ids=["planned", "not planned"])
@pytest.mark.parametrize("name", ["4", "4.compact"])
@pytest.mark.parametrize("left", [b"", b'v1\n{"path":"fi', b"\0" * 40])
def test_a_list_of_files_that_was_cut_off_is_made_anew(
    spark: Path, left: bytes, name: str, plans: bool
) -> None:
    listed = spark / "sources" / "0"
    listed.mkdir(parents=True)
    for whole in ("2", "3"):
        (listed / whole).write_text('v1\n{"path":"file:/a","timestamp":1,"batchId":3}')
    (listed / name).write_bytes(left)
    (listed / f".{name}.crc").write_bytes(b"crc")
    offsets = spark / "offsets" / "5"
    offsets.write_text(OFFSETS.replace("3", "4"))
    if not plans:
        offsets.unlink()
    assert mend(LocalFolder(spark), 4) == 4
    assert names(listed) == ["2", "3"]
    assert not offsets.exists()


def test_the_plan_of_a_batch_that_is_committed_is_refused(spark: Path) -> None:
    (spark / "offsets" / "5").write_bytes(b"v1")
    with pytest.raises(DamagedFile, match=r"offsets/5 is damaged: .*restore .*spark as it was"):
        mend(LocalFolder(spark), 5)
    (spark / "offsets" / "5").unlink()
    with pytest.raises(DamagedFile, match="it would make up a new batch 5"):
        Checkpoint(LocalFolder(spark.parent)).mend_notes(5)


@pytest.mark.parametrize("left", [b"", COMMIT.encode()[:-3], None])
def test_a_batch_that_spark_may_be_done_with_comes_again(spark: Path, left: bytes | None) -> None:
    if left is None:
        # Only its checksum is left.
        (spark / "commits" / "4").unlink()
    else:
        (spark / "commits" / "4").write_bytes(left)
    assert mend(LocalFolder(spark), 4) == 5
    assert not {"4", ".4.crc"} & set(names(spark / "commits"))
    assert {"3", ".3.crc"} <= set(names(spark / "commits"))


@pytest.mark.parametrize("left", [b"", b'{"id', b"[]", None])
def test_a_name_that_nothing_depends_on_is_written_anew(spark: Path, left: bytes | None) -> None:
    if left is None:
        (spark / "metadata").unlink()
    else:
        (spark / "metadata").write_bytes(left)
    (spark / ".metadata.crc").write_bytes(b"crc")
    mend(LocalFolder(spark), 4)
    assert json.loads((spark / "metadata").read_text())["id"]
    assert ".metadata.crc" not in names(spark)


def test_a_stream_that_spark_knows_nothing_of_is_left_alone(tmp_path: Path) -> None:
    """Its rows are no stream's, and all of them its only batch."""
    Checkpoint(LocalFolder(tmp_path)).mend_notes(0)
    assert list(tmp_path.iterdir()) == []


def entry(path: str, time: int, number: int) -> str:
    return json.dumps({"path": path, "timestamp": time, "batchId": number}, separators=(",", ":"))


def test_the_files_of_a_batch_are_told_with_their_times(tmp_path: Path) -> None:
    offsets, lists = tmp_path / "offsets", tmp_path / "sources" / "0"
    offsets.mkdir()
    lists.mkdir(parents=True)
    for batch, end in enumerate((0, 8, 9, 9)):
        (offsets / str(batch)).write_text(f'v1\n{{}}\n{{"logOffset":{end}}}\n')
    (lists / "0").write_text("\n".join(["v1", entry("file:///a%20b", 1, 0), entry("file:///c%2520d", 2, 0)]))
    (lists / "8").write_text("\n".join(["v1", entry("file:///e", 3, 8)]))
    earlier = [entry("file:///a%20b", 1, 0), entry("file:///e", 3, 8), entry("file:///19", 4, 19)]
    (lists / "9.compact").write_text("\n".join(["v1", *earlier, entry("file:///é", 5, 9)]))
    found = [listed_files(LocalFolder(tmp_path), batch) for batch in range(5)]
    assert found == [{"file:///a b": 1, "file:///c%20d": 2}, {"file:///e": 3}, {"file:///é": 5}, {}, {}]


def test_a_source_that_is_not_files_lists_none(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"topic":{"0":7}}\n')
    assert listed_files(LocalFolder(tmp_path), 0) == {}
