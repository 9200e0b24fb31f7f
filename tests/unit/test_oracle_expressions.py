"""The oracle's expressions: SQL's NULLs, Spark's result types, and their text."""

import math
from datetime import date
from decimal import Decimal

import pytest
from tests.oracle.arithmetic import Abs, Arithmetic
from tests.oracle.conditions import And, Between, Compare, In, IsNull, Not, Or
from tests.oracle.expressions import Column, Expression, Instant, Literal
from tests.oracle.functions import Case, Cast, Coalesce, Length, Upper
from tests.oracle.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, SqlType, Value, decimal_type

NAN = math.nan
TRUTHS = {True: Literal(True), False: Literal(False), None: Compare("=", Literal(None), Literal(1))}


def value(expression: Expression) -> Value:
    return expression.evaluate({})


def column(of: SqlType, held: Value) -> tuple[Column, dict[str, Value]]:
    return Column("x", of), {"x": held}


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_and_or_have_three_values(
    left: bool | None, right: bool | None, both: bool | None, either: bool | None
) -> None:
    for a, b in ((left, right), (right, left)):
        assert value(And(TRUTHS[a], TRUTHS[b])) is both
        assert value(Or(TRUTHS[a], TRUTHS[b])) is either


def test_not_of_null_is_null() -> None:
    assert [value(Not(TRUTHS[t])) for t in (True, False, None)] == [False, True, None]


def test_in_with_null_is_never_false() -> None:
    options = (Literal(1), Literal(None))
    assert value(In(Literal(1), options)) is True
    assert value(In(Literal(2), options)) is None
    assert value(In(Literal(2), options, negated=True)) is None
    assert value(In(Literal(1), options, negated=True)) is False
    assert value(In(Literal(None), (Literal(1),))) is None


def test_between_with_a_null_bound_can_still_be_false() -> None:
    assert value(Between(Literal(5), Literal(1), Literal(None))) is None
    assert value(Between(Literal(0), Literal(1), Literal(None))) is False
    assert value(Between(Literal(0), Literal(1), Literal(None), negated=True)) is True
    assert value(Between(Literal(1), Literal(1), Literal(1))) is True


def test_is_null_is_never_null() -> None:
    assert value(IsNull(Literal(None))) is True
    assert value(IsNull(Literal(None), negated=True)) is False


@pytest.mark.parametrize(
    ("left", "op", "right"),
    [
        (NAN, "=", NAN),
        (NAN, ">", math.inf),
        (NAN, ">=", NAN),
        (-0.0, "=", 0.0),
        ("Z", "<", "a"),
        ("", "<", "a"),
        ("é", ">", "z"),
        ("😀", ">", "日"),
        (False, "<", True),
        (date(1969, 12, 31), "<", date(1970, 1, 1)),
        (2, ">", Decimal("1.5")),
        (0.1, "=", Decimal("0.1")),
        # A BIGINT is compared with a double as a double.
        (2**53 + 1, "=", float(2**53)),
    ],
)
def test_comparisons_that_hold(left: Value, op: str, right: Value) -> None:
    assert value(Compare(op, Literal(left), Literal(right))) is True


def test_bigints_beyond_a_doubles_reach_differ() -> None:
    assert value(Compare("=", Literal(2**53 + 1), Literal(2**53))) is False


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", 2**31 - 1, 1, None),  # INT + INT stays INT
        ("+", 2**31 - 1, 2**31, 2**32 - 1),
        ("+", 2**63 - 1, 1, None),
        ("*", 2**62, 2, None),
        ("-", -(2**63) + 1, 1, -(2**63)),
        ("/", 7, 2, 3.5),
        ("/", 7, 0, None),
        ("/", 1.0, -0.0, None),
        ("%", -7, 3, -1),
        ("%", 7, -3, 1),
        ("%", 7, 0, None),
        ("%", 7.5, 2.0, 1.5),
        ("+", 1e308, 1e308, math.inf),
        ("+", Decimal("0.1"), Decimal("0.2"), Decimal("0.3")),
        ("/", Decimal("1.00"), Decimal("3"), Decimal("0.333333")),
        ("+", 1, None, None),
    ],
)
def test_arithmetic(op: str, left: Value, right: Value, expected: Value) -> None:
    got = value(Arithmetic(op, Literal(left), Literal(right)))
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    ("op", "left", "right", "expected"),
    [
        ("+", INT, INT, INT),
        ("+", INT, BIGINT, BIGINT),
        ("/", BIGINT, BIGINT, DOUBLE),
        ("*", decimal_type(10, 2), DOUBLE, DOUBLE),
        ("+", decimal_type(10, 2), INT, decimal_type(13, 2)),
        ("*", decimal_type(10, 2), decimal_type(5, 3), decimal_type(16, 5)),
        ("/", decimal_type(10, 2), decimal_type(5, 3), decimal_type(19, 8)),
        ("%", decimal_type(10, 2), decimal_type(5, 3), decimal_type(5, 3)),
        ("*", decimal_type(38, 10), decimal_type(38, 10), decimal_type(38, 6)),
    ],
)
def test_arithmetic_has_sparks_result_types(
    op: str, left: SqlType, right: SqlType, expected: SqlType
) -> None:
    assert Arithmetic(op, Column("x", left), Column("y", right)).type == expected


def test_a_decimal_that_does_not_fit_is_null() -> None:
    x, row = column(decimal_type(38, 0), Decimal(10**38 - 1))
    assert Arithmetic("+", x, x).evaluate(row) is None
    assert Arithmetic("-", x, x).evaluate(row) == 0


