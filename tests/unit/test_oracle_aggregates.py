"""The oracle's aggregates, by hand."""

import math
from decimal import Decimal
from typing import Any

import pytest
from tests.oracle.aggregates import Aggregate
from tests.oracle.conditions import Compare
from tests.oracle.expressions import Column, Dialect, Literal
from tests.oracle.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Row, SqlType, Value, decimal_type

NAN, INF = math.nan, math.inf


def over(function: str, of: SqlType, *values: Value) -> Value:
    call = Aggregate(name="a", function=function, argument=Column("x", of))
    return call.answer([{"x": value} for value in values]).value


@pytest.mark.parametrize(
    ("function", "of", "values", "expected"),
    [
        ("count", INT, (1, None, 3), 2),
        ("count", INT, (), 0),
        ("sum", INT, (2**31 - 1, 1), 2**31),
        ("sum", BIGINT, (2**63 - 1, 1), None),
        ("sum", BIGINT, (2**63 - 1, 1, -1), 2**63 - 1),
        ("sum", BIGINT, (None, None), None),
        ("sum", DOUBLE, (0.1,) * 10, 1.0),
        ("sum", DOUBLE, (1e100, 1.0, -1e100), 1.0),
        ("sum", DOUBLE, (INF, 1.0), INF),
        ("sum", decimal_type(4, 2), (Decimal("99.99"), Decimal("0.02")), Decimal("100.01")),
        ("sum", decimal_type(38, 0), (Decimal(10**38 - 1), Decimal(1)), None),
        ("avg", INT, (1, 2), 1.5),
        ("avg", BIGINT, (2**63 - 1, 2**63 - 1), float(2**63)),
        ("avg", INT, (), None),
        ("avg", decimal_type(4, 2), (Decimal("0.01"), Decimal("0.02"), Decimal("0.02")), Decimal("0.016667")),
        # HALF_UP goes away from zero: −0.00005 of scale 4.
        ("avg", decimal_type(4, 0), (Decimal(-1), *[Decimal(0)] * 19_999), Decimal("-0.0001")),
        ("min", DOUBLE, (NAN, 1.0), 1.0),
        ("max", DOUBLE, (INF, None), INF),
        ("min", STRING, ("b", "B", "é"), "B"),
        ("max", STRING, ("日", "😀"), "😀"),
        ("max", BOOLEAN, (False, True), True),
        ("var_pop", INT, (1, 2, 3, 4), 1.25),
        ("var_samp", INT, (1, 3), 2.0),
        ("var_samp", INT, (1,), None),
        ("var_pop", INT, (1,), 0.0),
        ("stddev_pop", INT, (2, 4), 1.0),
        ("stddev_samp", INT, (), None),
        ("var_pop", DOUBLE, (1e9, 1e9 + 1), 0.25),
        ("count_if", BOOLEAN, (True, None, False, True), 2),
        ("bool_and", BOOLEAN, (True, None), True),
        ("bool_or", BOOLEAN, (False, None), False),
        ("bool_or", BOOLEAN, (None,), None),
        ("bit_and", INT, (7, -2), 6),
        ("bit_xor", BIGINT, (2**62, None, -1), -(2**62) - 1),
        ("product", INT, (2, None, -3), -6.0),
        ("any_value", STRING, ("b", None, "a"), "a"),
        ("skewness", INT, (1, 1, 1, 5), 24 / 3**1.5 / 4),
        ("skewness", INT, (2, 2), None),
        ("kurtosis", INT, (1, 3), -2.0),
    ],
)
def test_values(function: str, of: SqlType, values: tuple[Value, ...], expected: Value) -> None:
    got = over(function, of, *values)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("function", "values"),
    [
        ("sum", (INF, -INF)),
        ("sum", (NAN, 1.0)),
        ("avg", (1.0, NAN)),
        ("max", (NAN, INF)),
        ("min", (NAN, NAN)),
        ("var_pop", (INF,)),
        ("stddev_pop", (NAN, 1.0)),
    ],
)
def test_not_a_number(function: str, values: tuple[float, ...]) -> None:
    got = over(function, DOUBLE, *values)
    assert isinstance(got, float)
    assert math.isnan(got)


@pytest.mark.parametrize(
    ("function", "of", "expected"),
    [
        ("count", STRING, BIGINT),
        ("sum", INT, BIGINT),
        ("sum", decimal_type(10, 2), decimal_type(20, 2)),
        ("sum", decimal_type(38, 10), decimal_type(38, 10)),
        ("avg", decimal_type(10, 2), decimal_type(14, 6)),
        ("avg", decimal_type(38, 37), decimal_type(38, 38)),
        ("avg", BIGINT, DOUBLE),
        ("max", STRING, STRING),
        ("var_pop", INT, DOUBLE),
    ],
)
def test_result_types(function: str, of: SqlType, expected: SqlType) -> None:
    assert Aggregate(name="a", function=function, argument=Column("x", of)).type == expected


