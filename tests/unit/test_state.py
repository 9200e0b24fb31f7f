"""A relation's state is that of all its rows, whatever batches they came in."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.state_samples import (
    COUNT,
    EXACT,
    FIRST,
    SPREAD,
    TOTAL,
    Row,
    block,
    contents,
    grouped,
    rows,
    state_of,
)

from weft.runtime import state as state_module


@settings(max_examples=40)
@given(rows, st.sets(st.integers(1, 14)), st.randoms(), st.booleans(), st.booleans())
def test_any_order_and_any_cut_into_batches_gives_the_same_state(
    several: list[Row], cuts: set[int], chance: Random, keyed: bool, settling: bool
) -> None:
    whole = contents(state_of(block(several, keyed=keyed), keyed=keyed))
    shuffled = list(several)
    chance.shuffle(shuffled)
    bounds = [0, *sorted(cut for cut in cuts if cut < len(several)), len(several)]
    state = state_of(keyed=keyed)
    for begin, end in pairwise(bounds):
        state.add(block(shuffled[begin:end], keyed=keyed))
        if settling:
            state.settle()
    assert contents(state) == whole
    assert set(whole) == set(grouped(several, keyed=keyed))
    assert state.starts().tolist() == sorted({row.start for row in several})


@settings(max_examples=30)
@given(rows)
def test_rows_are_sorted_by_group_and_slice(several: list[Row]) -> None:
    state = state_of(block(several[:7]), block(several[7:]))
    state.settle()
    places = list(zip(state.group.tolist(), state.start.tolist(), strict=True))
    assert places == sorted(set(places))


@settings(max_examples=40)
@given(rows, rows, st.integers(-5, 9).map(lambda slice: slice * 1000), st.booleans())
def test_forgetting_leaves_what_open_windows_hold(
    old: list[Row], new: list[Row], before: int, settled: bool
) -> None:
    state = state_of(block(old))
    if settled:
        state.settle()
    state.evict(before)
    state.add(block(new))
    kept = [row for row in (*old, *new) if row.start >= before]
    wanted = contents(state_of(block(kept)))
    found = contents(state)
    assert {place: fields for place, fields in found.items() if place[1] >= before} == wanted
    state.evict(before)
    assert contents(state) == wanted
    assert len(state) == len(wanted)


def test_groups_are_forgotten_with_their_last_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "_FORGET_GROUPS_FROM", 3)
    state = state_of(block([Row(slice, str(slice), slice, None, None) for slice in range(20)]))
    state.settle()
    waiting = block([Row(30, "19", 5, None, None), Row(31, "new", 6, None, None)])
    state.add(waiting)
    state.evict(18)
    assert len(state.groups) == 2
    wanted = [Row(18, "18", 18, None, None), Row(19, "19", 19, None, None)]
    assert contents(state) == contents(state_of(block(wanted), waiting))
    assert len(state.groups) == 3


def test_everything_can_be_forgotten() -> None:
    state = state_of(block([Row(0, "a", 1, "x", None)]))
    state.evict(1 << 62)
    assert (len(state), contents(state)) == (0, {})
    state.add(block([Row(5, "a", 2, "y", None)]))
    assert contents(state) == {("a", 5): ((1,), (2,), ("y",), None)}


def test_a_primitive_that_someone_asks_for_later_is_empty_before() -> None:
    row = Row(0, "a", 7, "x", None)
    for late in (TOTAL, FIRST, SPREAD, COUNT):
        first = next(one for one in EXACT if one != late)
        state = state_of(block([row], [first]))
        state.settle()
        state.add(block([row, row._replace(start=5)], [first, late]))
        state.add(block([row._replace(start=9)], [first]))
        alone = contents(state_of(block([row, row._replace(start=5)], [late])))
        found = {place: fields[1] for place, fields in contents(state).items()}
        assert found["a", 0] == alone["a", 0][0]
        assert found["a", 5] == alone["a", 5][0]
        assert found["a", 9] == ((0,) if late == COUNT else None)


def test_a_relation_without_primitives_still_knows_its_groups() -> None:
    state = state_of(block([Row(0, "a", 1, None, None), Row(0, "b", 1, None, None)], []))
    assert contents(state) == {("a", 0): (), ("b", 0): ()}


def test_an_empty_block_is_no_block() -> None:
    state = state_of(block([]))
    assert len(state) == 0
    assert contents(state) == {}
    state.evict(0)
