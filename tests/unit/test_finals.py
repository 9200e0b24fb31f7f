"""Final aggregation of all due windows at once, against each window on its own."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import expected
from tests.unit.state_samples import (
    COUNT,
    EXACT,
    FEES,
    FIRST,
    HEAT,
    HIGHEST,
    LEAST,
    LOWEST,
    MONEY,
    MOST,
    PREDICATES,
    SPREAD,
    TOTAL,
    Row,
    block,
    rows,
    signature,
    state_of,
)

from weft.aggregates import Primitive
from weft.runtime import finals as finals_module
from weft.runtime import totals as totals_module
from weft.runtime.finals import Finals, Windows, finals
from weft.runtime.programs import Program
from weft.runtime.state import RelationState
from weft.types import BIGINT, DOUBLE, STRING, DataType

Call = tuple[str, tuple[Primitive, ...], DataType]
NUMBERS: dict[Call, Callable[[Row], Any]] = {
    ("count", (COUNT,), BIGINT): lambda row: True,
    ("sum", (TOTAL,), BIGINT): lambda row: row.n,
    ("sum", (HEAT,), DOUBLE): lambda row: row.x,
    ("min", (LEAST,), DOUBLE): lambda row: row.x,
    ("max", (MOST,), DOUBLE): lambda row: row.x,
    ("min", (LOWEST,), BIGINT): lambda row: row.n,
    ("max", (HIGHEST,), BIGINT): lambda row: row.n,
}
OBJECTS: dict[Call, Callable[[Row], Any]] = {
    ("min", (FIRST,), STRING): lambda row: row.name,
    ("sum", (FEES,), MONEY): lambda row: row.fee,
    ("var_pop", (SPREAD,), DOUBLE): lambda row: None if row.n is None else float(row.n),
}
PRIMITIVES = (COUNT, TOTAL, HEAT, LEAST, MOST, LOWEST, HIGHEST, FIRST, FEES, SPREAD)
KNOWN: list[Any] = list(PREDICATES)


class Due(NamedTuple):
    """A due window of a predicate."""

    start: int
    end: int
    predicate: str


dues = st.lists(
    st.builds(
        lambda start, length, predicate: Due(start * 1000, (start + length) * 1000, predicate),
        st.integers(-6, 9), st.integers(1, 12), st.sampled_from(KNOWN),
    ),
    max_size=12,
)  # fmt: skip


def program(calls: Sequence[Call], *, keyed: bool, emit_empty: bool = False) -> Program:
    return Program(
        grouping=None, keys=(0,) if keyed else (), aggregates=tuple(calls), outputs=(), having=None,
        emit_empty=emit_empty,
    )  # fmt: skip


def windows(several: Sequence[Due]) -> Windows:
    start, end = (np.array([one[side] for one in several], dtype=np.int64) for side in (0, 1))
    predicate = np.array([KNOWN.index(one.predicate) for one in several], dtype=np.int32)
    query = np.arange(len(several), dtype=np.int32)
    return Windows(query=query, start=start, end=end, predicate=predicate)


def slow(
    several: Sequence[Row], due: Sequence[Due], calls: dict[Call, Callable[[Row], Any]], *, keyed: bool,
    emit_empty: bool,
) -> dict[tuple[int, str | None], list[Any]]:  # fmt: skip
    """Answer each window from the rows themselves."""
    found = {}
    for number, (start, end, predicate) in enumerate(due):
        inside = [row for row in several if start <= row.start < end and PREDICATES[predicate](row)]
        keys: set[str | None] = {row.key if keyed else None for row in inside}
        for key in keys or ({None} if emit_empty else set()):
            group = [row for row in inside if not keyed or row.key == key]
            found[number, key] = [
                expected(name, type, [value(row) for row in group])
                for (name, _, type), value in calls.items()
            ]
    return found


def results(pieces: Sequence[Finals], due: Sequence[Due]) -> dict[tuple[int, str | None], list[Any]]:
    found = {}
    for piece in pieces:
        for row in piece.table.to_pylist():
            number = row.pop("query")
            assert row.pop("window_start").timestamp() * 1_000_000 == due[number].start
            assert row.pop("window_end").timestamp() * 1_000_000 == due[number].end
            place = number, row.pop("key0", None)
            assert place not in found
            found[place] = list(row.values())
    return found


def assert_same(found: dict[Any, list[Any]], wanted: dict[Any, list[Any]]) -> None:
    assert found.keys() == wanted.keys()
    for place, values in wanted.items():
        for one, other in zip(found[place], values, strict=True):
            if isinstance(other, float):
                assert one == pytest.approx(other, rel=1e-9, abs=1e-6, nan_ok=True)
            else:
                assert one == other


def forced(way: str, patch: pytest.MonkeyPatch, chance: Random) -> None:
    """Have finals go one way, in pieces of any size."""
    patch.setattr(finals_module, "has_totals", lambda primitive: way == "totals")
    patch.setattr(finals_module, "_PAIRS", chance.choice((1, 7, 1000)))
    patch.setattr(totals_module, "_CELLS", chance.choice((1, 20, 10_000)))
    patch.setattr(totals_module, "_BATCH", chance.choice((1, 10, 1000)))
    patch.setattr(totals_module, "_RESULTS", chance.choice((1, 10, 1000)))


def roots(chance: Random, predicates: Sequence[Any]) -> list[list[Any]]:
    """Divide predicates among relations, as plans do."""
    several: list[list[Any]] = [[], [], []]
    for one in predicates:
        chance.choice(several).append(one)
    return [one for one in several if one]


def state_by_plans(
    batches: Sequence[Sequence[Row]], chance: Random, predicates: Sequence[Any], *, keyed: bool
) -> RelationState:
    """Return a state that took in each batch by the relations of another plan."""
    state = state_of(keyed=keyed)
    for batch in batches:
        for root in roots(chance, predicates):
            state.add(block(batch, PRIMITIVES, keyed=keyed, predicates=root))
        if chance.random() < 0.5:
            state.settle()
    return state


@pytest.mark.parametrize(("way", "calls"), [("totals", NUMBERS), ("ranges", NUMBERS | OBJECTS)])
@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=40)
@given(several=rows, more=rows, due=dues, emit_empty=st.booleans(), seed=st.integers(0, 1 << 30))
def test_all_windows_at_once_are_each_window_on_its_own(
    way: str, calls: dict[Call, Callable[[Row], Any]], keyed: bool, several: list[Row], more: list[Row],
    due: list[Due], emit_empty: bool, seed: int,
) -> None:  # fmt: skip
    emit_empty = emit_empty and not keyed
    chance = Random(seed)
    state = state_by_plans((several[:8], several[8:], more), chance, KNOWN, keyed=keyed)
    asked = program(tuple(calls), keyed=keyed, emit_empty=emit_empty)
    with pytest.MonkeyPatch.context() as patch:
        forced(way, patch, chance)
        pieces = list(finals(state, asked, windows(due), KNOWN))
    wanted = slow([*several, *more], due, calls, keyed=keyed, emit_empty=emit_empty)
    assert_same(results(pieces, due), wanted)


@pytest.mark.parametrize("way", ["totals", "ranges"])
@settings(max_examples=40)
@given(several=rows, more=rows, due=dues, seed=st.integers(0, 1 << 30), before=st.integers(-4, 8))
def test_queries_leave_and_slices_go(
    way: str, several: list[Row], more: list[Row], due: list[Due], seed: int, before: int
) -> None:
    chance = Random(seed)
    state = state_by_plans((several,), chance, KNOWN, keyed=True)
    left = KNOWN[: chance.randrange(1, len(KNOWN))]
    calls = {call: value for call, value in NUMBERS.items() if chance.random() < 0.5}
    state.keep([one for _, ones, _ in calls for one in ones], left)
    state.evict(before * 1000)
    # Those who come again begin with what comes after them.
    for root in roots(chance, KNOWN):
        state.add(block(more, PRIMITIVES, predicates=root))
    state.evict(before * 1000)
    with pytest.MonkeyPatch.context() as patch:
        forced(way, patch, chance)
        pieces = list(finals(state, program(tuple(calls), keyed=True), windows(due), KNOWN))
    found = results(pieces, due)
    old = [row for row in several if row.start >= before * 1000]
    for predicate in KNOWN:
        mine = [number for number, one in enumerate(due) if one.predicate == predicate]
        held = [*old, *more] if predicate in left else more
        late = {number for number in mine if due[number].start < before * 1000}
        wanted = slow(held, due, calls, keyed=True, emit_empty=False)
        exact = set(mine) - late
        assert_same(
            {place: values for place, values in found.items() if place[0] in exact},
            {place: values for place, values in wanted.items() if place[0] in exact},
        )


@pytest.mark.parametrize("way", ["totals", "ranges"])
@settings(max_examples=40)
@given(several=rows, due=dues, seed=st.integers(0, 1 << 30))
def test_operations_are_the_shards_that_windows_were_made_of(
    way: str, several: list[Row], due: list[Due], seed: int
) -> None:
    chance = Random(seed)
    divided = roots(chance, KNOWN)
    state = state_of()
    for row in several:
        for root in divided:
            state.add(block([row], PRIMITIVES, predicates=root))
        state.settle()
    with pytest.MonkeyPatch.context() as patch:
        forced(way, patch, chance)
        pieces = list(finals(state, program(tuple(NUMBERS), keyed=True), windows(due), KNOWN))
    shards = {(row.key, row.start, signature(row, root)) for row in several for root in divided}
    wanted = sum(
        one.start <= start < one.end and one.predicate in fragment
        for _, start, fragment in shards
        for one in due
    )
    assert sum(piece.operations for piece in pieces) == wanted


@pytest.mark.parametrize("way", ["totals", "ranges"])
def test_whole_numbers_beyond_doubles_are_exact(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    big = 2**62 + 1
    several = [Row(start * 1000, None, big if start % 2 else -big + start, None, None) for start in range(8)]
    state = state_of(*(block([row], [TOTAL, HIGHEST], predicates=KNOWN) for row in several))
    calls: tuple[Call, ...] = (("sum", (TOTAL,), BIGINT), ("max", (HIGHEST,), BIGINT))
    forced(way, monkeypatch, Random(0))
    due = [Due(start * 1000, 8000, "all") for start in (0, 2, 4)]
    found = results(list(finals(state, program(calls, keyed=True), windows(due), KNOWN)), due)
    assert found == {(0, None): [12, big], (1, None): [12, big], (2, None): [10, big]}


def test_infinity_in_one_fragment_harms_no_other() -> None:
    several = [Row(0, None, 1, None, None, float("inf")), Row(0, None, 2, None, None, 1.5)]
    several += [Row(5000, None, 2, None, None, 0.1), Row(5000, None, 1, None, None, float("nan"))]
    state = state_of(block(several, [HEAT], keyed=False, predicates=KNOWN), keyed=False)
    due = [Due(0, 5000, "even"), Due(0, 9000, "even"), Due(0, 5000, "all"), Due(5000, 9000, "even")]
    asked = program([("sum", (HEAT,), DOUBLE)], keyed=False)
    found = results(list(finals(state, asked, windows(due), KNOWN)), due)
    assert found == {(0, None): [1.5], (1, None): [1.6], (2, None): [float("inf")], (3, None): [0.1]}


@pytest.mark.parametrize("cells", [1, 1000])
def test_infinities_of_both_signs_are_nan_wherever_they_meet(
    cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(totals_module, "_CELLS", cells)
    infinity = float("inf")
    places = (0, 1, infinity), (0, 2, -infinity), (5000, 2, infinity), (5000, 1, 1.0)
    several = [Row(start, None, n, None, None, x) for start, n, x in places]
    state = state_of(block(several, [HEAT], keyed=False, predicates=KNOWN), keyed=False)
    due = [Due(0, 5000, "all"), Due(0, 9000, "even"), Due(5000, 9000, "all")]
    asked = program([("sum", (HEAT,), DOUBLE)], keyed=False)
    found = results(list(finals(state, asked, windows(due), KNOWN)), due)
    assert_same(found, {(0, None): [float("nan")], (1, None): [float("nan")], (2, None): [infinity]})


def test_groups_without_aggregates() -> None:
    state = state_of(block([Row(0, "a", 1, None, None), Row(0, "b", 2, None, None)], predicates=KNOWN))
    due = [Due(0, 1000, "even"), Due(0, 1000, "all")]
    found = results(list(finals(state, program([], keyed=True), windows(due), KNOWN)), due)
    assert found == {(0, "b"): [], (1, "a"): [], (1, "b"): []}


def test_nothing_is_due_and_nothing_is_there() -> None:
    asked = program([("count", (COUNT,), BIGINT)], keyed=False, emit_empty=True)
    due = [Due(0, 1000, "all")]
    state = state_of(keyed=False)
    assert list(finals(state, asked, windows([]), KNOWN)) == []
    assert results(list(finals(state, asked, windows(due), KNOWN)), due) == {(0, None): [0]}


def test_results_that_do_not_fit_are_counted_for_their_query() -> None:
    most = Decimal(10**36 - 1)
    several = [Row(0, None, 1, None, most), Row(1000, None, 1, None, None)]
    several += [Row(2000, None, 1, None, most), Row(3000, None, 1, None, most)]
    state = state_of(*(block([row], EXACT, keyed=False) for row in several), keyed=False)
    wide = program([("sum", (FEES,), DataType(MONEY.kind, 36, 2))], keyed=False)
    due = [Due(1000, 2000, "all"), Due(2000, 4000, "all"), Due(0, 1000, "all")]
    (piece,) = finals(state, wide, windows(due), KNOWN)
    assert piece.table["aggregate0"].null_count == 3
    assert piece.overflows.tolist() == [1, 2]
