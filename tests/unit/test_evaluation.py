"""The evaluator on values worked out by hand; tests/spark/test_evaluation.py compares it with Spark."""

import math
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.aggregates import arrow_type
from weft.errors import InternalError
from weft.evaluation import Evaluator, can_evaluate
from weft.evaluation.implementations import IMPLEMENTATIONS, SPARK_ONLY
from weft.expression import Call, Column, Expression, Literal, Slot, SlotKind
from weft.query.allowed_functions import FUNCTIONS
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType, Kind

NAN, INFINITY = math.nan, math.inf
LOWEST, HIGHEST = -(2**63), 2**63 - 1


def slot(index: int, type: DataType) -> Slot:
    return Slot(SlotKind.AGGREGATE, index, type)


def call(function: str, *args: Expression, type: DataType | None = None) -> Call:
    result = type or FUNCTIONS[function].result(args)
    assert result is not None
    return Call(function, args, result)


def evaluate(function: str, *columns: tuple[DataType, list[Any]], type: DataType | None = None) -> list[Any]:
    """Return a function's values over columns given by type and values."""
    slots = [slot(index, of) for index, (of, _) in enumerate(columns)]
    arrays = {
        one: pa.array(values, arrow_type(one.type)) for one, (_, values) in zip(slots, columns, strict=True)
    }
    found: list[Any] = (
        Evaluator(arrays, len(columns[0][1])).values(call(function, *slots, type=type)).to_pylist()
    )
    return found


def test_the_table_has_every_function_of_the_language() -> None:
    assert set(IMPLEMENTATIONS) | SPARK_ONLY == set(FUNCTIONS)
    assert not set(IMPLEMENTATIONS) & SPARK_ONLY


@pytest.mark.parametrize(
    ("function", "left", "right", "wanted"),
    [
        ("+", [HIGHEST, HIGHEST, LOWEST, None], [1, 0, -1, 1], [None, HIGHEST, None, None]),
        ("-", [LOWEST, 5, LOWEST, 0], [1, 7, LOWEST, LOWEST], [None, -2, 0, None]),
        (
            "*",
            [2**32, -(2**32), 3_037_000_500, 7],
            [2**31, 2**31, 3_037_000_500, 6],
            [None, LOWEST, None, 42],
        ),
        ("%", [-7, 7, LOWEST, 1], [3, -3, -1, 0], [-1, 1, 0, None]),
        ("div", [-7, LOWEST, 7, 1], [2, -1, 0, 3], [-3, None, None, 0]),
        ("/", [1, 0, -7, None], [0, 5, 2, 1], [None, 0.0, -3.5, None]),
    ],
)
def test_whole_numbers_that_do_not_fit_are_null(
    function: str, left: list[Any], right: list[Any], wanted: list[Any]
) -> None:
    assert evaluate(function, (BIGINT, left), (BIGINT, right)) == wanted


def test_overflow_is_found_in_long_columns_too() -> None:
    """Columns of many rows are judged by their bounds first."""
    many = [1] * 10_000
    assert evaluate("+", (BIGINT, [HIGHEST, *many]), (BIGINT, [1, *many]))[:2] == [None, 2]
    assert evaluate("+", (BIGINT, [5, *many]), (BIGINT, [1, *many]))[:2] == [6, 2]
    assert evaluate("-", (BIGINT, [LOWEST, *many]), (BIGINT, [1, *many]))[:2] == [None, 0]


@pytest.mark.parametrize(
    ("kind", "top"), [(Kind.TINYINT, 127), (Kind.SMALLINT, 32767), (Kind.INT, 2**31 - 1)]
)
def test_each_width_overflows_at_its_own_limit(kind: Kind, top: int) -> None:
    type = DataType(kind)
    assert evaluate("+", (type, [top, top - 1]), (type, [1, 1])) == [None, top]
    assert evaluate("*", (type, [top, -top]), (type, [2, 1])) == [None, -top]
    assert evaluate("neg", (type, [-top - 1, top])) == [None, -top]
    assert evaluate("abs", (type, [-top - 1, -top])) == [None, top]


def test_nan_is_greatest_and_equal_to_itself() -> None:
    left, right = (DOUBLE, [NAN, NAN, 1.0, -0.0, INFINITY]), (DOUBLE, [NAN, 1.0, NAN, 0.0, NAN])
    assert evaluate("=", left, right) == [True, False, False, True, False]
    assert evaluate("<", left, right) == [False, False, True, False, True]
    assert evaluate("<=", left, right) == [True, False, True, True, True]
    assert evaluate(">", left, right) == [False, True, False, False, False]
    assert evaluate(">=", left, right) == [True, True, False, True, False]
    assert str(evaluate("least", left, right)) == "[nan, 1.0, 1.0, -0.0, inf]"
    assert str(evaluate("greatest", left, right)) == "[nan, nan, nan, -0.0, nan]"


