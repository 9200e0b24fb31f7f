"""Final aggregation of all due windows at once, against each window on its own."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import expected
from tests.unit.state_samples import EXACT, MONEY, Row, block, rows, state_of

from weft.runtime import finals as finals_module
from weft.runtime.finals import Windows, finals
from weft.runtime.programs import Program
from weft.types import BIGINT, STRING, DataType

AGGREGATES: tuple[tuple[str, tuple[int, ...], DataType], ...] = (
    ("count", (0,), BIGINT),
    ("min", (2,), STRING),
    ("sum", (3,), MONEY),
)
bounds = st.lists(
    st.tuples(st.integers(-6, 9), st.integers(1, 8)).map(lambda one: (one[0] * 1000, sum(one) * 1000)),
    max_size=6,
)


def program(*, keyed: bool, emit_empty: bool = False) -> Program:
    return Program(
        relation=0, keys=(0,) if keyed else (), key_types=(STRING,) if keyed else (),
        aggregates=AGGREGATES, outputs=(), having=None, emit_empty=emit_empty,
    )  # fmt: skip


def windows(several: list[tuple[int, int]]) -> Windows:
    start, end = (np.array([one[side] for one in several], dtype=np.int64) for side in (0, 1))
    return Windows(query=np.arange(len(several), dtype=np.int32), start=start, end=end)


def slow(
    several: list[Row], due: list[tuple[int, int]], *, keyed: bool, emit_empty: bool
) -> list[tuple[Any, ...]]:
    found = []
    for number, (start, end) in enumerate(due):
        inside = [row for row in several if start <= row.start < end]
        keys: set[str | None] = {row.key if keyed else None for row in inside}
        for key in keys or ({None} if emit_empty else set()):
            group = [row for row in inside if not keyed or row.key == key]
            answers = (
                len(group),
                expected("min", STRING, [row.name for row in group]),
                expected("sum", MONEY, [row.fee for row in group]),
            )
            found.append((number, *((key,) if keyed else ()), *answers))
    return sorted(found, key=str)


@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=50)
@given(several=rows, due=bounds, emit_empty=st.booleans(), pairs=st.sampled_from((1, 7, 1000)))
def test_all_windows_at_once_are_each_window_on_its_own(
    keyed: bool, several: list[Row], due: list[tuple[int, int]], emit_empty: bool, pairs: int
) -> None:
    emit_empty = emit_empty and not keyed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finals_module, "_PAIRS", pairs)
        state = state_of(block(several[:8], keyed=keyed), block(several[8:], keyed=keyed), keyed=keyed)
        pieces = list(finals(state, EXACT, program(keyed=keyed, emit_empty=emit_empty), windows(due)))
    found = []
    for piece in pieces:
        table = piece.table.drop_columns(["window_start", "window_end"])
        found += [tuple(row.values()) for row in table.to_pylist()]
        ends = [due[number][1] for number in table["query"].to_pylist()]
        assert piece.table["window_end"].cast("int64").to_pylist() == ends
    assert sorted(found, key=str) == slow(several, due, keyed=keyed, emit_empty=emit_empty)


def test_operations_are_the_slices_that_windows_were_made_of() -> None:
    several = [Row(start * 1000, key, 1, None, None) for start in range(6) for key in "ab"]
    state = state_of(block(several))
    (piece,) = finals(state, EXACT, program(keyed=True), windows([(0, 4_000), (2_000, 6_000)]))
    assert piece.operations == 2 * 4 + 2 * 4


def test_results_that_do_not_fit_are_counted_for_their_query() -> None:
    most = Decimal(10**36 - 1)
    several = [Row(0, None, 1, None, most), Row(1000, None, 1, None, None)]
    several += [Row(2000, None, 1, None, most), Row(3000, None, 1, None, most)]
    state = state_of(*(block([row], keyed=False) for row in several), keyed=False)
    narrow = DataType(MONEY.kind, 36, 2)
    wide = Program(
        relation=0, keys=(), key_types=(), aggregates=(("sum", (3,), narrow),), outputs=(), having=None,
        emit_empty=False,
    )  # fmt: skip
    (piece,) = finals(state, EXACT, wide, windows([(1000, 2000), (2000, 4000), (0, 1000)]))
    assert piece.table["aggregate0"].null_count == 3
    assert piece.overflows.tolist() == [1, 2]
