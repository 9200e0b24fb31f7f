"""Blocks and commits come back from disk as they were, whole or not at all."""

import json
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
    GROUPING,
    KNOWN,
    codebooks,
    commit,
    numbers,
    one_row,
    restored,
)
from tests.unit.state_samples import (
    COUNT,
    EXACT,
    FEES,
    FIRST,
    SPREAD,
    TOTAL,
    Row,
    block,
    contents,
    rows,
    state_of,
)

from weft.aggregates import Combine, Primitive
from weft.errors import EngineError
from weft.expression import Call, Column
from weft.runtime import checkpoint as checkpoint_module
from weft.runtime.blocks import read_block, write_block
from weft.runtime.checkpoint import Checkpoint, fingerprint
from weft.runtime.state import Block
from weft.types import BIGINT, BOOLEAN, DataType, Kind

ALL = (*EXACT, SPREAD)
ALL_ROWS: list[Any] = ["all"]
"""The predicate of most blocks here, which are named rather than written out."""


# Blocks.


@settings(max_examples=25)
@given(several=rows)
def test_a_block_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, several: list[Row]) -> None:
    path = tmp_path_factory.mktemp("blocks") / "block.arrow"
    for keyed in (True, False):
        before = block(several, ALL, keyed=keyed)
        write_block(path, before, "book")
        stored = read_block(path)
        assert stored.codebook == "book"
        after = stored.block(ALL, before.signatures)
        assert after.fragments.dtype == before.fragments.dtype
        assert after.fragments.tolist() == before.fragments.tolist()
        assert (after.rows, len(after)) == (before.rows, len(before))
        assert list(after.partials) == list(before.partials)
        for one in ALL:
            left, right = before.partials[one], after.partials[one]
            assert [field.dtype for field in right.fields] == [field.dtype for field in left.fields]
            assert right.types == left.types
        assert contents(state_of(after, keyed=keyed)) == contents(state_of(before, keyed=keyed))


def test_numbers_wider_than_any_arrow_integer_come_back(tmp_path: Path) -> None:
    fees = [Decimal(10**36 - 1), Decimal(1 - 10**36), None]
    before = block([Row(place, "k", None, None, fee) for place, fee in enumerate(fees)])
    write_block(tmp_path / "b", before, "book")
    after = read_block(tmp_path / "b").block(EXACT, before.signatures)
    assert after.partials[FEES].fields[0].tolist()[:2] == [(10**36 - 1) * 100, (1 - 10**36) * 100]
    assert after.partials[FEES].valid_mask().tolist() == [True, True, False]


def test_binary_and_boolean_partials_come_back(tmp_path: Path) -> None:
    raw, flag = DataType(Kind.BINARY), BOOLEAN
    primitives = (
        Primitive(("min",), Column("raw", raw), Combine.LEAST, (raw,)),
        Primitive(("max",), Column("ok", flag), Combine.GREATEST, (flag,)),
    )
    slices: tuple[list[list[Any]], ...] = [[b"\xff\x00"], [b""], [None]], [[True], [False], [None]]
    before = Block(
        starts=np.arange(3),
        keys=pa.table({"x": [0, 0, 0]}).select([]),
        fragments=np.zeros(3, np.int32),
        signatures=one_row().signatures,
        partials={one: lifted(one, some) for one, some in zip(primitives, slices, strict=True)},
    )
    write_block(tmp_path / "b", before, "book")
    after = read_block(tmp_path / "b").block(primitives, before.signatures)
    assert contents(state_of(after, keyed=False)) == contents(state_of(before, keyed=False))


def test_of_a_stored_block_only_known_primitives_are_taken(tmp_path: Path) -> None:
    row = Row(0, "a", 7, "x", None)
    before = block([row], [COUNT, TOTAL])
    write_block(tmp_path / "b", before, "book")
    after = read_block(tmp_path / "b").block((FIRST, TOTAL), before.signatures)
    assert list(after.partials) == [TOTAL]
    # What the block lacks is empty, as for a query that came later.
    state = state_of(after, block([row], [FIRST, TOTAL]))
    assert contents(state) == {("a", 0): ((14,), ("x",))}


def test_a_primitive_is_known_wherever_its_text_stood(tmp_path: Path) -> None:
    def total(span: tuple[int, int]) -> Primitive:
        doubled = Call("*", (Column("n", BIGINT, span), Column("n", BIGINT, span)), BIGINT, span)
        return Primitive(("sum",), doubled, Combine.ADD, (BIGINT,))

    before = Block(
        starts=np.array([0]),
        keys=pa.table({"x": [0]}).select([]),
        fragments=np.zeros(1, np.int32),
        signatures=one_row().signatures,
        partials={total((1, 2)): block([Row(0, None, 3, None, None)], [TOTAL]).partials[TOTAL]},
    )
    write_block(tmp_path / "b", before, "book")
    after = read_block(tmp_path / "b").block((total((70, 80)),), before.signatures)
    assert list(after.partials) == [total((1, 2))]


# Commits.


