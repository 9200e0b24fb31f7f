"""Final aggregation of all due windows at once, against each window on its own."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import expected
from tests.unit.state_samples import (
    COUNT,
    FEES,
    FIRST,
    HEAT,
    HEATS,
    HIGHEST,
    LEAST,
    LOWEST,
    MONEY,
    MOST,
    NAMES,
    PREDICATES,
    SPREAD,
    TOTAL,
    Row,
    block,
    rows,
    signature,
    state_of,
)

from weft.aggregates import Primitive, aggregate
from weft.finals.readings import Reading
from weft.predicates import Formula
from weft.state import repeating as repeating_module
from weft.state import totals as totals_module
from weft.state import ways as ways_module
from weft.state.driver_store import DriverStore
from weft.state.store import DueWindows
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
    ("count_distinct", (NAMES,), BIGINT): lambda row: row.name,
    ("mode", (NAMES,), STRING): lambda row: row.name,
    ("median", (HEATS,), DOUBLE): lambda row: row.x,
}
PRIMITIVES = (COUNT, TOTAL, HEAT, LEAST, MOST, LOWEST, HIGHEST, FIRST, FEES, SPREAD, NAMES, HEATS)
KNOWN: list[Any] = list(PREDICATES)


class Due(NamedTuple):
    """Some windows of a predicate, one slide apart; times in microseconds."""

    range: int
    slide: int
    first_end: int
    windows: int
    predicate: str

    def ends(self) -> list[int]:
        return [self.first_end + number * self.slide for number in range(self.windows)]


dues = st.lists(
    st.builds(
        lambda length, slide, end, windows, predicate: Due(
            length * 1000, slide * 1000, end * 1000, windows, predicate
        ),
        st.integers(1, 12), st.integers(1, 9), st.integers(-4, 12), st.integers(1, 9), st.sampled_from(KNOWN),
    ),
    max_size=9,
)  # fmt: skip
Found = dict[tuple[int, int, str | None], list[Any]]


def one_window(start: int, end: int, predicate: str) -> Due:
    return Due(end - start, 1000, end, 1, predicate)


def due_windows(several: Sequence[Due]) -> DueWindows:
    columns = [np.array(column, dtype=np.int64) for column in zip(*(one[:4] for one in several), strict=True)]
    range_us, slide_us, end, count = columns or [np.empty(0, dtype=np.int64)] * 4
    offset = end % np.maximum(slide_us, 1)
    first = (end - offset) // np.maximum(slide_us, 1)
    return DueWindows(
        range_us=range_us, slide_us=slide_us, offset_us=offset, first=first, last=first + count - 1,
        predicate=np.array([KNOWN.index(one.predicate) for one in several], dtype=np.int32),
    )  # fmt: skip


def reading(several: Sequence[Due], primitives: Sequence[tuple[Primitive, ...]]) -> Reading:
    """Return a reading that asks for given primitives in turn."""
    known: tuple[Formula, ...] = tuple(KNOWN)
    turns = tuple(primitives[number % len(primitives)] for number in range(len(several)))
    return Reading(((), ()), predicates=known, primitives=turns)


def slow(
    several: Sequence[Row], due: Sequence[Due], calls: dict[Call, Callable[[Row], Any]], *, keyed: bool
) -> Found:
    """Answer each window from the rows themselves."""
    found: Found = {}
    for number, one in enumerate(due):
        for end in one.ends():
            inside = [
                row
                for row in several
                if end - one.range <= row.start < end and PREDICATES[one.predicate](row)
            ]
            for key in {row.key if keyed else None for row in inside}:
                group = [row for row in inside if not keyed or row.key == key]
                found[number, end, key] = [
                    expected(name, type, [value(row) for row in group])
                    for (name, _, type), value in calls.items()
                ]
    return found


def results(
    state: DriverStore, due: Sequence[Due], calls: Sequence[Call], *, keyed: bool
) -> tuple[Found, int]:
    """Return what finals say, and how many shards they were made of; no window may come twice."""
    primitives = tuple(dict.fromkeys(one for _, several, _ in calls for one in several))
    asked = reading(due, [primitives])
    found: Found = {}
    operations = 0
    for asks, piece in state.answer(
        due_windows(due), np.arange(len(due)), asked.predicates, asked.primitives
    ):
        keys = state.groups.values(piece.key).column(0).to_pylist() if keyed else [None] * len(piece.key)
        values = [
            aggregate(name).lower([piece.partials[one] for one in several], type, ()).to_pylist()  # type: ignore[union-attr]
            for name, several, type in calls
        ]
        assert (np.diff(piece.ask) >= 0).all()
        operations += piece.operations
        for row, (ask, end, key) in enumerate(
            zip(asks[piece.ask].tolist(), piece.end.tolist(), keys, strict=True)
        ):
            assert (ask, end, key) not in found
            found[ask, end, key] = [column[row] for column in values]
    return found, operations


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
    patch.setattr(ways_module, "_FEW_PAIRS", chance.choice((-1, 100)) if way == "repeated" else -1)
    patch.setattr(ways_module, "has_totals", lambda primitive: way == "totals")
    patch.setattr(ways_module, "_PAIR_COST", 1e9)
    patch.setattr(repeating_module, "_PAIRS", chance.choice((1, 7, 1000)))
    patch.setattr(repeating_module, "_ELEMENTS", chance.choice((1, 7, 1000)))
    patch.setattr(repeating_module, "_RESULTS", chance.choice((1, 7, 1000)))
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
) -> DriverStore:
    """Return a state that took in each batch by the relations of another plan."""
    state = state_of(keyed=keyed)
    for batch in batches:
        for root in roots(chance, predicates):
            state.add(block(batch, PRIMITIVES, keyed=keyed, predicates=root))
        if chance.random() < 0.5:
            state.settle()
    return state


@pytest.mark.parametrize(("way", "calls"), [("totals", NUMBERS), ("repeated", NUMBERS | OBJECTS)])
@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=60)
@given(several=rows, more=rows, due=dues, seed=st.integers(0, 1 << 30))
def test_all_windows_at_once_are_each_window_on_its_own(
    way: str, calls: dict[Call, Callable[[Row], Any]], keyed: bool, several: list[Row], more: list[Row],
    due: list[Due], seed: int,
) -> None:  # fmt: skip
    chance = Random(seed)
    state = state_by_plans((several[:8], several[8:], more), chance, KNOWN, keyed=keyed)
    with pytest.MonkeyPatch.context() as patch:
        forced(way, patch, chance)
        found, _ = results(state, due, tuple(calls), keyed=keyed)
    assert_same(found, slow([*several, *more], due, calls, keyed=keyed))


@settings(max_examples=60)
@given(
    several=rows, due=dues, alone=st.booleans(), rest=st.booleans(), seed=st.integers(0, 1 << 30)
)  # fmt: skip
def test_windows_that_do_not_overlap_have_their_own_rows(
    several: list[Row], due: list[Due], alone: bool, rest: bool, seed: int
) -> None:
    """Windows that begin where others end, or (`rest`) some time after that; of one ask or of several."""
    due = [one._replace(slide=one.range + 2000 * rest) for one in due][: 1 if alone else None]
    calls = NUMBERS | OBJECTS
    state = state_by_plans((several,), Random(seed), KNOWN, keyed=True)
    with pytest.MonkeyPatch.context() as patch:
        forced("repeated", patch, Random(seed))
        found, operations = results(state, due, tuple(calls), keyed=True)
    assert_same(found, slow(several, due, calls, keyed=True))
    assert (operations > 0) == bool(found)


@pytest.mark.parametrize("way", ["totals", "repeated"])
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
        found, _ = results(state, due, tuple(calls), keyed=True)
    old = [row for row in several if row.start >= before * 1000]
    for number, one in enumerate(due):
        held = [*old, *more] if one.predicate in left else more
        exact = {end for end in one.ends() if end - one.range >= before * 1000}
        wanted = slow(held, [one], calls, keyed=True)
        assert_same(
            {
                (end, key): values
                for (ask, end, key), values in found.items()
                if ask == number and end in exact
            },
            {(end, key): values for (_, end, key), values in wanted.items() if end in exact},
        )


@pytest.mark.parametrize("way", ["totals", "repeated"])
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
        _, operations = results(state, due, tuple(NUMBERS), keyed=True)
    shards = {(row.key, row.start, signature(row, root)) for row in several for root in divided}
    assert operations == sum(
        end - one.range <= start < end and one.predicate in fragment
        for _, start, fragment in shards
        for one in due
        for end in one.ends()
    )


@settings(max_examples=40)
@given(several=rows, due=dues, seed=st.integers(0, 1 << 30))
def test_asks_that_need_different_primitives_get_their_own(
    several: list[Row], due: list[Due], seed: int
) -> None:
    state = state_by_plans((several,), Random(seed), KNOWN, keyed=True)
    asked = reading(due, [(COUNT,), (COUNT, LEAST)])
    count, least = (dict(list(NUMBERS.items())[place : place + 1]) for place in (0, 3))
    wanted = slow(several, due, count | least, keyed=True)
    found: Found = {}
    for asks, piece in state.answer(
        due_windows(due), np.arange(len(due)), asked.predicates, asked.primitives
    ):
        keys = state.groups.values(piece.key).column(0).to_pylist()
        for row, (ask, end, key) in enumerate(
            zip(asks[piece.ask].tolist(), piece.end.tolist(), keys, strict=True)
        ):
            found[ask, end, key] = [piece.partials[COUNT].fields[0][row]]
            assert (LEAST in piece.partials) == (ask % 2 == 1)
    assert_same(found, {place: values[:1] for place, values in wanted.items()})


@pytest.mark.parametrize("way", ["totals", "repeated"])
def test_whole_numbers_beyond_doubles_are_exact(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    big = 2**62 + 1
    several = [Row(start * 1000, None, big if start % 2 else -big + start, None, None) for start in range(8)]
    state = state_of(*(block([row], [TOTAL, HIGHEST], predicates=KNOWN) for row in several))
    calls: tuple[Call, ...] = (("sum", (TOTAL,), BIGINT), ("max", (HIGHEST,), BIGINT))
    forced(way, monkeypatch, Random(0))
    due = [one_window(start * 1000, 8000, "all") for start in (0, 2, 4)]
    found, _ = results(state, due, calls, keyed=True)
    assert found == {(0, 8000, None): [12, big], (1, 8000, None): [12, big], (2, 8000, None): [10, big]}


@pytest.mark.parametrize("way", ["totals", "repeated"])
@pytest.mark.parametrize("seed", range(3))
def test_infinities_harm_no_other_fragment_and_meet_as_nan(
    way: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    infinity = float("inf")
    places = (0, 1, infinity), (0, 2, 1.5), (5000, 2, 0.1), (5000, 1, -infinity)
    several = [Row(start, None, n, None, None, x) for start, n, x in places]
    state = state_of(block(several, [HEAT], keyed=False, predicates=KNOWN), keyed=False)
    forced(way, monkeypatch, Random(seed))
    spans = (0, 5000, "even"), (0, 9000, "even"), (0, 5000, "all"), (5000, 9000, "even"), (0, 9000, "all")
    found, _ = results(state, [one_window(*span) for span in spans], (("sum", (HEAT,), DOUBLE),), keyed=False)
    by_window = {ask: values for (ask, _, _), values in found.items()}
    assert_same(by_window, {0: [1.5], 1: [1.6], 2: [infinity], 3: [0.1], 4: [float("nan")]})


def test_groups_without_aggregates() -> None:
    state = state_of(block([Row(0, "a", 1, None, None), Row(0, "b", 2, None, None)], predicates=KNOWN))
    due = [one_window(0, 1000, "even"), one_window(0, 1000, "all")]
    found, _ = results(state, due, (), keyed=True)
    assert found == {(0, 1000, "b"): [], (1, 1000, "a"): [], (1, 1000, "b"): []}


def test_nothing_is_due_and_nothing_is_there() -> None:
    state = state_of(keyed=False)
    assert results(state, [], (("count", (COUNT,), BIGINT),), keyed=False) == ({}, 0)
    assert results(state, [one_window(0, 1000, "all")], (), keyed=False) == ({}, 0)
