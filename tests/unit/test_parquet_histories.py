"""Files of several checkpoints and streams in one folder: none is taken for another's."""

from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.test_sinks_parquet import Crash, FailingFolder, files, result, started, written

from weft.errors import Fenced
from weft.sinks import ParquetSink, parquet
from weft.storage import LocalFolder
from weft.storage.names import file_name


def counted(folder: Path, origin: str, after: int = -1, **queries: pa.Schema) -> ParquetSink:
    """Return a sink of one history."""
    sink = ParquetSink(LocalFolder(folder), queries=queries)
    sink.resume(after, origin=origin)
    return sink


def give(sink: ParquetSink, query: str, commits: range, sign: int = 1) -> None:
    for commit in commits:
        sink.deliver(commit, {query: result(sign * commit)})
        sink.flush()


def test_files_of_another_checkpoint_are_neither_taken_for_ones_own_nor_removed(tmp_path: Path) -> None:
    """A query joins that the folder holds files of, from a checkpoint with more commits."""
    give(counted(tmp_path, "one trades"), "spike", range(1, 70))
    sink = counted(tmp_path, "two trades")
    give(sink, "other", range(5))
    sink = counted(tmp_path, "two trades", after=4)
    with pytest.raises(Fenced, match="spike holds results of another checkpoint"):
        sink.check_free("spike")
    with pytest.raises(Fenced):
        give(sink, "spike", range(5, 10), sign=-1)
    with pytest.raises(Fenced):
        counted(tmp_path, "two trades", after=4, spike=result().schema)
    assert written(tmp_path, "spike") == list(range(1, 70))
    assert written(tmp_path, "other") == list(range(5))


@pytest.mark.parametrize("after", [-1, 30])
def test_a_name_that_becomes_another_streams_keeps_the_results_of_both(tmp_path: Path, after: int) -> None:
    give(counted(tmp_path, "one a"), "q", range(1, 100))
    sink = counted(tmp_path, "one b", after=after, q=result().schema)
    give(sink, "q", range(after + 1, 60), sign=-1)
    assert written(tmp_path, "q") == sorted([*range(1, 100), *(-n for n in range(after + 1, 60))])
    # And so it stays for either.
    give(counted(tmp_path, "one a", after=99, q=result().schema), "q", range(100, 102))
    assert len(written(tmp_path, "q")) == 99 + 59 - after + 2


def test_a_run_without_a_checkpoint_removes_what_other_runs_left_of_its_queries(tmp_path: Path) -> None:
    give(started(tmp_path, run="one trades"), "a", range(9))
    give(started(tmp_path, run="one trades"), "b", range(9))
    sink = started(tmp_path, a=result().schema)
    give(sink, "a", range(2))
    assert (written(tmp_path, "a"), len(written(tmp_path, "b"))) == ([0, 1], 9)


def test_a_run_without_a_checkpoint_leaves_a_checkpoints_results_alone(tmp_path: Path) -> None:
    give(counted(tmp_path, "one trades"), "a", range(9))
    with pytest.raises(Fenced, match="another checkpoint"):
        started(tmp_path, a=result().schema)
    assert written(tmp_path, "a") == list(range(9))


def test_a_merge_that_was_cut_off_is_finished_though_its_query_rests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_SMALL_FILES", 3)

    def no_rename(path: Path, name: str) -> bool:
        return name.startswith("_") and not any(path.glob("weft-*"))

    sink = ParquetSink(FailingFolder(tmp_path, no_rename))
    sink.resume(-1, origin="one trades")
    with pytest.raises(Crash):
        give(sink, "a", range(4))
    assert (written(tmp_path, "a"), len(files(tmp_path / "a"))) == ([], 1)
    counted(tmp_path, "one trades", after=3)
    assert written(tmp_path, "a") == [0, 1, 2, 3]


@pytest.mark.parametrize("query", ["by symbol", "_hidden", "é", "-x"])
def test_results_under_the_name_that_older_versions_gave_stay_with_the_query(
    tmp_path: Path, query: str
) -> None:
    name = file_name(query)
    give(counted(tmp_path, "one trades"), query, range(3))
    (tmp_path / name).rename(tmp_path / query)
    # Those of another checkpoint, and what is none of Weft's, keep their name.
    give(counted(tmp_path, "two trades"), "a b", range(3))
    (tmp_path / "a%20b").rename(tmp_path / "a b")
    LocalFolder(tmp_path).folder("my notes").write("x", b"1")
    sink = counted(tmp_path, "one trades", after=2)
    give(sink, query, range(3, 5))
    assert written(tmp_path, name) == list(range(5))
    assert LocalFolder(tmp_path).names() == sorted([name, "a b", "my notes"])


def test_queries_whose_names_differ_in_case_are_two(tmp_path: Path) -> None:
    sink = counted(tmp_path, "one trades")
    sink.deliver(0, {"q": result(1), "Q": result(2)})
    sink.flush()
    assert (written(tmp_path, "q"), written(tmp_path, "Q")) == ([1], [2])
