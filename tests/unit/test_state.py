"""A relation's state is that of all its rows, whatever batches they came in."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
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
    signature,
    state_of,
)

from weft import arrays
from weft.state import driver_store as state_module
from weft.state.driver_store import DriverStore
from weft.state.sorted_runs import shards_by_key

KNOWN = ("all", "positive", "even", "none")


def several_shards(state: DriverStore) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield shards as `shards` does; fragments that have become equal are not merged at once."""
    state.settle()
    predicates = list(state.fragments.predicates)
    bits = state.fragments.bits(predicates, np.arange(len(state.fragments)))
    known = dict(zip(predicates, bits, strict=True))
    for run in state.runs():
        keys = (
            state.groups.values(run.key).column(0).to_pylist() if state.groups.grouped else [None] * len(run)
        )
        counts = run.partial(COUNT).fields[0].tolist()
        for key, start, fragment, count in zip(keys, run.start.tolist(), run.fragment, counts, strict=True):
            yield (key, start, frozenset(one for one in known if known[one][fragment])), ((count,),)


@given(rows, rows, st.booleans(), st.booleans())
def test_a_snapshot_taken_at_any_time_makes_the_same_state(
    earlier: list[Row], latest: list[Row], keyed: bool, settling: bool
) -> None:
    state = state_of(block(earlier, keyed=keyed, predicates=KNOWN), keyed=keyed)
    if settling:
        state.settle()
    state.add(block(latest, keyed=keyed, predicates=KNOWN[::-1]))
    taken = state.snapshot()
    assert dict(several_shards(state_of(*taken, keyed=keyed))) == dict(several_shards(state))


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
@given(rows, st.booleans())
def test_rows_are_in_order_however_they_are_read(several: list[Row], keyed: bool) -> None:
    blocks = [block(some, keyed=keyed, predicates=KNOWN) for some in (several[:7], several[7:])]
    state = state_of(*blocks, keyed=keyed)
    for run in state.runs():
        places = list(zip(run.start.tolist(), run.key.tolist(), run.fragment.tolist(), strict=True))
        assert places == sorted(set(places))
    starts = state.starts().tolist()
    since, until = (starts[0], starts[-1]) if len(starts) > 1 else (0, 1)
    shards = shards_by_key(state.runs(), since, until)
    places = list(zip(shards.key.tolist(), shards.start.tolist(), shards.fragment.tolist(), strict=True))
    assert places == sorted(set(places))
    assert len(shards) == sum(int(((run.start >= since) & (run.start < until)).sum()) for run in state.runs())


@settings(max_examples=60)
@given(
    st.lists(st.tuples(rows, st.sampled_from(("add", "settle", "evict", "keep"))), max_size=8),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_shards_are_those_of_all_rows_kept(
    steps: list[tuple[list[Row], str]], keyed: bool, forgetful: bool
) -> None:
    """Two roots, blocks of several plans, predicates that go for good, slices that are forgotten."""
    roots, kept = [["all", "even"], ["positive", "named", "none"]], []
    state = state_of(keyed=keyed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_module, "_FORGET_GROUPS_FROM", 0 if forgetful else 10_000)
        for number, (several, step) in enumerate(steps):
            for root in roots:
                state.add(block(several, keyed=keyed, predicates=root))
                kept += [(row, signature(row, root)) for row in several]
            if step == "settle":
                state.settle()
            elif step == "evict":
                before = (number - 4) * 1000
                state.settle()
                state.evict(before)
                kept = [(row, found) for row, found in kept if row.start >= before]
            elif step == "keep" and len(roots[number % 2]) > 1:
                gone = roots[number % 2].pop()
                state.keep(EXACT, [one for root in roots for one in root])
                kept = [(row, found - {gone}) for row, found in kept]
    wanted = Counter((row.key if keyed else None, row.start, found) for row, found in kept if found)
    counts: Counter[Any] = Counter()
    for place, fields in several_shards(state):
        counts[place] += fields[0][0]
    assert counts == wanted
    assert sum(map(len, state.runs())) == len(state)


def test_shards_of_tiny_batches_are_merged_in_time() -> None:
    state = state_of()
    for number in range(200):
        several = [Row(number // 150 * 1000, key, 1, None, None) for key in "ab"]
        state.add(block(several, [COUNT, SPREAD]))
        state.settle()
        assert len(state) <= 4
    assert {place: fields[0] for place, fields in contents(state).items()} == {
        ("a", 0): (150,), ("b", 0): (150,), ("a", 1000): (50,), ("b", 1000): (50,)
    }  # fmt: skip


def test_runs_stay_few() -> None:
    state = state_of()
    for number in range(300):
        state.add(block([Row(number, key, 1, None, None) for key in "abc"], [COUNT]))
        assert len(state.runs()) <= 10
    assert len(contents(state)) == len(state) == 900


def test_a_block_is_left_as_it_was() -> None:
    first, second = (block([Row(0, "a", 7, "x", None)]) for _ in range(2))
    state = state_of(first)
    state.settle()
    state.add(second)
    assert contents(state) == {("a", 0): ((2,), (14,), (b"x",), None)}
    assert first.partials[TOTAL].fields[0].tolist() == [7]
    assert second.partials[TOTAL].fields[0].tolist() == [7]


def test_rows_of_nobody_are_not_kept() -> None:
    state = state_of(block([Row(0, "a", 1, None, None), Row(5, "b", 2, None, None)], predicates=["even"]))
    assert state.starts().tolist() == [5]
    state.keep(EXACT, ["all"])
    assert len(state) == 0


@pytest.mark.parametrize(("scale", "codes"), [(1, 1 << 63), (1000, 1 << 63), (10**6, 1 << 63), (1000, 40)])
def test_times_far_apart_and_times_between_milliseconds_are_in_order(
    scale: int, codes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_CODES", codes)
    starts = [5, -(2**40), 2**40, 3, 4, 5]
    state = state_of(*(block([Row(start * scale, "a", 1, None, None)], [COUNT]) for start in starts))
    assert state.starts().tolist() == sorted({start * scale for start in starts})
    assert len(state) == 5


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
    assert contents(state) == {("a", 5): ((1,), (2,), (b"y",), None)}


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
