"""Blocks and commits come back from disk as they were, whole or not at all."""

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.unit.aggregate_samples import lifted
from tests.unit.checkpoint_samples import (
    ANOTHER,
    BIG,
    COUNTS,
    GROUPING,
    PAUSED,
    commit,
    one_row,
    recovered,
    sections,
    starts,
    wrote,
)
from tests.unit.state_samples import (
    COUNT,
    EXACT,
    FEES,
    FIRST,
    SPREAD,
    TOTAL,
    Asked,
    Row,
    block,
    contents,
    rows,
    state_of,
)

from weft.aggregates import ADD, GREATEST, LEAST, Primitive
from weft.durability.checkpoint import Checkpoint
from weft.durability.encoding import StoredBlock, block_bytes
from weft.durability.registry import QueryState, Registered, Registry
from weft.durability.stored_names import grouping_name
from weft.errors import DamagedFile, EngineError
from weft.expression import Call, Column
from weft.state.store import Block
from weft.storage import LocalFolder
from weft.storage.container import pack, unpack
from weft.types import BIGINT, BOOLEAN, DataType, Kind

ALL = (*EXACT, SPREAD)
ALL_ROWS: list[Any] = [Asked("all")]
"""The predicate of most blocks here, which are named rather than written out."""


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """Return where a checkpoint is to be."""
    return LocalFolder(tmp_path / "checkpoint")


# Blocks.


def stored(before: Block, *primitives: Primitive) -> Block:
    """Return a block as it comes back."""
    return StoredBlock("block/0", block_bytes(GROUPING, before, "book")).block(primitives, before.signatures)


@settings(max_examples=25)
@given(several=rows)
def test_a_block_comes_back_as_it_was(several: list[Row]) -> None:
    for keyed in (True, False):
        before = block(several, ALL, keyed=keyed)
        assert StoredBlock("block/0", block_bytes(GROUPING, before, "book")).codebook == "book"
        after = stored(before, *ALL)
        assert after.fragments.dtype == before.fragments.dtype
        assert after.fragments.tolist() == before.fragments.tolist()
        assert (after.rows, len(after)) == (before.rows, len(before))
        assert list(after.partials) == list(before.partials)
        for one in ALL:
            left, right = before.partials[one], after.partials[one]
            assert [field.dtype for field in right.fields] == [field.dtype for field in left.fields]
            assert right.types == left.types
        assert contents(state_of(after, keyed=keyed)) == contents(state_of(before, keyed=keyed))


def test_numbers_wider_than_any_arrow_integer_come_back() -> None:
    fees = [Decimal(10**36 - 1), Decimal(1 - 10**36), None]
    after = stored(block([Row(place, "k", None, None, fee) for place, fee in enumerate(fees)]), *EXACT)
    assert after.partials[FEES].fields[0].tolist()[:2] == [(10**36 - 1) * 100, (1 - 10**36) * 100]
    assert after.partials[FEES].valid_mask().tolist() == [True, True, False]


def test_binary_and_boolean_partials_come_back() -> None:
    raw, flag = DataType(Kind.BINARY), BOOLEAN
    primitives = (
        Primitive(("min",), (Column("raw", raw),), LEAST, (raw,)),
        Primitive(("max",), (Column("ok", flag),), GREATEST, (flag,)),
    )
    slices: tuple[list[list[Any]], ...] = [[b"\xff\x00"], [b""], [None]], [[True], [False], [None]]
    before = Block(
        starts=np.arange(3),
        keys=pa.table({"x": [0, 0, 0]}).select([]),
        fragments=np.zeros(3, np.int32),
        signatures=one_row().signatures,
        partials={one: lifted(one, some) for one, some in zip(primitives, slices, strict=True)},
    )
    after = stored(before, *primitives)
    assert contents(state_of(after, keyed=False)) == contents(state_of(before, keyed=False))


def test_of_a_stored_block_only_known_primitives_are_taken() -> None:
    row = Row(0, "a", 7, "x", None)
    after = stored(block([row], [COUNT, TOTAL]), FIRST, TOTAL)
    assert list(after.partials) == [TOTAL]
    # What the block lacks is empty, as for a query that came later.
    state = state_of(after, block([row], [FIRST, TOTAL]))
    assert contents(state) == {("a", 0): ((14,), (b"x",))}


def test_a_primitive_is_known_wherever_its_text_stood() -> None:
    def total(span: tuple[int, int]) -> Primitive:
        doubled = Call("*", (Column("n", BIGINT, span), Column("n", BIGINT, span)), BIGINT, span)
        return Primitive(("sum",), (doubled,), ADD, (BIGINT,))

    before = Block(
        starts=np.array([0]),
        keys=pa.table({"x": [0]}).select([]),
        fragments=np.zeros(1, np.int32),
        signatures=one_row().signatures,
        partials={total((1, 2)): block([Row(0, None, 3, None, None)], [TOTAL]).partials[TOTAL]},
    )
    assert list(stored(before, total((70, 80))).partials) == [total((1, 2))]


