"""Aggregates: lift, combine and lower give what the definition says, however rows are cut into slices."""

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Context, Decimal
from itertools import pairwise
from math import inf, isnan, nan
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.aggregate_samples import (
    BINARY,
    FLOAT,
    NUMBERS,
    TINYINT,
    TYPES,
    answer,
    decimal_type,
    expected,
    lifted,
    values,
)
from tests.unit.language_samples import CATALOG, TRADES

from weft.aggregates import (
    ADD,
    AGGREGATES,
    COMBINES,
    GREATEST,
    LEAST,
    Aggregate,
    Constants,
    Partial,
    Primitive,
    aggregate,
    aggregate_functions,
    count_of,
    empty,
    to_arrow,
)
from weft.aggregates.aggregate_functions import SYNONYMS
from weft.expression import Column, Expression, Slot, SlotKind
from weft.finals.readings import program_of, readings
from weft.finals.selecting import Finals
from weft.optimizer.rules import optimize
from weft.predicates.signatures import signatures_of
from weft.query import bind, parse_select
from weft.query.logical import LogicalQuery
from weft.state.clock import Clock
from weft.state.driver_store import DriverStore
from weft.state.running_query import RunningQuery
from weft.state.store import Block
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

CONSTANTS: dict[str, Constants] = {
    "percentile": (0.5,), "percentile_cont": (0.5, False), "percentile_disc": (0.5, True), "top_k": (2,),
    "histogram": (10,), "first": (False,), "last": (True,), "collect_list": (3,), "collect_set": (3,),
    "string_agg": (",", 3), "approx_count_distinct": (0.05,), "approx_percentile": (0.5, 100),
    "approx_top_k": (2, 100),
}  # fmt: skip
"""Constants for the aggregates that need some."""
NOTHING: dict[str, Any] = {
    "count": 0, "count_distinct": 0, "count_if": 0, "top_k": [], "histogram": [], "collect_list": [],
    "collect_set": [], "approx_count_distinct": 0, "approx_top_k": [],
}  # fmt: skip
"""What aggregates of no value are; the others are NULL."""
OF_CONDITIONS = ("count_if", "bool_and", "bool_or")
OF_BITS = ("bit_and", "bit_or", "bit_xor")
OF_PAIRS = ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2")
SHAPES = ("skewness", "kurtosis")
MOMENTS = ("var_pop", "var_samp", "stddev_pop", "stddev_samp")
OTHER = DataType(Kind.OTHER)


def cut(rows: Sequence[Any], places: set[int]) -> list[Sequence[Any]]:
    """Cut rows into slices at the given places."""
    bounds = [0, *sorted(place for place in places if 0 < place < len(rows)), len(rows)]
    return [rows[begin:end] for begin, end in pairwise(bounds)]


def agrees(found: Any, wanted: Any, rows: Sequence[Any]) -> bool:
    """Compare exactly; doubles to within 1e-9 of the largest row."""
    if isinstance(wanted, dict):
        wanted, found = list(wanted.items()), list(found.items())
    if isinstance(wanted, list | tuple):
        pairs = zip(found, wanted, strict=False)
        return len(found) == len(wanted) and all(agrees(one, other, rows) for one, other in pairs)
    if not isinstance(wanted, float):
        return bool(found == wanted)
    if isnan(wanted):
        return isnan(found)
    sizes = [abs(float(row)) for row in rows if row is not None and abs(row) < inf]
    return bool(found == wanted or abs(found - wanted) <= 1e-9 * max(sizes))


@settings(max_examples=250)
@given(st.data(), st.sampled_from(("count", "sum", "avg", "min", "max")), st.sets(st.integers(1, 11)))
def test_every_cut_gives_what_the_definition_says(data: st.DataObject, name: str, places: set[int]) -> None:
    type = data.draw(st.sampled_from(NUMBERS if name in ("sum", "avg") else TYPES))
    rows = data.draw(st.lists(values(type), min_size=1, max_size=12))
    wanted = expected(name, type, rows)
    assert agrees(answer(name, type, cut(rows, places)), wanted, rows), wanted