def test_a_commit_comes_back_as_it_was(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert (checkpoint.commits(), checkpoint.delivered) == ([], -1)
    written = block([Row(0, "a", 7, "x", Decimal("1.50"))])
    results = {
        "big": pa.table({"x": pa.array([Decimal("1.5"), None], pa.decimal128(38, 2)), "s": ["ü", None]}),
        "same columns": pa.table({"x": pa.array([Decimal("2.5")], pa.decimal128(38, 2)), "s": ["b"]}),
        "other columns": pa.table({"y": [1.5, float("inf")]}),
    }
    checkpoint.write(commit(3, newest_slice=0), {(GROUPING, 0): written}, results)

    again = Checkpoint(tmp_path)
    assert again.commits() == [commit(3, newest_slice=0, codebooks=tuple(codebooks(again)))]
    assert again.results(3) == results
    ((grouping, stored, signatures),) = again.blocks({**KNOWN, "unknown": ANOTHER}, ALL_ROWS)
    assert grouping == GROUPING
    assert [stored.codebook] == codebooks(again)
    assert contents(state_of(stored.block(EXACT, signatures))) == contents(state_of(written))
    # Queries with the same columns share a file.
    assert len(list(tmp_path.glob("commits/*/results-*.arrow"))) == 2


def test_a_commit_of_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(commit(0), {}, {})
    assert numbers(checkpoint) == [0]
    assert checkpoint.results(0) == {}
    assert restored(checkpoint) == []
    assert codebooks(checkpoint) == []


def test_a_block_of_nothing_leaves_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(commit(0), {(GROUPING, 0): block([])}, {})
    assert restored(checkpoint) == []
    assert codebooks(checkpoint) == []


def test_commits_and_blocks_come_oldest_first(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number in (9, 10, 100):
        checkpoint.write(commit(number), {(GROUPING, 0): one_row(number)}, {})
    assert numbers(checkpoint) == [9, 10, 100]
    assert [one.starts.tolist() for one in restored(checkpoint)] == [[9], [10], [100]]


def test_blocks_of_relations_that_nobody_needs_are_not_read(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(commit(0), {(GROUPING, 0): one_row()}, {})
    assert list(checkpoint.blocks({fingerprint(ANOTHER): ANOTHER}, ALL_ROWS)) == []


def test_an_unfinished_commit_was_never_made(tmp_path: Path) -> None:
    Checkpoint(tmp_path).write(commit(0), {}, {})
    unfinished = tmp_path / "commits" / ".000000001"
    unfinished.mkdir()
    (unfinished / "block-1234.arrow").write_bytes(b"cut o")
    again = Checkpoint(tmp_path)
    assert numbers(again) == [0]
    again.write(commit(1), {}, {})
    assert numbers(again) == [0, 1]


def test_a_write_that_failed_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(tmp_path)
    blocks = {(GROUPING, 0): one_row()}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "write_block", _disk_full)
        with pytest.raises(OSError, match="full"):
            checkpoint.write(commit(0), blocks, {})
    assert numbers(checkpoint) == []
    checkpoint.write(commit(0), blocks, {})
    assert numbers(checkpoint) == [0]
    assert [one.starts.tolist() for one in restored(checkpoint)] == [[0]]


def _disk_full(*_: object) -> None:
    raise OSError("the disk is full")


def test_everything_is_on_disk_before_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_sync, real_rename = checkpoint_module._sync, Path.rename

    def sync(path: Path) -> None:
        steps.append(path.name)
        real_sync(path)

    def rename(self: Path, target: Path) -> Path:
        steps.append(f"{self.name} → {target.name}")
        return real_rename(self, target)

    monkeypatch.setattr(checkpoint_module, "_sync", sync)
    monkeypatch.setattr(Path, "rename", rename)
    one = block([Row(0, "a", 1, None, None)])
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(commit(0), {(GROUPING, 0): one}, {"q": pa.table({"x": [1]})})
    (book,) = codebooks(checkpoint)
    # A commit may refer to a codebook, so that is safe before anything else is written.
    assert steps[:3] == [f".{book}.arrow", f".{book}.arrow → {book}.arrow", "codebooks"]
    renamed = steps.index(".000000000 → 000000000")
    assert set(steps[3:renamed]) == {
        f"block-{fingerprint(GROUPING)}-0.arrow", "results-0.arrow", "commit.json", ".000000000",
    }  # fmt: skip
    assert steps[renamed + 1 :] == ["commits"]


def test_what_is_delivered_is_remembered(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number in (0, 5):
        checkpoint.set_delivered(number)
        assert Checkpoint(tmp_path).delivered == number


@pytest.mark.parametrize(
    ("oldest_needed", "delivered", "left"),
    [
        (0, 3, [0, 2, 3]),  # all slices are needed; commit 1 added none
        (200, 3, [2, 3]),
        (1_000, 3, [3]),  # the last commit holds the clock: it always stays
        (1_000, 0, [1, 2, 3]),  # results that were not delivered keep their commit
        (1_000, -1, [0, 1, 2, 3]),
    ],
)
def test_commits_that_nothing_needs_are_removed(
    tmp_path: Path, oldest_needed: int, delivered: int, left: list[int]
) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number, newest_slice in enumerate((100, None, 300, 400)):
        checkpoint.write(commit(number, newest_slice), {}, {})
    if delivered >= 0:
        checkpoint.set_delivered(delivered)
    checkpoint.prune(oldest_needed)
    assert numbers(checkpoint) == left


@pytest.mark.parametrize("version", [1, 99])
def test_a_checkpoint_of_another_version_is_refused(tmp_path: Path, version: int) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.write(commit(0), {}, {})
    path = tmp_path / "commits" / "000000000" / "commit.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format": version}))
    with pytest.raises(EngineError, match="another version"):
        checkpoint.commits()


def test_a_fingerprint_is_the_same_in_every_run() -> None:
    assert fingerprint(GROUPING) == fingerprint(((), (Column("symbol", BIGINT, (3, 9)),)))
    assert fingerprint(GROUPING) != fingerprint(((), (Column("Symbol", BIGINT),)))
    assert fingerprint(()) == "2e38e77b22c314a4"
