"""Queries as text."""

import pytest
from tests.oracle.aggregates import Aggregate
from tests.oracle.arithmetic import Arithmetic
from tests.oracle.conditions import Compare
from tests.oracle.expressions import Column, Literal
from tests.oracle.spec import Key, Result, Spec, WindowSyntax
from tests.oracle.types import BIGINT, STRING

COUNT = Aggregate(name="n", function="count")
SYMBOL = Key(name="symbol", expression=Column("symbol", STRING))
VOL = Column("vol", BIGINT)
GROUPED = Spec(
    name="q",
    range_ms=12_000,
    slide_ms=5_000,
    predicate=Compare(">", VOL, Literal(5)),
    keys=(SYMBOL, Key(name="k", expression=Arithmetic("%", VOL, Literal(3)))),
    aggregates=(COUNT,),
    having=Compare(">", Result(COUNT), Literal(1)),
)


def test_bracket() -> None:
    assert GROUPED.sql("trades", "time") == (
        "SELECT symbol AS symbol, (vol % 3) AS k, count(*) AS n "
        "FROM trades [RANGE '12000 ms' SLIDE '5000 ms'] WHERE (vol > 5) "
        "GROUP BY symbol, (vol % 3) HAVING (count(*) > 1)"
    )


def test_window_function_counts_its_offset_from_window_starts() -> None:
    # Ends at 0 mod 5 s, so starts at −12 mod 5 = 3 s.
    assert GROUPED.sql("trades", "time", WindowSyntax.FUNCTION) == (
        "SELECT symbol AS symbol, (vol % 3) AS k, count(*) AS n FROM trades WHERE (vol > 5) GROUP BY symbol, "
        "(vol % 3), window(time, '12000 milliseconds', '5000 milliseconds', '3000 milliseconds') "
        "HAVING (count(*) > 1)"
    )


def test_odd_offsets_are_written_as_negative_ones() -> None:
    odd = Spec(name="q", range_ms=7, slide_ms=5, offset_ms=3, aggregates=(COUNT,))
    call = "window(time, '7 milliseconds', '5 milliseconds', '-4 milliseconds')"
    assert call in odd.sql("s", "time", WindowSyntax.FUNCTION)
    assert call in odd.spark_sql("v", "time")


def test_offset_and_emit_empty() -> None:
    spec = Spec(name="q", range_ms=7, slide_ms=5, offset_ms=2, aggregates=(COUNT,), emit_empty=True)
    assert spec.sql("s", "time") == (
        "SELECT count(*) AS n FROM s [RANGE '7 ms' SLIDE '5 ms' OFFSET '2 ms'] EMIT EMPTY"
    )
    assert spec.sql("s", "time", WindowSyntax.FUNCTION) == (
        "SELECT count(*) AS n FROM s GROUP BY window(time, '7 milliseconds', '5 milliseconds') EMIT EMPTY"
    )


def test_spark() -> None:
    assert GROUPED.spark_sql("v", "time") == (
        "SELECT window.start AS window_start, window.end AS window_end, symbol AS symbol, "
        "try_mod(vol, 3) AS k, count(*) AS n FROM v WHERE (vol > 5) "
        "GROUP BY window(time, '12000 milliseconds', '5000 milliseconds', '3000 milliseconds'), "
        "symbol, try_mod(vol, 3) HAVING (count(*) > 1)"
    )


def test_spark_has_no_window_function_for_gaps() -> None:
    text = Spec(name="q", range_ms=3, slide_ms=10, aggregates=(COUNT,)).spark_sql("v", "time")
    assert "window(" not in text
    assert "pmod(unix_micros(time) - 0, 10000)" in text


def test_spark_has_no_empty_windows() -> None:
    with pytest.raises(ValueError, match="no plain Spark form"):
        Spec(name="q", range_ms=3, slide_ms=3, aggregates=(COUNT,), emit_empty=True).spark_sql("v", "time")