SHARES = st.sampled_from((0, 0.1, 0.5, 0.95, 1))
OF_ALL: dict[str, st.SearchStrategy[Constants]] = {
    **{name: st.just(()) for name in ("count_distinct", "sum_distinct", "avg_distinct", "median", "mode")},
    "percentile": st.tuples(SHARES | st.tuples(SHARES, SHARES)),
    "percentile_cont": st.tuples(SHARES, st.booleans()),
    "percentile_disc": st.tuples(SHARES, st.booleans()),
    "top_k": st.tuples(st.integers(1, 3)),
    "histogram": st.tuples(st.sampled_from((1, 0.1, 1e300))),
}
"""Aggregates that need all values, and their constants."""


@settings(max_examples=300)
@given(st.data(), st.sampled_from(list(OF_ALL)), st.sets(st.integers(1, 11)))
def test_every_cut_gives_what_is_read_off_all_values(
    data: st.DataObject, name: str, places: set[int]
) -> None:
    type = data.draw(st.sampled_from(TYPES if name in ("count_distinct", "mode", "top_k") else NUMBERS))
    few = data.draw(st.lists(values(type), min_size=1, max_size=3))
    rows = data.draw(st.lists(st.sampled_from(few) | values(type), min_size=1, max_size=12))
    constants = data.draw(OF_ALL[name])
    wanted = expected(name, type, rows, constants)
    assert agrees(answer(name, type, cut(rows, places), constants), wanted, rows), wanted


@settings(max_examples=100)
@given(
    st.sampled_from(MOMENTS),
    st.lists(st.none() | st.integers(-1000, 1000), min_size=1, max_size=12),
    st.sets(st.integers(1, 11)),
)
def test_every_cut_gives_the_variance(name: str, rows: list[int | None], places: set[int]) -> None:
    for type in (INT, decimal_type(10, 2), DOUBLE):
        typed = [None if row is None else _as(type, row) for row in rows]
        found, wanted = answer(name, type, cut(typed, places)), expected(name, type, typed)
        assert found == pytest.approx(wanted, rel=1e-9, abs=1e-12) if wanted is not None else found is None


@settings(max_examples=200)
@given(st.data(), st.sampled_from((*OF_CONDITIONS, *OF_BITS, "any_value")), st.sets(st.integers(1, 11)))
def test_every_cut_gives_what_one_operation_folds(data: st.DataObject, name: str, places: set[int]) -> None:
    of_one = {**dict.fromkeys(OF_CONDITIONS, (BOOLEAN,)), **dict.fromkeys(OF_BITS, (TINYINT, INT, BIGINT))}
    type = data.draw(st.sampled_from(of_one.get(name, TYPES)))
    rows = data.draw(st.lists(values(type), min_size=1, max_size=12))
    assert agrees(answer(name, type, cut(rows, places)), expected(name, type, rows), rows)


@settings(max_examples=100)
@given(
    st.lists(
        st.none() | st.floats(1e-5, 1e5) | st.floats(-1e5, -1e-5) | st.sampled_from((0.0, nan, inf, -inf)),
        min_size=1,
        max_size=12,
    ),
    st.sets(st.integers(1, 11)),
)
def test_every_cut_gives_the_product(rows: list[float | None], places: set[int]) -> None:
    wanted = expected("product", DOUBLE, rows)
    found = answer("product", DOUBLE, cut(rows, places))
    assert found is None if wanted is None else found == pytest.approx(wanted, rel=1e-9, nan_ok=True)


few_numbers = st.none() | st.integers(-20, 20) | st.integers(10**6, 10**6 + 3)


@settings(max_examples=150)
@given(st.sampled_from(SHAPES), st.lists(few_numbers, min_size=1, max_size=12), st.sets(st.integers(1, 11)))
def test_every_cut_gives_the_shape(name: str, rows: list[int | None], places: set[int]) -> None:
    for type in (INT, decimal_type(10, 2), DOUBLE):
        typed = [None if row is None else _as(type, row) for row in rows]
        found, wanted = answer(name, type, cut(typed, places)), expected(name, type, typed)
        assert found is None if wanted is None else found == pytest.approx(wanted, rel=1e-6, abs=1e-6)