# Commits.


def test_a_commit_comes_back_as_it_was(folder: LocalFolder) -> None:
    assert Checkpoint(folder).recover() is None
    written = block([Row(0, "a", 7, "x", Decimal("1.50"))])
    results = {
        "big": pa.table({"x": pa.array([Decimal("1.5"), None], pa.decimal128(38, 2)), "s": ["ü", None]}),
        "same columns": pa.table({"x": pa.array([Decimal("2.5")], pa.decimal128(38, 2)), "s": ["b"]}),
        "other columns": pa.table({"y": [1.5, float("inf")]}),
    }
    changes = [BIG.as_record(), PAUSED.as_record()]
    Checkpoint(folder).write(commit(0), changes, {(GROUPING, 0): written}, results)

    found = recovered(folder)
    assert found.last == commit(0)
    assert list(found.registry) == [BIG, PAUSED]
    assert not found.registry.changed
    assert Checkpoint(folder).results(0) == results
    ((grouping, one, signatures),) = found.blocks({GROUPING: ALL_ROWS, ANOTHER: ALL_ROWS})
    assert grouping == GROUPING
    assert contents(state_of(one.block(EXACT, signatures))) == contents(state_of(written))
    # One file; queries with the same columns share a section.
    assert (folder.names(), folder.folder("commits").names()) == (["commits"], ["000000000"])
    assert [one.partition("/")[0] for one in sections(folder, "commits", "000000000")] == [
        "commit", "codebook", "block", "results", "results",
    ]  # fmt: skip


def test_results_with_other_notes_keep_theirs(folder: LocalFolder) -> None:
    tables = {name: pa.table({"x": [1]}).replace_schema_metadata({"keys": name}) for name in ("one", "other")}
    Checkpoint(folder).write(commit(0), (), {}, tables)
    found = Checkpoint(folder).results(0)
    assert {name: table.schema.metadata for name, table in found.items()} == {
        "one": {b"keys": b"one"},
        "other": {b"keys": b"other"},
    }


def test_changes_of_queries_are_applied_in_order(folder: LocalFolder) -> None:
    checkpoint, registry = Checkpoint(folder), Registry()
    broken = replace(BIG, state=QueryState.FAILED, error="it broke")
    steps: list[list[Registered | str]] = [[BIG, PAUSED], [broken], [], ["b"]]
    for number, entries in enumerate(steps):
        for one in entries:
            if isinstance(one, Registered):
                registry.put(one)
            else:
                registry.forget(one)
        checkpoint.write(commit(number), registry.changes(), {}, {})
        registry.committed()
        found = recovered(folder)
        assert list(found.registry) == list(registry)
        assert found.last.number == number
    assert list(registry) == [broken]


def test_a_commit_of_nothing(folder: LocalFolder) -> None:
    Checkpoint(folder).write(commit(0), (), {}, {})
    assert recovered(folder).last == commit(0)
    assert Checkpoint(folder).results(0) == {}
    assert starts(folder) == []
    assert sections(folder, "commits", "000000000") == ["commit"]


def test_a_block_of_nothing_leaves_nothing(folder: LocalFolder) -> None:
    Checkpoint(folder).write(commit(0), (), {(GROUPING, 0): block([])}, {})
    assert sections(folder, "commits", "000000000") == ["commit"]


def test_blocks_come_oldest_first(folder: LocalFolder) -> None:
    wrote(Checkpoint(folder), *map(one_row, range(12)))
    assert starts(folder) == [[number] for number in range(12)]


def test_blocks_of_relations_that_nobody_needs_are_not_read(folder: LocalFolder) -> None:
    wrote(Checkpoint(folder), one_row())
    assert list(recovered(folder).blocks({ANOTHER: ALL_ROWS})) == []


def test_the_results_of_a_commit_that_is_gone_are_missed(folder: LocalFolder) -> None:
    with pytest.raises(DamagedFile, match="commit 000000007 is missing, and its results are not delivered"):
        Checkpoint(folder).results(7)


def test_a_commit_is_never_written_over(folder: LocalFolder) -> None:
    wrote(Checkpoint(folder), one_row(1))
    with pytest.raises(FileExistsError):
        wrote(Checkpoint(folder), one_row(2))
    assert starts(folder) == [[1]]


def test_an_unfinished_commit_was_never_made(folder: LocalFolder) -> None:
    wrote(Checkpoint(folder), one_row(0))
    unfinished = folder.path / "commits" / ".000000001.0123abcd"
    unfinished.write_bytes(b"cut o")
    again = Checkpoint(folder)
    assert recovered(folder).last.number == 0
    again.tidy()
    assert not unfinished.exists()
    again.write(commit(1), (), {}, {})
    assert recovered(folder).last.number == 1


