"""What fragments mean is stored once for each plan, and understood by every later one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.checkpoint_samples import ANOTHER, GROUPING, codebooks, commit, one_row, restored
from tests.unit.state_samples import (
    COUNT,
    FEES,
    FIRST,
    PREDICATES,
    TOTAL,
    Asked,
    Row,
    block,
    rows,
    shards,
    state_of,
)

from weft.durability.checkpoint import Checkpoint
from weft.durability.encoding import codebook_bytes, read_codebook
from weft.durability.registry import Registry
from weft.durability.stored_names import predicate_name
from weft.expression import Call, Column, Expression, Literal
from weft.finals.readings import Reading
from weft.predicates import TRUE, Formula, canonical
from weft.predicates.signatures import signatures_of
from weft.state.driver_store import DriverStore
from weft.state.running_query import Derivation, derivation_from
from weft.state.store import Block, DueWindows
from weft.storage import LocalFolder
from weft.types import BIGINT, BOOLEAN

ASKED = ("all", "positive", "even", "named")


# As bytes.


@settings(max_examples=25)
@given(several=rows)
def test_a_codebook_comes_back_as_it_was(
    several: list[Row],
) -> None:
    # Ten predicates: more than one byte of bits.
    keys: dict[Any, Callable[[Row], bool]] = {name: partial(_has_key, name) for name in "abcd"}
    predicates: list[Any] = list(map(Asked, (*PREDICATES, *keys)))
    with pytest.MonkeyPatch.context() as patch:
        for name, asked in keys.items():
            patch.setitem(PREDICATES, name, asked)
        before = block([Row(0, "a", 1, "x", None), *several], predicates=predicates).signatures
    stored = codebook_bytes(before)
    for kept in (predicates, predicates[::-1], predicates[3:9], predicates[-1:]):
        after = read_codebook(stored, {predicate_name(one): one for one in kept})
        places = [place for place, one in enumerate(predicates) if one in kept]
        assert after.predicates == tuple(predicates[place] for place in places)
        assert after.bits.dtype == before.bits.dtype
        assert after.bits.tolist() == before.bits[:, places].tolist()


def _has_key(key: str, row: Row) -> bool:
    return row.key == key


def test_predicates_that_are_unknown_are_dropped() -> None:
    before = one_row(predicates=ASKED).signatures
    after = read_codebook(codebook_bytes(before), {predicate_name(TRUE): TRUE})
    # The fragments are still numbered as in the blocks; they satisfy nothing.
    assert (after.predicates, after.bits.shape) == ((), (len(before.bits), 0))


def test_a_codebook_without_fragments_comes_back() -> None:
    # A relation of which no row was seen yet.
    seen = one_row(predicates=ASKED).signatures
    before = seen.take(np.empty(0, dtype=np.intp))
    after = read_codebook(codebook_bytes(before), {predicate_name(one): one for one in before.predicates})
    assert (after.predicates, after.bits.shape) == (before.predicates, before.bits.shape)


def test_a_predicate_is_known_wherever_its_text_stood() -> None:
    def big(least: int, span: tuple[int, int]) -> Formula:
        compared: Expression = Call(
            ">", (Column("vol", BIGINT, span), Literal(least, BIGINT, span)), BOOLEAN, span
        )
        flag = Column("ok", BOOLEAN, span)
        return canonical(Call("or", (compared, flag), BOOLEAN, span))

    assert predicate_name(big(5, (1, 2))) == predicate_name(big(5, (70, 80)))
    assert predicate_name(big(5, (1, 2))) != predicate_name(big(6, (1, 2)))
    # The same in every run, or no checkpoint could be read again.
    assert predicate_name(TRUE) == '["all"]'


# In a checkpoint.


@pytest.fixture
def folder(tmp_path: Path) -> LocalFolder:
    """Return where a checkpoint is to be."""
    return LocalFolder(tmp_path / "checkpoint")


def test_a_codebook_is_written_once_for_a_plan(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    first, second = one_row(predicates=["all", "even"]), one_row(predicates=["positive", "all"])
    for number in range(3):
        checkpoint.write(commit(number), (), {(GROUPING, 0): first, (GROUPING, 1): second}, {})
    # Another relation, or another run, may have made the same fragments.
    alike = one_row(predicates=["all", "even"])
    assert alike.signatures is not first.signatures
    checkpoint.write(commit(3), (), {(ANOTHER, 0): alike}, {})
    again = Checkpoint(folder)
    again.recover()
    again.write(commit(4), (), {(GROUPING, 0): alike}, {})
    books = [codebooks(folder, "commits", f"{number:09d}") for number in range(5)]
    assert [len(one) for one in books] == [2, 0, 0, 0, 0]
    assert len(restored(folder, ASKED)) == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((["all", "even"], [[True, False]]), (["even", "all"], [[True, False]])),
        ((["all", "even"], [[True, False]]), (["all", "even"], [[True, True]])),
        ((["all"], [[True], [False]]), (["all"], [[True]])),
        ((["all", "even"], [[True, False]]), (["all"], [[True]])),
    ],
    ids=["order", "bits", "fragments", "predicates"],
)
def test_codebooks_that_differ_have_different_names(folder: LocalFolder, one: Any, other: Any) -> None:
    checkpoint = Checkpoint(folder)
    for number, (predicates, bits) in enumerate((one, other)):
        found = signatures_of(tuple(map(Asked, predicates)), np.array(bits))
        checkpoint.write(commit(number), (), {(GROUPING, 0): replace(one_row(), signatures=found)}, {})
    names = [*codebooks(folder, "commits", "000000000"), *codebooks(folder, "commits", "000000001")]
    assert len(set(names)) == 2
    after = [(list(found.signatures.predicates), found.signatures.bits.tolist())
             for found in restored(folder, ASKED)]  # fmt: skip
    assert after == [one, other]


def answers(state: DriverStore, predicates: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the sums, counts and least names of all windows of 3 s every second, for each predicate."""
    asks = np.arange(len(predicates))
    each = np.ones(len(predicates), dtype=np.int64)
    due = DueWindows(
        range_us=3_000 * each, slide_us=1_000 * each, offset_us=0 * each, first=-3 * each, last=11 * each,
        predicate=asks.astype(np.int32),
    )  # fmt: skip
    primitives = (COUNT, TOTAL, FIRST, FEES)
    reading = Reading(GROUPING, predicates=tuple(predicates), primitives=(primitives,) * len(predicates))
    found = []
    for _, piece in state.answer(due, asks, reading.predicates, reading.primitives):
        keys = state.groups.values(piece.key).column(0).to_pylist()
        values = [
            [
                value if known else None
                for value, known in zip(partial.fields[0], partial.valid_mask(), strict=True)
            ]
            for partial in (piece.partials[one] for one in primitives)
        ]
        found += zip(piece.ask.tolist(), piece.end.tolist(), keys, *values, strict=True)
    return sorted(found, key=repr)