def test_abs_is_null_where_there_is_no_positive() -> None:
    for of, lowest in ((INT, -(2**31)), (BIGINT, -(2**63))):
        x, row = column(of, lowest)
        assert Abs(x).evaluate(row) is None
        assert Abs(x).evaluate({"x": lowest + 1}) == -lowest - 1


def test_abs_keeps_every_digit_of_a_decimal() -> None:
    x, row = column(decimal_type(38, 0), Decimal(-(10**38) + 1))
    assert Abs(x).evaluate(row) == 10**38 - 1


def test_case_takes_the_first_true_branch_and_skips_null() -> None:
    branches = ((TRUTHS[None], Literal("a")), (TRUTHS[False], Literal("b")), (TRUTHS[True], Literal("c")))
    assert value(Case(branches)) == "c"
    assert value(Case(branches[:2])) is None
    assert value(Case(branches[:2], Literal("d"))) == "d"


def test_case_and_coalesce_widen_their_values() -> None:
    assert value(Coalesce((Literal(None), Literal(1), Literal(2.5)))) == 1.0
    assert isinstance(value(Case(((TRUTHS[True], Literal(1)),), Literal(2.5))), float)
    assert value(Coalesce((Literal(None), Literal(None)))) is None


def test_strings_count_code_points() -> None:
    assert value(Length(Literal("😀é"))) == 2
    assert value(Upper(Literal("straße"))) == "STRASSE"
    assert value(Upper(Literal(None))) is None


@pytest.mark.parametrize(
    ("held", "of", "to", "expected"),
    [
        (" 12 ", STRING, INT, 12),
        ("+7", STRING, INT, 7),
        ("1.5", STRING, INT, None),
        ("", STRING, BIGINT, None),
        ("٣", STRING, INT, None),
        ("9223372036854775808", STRING, BIGINT, None),
        (2**31, BIGINT, INT, None),
        (-1.9, DOUBLE, INT, -1),
        (NAN, DOUBLE, BIGINT, None),
    ],
)
def test_casts_that_fail_are_null(held: Value, of: SqlType, to: SqlType, expected: Value) -> None:
    x, row = column(of, held)
    assert Cast(x, to).evaluate(row) == expected


@pytest.mark.parametrize(
    ("expression", "weft", "plain"),
    [
        (Arithmetic("+", Column("a", INT), Literal(-1)), "(a + -1)", "try_add(a, -1)"),
        (Arithmetic("%", Column("a", INT), Literal(2)), "(a % 2)", "try_mod(a, 2)"),
        (Cast(Column("a", STRING), BIGINT), "CAST(a AS BIGINT)", "try_cast(a AS BIGINT)"),
        (Abs(Column("a", INT)), "abs(a)", "CASE WHEN a < -2147483647 THEN NULL ELSE abs(a) END"),
    ],
)
def test_spark_text_tries_where_weft_gives_null(expression: Expression, weft: str, plain: str) -> None:
    assert expression.sql() == weft
    assert expression.spark_sql() == plain


@pytest.mark.parametrize(
    ("held", "text", "of"),
    [
        (None, "NULL", None),
        (True, "TRUE", BOOLEAN),
        (1.5, "1.5E0", DOUBLE),
        (1e-05, "1e-05", DOUBLE),
        (NAN, "CAST('NaN' AS DOUBLE)", DOUBLE),
        (Decimal("0.05"), "0.05", decimal_type(2, 2)),
        (Decimal("-1.50"), "-1.50", decimal_type(3, 2)),
        (2**31, "2147483648", BIGINT),
        ("é", "'é'", STRING),
        (date(1900, 1, 1), "DATE '1900-01-01'", None),
        (Instant(-1), "TIMESTAMP '1969-12-31 23:59:59.999999'", None),
    ],
)
def test_literals_are_written_so_that_their_type_survives(
    held: Value | Instant, text: str, of: SqlType | None
) -> None:
    assert Literal(held).sql() == text
    assert of is None or Literal(held).type == of


def test_conditions_are_written_with_all_their_parentheses() -> None:
    a = Column("a", INT)
    condition = Or(
        And(Compare("<>", a, Literal(1)), Not(IsNull(a))), In(a, (Literal(2), Literal(None)), True)
    )
    assert condition.sql() == "(((a <> 1) AND (NOT (a IS NULL))) OR (a NOT IN (2, NULL)))"
    assert Between(a, Literal(1), Literal(2), True).sql() == "(a NOT BETWEEN 1 AND 2)"
    case = Case(((IsNull(a), Literal(0)),), a)
    assert Coalesce((case, Literal(1))).sql() == "coalesce(CASE WHEN (a IS NULL) THEN 0 ELSE a END, 1)"


@pytest.mark.parametrize(("text", "zero"), [("0E-38", True), ("1E-38", True), ("3.546E-35", False)])
def test_a_whole_constant_has_its_own_digits_beside_a_decimal(text: str, zero: bool) -> None:
    """Spark compares in DECIMAL(38, 37) then, and with IN, which knows no constants, in DECIMAL(38, 28)."""
    tiny, row = column(decimal_type(38, 38), Decimal(text))
    assert Compare("=", tiny, Literal(0)).evaluate(row) is zero
    assert Between(tiny, Literal(0), Literal(0)).evaluate(row) is zero
    assert In(tiny, (Literal(0),)).evaluate(row) is True
