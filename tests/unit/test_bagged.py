"""Bags of windows are the same whether shards are repeated or elements are picked, and those of the rows."""

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import by_rank, one_element
from tests.unit.state_samples import (
    COUNT,
    FEES,
    HEATS,
    NAMES,
    PREDICATES,
    SPREAD,
    TAPE,
    TOTAL,
    WEIGHED,
    Row,
    block,
    rows,
    state_of,
)
from tests.unit.test_finals import KNOWN, Due, due_windows, dues, forced, one_window, reading, roots

from weft.aggregates import Bags, Partial, Primitive, empty
from weft.state import bagged as bagged_module
from weft.state import repeating as repeating_module
from weft.state import ways as ways_module
from weft.state.bagged import with_bags
from weft.state.driver_store import DriverStore
from weft.state.sorted_runs import shards_by_key
from weft.state.store import Combined

BAGGED = (NAMES, HEATS, TAPE, WEIGHED)
PLAIN = (COUNT, TOTAL, FEES, SPREAD)
Place = tuple[int, int, str | None]
Element = tuple[Any, int, int | None, int | None]
"""A value, how often it occurs, its place in an order, its weight."""


def state_by_plans(batches: Sequence[Sequence[Row]], chance: Random, *, keyed: bool) -> DriverStore:
    """Return a state that took in each batch by the relations of another plan."""
    state = state_of(keyed=keyed)
    for batch in batches:
        for root in roots(chance, KNOWN):
            state.add(block(batch, (*BAGGED, *PLAIN), keyed=keyed, predicates=root))
        if chance.random() < 0.5:
            state.settle()
    return state


def answered(
    state: DriverStore, due: Sequence[Due], primitives: tuple[Primitive, ...], *, keyed: bool, picking: bool
) -> dict[Place, dict[Primitive, Any]]:
    """Return the partials of all windows, with one way to make bags; no window may come twice."""
    found: dict[Place, dict[Primitive, Any]] = {}
    asked = reading(due, [primitives])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways_module, "_picking_pays", lambda shards, due, bagged: picking)
        pieces = list(state.answer(due_windows(due), np.arange(len(due)), asked.predicates, asked.primitives))
    for asks, piece in pieces:
        keys = state.groups.values(piece.key).column(0).to_pylist() if keyed else [None] * len(piece.key)
        for row, (ask, end, key) in enumerate(
            zip(asks[piece.ask].tolist(), piece.end.tolist(), keys, strict=True)
        ):
            assert (ask, end, key) not in found
            found[ask, end, key] = {one: read(piece.partials[one], row) for one in primitives}
    return found


def read(partial: Partial, row: int) -> Any:
    """Return one partial as plain values; a bag as the list of its elements."""
    if isinstance(partial.fields[0], Bags):
        return elements(partial.fields[0], row)
    if not partial.valid_mask()[row]:
        return None
    return tuple(field[row] for field in partial.fields)


def elements(bags: Bags, row: int) -> list[Element]:
    """Return the elements of one bag, in order."""
    one = bags[row : row + 1]
    others = [None if column is None else column.tolist() for column in (one.order, one.weights)]
    values = map(one_element, one.values(one.codes).to_pylist())
    return [
        (value, count, *(None if column is None else int(column[place]) for column in others))
        for place, (value, count) in enumerate(zip(values, one.counts.tolist(), strict=True))
    ]  # type: ignore[misc]


def of_rows(primitive: Primitive, group: Sequence[Row]) -> list[Element]:
    """Return the elements of the bag of some rows, from its definition."""
    counts: dict[Any, list[int]] = defaultdict(lambda: [0, 0])
    first = str(primitive.arguments[0])
    for row in group:
        value, other = getattr(row, first), row.n or 0
        if value is not None:
            own = counts[other if primitive is TAPE else 0, by_rank((value + type(value)(),))]
            own[0] += 1
            own[1] += other
            own[2:] = [value]
    return [
        (
            one_element(value), count, order if primitive is TAPE else None,
            weight if primitive is WEIGHED else None,
        )
        for (order, _), (count, weight, value) in sorted(counts.items(), key=lambda item: item[0])
    ]  # fmt: skip


def definition(
    several: Sequence[Row], due: Sequence[Due], primitives: Sequence[Primitive], *, keyed: bool
) -> dict[Place, dict[Primitive, Any]]:
    """Return the bags of all windows from the rows themselves."""
    found: dict[Place, dict[Primitive, Any]] = {}
    for ask, one in enumerate(due):
        for end in one.ends():
            groups = defaultdict(list)
            for row in several:
                if end - one.range <= row.start < end and PREDICATES[one.predicate](row):
                    groups[row.key if keyed else None].append(row)
            for key, group in groups.items():
                found[ask, end, key] = {own: of_rows(own, group) for own in primitives if own in BAGGED}
    return found


