"""The fence of rows that are set aside: a copy of a checkpoint removes none that the original has kept."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.lineages import after

from weft.durability import side_output as aside
from weft.durability.side_output import Aside
from weft.errors import DamagedFile, Fenced
from weft.sinks.fence import Lineage
from weft.state.clock import RowCounts
from weft.storage import LocalFolder


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(rows: object, stream_uri: str, *, batch: int, kind: str) -> None:
        folder = Path(stream_uri.removeprefix("file://")) / f"batch={batch:09d}"
        folder.mkdir(parents=True)
        (folder / "part").write_text(kind)

    monkeypatch.setattr(aside, "write_set_aside", write)


def late(place: Path, lineage: Lineage, **given: Any) -> Aside:
    return Aside(stream="s", origin="me", quarantine=None, late=LocalFolder(place), lineage=lineage, **given)


def keep(one: Aside, batch: int, *, commit: int | None) -> None:
    """Set a row aside in a batch, and commit the batch unless that fails."""
    rows: Any = object
    kept = one.keep(rows, RowCounts(late=1), batch)
    if commit is not None:
        one.note_commit(kept, commit)


def batches(place: Path) -> list[int]:
    return sorted(int(one.name.removeprefix("batch=")) for one in place.glob("stream=s/batch=*"))


def test_a_copy_of_a_running_checkpoint_removes_nothing(tmp_path: Path) -> None:
    first = after(-1)
    original = late(tmp_path, first)
    for number in range(3):
        keep(original, number, commit=number)
    copy = late(tmp_path, after(2, since=first))
    keep(original, 3, commit=3)
    with pytest.raises(Fenced, match=r"incarnation 1 \(.*\) has set aside through commit 000000003, which"):
        copy.forget_after(2)
    with pytest.raises(Fenced):
        keep(copy, 3, commit=None)
    assert batches(tmp_path) == [0, 1, 2, 3]
    keep(original, 4, commit=4)
    copy.forget_after(2, rewind=True)
    assert batches(tmp_path) == [0, 1, 2]
    keep(copy, 3, commit=3)
    with pytest.raises(Fenced, match="incarnation 2"):
        keep(original, 5, commit=None)


def test_who_died_with_a_batch_half_done_does_it_again(tmp_path: Path) -> None:
    first = after(-1)
    keep(late(tmp_path, first), 0, commit=0)
    keep(late(tmp_path, first), 1, commit=None)
    # Commits and batches are counted apart: queries came and went.
    second = late(tmp_path, after(4, since=first))
    second.forget_after(0)
    assert batches(tmp_path) == [0]
    keep(second, 1, commit=5)
    late(tmp_path, after(5, since=after(4, since=first))).forget_after(1)
    assert batches(tmp_path) == [0, 1]


def test_nothing_is_removed_if_one_of_two_folders_is_anothers(tmp_path: Path) -> None:
    first, places = after(-1), [tmp_path / "quarantine", tmp_path / "late"]
    keep(late(places[0], first), 1, commit=None)
    keep(late(places[1], first), 1, commit=1)
    quarantine, other = map(LocalFolder, places)
    both = Aside(stream="s", origin="me", quarantine=quarantine, late=other, lineage=after(0, since=first))
    with pytest.raises(Fenced):
        both.forget_after(0)
    assert [batches(place) for place in places] == [[1], [1]]


def test_a_folder_in_the_checkpoint_is_copied_with_it(tmp_path: Path) -> None:
    """Perhaps a moment after its commits: rows of those that the copy does not have are not missed there."""
    first, place = after(-1), LocalFolder(tmp_path)
    keep(late(tmp_path, first), 1, commit=1)
    copy = Aside(
        stream="s", origin="me", quarantine=place, late=None, lineage=after(0, since=first), inside=place
    )
    copy.forget_after(0)
    assert batches(tmp_path) == []


def test_claims_of_older_versions_are_read(tmp_path: Path) -> None:
    first = after(-1)
    keep(late(tmp_path, first), 0, commit=None)
    claim = tmp_path / "stream=s" / "_claim.json"
    claim.write_text(json.dumps({**json.loads(claim.read_text()), "through": -1}))
    follower = late(tmp_path, after(7, since=first))
    keep(follower, 1, commit=8)
    assert json.loads(claim.read_text())["through"] == 8
    with pytest.raises(Fenced):
        keep(late(tmp_path, after(-1)), 2, commit=None)


def test_a_damaged_claim_is_named_and_a_rewind_writes_it_anew(tmp_path: Path) -> None:
    first = after(-1)
    keep(late(tmp_path, first), 0, commit=0)
    claim = tmp_path / "stream=s" / "_claim.json"
    claim.write_text("{")
    second = late(tmp_path, after(0, since=first))
    with pytest.raises(DamagedFile, match=r"_claim\.json is damaged"):
        keep(second, 1, commit=None)
    second.forget_after(0, rewind=True)
    keep(second, 1, commit=1)
    assert batches(tmp_path) == [0, 1]
