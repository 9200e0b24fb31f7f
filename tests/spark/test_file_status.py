"""What tells whether files are as they were, on this machine and elsewhere."""

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from weft.errors import SourceError
from weft.spark.input import files as file_status
from weft.spark.input.files import FileStatus, statuses

LIKE_AN_ANSWER = "x; isDirectory=false; length=1; replication=1; blocksize=1; modification_time=1; y"
NAMES = ["a b", "c%20d", "é 日本", LIKE_AN_ANSWER, "q[1]{2}*?", "back\\slash"]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, FileStatus]:
    """Return files with odd names, and how they are."""
    found = {}
    for number, name in enumerate(NAMES):
        path = tmp_path / name
        path.write_bytes(bytes(number))
        os.utime(path, ns=(0, 1_700_000_000_123_999_999 + number * 1_000_000))
        found[f"file://{path}"] = FileStatus(modified_ms=1_700_000_000_123 + number, size=number)
    return found


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Hadoop be asked for files of this machine, as for those of any other."""
    monkeypatch.setattr(file_status, "ON_THIS_MACHINE", "no path")


def test_files_here_are_told_without_spark(files: dict[str, FileStatus], tmp_path: Path) -> None:
    gone = [f"file://{tmp_path}/gone", f"file://{tmp_path}/a b/below a file"]
    session: SparkSession = None  # type: ignore[assignment]
    assert statuses(session, [*gone, *files]) == files
    assert statuses(session, [path.replace("file://", "file:") for path in files]).keys() == {
        path.replace("file://", "file:") for path in files
    }


def test_a_place_that_does_not_tell_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(SourceError, match=r"file:///x cannot be looked at \(Permission denied\)"):
        statuses(None, ["file:///x"])  # type: ignore[arg-type]


@pytest.mark.usefixtures("elsewhere")
def test_files_elsewhere_are_told_all_at_once(
    spark: SparkSession, files: dict[str, FileStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    clear = {path: status for path, status in files.items() if LIKE_AN_ANSWER not in path}
    with monkeypatch.context() as patch:
        patch.setattr(file_status, "_status_alone", lambda *_: pytest.fail("asked for one by one"))
        assert statuses(spark, clear) == clear
    # A name that reads like an answer has them asked for one by one.
    assert statuses(spark, files) == files


@pytest.mark.usefixtures("elsewhere")
def test_files_that_are_gone_elsewhere_are_left_out(
    spark: SparkSession, files: dict[str, FileStatus], tmp_path: Path
) -> None:
    assert statuses(spark, [f"file://{tmp_path}/gone", *files]) == files
    assert statuses(spark, [f"file://{tmp_path}/gone"]) == {}
    with pytest.raises(SourceError, match=r"nowhere://x/y cannot be looked at .*UnsupportedFileSystem"):
        statuses(spark, ["nowhere://x/y"])