@settings(max_examples=200)
@given(
    st.sampled_from(OF_PAIRS),
    st.lists(st.tuples(few_numbers, few_numbers), min_size=1, max_size=12),
    st.sets(st.integers(1, 11)),
)
def test_every_cut_gives_what_is_read_off_pairs(
    name: str, rows: list[tuple[int | None, int | None]], places: set[int]
) -> None:
    for types in ((INT, DOUBLE), (decimal_type(10, 2), INT)):
        typed = [
            tuple(None if one is None else _as(type, one) for one, type in zip(row, types, strict=True))
            for row in rows
        ]
        found, wanted = answer(name, types, cut(typed, places)), expected(name, types, typed)
        size = max([1.0, *(abs(float(one)) for row in typed for one in row if one is not None)])
        assert found is None if wanted is None else found == pytest.approx(wanted, rel=1e-6, abs=1e-9 * size)


@settings(max_examples=300)
@given(st.data(), st.sampled_from(("min_by", "max_by", "first", "last")), st.sets(st.integers(1, 11)))
def test_every_cut_chooses_the_same_row(data: st.DataObject, name: str, places: set[int]) -> None:
    in_time = name in ("first", "last")
    of, by, tie = (data.draw(st.sampled_from(TYPES)) for _ in range(3))
    types = (of, BIGINT, by, tie) if in_time else (of, by)
    # Few values: rows are often equal but for one column.
    pools = [st.sampled_from(data.draw(st.lists(values(type), min_size=1, max_size=2))) for type in types]
    rows = data.draw(st.lists(st.tuples(*pools), min_size=1, max_size=12))
    constants = (data.draw(st.booleans()),) if in_time else ()
    wanted = expected(name, types, rows, constants)
    assert agrees(answer(name, types, cut(rows, places), constants), wanted, [1.0])


@settings(max_examples=250)
@given(
    st.data(), st.sampled_from(("collect_list", "collect_set", "string_agg")), st.sets(st.integers(1, 11)),
    st.sampled_from((1, 2, 3, 10_000)), st.sampled_from(("", ", ", "é")),
)  # fmt: skip
def test_every_cut_collects_the_same_values(
    data: st.DataObject, name: str, places: set[int], most: int, delimiter: str
) -> None:
    type = STRING if name == "string_agg" else data.draw(st.sampled_from(TYPES))
    few = data.draw(st.lists(values(type), min_size=1, max_size=3))
    value, time = st.sampled_from(few), st.integers(-2, 2)
    constants: Constants = (delimiter, most) if name == "string_agg" else (most,)
    row: st.SearchStrategy[Any] = value if name == "collect_set" else st.tuples(value, time)
    types = type if name == "collect_set" else (type, BIGINT)
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    found = answer(name, types, cut(rows, places), constants)
    assert agrees(found, expected(name, types, rows, constants), [1.0])


def _as(type: DataType, value: int) -> Any:
    return (
        Decimal(value).scaleb(-2) if type.kind is Kind.DECIMAL else float(value) if type == DOUBLE else value
    )


def types_of(one: Aggregate, first: DataType) -> tuple[DataType, ...]:
    """Return types of arguments, the first of them given: then numbers, or a time and two columns."""
    if one.by_time:
        return first, BIGINT, DOUBLE, STRING
    return (first, *[DOUBLE] * (max(one.least, 1) - 1))


# How sketches are lifted is a subject of its own (test_sketches.py).
@pytest.mark.parametrize(
    "one", [one for one in AGGREGATES if not one.name.startswith("approx_")], ids=lambda one: one.name
)
@pytest.mark.parametrize("type", TYPES, ids=str)
def test_no_value_at_all(one: Aggregate, type: DataType) -> None:
    types, constants = types_of(one, type), CONSTANTS.get(one.name, ())
    if one.result(types, constants) is not None:
        row = (None,) * len(types) if len(types) > 1 else None
        found = answer(one.name, types if len(types) > 1 else type, [[row], [row, row], []], constants)
        assert found == NOTHING.get(one.name)


@pytest.mark.parametrize("one", AGGREGATES, ids=lambda one: one.name)
@pytest.mark.parametrize("type", TYPES, ids=str)
def test_an_empty_window_lowers_to_nothing(one: Aggregate, type: DataType) -> None:
    types, constants = types_of(one, type), CONSTANTS.get(one.name, ())
    result = one.result(types, constants)
    if result is not None:
        columns = tuple(Column(f"c{place}", own) for place, own in enumerate(types))
        partials = [empty(primitive, 2) for primitive in one.lift(columns, constants)]
        lowered = one.lower(partials, result, constants)
        assert lowered.to_pylist() == [NOTHING.get(one.name)] * 2