def test_a_filter_that_is_null_drops_the_row() -> None:
    x = Column("x", INT)
    rows: list[Row] = [{"x": value} for value in (1, None, 5)]
    keep = Compare(">", x, Literal(2))
    assert Aggregate(name="a", function="count", filter=keep).answer(rows).value == 1
    assert Aggregate(name="a", function="sum", argument=x, filter=keep).answer(rows).value == 5


def test_a_sum_knows_the_scale_of_its_errors_and_of_its_overflow() -> None:
    doubles = Aggregate(name="a", function="sum", argument=Column("x", DOUBLE))
    assert doubles.answer([{"x": 3.0}, {"x": -2.0}]).scale == 5.0
    longs = Aggregate(name="a", function="sum", argument=Column("x", BIGINT))
    assert longs.answer([{"x": 2**63 - 1}, {"x": 1}, {"x": -5}]).order_sensitive
    assert not longs.answer([{"x": 2**63 - 1}, {"x": 1}]).order_sensitive


def test_the_scale_of_a_variance_is_that_of_a_sound_algorithm() -> None:
    call = Aggregate(name="a", function="var_pop", argument=Column("x", DOUBLE))
    answer = call.answer([{"x": 1e6}, {"x": 1e6 + 2}])
    assert answer.value == 1.0
    # sqrt(variance × mean square) ≈ 1e6, not the mean square 1e12.
    assert answer.scale == pytest.approx(1e6, rel=0.01)


def test_spark_text_of_totals() -> None:
    keep = Compare(">", Column("x", BIGINT), Literal(2))
    total = Aggregate(name="a", function="sum", argument=Column("x", BIGINT), filter=keep)
    assert total.text(Dialect.WEFT) == "sum(x) FILTER (WHERE (x > 2))"
    assert total.text(Dialect.SPARK) == (
        "try_cast(sum(CAST(x AS DECIMAL(38,0))) FILTER (WHERE (x > 2)) AS BIGINT)"
    )
    mean = Aggregate(name="a", function="avg", argument=Column("m", decimal_type(38, 0)))
    assert mean.text(Dialect.SPARK) == "try_avg(m)"


def of_rows(function: str, *rows: tuple[Value, ...], **others: Any) -> Value:
    """Return an aggregate of x over rows of x, y, z."""
    x, y, z = (Column(name, INT) for name in "xyz")
    pair = function.startswith(("co", "regr", "min", "max")) and function != "collect_list"
    given: dict[str, Any] = {"others": (y,)} if pair else {"ties": (y, z)}
    call = Aggregate(name="a", function=function, argument=x, **given, **others)
    return call.answer([dict(zip("xyz", row, strict=True)) for row in rows]).value


def test_of_equal_rows_the_columns_decide_in_their_order_and_null_is_least() -> None:
    rows = [(3, 1, 5), (4, 1, None), (None, 2, 6), (9, None, 0)]
    assert [of_rows(name, *rows) for name in ("first", "last")] == [4, None]
    assert [of_rows(name, *rows, ignores_null=True) for name in ("first", "last")] == [4, 3]
    assert [of_rows(name, *rows) for name in ("min_by", "max_by")] == [3, None]
    assert of_rows("first", (None, None, 1)) is None


def test_lists_are_in_the_order_of_time_then_value() -> None:
    rows = [(2, 1, 0), (1, 1, 0), (9, 0, 0), (None, 0, 0), (1, 1, 1)]
    assert of_rows("collect_list", *rows, constant=10) == (9, 1, 1, 2)
    assert of_rows("collect_list", *rows, constant=2) == (9, 1)
    assert of_rows("string_agg", *rows, constant=3, delimiter=", ") == "9, 1, 1"
    assert of_rows("string_agg", (None, 1, 1), constant=3) is None


def test_pairs_with_a_null_do_not_count() -> None:
    line = [(1, 0, 0), (3, 1, 0), (5, 2, 0), (None, 3, 0), (9, None, 0)]
    found = [of_rows(name, *line) for name in ("regr_slope", "regr_intercept", "regr_r2", "covar_samp")]
    assert found == [2.0, 1.0, 1.0, 2.0]
    assert of_rows("corr", *line) == pytest.approx(1.0)
    assert [of_rows(name, (1, 2, 0)) for name in ("corr", "covar_samp", "regr_slope")] == [None] * 3
    assert of_rows("regr_r2", (1, 2, 0), (1, 3, 0)) == 1.0


def test_spark_text_of_what_depends_on_order() -> None:
    x, y = Column("x", INT), Column("y", INT)
    keep = Compare(">", x, Literal(2))
    first = Aggregate(name="a", function="first", argument=x, ties=(y, x), ignores_null=True, filter=keep)
    assert first.text(Dialect.WEFT) == "first(x, true) FILTER (WHERE (x > 2))"
    assert first.text(Dialect.SPARK) == (
        "min_by(x, struct(y, x, x)) FILTER (WHERE y IS NOT NULL AND x IS NOT NULL AND (x > 2))"
    )
