"""The reference evaluator, by hand: windows, watermarks, late rows, EMIT EMPTY, HAVING."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.aggregates import Aggregate
from tests.oracle.conditions import Compare, IsNull, Or
from tests.oracle.expressions import Column, Expression, Literal
from tests.oracle.reference import replay, windows_of
from tests.oracle.results import Counters, Emission, Replay
from tests.oracle.spec import Key, Result, Spec
from tests.oracle.strategies import times_us, windows
from tests.oracle.types import BIGINT, DOUBLE, STRING, Row, SqlType, Value

X = Column("x", BIGINT)
COUNT = Aggregate(name="n", function="count")
SUM = Aggregate(name="total", function="sum", argument=X)
MS = 1000


def spec(
    range_ms: int = 10,
    slide_ms: int = 10,
    offset_ms: int = 0,
    *,
    predicate: Expression | None = None,
    keys: tuple[Key, ...] = (),
    having: Expression | None = None,
    emit_empty: bool = False,
    first_start_us: int | None = None,
    from_batch: int = 0,
) -> Spec:
    return Spec(
        name="q",
        range_ms=range_ms,
        slide_ms=slide_ms,
        offset_ms=offset_ms,
        predicate=predicate,
        keys=keys,
        aggregates=(COUNT, SUM),
        having=having,
        emit_empty=emit_empty,
        first_start_us=first_start_us,
        from_batch=from_batch,
    )


def rows(*times_ms: float | None, x: Value = 1) -> list[Row]:
    return [{"time": None if at is None else round(at * MS), "x": x} for at in times_ms]


def whole(value: Value) -> int:
    assert isinstance(value, int)
    return value


def shape(emission: Emission | None) -> list[tuple[Value, ...]]:
    """(start in ms, end in ms, n, total) of each result."""
    assert emission is not None
    results = [result.values for result in emission.results["q"]]
    return [
        (whole(r["window_start"]) // MS, whole(r["window_end"]) // MS, r["n"], r["total"]) for r in results
    ]


def answers(result: Replay) -> list[tuple[Value, ...]]:
    """All results, in the order in which they come."""
    return [one for emission in (*result.batches, result.flushed) for one in shape(emission)]


def run(batches: Sequence[Sequence[Row]], query: Spec, delay_ms: int = 0, flush: bool = True) -> Replay:
    return replay(batches, [query], delay_ms=delay_ms, flush=flush)


# Windows


def test_windows_end_on_the_offset() -> None:
    # range 12, slide 5: ends at 5k; 7 lies in [-2, 10), [3, 15) and not in [8, 20)
    assert windows_of(7 * MS, 12, 5, 0) == [(-2 * MS, 10 * MS), (3 * MS, 15 * MS)]
    assert windows_of(8 * MS, 12, 5, 0)[-1] == (8 * MS, 20 * MS)


def test_windows_with_gaps_hold_some_times_only() -> None:
    # range 3, slide 10, ends at 10k: [7, 10), [17, 20)
    assert [windows_of(at * MS, 3, 10, 0) for at in (6, 7, 9, 10)] == [
        [],
        [(7 * MS, 10 * MS)],
        [(7 * MS, 10 * MS)],
        [],
    ]


@given(windows(), times_us())
def test_windows_are_those_of_the_definition(window: tuple[int, int, int], at: int) -> None:
    range_ms, slide_ms, offset_ms = window
    found = windows_of(at, range_ms, slide_ms, offset_ms)
    assert found == sorted(set(found))
    assert len(found) in (range_ms // slide_ms, range_ms // slide_ms + 1)
    for start, end in found:
        assert start <= at < end
        assert end - start == range_ms * MS
        assert (end - offset_ms * MS) % (slide_ms * MS) == 0
    if found:  # the neighbours do not hold it
        assert found[0][1] - slide_ms * MS <= at
        assert found[-1][0] + slide_ms * MS > at


# Watermarks


def test_a_window_is_emitted_once_by_the_batch_whose_watermark_reaches_its_end() -> None:
    # delay 2      rows 1 9 | 11    | 12     | 25
    # watermark         7   | 9     | 10     | 23
    result = run([rows(1, 9), rows(11), rows(12), rows(25)], spec(), delay_ms=2)
    assert [shape(batch) for batch in result.batches] == [[], [], [(0, 10, 2, 2)], [(10, 20, 2, 2)]]
    assert shape(result.flushed) == [(20, 30, 1, 1)]
    assert [batch.watermark_us for batch in result.batches] == [7 * MS, 9 * MS, 10 * MS, 23 * MS]


def test_a_row_older_than_the_previous_watermark_is_late() -> None:
    # W after batch 0 is 15. 14.999 is late although [10, 20) is open; 15 is not.
    result = run([rows(15), rows(14.999, 15, 3)], spec())
    assert [batch.counters for batch in result.batches] == [Counters(1), Counters(3, late=2)]
    assert shape(result.flushed) == [(10, 20, 2, 2)]
    assert len(result.accepted) == 2


def test_disorder_within_a_batch_is_never_late() -> None:
    result = run([rows(50, 1)], spec())
    assert result.counters == Counters(2)
    assert shape(result.batches[0]) == [(0, 10, 1, 1)]


def test_the_watermark_never_goes_back() -> None:
    result = run([rows(20), rows(), rows(20)], spec(), delay_ms=5)
    assert [batch.watermark_us for batch in result.batches] == [15 * MS] * 3


def test_rows_without_a_time_or_too_far_ahead_change_nothing() -> None:
    batches = [rows(5, None, 2000, 1010), rows(6)]
    result = replay(batches, [spec()], delay_ms=0, skew_ms=10, now_us=1000 * MS)
    assert result.batches[0].counters == Counters(4, no_time=1, future=1)
    assert result.batches[0].watermark_us == 1010 * MS
    limited = replay([rows(5, 2000), rows(6)], [spec()], delay_ms=0, skew_ms=10, now_us=1000 * MS)
    assert shape(limited.flushed) == [(0, 10, 2, 2)]


def test_without_a_flush_open_windows_stay_open() -> None:
    result = run([rows(1, 12)], spec(), flush=False)
    assert result.flushed is None
    assert [r.values["n"] for r in result.results("q")] == [1]


def test_windows_before_the_epoch() -> None:
    result = run([rows(-1, -10, -11)], spec())
    assert shape(result.batches[0]) == [(-20, -10, 1, 1)]
    assert shape(result.flushed) == [(-10, 0, 2, 2)]


def test_a_query_that_came_late_begins_with_its_first_window() -> None:
    result = run([rows(1, 8, 12)], spec(10, 5, first_start_us=5 * MS))
    assert shape(result.flushed) == [(5, 15, 2, 2), (10, 20, 1, 1)]


# Groups and predicates


def keyed(of: SqlType, *values: Value, predicate: Expression | None = None) -> list[tuple[Value, Value]]:
    key = Key(name="k", expression=Column("x", of))
    batch: list[Row] = [{"time": 0, "x": value} for value in values]
    query = Spec(name="q", range_ms=1, slide_ms=1, keys=(key,), aggregates=(COUNT,), predicate=predicate)
    return [(r.values["k"], r.values["n"]) for r in run([batch], query).results("q")]


def test_null_keys_form_a_group() -> None:
    assert keyed(STRING, "a", None, "", None) == [("a", 1), (None, 2), ("", 1)]


def test_zeros_are_one_group_and_nans_another() -> None:
    (zero, zeros), (nan, nans) = keyed(DOUBLE, -0.0, math.nan, 0.0, math.nan)
    assert (zero, zeros, nans) == (0.0, 2, 2)
    assert math.copysign(1.0, zero) == 1.0  # type: ignore[arg-type]
    assert math.isnan(nan)  # type: ignore[arg-type]


def test_a_null_predicate_is_false() -> None:
    assert keyed(BIGINT, 1, None, 5, predicate=Compare(">", X, Literal(2))) == [(5, 1)]


def test_a_window_without_a_matching_row_emits_nothing() -> None:
    assert keyed(BIGINT, 1, predicate=Compare(">", X, Literal(2))) == []


# HAVING and EMIT EMPTY


def test_having_may_use_what_select_does_not() -> None:
    largest = Result(Aggregate(name="hidden", function="max", argument=X))
    batch = [*rows(1, 2, x=5), *rows(11, x=7)]
    query = spec(having=Compare(">", largest, Literal(6)))
    assert shape(run([batch], query).flushed) == [(10, 20, 1, 7)]
    assert "hidden" not in query.columns


def test_a_null_having_drops_the_group() -> None:
    query = spec(having=Compare(">", Result(SUM), Literal(0)))
    assert shape(run([[*rows(1, x=None), *rows(12, x=1)]], query).flushed) == [(10, 20, 1, 1)]


def test_emit_empty_fills_the_span_of_the_stream() -> None:
    # Rows at 1 and 35; only the second matches, yet the span begins with the first.
    query = spec(predicate=Compare(">", X, Literal(2)), emit_empty=True)
    result = run([[*rows(1), *rows(35, x=5)]], query)
    assert shape(result.batches[0]) == [(0, 10, 0, None), (10, 20, 0, None), (20, 30, 0, None)]
    assert shape(result.flushed) == [(30, 40, 1, 5)]


def test_emit_empty_goes_on_where_the_last_batch_stopped() -> None:
    result = run([rows(1), rows(25), rows(26), rows(41)], spec(emit_empty=True))
    assert [shape(batch) for batch in result.batches] == [
        [],
        [(0, 10, 1, 1), (10, 20, 0, None)],
        [],
        [(20, 30, 2, 2), (30, 40, 0, None)],
    ]
    assert shape(result.flushed) == [(40, 50, 1, 1)]


def test_emit_empty_of_sliding_windows_begins_with_the_first_that_holds_a_row() -> None:
    result = run([rows(1, 12)], spec(10, 5, emit_empty=True), delay_ms=100)
    assert shape(result.flushed) == [(-5, 5, 1, 1), (0, 10, 1, 1), (5, 15, 1, 1), (10, 20, 1, 1)]


@pytest.mark.parametrize("delay_ms", [0, 100])
def test_emit_empty_of_hopping_windows_ends_with_the_last_that_a_row_has_reached(delay_ms: int) -> None:
    # [7, 10) [17, 20) [27, 30): 8 is in the first, 25 in none
    result = run([rows(8, 25)], spec(3, 10, emit_empty=True), delay_ms=delay_ms)
    assert answers(result) == [(7, 10, 1, 1), (17, 20, 0, None)]


def test_emit_empty_of_a_query_that_comes_later_begins_with_its_first_window() -> None:
    # After 8, before 45: [10, 20) [20, 30) [30, 40) hold nothing
    result = run([rows(8), rows(45)], spec(10, 10, emit_empty=True, from_batch=1))
    nothing = [(10, 20, 0, None), (20, 30, 0, None), (30, 40, 0, None)]
    assert answers(result) == [*nothing, (40, 50, 1, 1)]


def test_emit_empty_of_no_rows_is_nothing() -> None:
    result = run([rows(), rows(None)], spec(emit_empty=True))
    assert result.results("q") == []


def test_having_applies_to_empty_windows_too() -> None:
    few = Compare("<", Result(COUNT), Literal(1))
    query = spec(emit_empty=True, having=Or(few, IsNull(Result(SUM))))
    assert shape(run([rows(1, 25)], query).batches[0]) == [(10, 20, 0, None)]


def test_emit_empty_and_groups_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="EMIT EMPTY"):
        spec(emit_empty=True, keys=(Key(name="k", expression=X),))


# Properties


@given(st.lists(st.integers(-50, 50), max_size=12), st.integers(0, 12), windows())
def test_cuts_into_batches_do_not_change_the_answer(
    times: list[int], cut: int, window: tuple[int, int, int]
) -> None:
    query = spec(*window)
    uncut = run([rows(*times)], query, delay_ms=1000)
    parts = run([rows(*times[:cut]), rows(*times[cut:])], query, delay_ms=1000)
    assert shape(uncut.flushed) == shape(parts.flushed)
    held = sum(len(windows_of(at * MS, *window)) for at in times)
    assert held == sum(whole(r.values["n"]) for r in uncut.results("q"))