def test_a_write_that_failed_can_be_tried_again(folder: LocalFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(folder)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "write", _disk_full)
        with pytest.raises(OSError, match="full"):
            wrote(checkpoint, one_row())
    assert Checkpoint(folder).recover() is None
    # The codebook too, though it was named before.
    wrote(checkpoint, one_row())
    assert starts(folder) == [[0]]


def _disk_full(*_: object, **__: object) -> None:
    raise OSError("the disk is full")


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_commit_is_named(folder: LocalFolder, number: int) -> None:
    wrote(Checkpoint(folder), one_row(0), one_row(1), one_row(2))
    path = folder.path / "commits" / f"{number:09d}"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedFile, match=f"commits/{path.name} is cut off"):
        Checkpoint(folder).recover()


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_commit_is_named(folder: LocalFolder, number: int) -> None:
    wrote(Checkpoint(folder), one_row(0), one_row(1), one_row(2))
    folder.folder("commits").delete(f"{number:09d}")
    with pytest.raises(DamagedFile, match=f"commit 00000000{number} is missing; restore it"):
        Checkpoint(folder).recover()


@pytest.mark.parametrize("kind", ["commits", "snapshots"])
@pytest.mark.parametrize(("version", "age"), [(1, "an older"), (99, "a newer")])
def test_a_checkpoint_of_another_version_is_refused(
    folder: LocalFolder, version: int, age: str, kind: str
) -> None:
    wrote(Checkpoint(folder), one_row())
    found = unpack(folder.folder("commits").read("000000000"), name="commit")
    record = json.loads(bytes(found["commit"])) | {"format": version}
    other = pack({"commit": json.dumps(record).encode()})
    folder.folder(kind).write("000000000", other, replace=True)
    said = f"was written by {age} version of Weft: it has format {version}.* use the version that wrote it"
    with pytest.raises(EngineError, match=said):
        Checkpoint(folder).recover()


def test_a_commit_from_before_files_were_counted_is_read(folder: LocalFolder) -> None:
    wrote(Checkpoint(folder), one_row())
    found = unpack(folder.folder("commits").read("000000000"), name="commit")
    record = json.loads(bytes(found["commit"]))
    assert record["clock"]["counts"].pop("missing") == 0
    older = pack({**found, "commit": json.dumps(record).encode()})
    folder.folder("commits").write("000000000", older, replace=True)
    stored_state = Checkpoint(folder).recover()
    assert stored_state is not None
    assert stored_state.last.clock.counts == COUNTS


def test_a_grouping_has_the_same_name_in_every_run() -> None:
    assert grouping_name(GROUPING) == grouping_name(((), (Column("symbol", BIGINT, (3, 9)),)))
    assert grouping_name(GROUPING) != grouping_name(((), (Column("Symbol", BIGINT),)))
    assert grouping_name(GROUPING) == '["grouping",[],[["column","symbol","bigint"]]]'


# A lock that can be lost.


class Held:
    """A lock that is looked at before a commit, and what was visible then."""

    def __init__(self, folder: LocalFolder) -> None:
        self._commits = folder.folder("commits")
        self.seen: list[list[str]] = []
        self.lost = False

    def __call__(self) -> None:
        self.seen.append(self._commits.names())
        if self.lost:
            raise EngineError("the lock is lost")


def test_a_lock_is_looked_at_before_a_commit_is_visible(folder: LocalFolder) -> None:
    held = Held(folder)
    checkpoint = Checkpoint(folder, held=held)
    wrote(checkpoint, one_row(0), one_row(1))
    assert held.seen == [[], ["000000000"]]
    # Of which one may be gone, if a snapshot has it.
    folder.folder("commits").delete("000000001")
    checkpoint.write(commit(2), (), {}, {})
    held.lost = True
    with pytest.raises(EngineError, match="the lock is lost"):
        checkpoint.write(commit(3), (), {}, {})
    assert folder.folder("commits").names() == ["000000000", "000000002"]


@pytest.mark.parametrize("behind", [1, 2, 300])
def test_a_commit_that_another_engine_has_gone_beyond_is_refused(folder: LocalFolder, behind: int) -> None:
    # The lock itself may not know yet.
    slow = Checkpoint(folder, held=lambda: None)
    wrote(slow, one_row(0))
    other = Checkpoint(folder, held=lambda: None)
    for number in range(1, behind + 1):
        other.write(commit(number), (), {}, {})
        if other.wants_snapshot:
            other.snapshot(commit(number), Registry(), {})
            other.prune(number)
    # The commit that the slow one is about to make is gone, if there were many.
    assert other.has(1) is (behind < 300)
    before = folder.folder("commits").names()
    with pytest.raises(EngineError, match=f"commit 0{{5,8}}{behind} is another engine's") as caught:
        slow.write(commit(1), (), {(GROUPING, 0): one_row(1)}, {})
    assert not isinstance(caught.value, OSError)
    assert folder.folder("commits").names() == before
    assert recovered(folder).last == commit(behind)
