"""What fragments mean is stored once for each plan, and understood by every later one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.checkpoint_samples import ANOTHER, GROUPING, codebooks, commit, numbers, one_row, restored
from tests.unit.state_samples import (
    COUNT,
    FEES,
    FIRST,
    MONEY,
    PREDICATES,
    TOTAL,
    Row,
    block,
    rows,
    shards,
    state_of,
)

from weft.expression import Call, Column, Expression, Literal
from weft.predicates import TRUE, Formula, canonical
from weft.runtime import checkpoint as checkpoint_module
from weft.runtime.blocks import described, read_codebook, write_codebook
from weft.runtime.checkpoint import Checkpoint
from weft.runtime.finals import Windows, finals
from weft.runtime.fragments import Signatures
from weft.runtime.programs import Program
from weft.runtime.state import RelationState
from weft.types import BIGINT, BOOLEAN, STRING

ASKED = ("all", "positive", "even", "named")


# As files.


@settings(max_examples=25)
@given(several=rows)
def test_a_codebook_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, several: list[Row]
) -> None:
    path = tmp_path_factory.mktemp("codebooks") / "book.arrow"
    # Ten predicates: more than one byte of bits.
    keys: dict[Any, Callable[[Row], bool]] = {name: partial(_has_key, name) for name in "abcd"}
    predicates: list[Any] = [*PREDICATES, *keys]
    with pytest.MonkeyPatch.context() as patch:
        for name, asked in keys.items():
            patch.setitem(PREDICATES, name, asked)
        before = block([Row(0, "a", 1, "x", None), *several], predicates=predicates).signatures
    write_codebook(path, before)
    for kept in (predicates, predicates[::-1], predicates[3:9], predicates[-1:]):
        after = read_codebook(path, {described(one): one for one in kept})
        places = [place for place, one in enumerate(predicates) if one in kept]
        assert after.predicates == tuple(predicates[place] for place in places)
        assert after.bits.dtype == before.bits.dtype
        assert after.bits.tolist() == before.bits[:, places].tolist()


def _has_key(key: str, row: Row) -> bool:
    return row.key == key


def test_predicates_that_are_unknown_are_dropped(tmp_path: Path) -> None:
    before = one_row(predicates=ASKED).signatures
    write_codebook(tmp_path / "book", before)
    after = read_codebook(tmp_path / "book", {described(TRUE): TRUE})
    # The fragments are still numbered as in the blocks; they satisfy nothing.
    assert (after.predicates, after.bits.shape) == ((), (len(before.bits), 0))


def test_a_predicate_is_known_wherever_its_text_stood() -> None:
    def big(least: int, span: tuple[int, int]) -> Formula:
        compared: Expression = Call(
            ">", (Column("vol", BIGINT, span), Literal(least, BIGINT, span)), BOOLEAN, span
        )
        flag = Column("ok", BOOLEAN, span)
        return canonical(Call("or", (compared, flag), BOOLEAN, span))

    assert described(big(5, (1, 2))) == described(big(5, (70, 80)))
    assert described(big(5, (1, 2))) != described(big(6, (1, 2)))
    # The same in every run, or no checkpoint could be read again.
    assert described(TRUE) == "1eac7e722b9eb7608c97846a0e0adee7"


# In a checkpoint.


def test_a_codebook_is_written_once_for_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []

    def write(path: Path, signatures: Signatures) -> None:
        written.append(path)
        write_codebook(path, signatures)

    monkeypatch.setattr(checkpoint_module, "write_codebook", write)
    checkpoint = Checkpoint(tmp_path)
    first, second = one_row(predicates=["all", "even"]), one_row(predicates=["positive", "all"])
    for number in range(3):
        checkpoint.write(commit(number), {(GROUPING, 0): first, (GROUPING, 1): second}, {})
    # Another relation, or another run, may have made the same fragments.
    alike = one_row(predicates=["all", "even"])
    assert alike.signatures is not first.signatures
    checkpoint.write(commit(3), {(ANOTHER, 0): alike}, {})
    Checkpoint(tmp_path).write(commit(4), {(GROUPING, 0): alike}, {})
    assert len(written) == 2
    books = [one.codebooks for one in Checkpoint(tmp_path).commits()]
    assert books[0] == books[1] == books[2]
    assert sorted(books[0]) == codebooks(checkpoint)
    assert books[3] == books[4] == books[0][:1]


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
def test_codebooks_that_differ_have_different_names(tmp_path: Path, one: Any, other: Any) -> None:
    checkpoint = Checkpoint(tmp_path)
    for number, (predicates, bits) in enumerate((one, other)):
        found = Signatures(predicates=tuple(predicates), bits=np.array(bits))
        checkpoint.write(commit(number), {(GROUPING, 0): replace(one_row(), signatures=found)}, {})
    assert len(codebooks(checkpoint)) == 2
    after = [(list(found.signatures.predicates), found.signatures.bits.tolist())
             for found in restored(checkpoint, ASKED)]  # fmt: skip
    assert after == [one, other]


def answers(state: RelationState, predicates: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the sums, counts and least names of all windows of 3 s every second, for each predicate."""
    starts = np.arange(-6_000, 9_000, 1_000)
    predicate = np.repeat(np.arange(len(predicates), dtype=np.int32), len(starts))
    start = np.tile(starts, len(predicates))
    due = Windows(query=predicate, start=start, end=start + 3_000, predicate=predicate)
    found = []
    for aggregates in (
        (("count", (COUNT,), BIGINT), ("sum", (TOTAL,), BIGINT)),
        (("min", (FIRST,), STRING), ("sum", (FEES,), MONEY)),
    ):
        program = Program(
            grouping=GROUPING, keys=(0,), aggregates=aggregates, outputs=(), having=None, emit_empty=False
        )
        for piece in finals(state, program, due, predicates):
            found += piece.table.to_pylist()
    return sorted(found, key=repr)