@settings(max_examples=40)
@given(batches=st.lists(rows, min_size=1, max_size=4), dropped=st.sets(st.sampled_from(ASKED)))
def test_restored_blocks_answer_as_before(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Row]], dropped: set[str]
) -> None:
    # Two roots, and another plan in every other batch.
    plans = ((["all", "even"], ["named", "positive"]), (["positive"], ["even", "all", "named"]))
    checkpoint = Checkpoint(LocalFolder(tmp_path_factory.mktemp("checkpoint")))
    before = state_of()
    for number, several in enumerate(batches):
        blocks = {
            (GROUPING, place): block(several, predicates=root) for place, root in enumerate(plans[number % 2])
        }
        checkpoint.write(commit(number), (), blocks, {})
        for one in blocks.values():
            before.add(one)
    kept = [one for one in ASKED if one not in dropped]
    after = state_of(*restored(checkpoint.folder, kept))
    assert answers(after, kept) == answers(before, kept)
    # What only dropped predicates asked for is gone.
    after.settle()
    assert set(after.fragments.predicates) <= set(kept)
    assert all(signature for _, _, signature in shards(after))


def test_a_snapshot_holds_the_codebooks_that_its_blocks_need(folder: LocalFolder) -> None:
    checkpoint = Checkpoint(folder)
    former, current = one_row(0, ["even", "all"]), one_row(10, ["all"])
    for number, one in enumerate((former, current)):
        checkpoint.write(commit(number), (), {(GROUPING, 0): one}, {})
    checkpoint.snapshot(commit(1), Registry(), {(GROUPING, 0): current})
    # What was written before the snapshot is not counted on: those commits will be removed.
    assert codebooks(folder, "snapshots", "000000001") == codebooks(folder, "commits", "000000001")
    checkpoint.write(commit(2), (), {(GROUPING, 0): former, (GROUPING, 1): current}, {})
    assert codebooks(folder, "commits", "000000002") == codebooks(folder, "commits", "000000000")
    for name in ("000000000", "000000001"):
        folder.folder("commits").delete(name)
    assert [one.starts.tolist() for one in restored(folder)] == [[10], [0], [10]]
    again = Checkpoint(folder)
    again.recover()
    again.write(commit(3), (), {(GROUPING, 0): former}, {})
    assert codebooks(folder, "commits", "000000003") == []
    assert len(restored(folder)) == 4