@pytest.mark.parametrize(("name", "wanted"), [("var_samp", None), ("stddev_samp", None), ("var_pop", 0.0)])
def test_one_value_has_no_sample_variance(name: str, wanted: float | None) -> None:
    assert answer(name, DOUBLE, [[None], [5.0]]) == wanted


@pytest.mark.parametrize("name", MOMENTS)
@pytest.mark.parametrize("odd", [nan, inf, -inf])
def test_what_is_no_number_has_no_variance(name: str, odd: float) -> None:
    assert isnan(answer(name, DOUBLE, [[1.0], [odd, 2.0], [3.0]]))


@pytest.mark.parametrize("name", SHAPES)
def test_equal_values_have_no_shape_however_large(name: str) -> None:
    for value in (0.1, 1e9 + 0.1, 1e150, -3.3e-200):
        assert answer(name, DOUBLE, [[value] * 3, [None], [value], [value] * 7]) is None


def test_a_constant_has_neither_correlation_nor_slope() -> None:
    level = [[(0.1, 1.0), (0.1, 2.0)], [(0.1, 4.0)], [(None, 3.0), (0.1, None)]]
    upright = [[(y, x) for x, y in rows] for rows in level]
    both = (DOUBLE, DOUBLE)
    assert answer("corr", both, level) is None
    assert answer("corr", both, upright) is None
    assert [answer(f"regr_{name}", both, upright) for name in ("slope", "intercept", "r2")] == [None] * 3
    assert [answer(f"regr_{name}", both, level) for name in ("slope", "intercept", "r2")] == [0.0, 0.1, 1.0]


def test_one_pair_has_no_covariance_of_a_sample() -> None:
    pair = [[(1.0, 2.0), (None, 3.0)], [(4.0, None)]]
    assert answer("covar_pop", (DOUBLE, DOUBLE), pair) == 0.0
    for name in ("covar_samp", "corr", "regr_slope", "regr_intercept", "regr_r2"):
        assert answer(name, (DOUBLE, DOUBLE), pair) is None


@pytest.mark.parametrize("odd", [nan, inf, -inf])
def test_what_is_no_number_has_no_shape_and_no_covariance(odd: float) -> None:
    for name in SHAPES:
        assert isnan(answer(name, DOUBLE, [[1.0], [odd, 2.0], [3.0]]))
    for name in ("covar_pop", "covar_samp", "corr", "regr_slope", "regr_intercept"):
        assert isnan(answer(name, (DOUBLE, DOUBLE), [[(1.0, 2.0)], [(2.0, odd), (2.5, 3.0)]]))


def test_bits_of_the_widest_numbers() -> None:
    most, least = 2**63 - 1, -(2**63)
    assert answer("bit_and", BIGINT, [[most], [least]]) == 0
    assert answer("bit_or", BIGINT, [[most], [None], [least]]) == -1
    assert answer("bit_xor", BIGINT, [[most, least], [least]]) == most
    assert answer("bit_xor", TINYINT, [[-128], [127]]) == -1


def test_products_beyond_doubles() -> None:
    assert answer("product", DOUBLE, [[1e200], [1e200], [-1.0]]) == -inf
    assert answer("product", BIGINT, [[2**63 - 1], [-(2**63)]]) == -(2.0**126)
    assert isnan(answer("product", DOUBLE, [[inf], [0.0]]))


def test_of_rows_that_differ_in_no_column_but_the_last_the_first_has_the_least() -> None:
    rows = [[(3, 7, "b"), (2, 7, "b")], [(9, 7, None), (None, 8, "a")], [(None, None, "a")]]
    types = (INT, BIGINT, STRING)
    assert [answer(name, types, rows, (False,)) for name in ("first", "last")] == [9, None]
    assert [answer(name, types, rows, (True,)) for name in ("first", "last")] == [9, 3]
    assert answer("first", types, [rows[0], rows[2]], (False,)) == 2


def test_a_list_has_as_many_elements_as_it_may() -> None:
    rows = [[("b", 2), ("a", 2)], [("c", 1), (None, 0)], [("a", 2), ("c", 1)]]
    types = (STRING, BIGINT)
    assert answer("collect_list", types, rows, (10,)) == ["c", "c", "a", "a", "b"]
    assert answer("collect_list", types, rows, (3,)) == ["c", "c", "a"]
    assert answer("string_agg", types, rows, ("-", 4)) == "c-c-a-a"
    assert answer("string_agg", types, [[("", 1)]], ("-", 4)) == ""
    assert answer("collect_set", DOUBLE, [[0.0, nan], [-0.0, 1.0], [nan]], (2,)) == [0.0, 1.0]


