"""The oracle's aggregates, by hand."""

import math
from decimal import Decimal

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