def test_a_constant_is_compared_as_a_column_is() -> None:
    number = slot(0, DOUBLE)
    evaluator = Evaluator({number: pa.array([NAN, 1.0, None, 0.5])}, 4)
    for constant, wanted in ((0.5, [True, True, None, False]), (NAN, [False, False, None, False])):
        for condition in (
            call(">", number, Literal(constant, DOUBLE)),
            call("<", Literal(constant, DOUBLE), number),
        ):
            assert evaluator.values(condition).to_pylist() == wanted
            assert evaluator.holds(condition).tolist() == [value is True for value in wanted]


def test_a_parameter_is_a_column_like_any_other() -> None:
    total, limit = slot(0, BIGINT), Slot(SlotKind.PARAMETER, 0, BIGINT)
    evaluator = Evaluator({total: pa.array([1, 5, 9]), limit: pa.array([3, 3, 10])}, 3)
    assert evaluator.holds(call(">", total, limit)).tolist() == [False, True, False]


def test_and_or_know_three_values() -> None:
    left = [True] * 3 + [False] * 3 + [None] * 3
    right = [True, False, None] * 3
    assert evaluate("and", (BOOLEAN, left), (BOOLEAN, right)) == [
        True, False, None, False, False, False, None, False, None,
    ]  # fmt: skip
    assert evaluate("or", (BOOLEAN, left), (BOOLEAN, right)) == [
        True, True, True, True, False, None, True, None, None,
    ]  # fmt: skip


@pytest.mark.parametrize("digits", [0, 6, 12, 17])
def test_ratios_of_counts_are_exact_decimals_however_large(digits: int) -> None:
    """100.0 * n / m has 14 places; its dividend, with as many zeros, is beyond 64 bits."""
    part, whole = slot(0, BIGINT), slot(1, BIGINT)
    parts, wholes = [1, 2, 0, 7], [3, 3 * 10**digits, 5, -(10**digits) - 1]
    evaluator = Evaluator({part: pa.array(parts), whole: pa.array(wholes)}, 4)
    hundred = Literal(Decimal("100.0"), DataType(Kind.DECIMAL, 4, 1))
    share = call("/", call("*", hundred, part), whole)
    assert str(share.type) == "decimal(38,14)"
    exact = [Fraction(100 * one, other) * 10**14 for one, other in zip(parts, wholes, strict=True)]
    wanted = [Decimal(math.floor(abs(value) + Fraction(1, 2))).scaleb(-14) for value in exact]
    assert [abs(value) for value in evaluator.values(share).to_pylist()] == wanted


def test_decimals_round_half_up_and_overflow_to_null() -> None:
    wide = DataType(Kind.DECIMAL, 38, 0)
    most = Decimal(10**38 - 1)
    assert evaluate("+", (wide, [most, Decimal(1)]), (wide, [Decimal(1), Decimal(2)])) == [None, Decimal(3)]
    cents = DataType(Kind.DECIMAL, 10, 2)
    thirds = evaluate("/", (cents, [Decimal("2.00"), Decimal("-2.00"), Decimal("1.00")]),
                      (cents, [Decimal("3.00"), Decimal("3.00"), Decimal("0.00")]))  # fmt: skip
    assert thirds == [Decimal("0.6666666666667"), Decimal("-0.6666666666667"), None]
    halves = (cents, [Decimal("0.05"), Decimal("-0.05"), Decimal("0.04")])
    to_tenth = [slot(0, cents), Literal(1, INT)]
    column = {slot(0, cents): pa.array(halves[1], arrow_type(cents))}
    rounded = Evaluator(column, 3).values(call("round", *to_tenth)).to_pylist()
    assert rounded == [Decimal("0.1"), Decimal("-0.1"), Decimal("0.0")]


@pytest.mark.parametrize(
    ("text", "type", "wanted"),
    [
        (" 12 ", INT, 12), ("1.5", INT, None), ("2147483648", INT, None), ("+7", BIGINT, 7),
        ("1e3", DOUBLE, 1000.0), ("0x1p3", DOUBLE, 8.0), (" -Infinity", DOUBLE, -INFINITY),
        ("1_0", DOUBLE, None), ("yes", BOOLEAN, True), ("on", BOOLEAN, None),
        ("1.005", DataType(Kind.DECIMAL, 5, 2), Decimal("1.01")),
        ("2024-2-29", DATE, date(2024, 2, 29)), ("2023-02-29", DATE, None), ("2024", DATE, date(2024, 1, 1)),
    ],
)  # fmt: skip
def test_strings_are_read_as_spark_reads_them(text: str, type: DataType, wanted: object) -> None:
    assert evaluate("cast", (STRING, [text, None]), type=type) == [wanted, None]


