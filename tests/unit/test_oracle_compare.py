"""The comparer sees every kind of difference and hides none."""

import math
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.oracle.aggregates import Aggregate
from tests.oracle.compare import assert_same, difference, same
from tests.oracle.expressions import Column
from tests.oracle.results import Expected
from tests.oracle.spec import Key, Spec
from tests.oracle.types import DOUBLE, STRING, Row, Value

SPEC = Spec(
    name="q",
    range_ms=1,
    slide_ms=1,
    keys=(Key(name="k", expression=Column("k", STRING)),),
    aggregates=(Aggregate(name="a", function="sum", argument=Column("x", DOUBLE)),),
)


def row(k: Value, a: Value, start: int = 0) -> Row:
    return {"window_start": start, "window_end": start + 1000, "k": k, "a": a}


def expect(*values: Row, scale: float = 0.0, fragile: bool = False) -> list[Expected]:
    order_sensitive = frozenset({"a"} if fragile else ())
    return [Expected(values=v, scales={"a": scale}, order_sensitive=order_sensitive) for v in values]


def test_order_does_not_matter() -> None:
    assert not difference(SPEC, expect(row("x", 1.0), row("y", 2.0)), [row("y", 2.0), row("x", 1.0)])


def test_each_kind_of_difference_is_named() -> None:
    wanted = expect(row("same", 1.0), row("missing", 1.0), row("wrong", 1.0), row("twice", 1.0))
    found = [
        row("same", 1.0),
        row("wrong", 2.0),
        row("twice", 1.0),
        row("twice", 1.0),
        row("extra", 1.0),
    ]
    report = difference(SPEC, wanted, found)
    assert [r["k"] for r in report.missing] == ["missing"]
    assert [r["k"] for r in report.extra] == ["extra"]
    assert [r["k"] for r in report.repeated] == ["twice"]
    assert [(w["k"], columns) for w, _, columns in report.wrong] == [("wrong", ("a",))]
    text = str(report)
    assert "1 missing, 1 extra, 1 repeated, 1 wrong" in text
    assert "a: expected 1.0, got 2.0" in text
    assert "[1970-01-01T00:00:00, 1970-01-01T00:00:00.001000) k='missing' a=1.0" in text


def test_assert_same_fails_with_the_report() -> None:
    with pytest.raises(AssertionError, match="query q: 0 missing, 1 extra"):
        assert_same(SPEC, [], [row("x", 1.0)])


def test_a_column_too_many_or_too_few_is_wrong() -> None:
    extra = {**row("x", 1.0), "more": 1}
    assert difference(SPEC, expect(row("x", 1.0)), [extra]).wrong[0][2] == ("more",)
    fewer = {name: value for name, value in row("x", 1.0).items() if name != "a"}
    assert difference(SPEC, expect(row("x", 1.0)), [fewer]).wrong[0][2] == ("a",)


def test_null_is_not_the_empty_string_as_a_key() -> None:
    report = difference(SPEC, expect(row(None, 1.0)), [row("", 1.0)])
    assert (len(report.missing), len(report.extra)) == (1, 1)


@pytest.mark.parametrize(
    ("left", "right", "scale", "expected"),
    [
        (1.0, 1.0 + 1e-10, 0.0, True),
        (1.0, 1.0 + 1e-8, 0.0, False),
        (1.0, 1.0 + 1e-8, 100.0, True),
        (0.0, 1e-300, 0.0, False),
        (0.0, -0.0, 0.0, True),
        (math.nan, math.nan, 0.0, True),
        (math.nan, 1.0, math.inf, False),
        (math.inf, math.inf, 0.0, True),
        (math.inf, 1e308, math.inf, False),
        (1, 1.0, 0.0, False),
        (1, True, 0.0, False),
        (2**53, 2**53 + 1, 1e20, False),
        (Decimal("1.10"), Decimal("1.1"), 0.0, True),
        (None, 0.0, 1e9, False),
        (None, None, 0.0, True),
    ],
)
def test_same(left: Value, right: Value, scale: float, expected: bool) -> None:
    assert same(left, right, scale) is expected
    assert same(right, left, scale) is expected


def test_null_for_a_running_overflow_is_accepted_only_on_request() -> None:
    fragile = expect(row("x", 1.0), fragile=True)
    assert difference(SPEC, fragile, [row("x", None)])
    assert not difference(SPEC, fragile, [row("x", None)], allow_overflow_null=True)
    assert difference(SPEC, expect(row("x", 1.0)), [row("x", None)], allow_overflow_null=True)


def test_arrow_tables_are_rows_too() -> None:
    stamp = pa.timestamp("us", tz="UTC")
    far = 300_000_000_000_000_000  # beyond year 9999, where Python's datetime ends
    table = pa.table(
        {
            "window_start": pa.array([0, far], stamp),
            "window_end": pa.array([1000, far + 1000], stamp),
            "k": ["x", None],
            "a": [math.nan, 2.0],
        }
    )
    assert not difference(SPEC, expect(row("x", math.nan), row(None, 2.0, start=far)), table)


def test_datetimes_in_dicts_are_understood() -> None:
    start, end = datetime(1970, 1, 1, tzinfo=UTC), datetime(1970, 1, 1, microsecond=1000, tzinfo=UTC)
    found = [{"window_start": start, "window_end": end, "k": "x", "a": 1.0}]
    assert not difference(SPEC, expect(row("x", 1.0)), found)