# Exact types.


def test_an_integer_sum_beyond_64_bits_is_null() -> None:
    most, least = 2**63 - 1, -(2**63)
    assert answer("sum", BIGINT, [[most], [1]]) is None
    assert answer("sum", BIGINT, [[least], [-1]]) is None
    assert answer("sum", BIGINT, [[most, most], [most]]) is None


def test_an_integer_sum_that_comes_back_is_exact() -> None:
    most, least = 2**63 - 1, -(2**63)
    assert answer("sum", BIGINT, [[most], [1], [-1]]) == most
    assert answer("sum", BIGINT, [[most, most], [least, least], [2, 7]]) == 7
    assert answer("sum", BIGINT, [[least], [most, 1]]) == 0


def test_an_average_of_integers_is_right_though_their_sum_is_not_64_bits() -> None:
    assert answer("avg", BIGINT, [[2**63 - 1] * 3, [2**63 - 1]]) == float(2**63 - 1)
    assert answer("avg", BIGINT, [[2**53 + 1], [-(2**53)]]) == 0.5


def test_decimals_of_38_digits() -> None:
    type = decimal_type(38, 0)
    most, least = Decimal(10**38 - 1), Decimal(1 - 10**38)
    assert answer("sum", type, [[most], [Decimal(1)]]) is None
    assert answer("sum", type, [[most], [Decimal(1)], [Decimal(-1)]]) == most
    assert answer("sum", type, [[least], [most]]) == 0
    assert answer("min", type, [[most], [least]]) == least
    # The sum has 39 digits; the average, four more behind the point than the type has room for.
    assert answer("avg", type, [[most], [most]]) is None
    assert answer("avg", type, [[Decimal(10**33)], [Decimal(10**33) + 1]]) == Decimal(10**33) + Decimal("0.5")


@pytest.mark.parametrize("type", [decimal_type(38, 0), decimal_type(38, 20)])
def test_an_average_is_null_where_its_sum_does_not_fit(type: DataType) -> None:
    most = Decimal(10**38 - 1).scaleb(-type.scale, Context(prec=60))
    assert answer("avg", type, [[most], [most]]) is None
    assert answer("avg", type, [[most], [most.copy_negate()]]) == 0


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        # decimal(4,0) averages to decimal(8,4): halves of the last digit go away from zero.
        (["1"] + ["0"] * 15, "0.0625"),
        (["1"] + ["0"] * 31, "0.0313"),  # 0.03125
        (["-1"] + ["0"] * 31, "-0.0313"),
        (["3"] + ["0"] * 31, "0.0938"),  # 0.09375
        (["1", "0", "0"], "0.3333"),
        (["2", "0", "0"], "0.6667"),
    ],
)
def test_averages_of_decimals_round_half_up(rows: list[str], wanted: str) -> None:
    found = answer("avg", decimal_type(4, 0), [[Decimal(row)] for row in rows])
    assert (found, str(found)) == (Decimal(wanted), wanted)


def test_strings_and_times_are_themselves() -> None:
    assert answer("min", STRING, [["b", None], ["Z"], ["", "a"]]) == ""
    assert answer("max", STRING, [["b"], ["é"], ["\U0001f600"], ["z"]]) == "\U0001f600"
    assert answer("min", BINARY, [[b"\xff"], [b"\x00\x01"], [b"\x00"]]) == b"\x00"
    moment = datetime(1883, 11, 18, 12, 3, 58, 1, tzinfo=UTC)
    assert answer("min", TIMESTAMP, [[moment], [datetime(2024, 1, 1, tzinfo=UTC)]]) == moment


def test_nan_is_the_greatest_double() -> None:
    assert isnan(answer("max", DOUBLE, [[1.0], [nan], [inf]]))
    assert answer("min", DOUBLE, [[nan], [inf], [None]]) == inf
    assert isnan(answer("min", DOUBLE, [[nan], [None]]))
    assert answer("max", DOUBLE, [[-inf], [None]]) == -inf


# What aggregates declare.