def test_text_of_times_and_decimals() -> None:
    moments = pa.array([0, 1_700_000_000_120_000, -1], pa.timestamp("us", "UTC"))
    found = Evaluator({slot(0, TIMESTAMP): moments}, 3).values(call("cast", slot(0, TIMESTAMP), type=STRING))
    assert found.to_pylist() == [
        "1970-01-01 00:00:00",
        "2023-11-14 22:13:20.12",
        "1969-12-31 23:59:59.999999",
    ]
    amounts = (DataType(Kind.DECIMAL, 10, 3), [Decimal("-0.050"), Decimal("12.000")])
    assert evaluate("cast", amounts, type=STRING) == ["-0.050", "12.000"]


def test_what_fails_is_told_and_null_inputs_do_not_fail() -> None:
    one, other = slot(0, BIGINT), slot(1, BIGINT)
    evaluator = Evaluator({one: pa.array([1, None, 3, 4]), other: pa.array([0, 0, 2, None])}, 4)
    quotient = call("/", one, other)
    failed = evaluator.failed(quotient)
    assert failed is not None
    assert failed.tolist() == [True, False, False, False]
    assert evaluator.failed(call("+", one, other)) is None
    assert evaluator.failed(call("=", one, other)) is None
    guarded = call("case", call("=", other, Literal(0, INT)), Literal(None, NULL), quotient)
    assert evaluator.failed(guarded) is None
    unguarded = call("case", call("<>", other, Literal(0, INT)), Literal(0.0, DOUBLE), quotient)
    taken = evaluator.failed(unguarded)
    assert taken is not None
    assert taken.tolist() == [True, False, False, False]


def test_equal_expressions_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    add = IMPLEMENTATIONS["+"]
    counted = {**IMPLEMENTATIONS, "+": lambda *args: calls.append(args) or add(*args)}
    monkeypatch.setattr("weft.evaluation.evaluator.IMPLEMENTATIONS", counted)
    number = slot(0, BIGINT)
    evaluator = Evaluator({number: pa.array([1, 2])}, 2)
    total = call("+", number, Literal(1, INT))
    assert evaluator.values(call("*", total, call("+", number, Literal(1, INT)))).to_pylist() == [4, 9]
    assert evaluator.holds(call(">", total, Literal(2, INT))).tolist() == [False, True]
    assert len(calls) == 1


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_constants_and_slices_have_as_many_rows_as_asked(rows: int) -> None:
    number, word, exact = slot(0, BIGINT), slot(1, STRING), slot(2, DataType(Kind.DECIMAL, 20, 2))
    given = {
        number: pa.array([0, 7, None, 8, 9])[1 : 1 + rows],
        word: pa.array(["x", "ab", None, "é", "d"])[1 : 1 + rows],
        exact: pa.array([Decimal("0"), Decimal("1.50"), None, Decimal("2"), None], pa.decimal128(20, 2))[
            1 : 1 + rows
        ],
    }
    evaluator = Evaluator(given, rows)
    assert evaluator.values(Literal("k", STRING)).to_pylist() == ["k"] * rows
    assert evaluator.holds(Literal(True, BOOLEAN)).tolist() == [True] * rows
    assert evaluator.values(call("+", number, Literal(1, INT))).to_pylist() == [8, None, 9][:rows]
    assert evaluator.values(call("upper", word)).to_pylist() == ["AB", None, "É"][:rows]
    assert (
        evaluator.values(call("concat", word, Literal("!", STRING))).to_pylist() == ["ab!", None, "é!"][:rows]
    )
    assert (
        evaluator.values(call("substring", word, Literal(1, INT), Literal(1, INT))).to_pylist()
        == ["a", None, "é"][:rows]
    )
    assert (
        evaluator.values(call("neg", exact)).to_pylist() == [Decimal("-1.50"), None, Decimal("-2.00")][:rows]
    )
    assert evaluator.values(call("=", number, Literal(None, NULL))).to_pylist() == [None] * rows
    assert (
        evaluator.values(call("coalesce", word, Literal("n", STRING))).to_pylist() == ["ab", "n", "é"][:rows]
    )
    assert evaluator.values(call("is_null", number)).to_pylist() == [False, True, False][:rows]


@pytest.mark.parametrize(
    ("pattern", "known"),
    [("^a.*[0-9]$", True), ("(?i)abc", True), (r"\bword", False), (r"\p{Lu}", False),
     ("(?s)a.b", False), ("a++b", True), (r"[\p{L}]", False), ("(?<name>a)", False),
     (r"\Qa\E", False), (r"a\.b", True)],
)  # fmt: skip
def test_patterns_that_only_java_understands_are_left_to_spark(pattern: str, known: bool) -> None:
    assert can_evaluate(call("rlike", slot(0, STRING), Literal(pattern, STRING))) is known