@pytest.mark.parametrize("restart", [False, True])
def test_no_commit_relies_on_a_snapshot_that_may_be_damaged(folder: LocalFolder, restart: bool) -> None:
    checkpoint = Checkpoint(folder)
    # What a state holds may happen to be numbered like a plan that comes later.
    former, merged = one_row(0, ["even", "all"]), one_row(0, ["all"])
    checkpoint.write(commit(0), (), {(GROUPING, 0): former}, {})
    checkpoint.snapshot(commit(0), Registry(), {(GROUPING, 0): former})
    checkpoint.write(commit(1), (), {(GROUPING, 0): former}, {})
    checkpoint.snapshot(commit(1), Registry(), {(GROUPING, 0): merged})
    checkpoint.prune(1)
    if restart:
        checkpoint = Checkpoint(folder)
        checkpoint.recover()
    for number in (2, 3):
        checkpoint.write(commit(number), (), {(GROUPING, 0): merged, (GROUPING, 1): former}, {})
    assert len(restored(folder)) == 5
    (folder.path / "snapshots" / "000000001").write_bytes(b"")
    assert len(restored(folder)) == 6


def test_a_codebook_of_a_commit_that_failed_is_written_again(
    folder: LocalFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(folder)
    blocks = {(GROUPING, 0): one_row()}
    with monkeypatch.context() as patch:
        patch.setattr(LocalFolder, "write", _disk_full)
        with pytest.raises(OSError, match="full"):
            checkpoint.write(commit(0), (), blocks, {})
        with pytest.raises(OSError, match="full"):
            checkpoint.snapshot(commit(0), Registry(), blocks)
    checkpoint.write(commit(0), (), blocks, {})
    assert len(codebooks(folder, "commits", "000000000")) == 1
    assert [one.signatures.bits.tolist() for one in restored(folder)] == [[[True]]]


def _disk_full(*_: object, **__: object) -> None:
    raise OSError("the disk is full")


# What follows from what was asked.


def test_a_predicate_that_follows_from_others_is_told(folder: LocalFolder) -> None:
    several = [Row(0, None, n, "x", None) for n in (-4, -3, 3, 4)]
    Checkpoint(folder).write(
        commit(0), (), {(GROUPING, 0): block(several, predicates=["all", "even", "positive"])}, {}
    )
    # Positive and odd: the first source is the lowest bit.
    odd: Any = "positive and odd"
    derivation = derived(odd, ["positive", "even"], [0b01])
    (found,) = restored(folder, ["all", odd], [derivation])
    assert names(found) == ["all", odd]
    assert found.signatures.bits.tolist() == [[True, False], [True, False], [True, True], [True, False]]
    # Nobody asks for it, or nothing tells how it follows.
    assert names(*restored(folder, ["all"], [derivation])) == ["all"]
    assert names(*restored(folder, ["all", odd])) == ["all"]


def test_a_predicate_that_was_asked_for_is_not_derived(folder: LocalFolder) -> None:
    Checkpoint(folder).write(commit(0), (), {(GROUPING, 0): one_row(0, ["all", "even"])}, {})
    wrong = derived("all", ["even"], [0b1])
    (found,) = restored(folder, ["all"], [wrong])
    assert found.signatures.bits.tolist() == [[True]]


def test_no_row_satisfies_a_source_that_a_relation_does_not_know(folder: LocalFolder) -> None:
    Checkpoint(folder).write(commit(0), (), {(GROUPING, 0): one_row(0, ["all"])}, {})
    new: Any = "new"
    for patterns, holds in (([0b01], True), ([0b11, 0b10], False)):
        (found,) = restored(folder, ["all", new], [derived(new, ["all", "even"], patterns)])
        assert found.signatures.bits.tolist() == [[True, holds]]


def names(found: Block) -> list[Any]:
    """Return the predicates that a block's fragments tell."""
    return list(found.signatures.predicates)


def derived(predicate: Any, sources: Sequence[Any], patterns: Sequence[int]) -> Derivation:
    """Return how a predicate follows from others, as it comes back from a commit."""
    written = Derivation(
        predicate=predicate_name(Asked(predicate)),  # type: ignore[arg-type]
        sources=tuple(predicate_name(Asked(source)) for source in sources),  # type: ignore[arg-type]
        patterns=tuple(patterns),
    )
    assert derivation_from(json.loads(json.dumps(written.as_record()))) == written
    return written
