"""Commits are folded into snapshots, and removed once nothing needs them."""

import logging
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.checkpoint_samples import BIG, GROUPING, PAUSED, commit, one_row, recovered, starts, wrote
from tests.unit.state_samples import Row, block

from weft.durability import checkpoint as checkpoint_module
from weft.durability.checkpoint import Checkpoint
from weft.durability.registry import Registry
from weft.errors import DamagedFile
from weft.storage import LocalFolder


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """Return where a checkpoint is to be."""
    return LocalFolder(tmp_path / "checkpoint")


# What is read.


def fold(checkpoint: Checkpoint, number: int, *slices: int) -> None:
    """Write a snapshot after a commit, of the given slices."""
    folded = block([Row(start, None, None, None, None) for start in slices])
    checkpoint.snapshot(commit(number), Registry([BIG]), {(GROUPING, 0): folded})


def test_a_restart_reads_the_newest_snapshot_and_the_commits_after_it(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, one_row(0), one_row(10))
    fold(checkpoint, 1, 0, 10)
    assert recovered(folder).last == commit(1)
    assert list(recovered(folder).registry) == [BIG]
    assert starts(folder) == [[0, 10]]
    checkpoint.write(commit(2), [PAUSED.as_record()], {(GROUPING, 0): one_row(20)}, {})
    assert recovered(folder).last == commit(2)
    assert list(recovered(folder).registry) == [BIG, PAUSED]
    assert starts(folder) == [[0, 10], [20]]
    fold(checkpoint, 2, 10, 20)
    assert starts(folder) == [[10, 20]]


def test_a_snapshot_is_enough(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, one_row(0))
    fold(checkpoint, 0, 0)
    folder.folder("commits").delete("000000000")
    assert starts(folder) == [[0]]
    Checkpoint(folder).write(commit(1), (), {(GROUPING, 0): one_row(10)}, {})
    assert starts(folder) == [[0], [10]]


def test_a_snapshot_is_wanted_after_many_commits_or_bytes(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(folder)
    for number in range(99):
        checkpoint.write(commit(number), (), {}, {})
    assert not checkpoint.wants_snapshot
    # Those of the run before count.
    again = Checkpoint(folder)
    again.recover()
    again.write(commit(99), (), {}, {})
    assert again.wants_snapshot
    fold(again, 99, 0)
    assert not again.wants_snapshot
    size = len(folder.folder("snapshots").read("000000099"))
    monkeypatch.setattr(checkpoint_module, "_SNAPSHOT_BYTES", 1)
    # Not before the commits are as large as the snapshot, or many small ones would cost much.
    written = 0
    for number in range(100, 150):
        assert again.wants_snapshot == (written >= size)
        if again.wants_snapshot:
            break
        again.write(commit(number), (), {(GROUPING, 0): one_row(number)}, {})
        written += len(folder.folder("commits").read(f"{number:09d}"))
    assert again.wants_snapshot


def test_the_snapshot_before_stands_in_for_a_damaged_one(
    folder: LocalFolder, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, *map(one_row, (0, 10, 20, 30)))
    fold(checkpoint, 1, 0, 10)
    fold(checkpoint, 2, 0, 10, 20)
    checkpoint.prune(3)
    assert folder.folder("commits").names() == ["000000002", "000000003"]
    assert starts(folder) == [[0, 10, 20], [30]]
    _damage(folder, "000000002")
    with caplog.at_level(logging.WARNING, "weft.checkpoint"):
        assert starts(folder) == [[0, 10], [20], [30]]
    assert "snapshot is damaged" in caplog.text
    assert recovered(folder).last == commit(3)
    _damage(folder, "000000001")
    with pytest.raises(DamagedFile, match="snapshots/000000002 is "):
        Checkpoint(folder).recover()


def test_all_commits_stand_in_for_a_damaged_snapshot(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, one_row(0), one_row(10))
    fold(checkpoint, 1, 0, 10)
    checkpoint.prune(1)
    _damage(folder, "000000001")
    assert starts(folder) == [[0], [10]]


class KnowingFolder(LocalFolder):
    """A folder that knows itself when bytes are not those that were written, as Hadoop does."""

    def folder(self, name: str) -> "KnowingFolder":
        """Return a folder inside."""
        return KnowingFolder(self.path / name)

    def read(self, name: str) -> bytes:
        """Return a file's bytes."""
        data = super().read(name)
        if data.endswith(b"damaged"):
            raise DamagedFile(f"{self.uri}/{name} is damaged")
        return data


def _spoil(folder: LocalFolder, name: str) -> None:
    folder.write(name, folder.read(name) + b"damaged", replace=True)


def test_what_the_storage_knows_to_be_damaged_is_done_without(tmp_path: Path) -> None:
    folder = KnowingFolder(tmp_path)
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, *map(one_row, (0, 10, 20)))
    fold(checkpoint, 0, 0)
    fold(checkpoint, 1, 0, 10)
    checkpoint.prune(0)
    checkpoint.set_delivered("parquet", 2)
    _spoil(folder.folder("snapshots"), "000000001")
    _spoil(folder.folder("delivered"), "parquet")
    assert starts(folder) == [[0], [10], [20]]
    assert checkpoint.delivered("parquet") == 0
    checkpoint.deliver_to({"parquet": 0})
    assert Checkpoint(folder).delivered("parquet") == 0
    checkpoint.set_delivered("parquet", 2)
    assert Checkpoint(folder).delivered("parquet") == 2
    _spoil(folder.folder("commits"), "000000002")
    with pytest.raises(DamagedFile, match=r"000000002 is damaged; its results are not delivered until it is"):
        checkpoint.results(2)
    with pytest.raises(DamagedFile, match="000000002 is damaged"):
        recovered(folder)