@settings(max_examples=200)
@given(
    several=rows, more=rows, due=dues, seed=st.integers(0, 1 << 30), keyed=st.booleans(),
    bagged=st.sets(st.sampled_from(BAGGED), min_size=1), plain=st.sets(st.sampled_from(PLAIN)),
    way=st.sampled_from(("repeated", "totals")),
)  # fmt: skip
def test_picked_bags_are_those_of_repeated_shards_and_of_the_rows(
    several: list[Row], more: list[Row], due: list[Due], seed: int, keyed: bool, bagged: set[Primitive],
    plain: set[Primitive], way: str,
) -> None:  # fmt: skip
    chance = Random(seed)
    state = state_by_plans((several[:8], several[8:], more), chance, keyed=keyed)
    primitives = tuple(chance.sample([*bagged, *plain], len(bagged) + len(plain)))
    if way == "totals":
        # Only counts and sums have running totals.
        primitives = tuple(one for one in primitives if one in (*BAGGED, COUNT, TOTAL))
    with pytest.MonkeyPatch.context() as patch:
        forced("repeated", patch, chance)
        repeated = answered(state, due, primitives, keyed=keyed, picking=False)
        forced(way, patch, chance)
        patch.setattr(bagged_module, "_MOST_ELEMENTS", chance.choice((1, 5, 1000)))
        picked = answered(state, due, primitives, keyed=keyed, picking=True)
    assert picked.keys() == repeated.keys()
    for place, partials in repeated.items():
        for one, partial in partials.items():
            if one is SPREAD:
                assert picked[place][one] == pytest.approx(partial, nan_ok=True)
            else:
                assert picked[place][one] == partial, (place, one)
    wanted = definition([*several, *more], due, primitives, keyed=keyed)
    bags = {
        place: {own: found[own] for own in primitives if own in BAGGED} for place, found in picked.items()
    }
    assert bags == wanted


@pytest.mark.parametrize("picking", [True, False])
def test_windows_whose_bags_are_empty(picking: bool) -> None:
    several = [Row(0, "a", 1, None, None), Row(0, "b", 2, "x", None, 0.5), Row(2000, "a", 2, None, None)]
    state = state_of(block(several, (*BAGGED, COUNT)))
    due = [one_window(0, 1000, "all"), one_window(0, 3000, "all"), one_window(5000, 9000, "all")]
    found = answered(state, due, (NAMES, COUNT, WEIGHED), keyed=True, picking=picking)
    full = {NAMES: [("x", 1, None, None)], COUNT: (1,), WEIGHED: [(0.5, 1, None, 2)]}
    assert found == {
        (0, 1000, "a"): {NAMES: [], COUNT: (1,), WEIGHED: []},
        (0, 1000, "b"): full,
        (1, 3000, "a"): {NAMES: [], COUNT: (2,), WEIGHED: []},
        (1, 3000, "b"): full,
    }


@pytest.mark.parametrize("picking", [True, False])
def test_blocks_that_lack_a_bag(picking: bool) -> None:
    early, late = [Row(0, "a", 1, "x", None)], [Row(0, "a", 2, "y", None), Row(1000, "b", 3, "y", None)]
    state = state_of(block(early, (COUNT,)), block(late, (COUNT, NAMES, TAPE)))
    found = answered(state, [one_window(0, 2000, "all")], (NAMES, TAPE), keyed=True, picking=picking)
    assert found == {
        (0, 2000, "a"): {NAMES: [("y", 1, None, None)], TAPE: [("y", 1, 2, None)]},
        (0, 2000, "b"): {NAMES: [("y", 1, None, None)], TAPE: [("y", 1, 3, None)]},
    }


def test_keys_of_one_window_may_be_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    several = [Row(start, key, 1, key, None) for start in (0, 1000) for key in "abc"]
    state = state_of(block(several, (*BAGGED, COUNT)))
    monkeypatch.setattr(repeating_module, "_PAIRS", 1)
    due = [Due(range=2000, slide=1000, first_end=1000, windows=3, predicate="all")]
    found = answered(state, due, (COUNT, NAMES), keyed=True, picking=True)
    assert len(found) == 9
    for (_, end, key), partials in found.items():
        count = 2 if end == 2000 else 1
        assert partials == {COUNT: (count,), NAMES: [(key, count, None, None)]}


def test_a_piece_may_have_no_window() -> None:
    state = state_of(block([Row(0, "a", 1, "x", None)], (NAMES, COUNT)))
    shards = shards_by_key(state.runs(), 0, 1000)
    nothing = np.empty(0, dtype=np.intp)
    piece = Combined(ask=nothing, key=nothing, end=nothing, partials={COUNT: empty(COUNT, 0)}, operations=0)
    due = due_windows([one_window(0, 1000, "all")])
    assert list(with_bags(state.fragments, shards, due, KNOWN, [NAMES], iter([piece]))) == []


def test_picking_is_chosen_for_few_windows_of_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    picked = []
    whole = ways_module.with_bags
    monkeypatch.setattr(ways_module, "with_bags", lambda *given: picked.append(True) or whole(*given))
    few, many = ([Row(0, "a", 1, f"{name}", None) for name in range(count)] for count in (5, 5_000))
    due = [Due(range=60_000, slide=1_000, first_end=1_000, windows=20, predicate="all")]
    asked = reading(due, [(NAMES,)])
    for several in (few, many):
        state = state_of(block(several, (NAMES,)))
        list(state.answer(due_windows(due), np.arange(1), asked.predicates, asked.primitives))
        assert len(picked) == (several is many)