def test_what_is_left_to_spark() -> None:
    number = slot(0, DOUBLE)
    assert not can_evaluate(call("cast", number, type=STRING))
    assert not can_evaluate(call("cast", number, type=DataType(Kind.DECIMAL, 38, 0)))
    assert can_evaluate(call("cast", number, type=DataType(Kind.DECIMAL, 12, 2)))
    assert not can_evaluate(call("+", Call("registered", (number,), DOUBLE), number))
    assert can_evaluate(Column("price", DOUBLE))
    assert not can_evaluate(Column("tags", DataType(Kind.OTHER)))
    with pytest.raises(InternalError, match="registered"):
        Evaluator({number: pa.array([1.0])}, 1).values(Call("registered", (number,), DOUBLE))
    with pytest.raises(InternalError, match="no column"):
        Evaluator({}, 1).values(number)


def test_columns_of_other_arrow_types_are_taken() -> None:
    number = slot(0, BIGINT)
    chunked = pa.chunked_array([pa.array([1], pa.int32()), pa.array([2], pa.int32())])
    found = Evaluator({number: chunked}, 2).values(call("+", number, Literal(1, INT)))
    assert found.equals(pa.array([2, 3], pa.int64()))
    assert Evaluator({number: chunked}, 2).values(number).equals(pa.array([1, 2], pa.int64()))
    assert Evaluator({number: chunked}, 2).holds(call("=", number, number)).dtype == np.bool_


@given(
    st.lists(st.integers(-4, 4) | st.none(), max_size=12),
    st.sets(st.integers(-4, 4), max_size=5),
    st.sampled_from((INT, BIGINT, DOUBLE, STRING, DataType(Kind.DECIMAL, 30, 0))),
)
def test_values_stand_between_points_as_they_do_in_order(
    values: list[int | None], points: set[int], type: DataType
) -> None:
    def typed(number: int) -> Any:
        # Text of its place in the order: with the sign as a letter.
        return f"{'n' if number < 0 else 'p'}{number % 9}" if type is STRING else number

    array = pa.array([None if one is None else typed(one) for one in values], arrow_type(type))
    ordered = sorted(points)
    constants = [typed(one).encode() for one in ordered] if type is STRING else ordered
    number = slot(0, type)
    found = Evaluator({number: array}, len(values)).positions(number, constants).tolist()
    expected = [
        2 * len(points) + 1 if one is None else sum(one > point for point in points) * 2 + (one in points)
        for one in values
    ]
    assert found == expected


def test_nan_stands_after_infinity_and_both_zeros_are_one() -> None:
    number = slot(0, DOUBLE)
    evaluator = Evaluator({number: pa.array([NAN, float("inf"), -0.0, 0.0, None])}, 5)
    assert evaluator.positions(number, (0.0, float("inf"))).tolist() == [4, 3, 1, 1, 5]
    assert evaluator.positions(number, ()).tolist() == [0, 0, 0, 0, 1]


def test_small_decimals_stand_among_large_points() -> None:
    number = slot(0, DataType(Kind.DECIMAL, 38, 0))
    evaluator = Evaluator({number: pa.array([Decimal(5), Decimal(-5), None], arrow_type(number.type))}, 3)
    assert evaluator.positions(number, (-(10**30), 5, 10**30)).tolist() == [3, 2, 7]


TEXT, NUMBER = Column("text", STRING), Column("number", BIGINT)
CONDITIONS = (
    call("like", TEXT, Literal("%b%", STRING)),
    call("is_null", TEXT),
    call("not", call("like", TEXT, Literal("a%", STRING))),
    call(">", NUMBER, Literal(1, BIGINT)),
    call("and", call("like", TEXT, Literal("%b", STRING)), call(">", NUMBER, Literal(1, BIGINT))),
)


@given(st.lists(st.tuples(st.sampled_from(["a", "ab", "b", "", None]), st.sampled_from([0, 1, 2, None]))))
def test_what_reads_a_text_alone_is_evaluated_once_a_value(rows: list[tuple[str | None, int | None]]) -> None:
    texts, numbers = ([row[place] for row in rows] for place in (0, 1))
    given = {TEXT: pa.array(texts, pa.string()), NUMBER: pa.array(numbers, pa.int64())}
    for condition in CONDITIONS:
        evaluator = Evaluator(given, len(rows))
        answers, which = evaluator.truths(condition)
        reads_text = "number" not in str(condition)
        assert (which is not None) is reads_text
        if which is not None:
            assert len(answers) == len(set(texts) - {None}) + 1
        told = [[False, True, None][one] for one in (answers if which is None else answers[which])]
        assert told == evaluator.values(condition).to_pylist()