def _damage(folder: LocalFolder, name: str) -> None:
    path = folder.path / "snapshots" / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


# What is kept.


@pytest.mark.parametrize(
    ("folded", "delivered", "snapshots", "commits"),
    [
        ([], 5, [], [0, 1, 2, 3, 4, 5]),
        # The newest snapshot may turn out to be damaged: all that it was made of stays.
        ([3], 5, [3], [0, 1, 2, 3, 4, 5]),
        ([1, 3], 5, [1, 3], [2, 3, 4, 5]),
        ([1, 3, 5], 5, [3, 5], [4, 5]),
        # Results that a sink does not have keep their commits.
        ([1, 3, 5], 2, [3, 5], [3, 4, 5]),
        ([1, 3, 5], -1, [3, 5], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_what_nothing_needs_is_removed(
    folder: LocalFolder, folded: list[int], delivered: int, snapshots: list[int], commits: list[int]
) -> None:
    checkpoint = Checkpoint(folder)
    for number in range(6):
        results = {"q": pa.table({"n": [number]})}
        checkpoint.write(commit(number), (), {(GROUPING, 0): one_row(number)}, results)
        if number in folded:
            fold(checkpoint, number, *range(number + 1))
    before = starts(folder)
    checkpoint.prune(delivered)
    assert list(map(int, folder.folder("snapshots").names())) == snapshots
    assert list(map(int, folder.folder("commits").names())) == commits
    assert starts(folder) == before
    waiting = [Checkpoint(folder).results(number)["q"]["n"].to_pylist() for number in range(delivered + 1, 6)]
    assert waiting == [[number] for number in range(delivered + 1, 6)]


def test_a_snapshot_that_is_known_to_be_damaged_does_not_count(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, *map(one_row, (0, 10, 20)))
    fold(checkpoint, 0, 0)
    fold(checkpoint, 2, 0, 10, 20)
    _damage(folder, "000000002")
    again = Checkpoint(folder)
    again.recover()
    again.write(commit(3), (), {(GROUPING, 0): one_row(30)}, {})
    fold(again, 3, 0, 10, 20, 30)
    again.prune(3)
    assert folder.folder("snapshots").names() == ["000000000", "000000003"]
    assert folder.folder("commits").names() == ["000000001", "000000002", "000000003"]
    # Should the new one be damaged too, there is still a way to all rows.
    _damage(folder, "000000003")
    assert starts(folder) == [[0], [10], [20], [30]]


def test_a_damaged_snapshot_that_is_written_again_counts(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, one_row(0), one_row(10))
    fold(checkpoint, 0, 0)
    fold(checkpoint, 1, 0, 10)
    _damage(folder, "000000001")
    again = Checkpoint(folder)
    again.recover()
    fold(again, 1, 0, 10)
    again.prune(1)
    assert folder.folder("commits").names() == ["000000001"]
    assert starts(folder) == [[0, 10]]


# What is delivered.


def test_results_wait_in_a_commit_that_is_damaged_only_for_them(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, one_row(0))
    path = folder.path / "commits" / "000000000"
    path.write_bytes(b"")
    with pytest.raises(DamagedFile, match=r"commits/000000000 is cut off .* not delivered until it is rest"):
        checkpoint.results(0)


def test_what_is_delivered_is_remembered(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, *map(one_row, range(6)))
    assert checkpoint.delivered("parquet") == -1
    for number in (0, 5):
        checkpoint.set_delivered("parquet", number)
        assert Checkpoint(folder).delivered("parquet") == number
    assert checkpoint.delivered("postgres") == -1


def _kept(folder: LocalFolder, *numbers: int) -> Checkpoint:
    """Return a checkpoint of six commits, the last of them in a snapshot, of which only some are left."""
    checkpoint = Checkpoint(folder)
    wrote(checkpoint, *map(one_row, range(6)))
    fold(checkpoint, 5, *range(6))
    for number in set(range(6)).difference(numbers):
        folder.folder("commits").delete(f"{number:09d}")
    return checkpoint


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "7", '{"commit": null}', '{"commit": "x"}', '{"commit": 5}',
     '{"commit": 4, "away": false, "crc32": 1}', "\udcff"],
)  # fmt: skip
def test_a_damaged_note_has_all_that_is_at_hand_delivered_again(
    folder: LocalFolder, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = _kept(folder, 2, 3, 4, 5)
    folder.folder("delivered").write("parquet", text.encode(errors="surrogateescape"))
    with caplog.at_level(logging.WARNING, "weft.checkpoint"):
        assert checkpoint.delivered("parquet") == 1
    assert "the note of the progress of sink parquet is damaged" in caplog.text
    checkpoint.deliver_to({"parquet": 1})
    caplog.clear()
    assert checkpoint.delivered("parquet") == 1
    assert caplog.text == ""


@pytest.mark.parametrize("digit", ["3", "5"])
def test_a_note_that_was_changed_is_not_believed(folder: LocalFolder, digit: str) -> None:
    checkpoint = _kept(folder, 2, 3, 4, 5)
    checkpoint.set_delivered("parquet", 4)
    path = folder.path / "delivered" / "parquet"
    path.write_text(path.read_text().replace('"commit": 4', f'"commit": {digit}'))
    assert checkpoint.delivered("parquet") == 1


@pytest.mark.parametrize(
    ("kept", "done", "missing"),
    [
        ((0, 1, 2, 3, 4, 5), None, None),
        # Without a note, what is gone was delivered.
        ((4, 5), None, None),
        ((), None, None),
        ((4, 5), 3, None),
        ((4, 5), 2, "000000003 is missing, and"),
        ((4, 5), -1, "000000000 is missing (and 3 more), and"),
        ((2, 3, 5), 3, "000000004 is missing, and"),
        ((2, 3, 5), None, "000000004 is missing, and"),
        ((2, 3, 5), 4, None),
        ((2, 3), 3, "000000004 is missing (and 1 more), and"),
        ((), 3, "000000004 is missing (and 1 more), and"),
    ],
)
def test_results_that_are_gone_before_they_are_delivered_are_missed(
    folder: LocalFolder, kept: tuple[int, ...], done: int | None, missing: str | None
) -> None:
    checkpoint = _kept(folder, *kept)
    if done is not None:
        checkpoint.set_delivered("parquet", done)
    # A restart alone would not need them.
    assert starts(folder) == [list(range(6))]
    if missing is None:
        found = checkpoint.delivered("parquet")
        assert found == (done if done is not None else kept[0] - 1 if kept else 5)
        return
    with pytest.raises(DamagedFile) as caught:
        checkpoint.delivered("parquet")
    assert f'commit {missing} sink "parquet" does not have its results; restore it' in str(caught.value)


def test_a_sink_that_was_left_out_goes_on_with_what_there_is(
    folder: LocalFolder, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint = _kept(folder, 3, 4, 5)
    checkpoint.set_delivered("postgres", 0)
    checkpoint.set_delivered("parquet", 5)
    checkpoint.deliver_to({"parquet": 5})
    assert checkpoint.delivered("parquet") == 5
    with caplog.at_level(logging.WARNING, "weft.checkpoint"):
        assert checkpoint.delivered("postgres") == 2
    assert "sink postgres was left out for a while: it lacks results of then" in caplog.text
    # From now on it is to have everything.
    checkpoint.deliver_to({"parquet": 5, "postgres": 2})
    folder.folder("commits").delete("000000003")
    with pytest.raises(DamagedFile, match=r'commit 000000003 is missing, and sink "postgres"'):
        checkpoint.delivered("postgres")