@settings(max_examples=40)
@given(batches=st.lists(rows, max_size=4), dropped=st.sets(st.sampled_from(ASKED)))
def test_restored_blocks_answer_as_before(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Row]], dropped: set[str]
) -> None:
    # Two roots, and another plan in every other batch.
    plans = ((["all", "even"], ["named", "positive"]), (["positive"], ["even", "all", "named"]))
    checkpoint = Checkpoint(tmp_path_factory.mktemp("checkpoint"))
    before = state_of()
    for number, several in enumerate(batches):
        blocks = {
            (GROUPING, place): block(several, predicates=root) for place, root in enumerate(plans[number % 2])
        }
        checkpoint.write(commit(number), blocks, {})
        for one in blocks.values():
            before.add(one)
    kept = [one for one in ASKED if one not in dropped]
    after = state_of(*restored(Checkpoint(checkpoint.folder), kept))
    assert answers(after, kept) == answers(before, kept)
    # What only dropped predicates asked for is gone.
    after.settle()
    assert set(after.fragments.predicates) <= set(kept)
    assert all(signature for _, _, signature in shards(after))


def test_codebooks_that_no_commit_refers_to_are_removed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    former, current = one_row(predicates=["even", "all"]), one_row(predicates=["all"])
    for number, one in enumerate((former, former, current, current)):
        checkpoint.write(commit(number, newest_slice=100 * number), {(GROUPING, 0): one}, {})
    books = [one.codebooks[0] for one in checkpoint.commits()]
    checkpoint.set_delivered(3)
    checkpoint.prune(100)
    assert (numbers(checkpoint), codebooks(checkpoint)) == ([1, 2, 3], sorted(set(books)))
    # After a restart as well as before it.
    again = Checkpoint(tmp_path)
    assert numbers(again) == [1, 2, 3]
    again.prune(200)
    assert (numbers(again), codebooks(again)) == ([2, 3], [books[2]])
    assert len(restored(again)) == 2


def test_a_codebook_that_was_removed_is_written_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    one = one_row(predicates=["all", "even"])
    checkpoint.write(commit(0, newest_slice=0), {(GROUPING, 0): one}, {})
    checkpoint.write(commit(1), {}, {})
    checkpoint.set_delivered(1)
    checkpoint.prune(1_000)
    assert codebooks(checkpoint) == []
    checkpoint.write(commit(2, newest_slice=2_000), {(GROUPING, 0): one}, {})
    assert [found.signatures.bits.tolist() for found in restored(checkpoint, ASKED)] == [[[True, False]]]


def test_a_codebook_whose_write_failed_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = Checkpoint(tmp_path)
    blocks = {(GROUPING, 0): one_row()}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_module, "write_codebook", _cut_off)
        with pytest.raises(OSError, match="full"):
            checkpoint.write(commit(0), blocks, {})
    assert numbers(checkpoint) == []
    again = Checkpoint(tmp_path)
    again.write(commit(0), blocks, {})
    assert [one.signatures.bits.tolist() for one in restored(again)] == [[[True]]]
    assert len(codebooks(again)) == 1


def _cut_off(path: Path, _: Signatures) -> None:
    path.write_bytes(b"cut o")
    raise OSError("the disk is full")
