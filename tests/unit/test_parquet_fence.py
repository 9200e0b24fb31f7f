"""The Parquet sink's fence: nothing is removed or replaced for an engine that it does not know."""

import shutil
from pathlib import Path

import pytest
from tests.unit.lineages import after
from tests.unit.test_sinks_parquet import result, started, written

from weft.errors import DamagedFile, Fenced
from weft.sinks import ParquetSink, parquet
from weft.sinks.fence import Lineage, Target
from weft.storage import LocalFolder

ORIGIN = "one trades"


def fenced(folder: Path, lineage: Lineage, done: int, *queries: str) -> ParquetSink:
    """Return a sink that an incarnation delivers to after a commit."""
    sink = ParquetSink(LocalFolder(folder), queries=dict.fromkeys(queries, result().schema))
    sink.set_lineage(lineage)
    sink.resume(done, origin=ORIGIN)
    return sink


def give(sink: ParquetSink, commits: range, query: str = "a") -> None:
    for commit in commits:
        sink.deliver(commit, {query: result(commit)})
        sink.flush()


def everything(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def target(lineage: Lineage, commit: int) -> Target:
    # Windows of commit n end at n.
    return Target(origin=ORIGIN, lineage=lineage, commit=commit, watermark=commit if commit >= 0 else None)


def test_a_restored_checkpoint_changes_nothing_and_is_refused_for_good(tmp_path: Path) -> None:
    first = after(-1)
    give(fenced(tmp_path, first, -1, "a"), range(3))
    give(fenced(tmp_path, after(2, since=first), 2, "a"), range(3, 5))
    before = everything(tmp_path)
    copy = after(1, since=first)
    for _ in range(3):
        with pytest.raises(Fenced, match="through commit 000000004 of incarnation 2"):
            fenced(tmp_path, copy, 1, "a")
    assert everything(tmp_path) == before


def test_whoever_was_overtaken_is_refused_at_the_next_flush(tmp_path: Path) -> None:
    first = after(-1)
    original = fenced(tmp_path, first, -1, "a")
    give(original, range(2))
    copy = fenced(tmp_path, after(1, since=first), 1, "a")
    original.deliver(2, {"a": result(2)})
    # Nobody has delivered since: whoever does so first may go on.
    give(copy, range(2, 4))
    before = everything(tmp_path)
    with pytest.raises(Fenced, match="through commit 000000003 of incarnation 2"):
        original.flush()
    assert (everything(tmp_path), written(tmp_path, "a")) == (before, [0, 1, 2, 3])


def test_a_claim_comes_before_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in the midst of a flush: what is there of later commits is fenced all the same."""
    first = after(-1)
    sink = fenced(tmp_path, first, -1)
    give(sink, range(2))

    def crash(point: str) -> None:
        raise ConnectionError(point)

    monkeypatch.setattr(parquet, "reach", crash)
    sink.deliver(2, {"a": result(2), "b": result(2)})
    with pytest.raises(ConnectionError):
        sink.flush()
    monkeypatch.undo()
    assert written(tmp_path, "a") == [0, 1, 2]
    with pytest.raises(Fenced, match="through commit 000000002"):
        fenced(tmp_path, after(1, since=first), 1)
    again = fenced(tmp_path, after(2, since=first), 1)
    give(again, range(2, 3))
    assert written(tmp_path, "a") == [0, 1, 2]


def test_files_without_a_claim_tell_through_which_commit_they_go(tmp_path: Path) -> None:
    sink = ParquetSink(LocalFolder(tmp_path))
    sink.resume(-1, origin=ORIGIN)
    give(sink, range(5))
    fenced(tmp_path, after(4), 2)
    with pytest.raises(Fenced, match="through commit 000000004"):
        fenced(tmp_path, after(3), 2)


def test_a_damaged_claim_is_named(tmp_path: Path) -> None:
    first = after(-1)
    give(fenced(tmp_path, first, -1), range(2))
    [claim] = tmp_path.glob("_weft-*-claim.json")
    claim.write_bytes(claim.read_bytes()[:9])
    with pytest.raises(DamagedFile, match=claim.name):
        fenced(tmp_path, after(1, since=first), 1)


def test_a_folder_is_taken_back_to_what_both_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_SMALL_FILES", 3)
    first = after(-1)
    give(fenced(tmp_path, first, -1), range(10))
    give(fenced(tmp_path, after(9, since=first), 9), range(10, 12), "b")
    assert len(list((tmp_path / "a").glob("weft-*"))) < 5
    before, copy = everything(tmp_path), after(5, since=first)
    sink = ParquetSink(LocalFolder(tmp_path))
    told = sink.surplus(target(copy, 5))
    assert everything(tmp_path) == before
    assert {(one.query, one.rows) for one in told} == {("a", 4), ("b", 2)}
    sink.rewind(target(copy, 5))
    assert (written(tmp_path, "a"), written(tmp_path, "b")) == ([0, 1, 2, 3, 4, 5], [])
    again = fenced(tmp_path, copy, 3)
    for commit in range(4, 8):
        again.deliver(commit, {"a": result(commit if commit < 6 else -commit)})
        again.flush()
    assert written(tmp_path, "a") == [-7, -6, 0, 1, 2, 3, 4, 5]
    with pytest.raises(Fenced):
        fenced(tmp_path, after(9, since=first), 9)


def test_a_folder_is_taken_over_from_another_checkpoint_only_deliberately(tmp_path: Path) -> None:
    give(fenced(tmp_path, after(-1), -1), range(3))
    lineage, origin = after(-1), "two trades"
    sink = ParquetSink(LocalFolder(tmp_path), queries={"a": result().schema})
    sink.set_lineage(lineage)
    with pytest.raises(Fenced, match="another checkpoint"):
        sink.resume(-1, origin=origin)
    assert written(tmp_path, "a") == [0, 1, 2]
    new = Target(origin=origin, lineage=lineage, commit=-1, watermark=None)
    assert [(one.query, one.rows, one.why) for one in sink.surplus(new)] == [
        ("a", 3, "of another checkpoint")
    ]
    sink.rewind(new)
    sink.resume(-1, origin=origin)
    sink.deliver(0, {"a": result(7)})
    sink.flush()
    assert written(tmp_path, "a") == [7]


def test_of_two_new_checkpoints_with_queries_of_one_name_the_second_to_deliver_is_refused(
    tmp_path: Path,
) -> None:
    sinks = [ParquetSink(LocalFolder(tmp_path), queries={"a": result().schema}) for _ in range(2)]
    for sink, origin in zip(sinks, ("one trades", "two trades"), strict=True):
        sink.set_lineage(after(-1))
        sink.resume(-1, origin=origin)
        sink.deliver(0, {"a": result(1)})
    sinks[0].flush()
    with pytest.raises(Fenced, match="another checkpoint"):
        sinks[1].flush()
    assert written(tmp_path, "a") == [1]
    give(sinks[0], range(1, 3))
    assert written(tmp_path, "a") == [1, 1, 2]


def test_two_checkpoints_share_a_folder_if_their_queries_differ(tmp_path: Path) -> None:
    sinks = [ParquetSink(LocalFolder(tmp_path), queries={name: result().schema}) for name in "ab"]
    for sink, origin in zip(sinks, ("one trades", "two trades"), strict=True):
        sink.set_lineage(after(-1))
        sink.resume(-1, origin=origin)
    for commit in range(3):
        give(sinks[0], range(commit, commit + 1), "a")
        give(sinks[1], range(commit, commit + 1), "b")
    assert (written(tmp_path, "a"), written(tmp_path, "b")) == ([0, 1, 2], [0, 1, 2])


def test_a_run_leaves_no_claim(tmp_path: Path) -> None:
    sink = started(tmp_path)
    give(sink, range(2))
    assert not list(tmp_path.glob("_weft-*"))


def test_a_folder_that_was_emptied_is_told_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = after(-1)
    give(fenced(tmp_path, first, -1, "a"), range(3))
    fenced(tmp_path, after(2, since=first), 2, "a")
    assert caplog.messages == []
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    sink = fenced(tmp_path, after(2, since=first), 2, "a")
    assert f"{tmp_path} has none of the results through commit 2" in caplog.text
    give(sink, range(3, 4))
    assert written(tmp_path, "a") == [3]