def test_result_types() -> None:
    found = {
        (one.name, type): one.result(types_of(one, type), CONSTANTS.get(one.name, ()))
        for one in AGGREGATES
        for type in (*TYPES, OTHER)
    }
    assert {found["count", type] for type in (*TYPES, OTHER)} == {BIGINT}
    assert found["sum", INT] == found["sum", BIGINT] == BIGINT
    assert found["sum", FLOAT] == found["avg", INT] == found["var_pop", decimal_type(10, 2)] == DOUBLE
    assert found["sum", decimal_type(10, 2)] == decimal_type(20, 2)
    assert found["sum", decimal_type(38, 10)] == decimal_type(38, 10)
    assert found["avg", decimal_type(10, 2)] == decimal_type(14, 6)
    assert found["avg", decimal_type(38, 38)] == decimal_type(38, 38)
    assert all(found["max", type] == type for type in TYPES)
    for name in ("sum", "avg", *MOMENTS):
        assert not any(found[name, type] for type in (STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, OTHER))
    assert found["min", OTHER] is None
    assert {found["count_distinct", type] for type in TYPES} == {BIGINT}
    assert all(found["mode", type] == type for type in TYPES)
    for name in ("percentile", "percentile_cont", "percentile_disc", "median"):
        assert {found[name, type] for type in NUMBERS} == {DOUBLE}
    for type in TYPES:
        assert found["sum_distinct", type] == found["sum", type]
        assert found["avg_distinct", type] == found["avg", type]
    assert str(found["top_k", DATE]) == "array<struct<value:date,count:bigint>>"
    assert str(found["histogram", INT]) == "array<struct<start:double,count:bigint>>"
    for name in ("percentile", "percentile_cont", "percentile_disc", "median", "histogram"):
        assert not any(found[name, type] for type in (STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, OTHER))
    chosen = ("any_value", "first", "last", "min_by", "max_by")
    for name in ("count_distinct", "mode", "top_k", "collect_list", "collect_set", *chosen):
        assert found[name, OTHER] is None
    for name in chosen:
        assert all(found[name, type] == type for type in TYPES)
    for name in ("collect_list", "collect_set"):
        assert all(str(found[name, type]) == f"array<{type}>" for type in TYPES)
    for name in ("product", *SHAPES, *OF_PAIRS):
        assert {found[name, type] for type in NUMBERS} == {DOUBLE}
        assert not any(found[name, type] for type in (STRING, BINARY, BOOLEAN, DATE, TIMESTAMP, OTHER))
    for name in OF_BITS:
        assert {type: found[name, type] for type in TYPES if found[name, type]} == {
            type: type for type in (TINYINT, INT, BIGINT)
        }
    of_conditions = {name: {type for type in TYPES if found[name, type]} for name in OF_CONDITIONS}
    assert of_conditions == {name: {BOOLEAN} for name in OF_CONDITIONS}
    assert [found[name, BOOLEAN] for name in OF_CONDITIONS] == [BIGINT, BOOLEAN, BOOLEAN]
    assert {type for type in TYPES if found["string_agg", type]} == {STRING}


def test_only_sums_can_be_taken_back() -> None:
    assert [how for how in COMBINES.values() if how.invertible] == [ADD]


def test_only_sums_of_doubles_depend_on_their_order() -> None:
    column = Column("x", DOUBLE)
    ordered = {
        str(one)
        for function in AGGREGATES
        for argument in (column, Column("n", BIGINT), Column("d", decimal_type(38, 2)))
        for one in function.lift(
            (argument,) * len(types_of(function, BIGINT)), CONSTANTS.get(function.name, ())
        )
        if not one.order_free
    }
    kinds = {text.partition("(")[0] for text in ordered}
    assert kinds == {"sum", "product", "moments", "shape", "comoments"}
    doubles = ("x", "cast(n as double)", "cast(d as double)")
    assert {text for text in ordered if text.startswith("sum")} == {"sum(x)"}
    for kind in ("product", "moments", "shape"):
        assert {text for text in ordered if text.startswith(kind)} == {f"{kind}({own})" for own in doubles}


def test_aggregates_share_primitives() -> None:
    column = Column("x", DOUBLE)

    def primitives(*names: str) -> set[Primitive]:
        found = [aggregate(name) for name in names]
        return {
            primitive
            for one in found
            if one is not None
            for primitive in one.lift((column,) * len(types_of(one, DOUBLE)), CONSTANTS.get(one.name, ()))
        }

    assert primitives("avg", "sum", "count") == primitives("avg")
    assert primitives(*MOMENTS) == primitives("var_pop")
    assert primitives(*SHAPES) == primitives("skewness")
    assert primitives(*OF_PAIRS) == primitives("corr")
    assert primitives("any_value") == primitives("min")
    assert primitives("bool_or", "bool_and") == primitives("min", "max")
    assert primitives("collect_list") == primitives("string_agg")
    assert primitives("collect_set") == primitives("mode")
    everyday = ("count", "sum", "avg", "min", "max", *MOMENTS)
    bagged = tuple(one.name for one in AGGREGATES if one.distinct is None and one.name in OF_ALL)
    assert len(primitives(*everyday, *bagged)) == 6  # count, sum, min, max, moments, bag


def test_names_are_found_in_any_case_and_by_synonym() -> None:
    assert aggregate("SuM") is aggregate("sum")
    assert all(aggregate(other) is aggregate(name) for other, name in SYNONYMS.items())
    assert aggregate("geometric_mean") is None


def test_limbs_of_a_64_bit_integer_never_overflow() -> None:
    function = aggregate("sum")
    assert function is not None
    for one in function.lift((Column("x", BIGINT),), ()):
        for value in (2**63 - 1, -(2**63), -1):
            (limb,) = lifted(one, [[value]]).fields[0].tolist()
            assert abs(limb) <= 2**32  # 2^31 of them stay within 64 bits


# Adding an aggregate touches one file: here, one value in the table of aggregates.


def _result(types: tuple[DataType, ...], constants: Constants) -> DataType | None:
    return DOUBLE if types[0].is_numeric else None


def _lift(arguments: tuple[Expression, ...], constants: Constants) -> tuple[Primitive, ...]:
    ends = (("min", LEAST), ("max", GREATEST))
    return tuple(Primitive((lift,), arguments, how, (arguments[0].type,)) for lift, how in ends)


def _lower(partials: Sequence[Partial], type: DataType, constants: Constants) -> pa.Array:
    least, greatest = partials
    return to_arrow(greatest.fields[0] - least.fields[0], least.valid_mask(), type)


RANGE_OF = Aggregate(name="range_of", result=_result, lift=_lift, lower=_lower, takes="a number")


def _bound(text: str, name: str) -> LogicalQuery:
    return bind(parse_select(text, name=name), CATALOG)


def test_adding_an_aggregate_takes_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(aggregate_functions._BY_NAME, "range_of", RANGE_OF)
    window = f"FROM {TRADES.name} [RANGE '10 ms']"
    plan = optimize([
        _bound(f"SELECT range_of(price) AS r, max(price) AS top {window}", "spread"),
        _bound(f"SELECT min(price) AS low {window}", "low"),
    ])  # fmt: skip
    (relation,) = plan.relations
    assert [str(one) for one in relation.primitives] == ["min(price)", "max(price)"]

    state = DriverStore([])
    slices: list[list[float | None]] = [[3.0, None, 8.0], [5.5], [None]]
    state.add(
        Block(
            starts=np.array([0, 5_000, 10_000]),
            keys=pa.table({"n": [0] * 3}).select([]),
            fragments=np.zeros(3, np.int32),
            signatures=signatures_of(relation.predicates, np.ones((1, 1), dtype=bool)),
            partials={one: lifted(one, slices) for one in relation.primitives},
        )
    )
    live = {one.query.name: RunningQuery(query=one.query) for one in plan.answers}
    (reading,) = readings(plan.answers, live)
    due = reading.due(Clock(watermark=20_000), state.starts())
    ((_, piece),) = state.answer(due, np.array([0]), reading.predicates, reading.primitives)
    assert piece.end.tolist() == [10_000, 20_000]
    finals = Finals(state.keys, piece.key, piece.end - 10_000, piece.end, piece.partials)
    program, _ = program_of(plan.answers[0])
    spreads, highs = (
        finals.column(program, Slot(SlotKind.AGGREGATE, index, DOUBLE)).to_pylist() for index in (0, 1)
    )
    assert (spreads, highs) == ([5.0, None], [8.0, None])


def test_count_of_rows_counts_nulls_too() -> None:
    assert lifted(count_of(None), [[None, 1], []]).fields[0].tolist() == [2, 0]
