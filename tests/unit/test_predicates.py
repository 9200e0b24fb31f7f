"""The canonical form of predicates holds exactly where the predicate is TRUE: not where it is NULL.

The evaluator here is Spark's semantics written down once more: three-valued logic over Python values, with
none of the code that it checks. Canonical formulas are evaluated by walking the cuts of their sets.
"""

import random
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from math import inf, isnan, nan
from operator import add, eq, ge, gt, le, lt, mul, ne, neg, sub

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import TRADES, predicate

import weft.predicates as wp
from weft.expression import Call, Column, Expression, Literal, Scalar
from weft.predicates.formula import size
from weft.query.coercion import common_of, exact_type
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, NULL, STRING, TIMESTAMP, DataType, Kind

FLOAT, NTZ = DataType(Kind.FLOAT), DataType(Kind.TIMESTAMP_NTZ)
WIDE = DataType(Kind.DECIMAL, 38, 10)
"""Beside constants with more digits after the point, digits are cut to fit 38."""
COLUMNS = {one.name: Column(one.name, one.type) for one in TRADES.columns if one.type.kind is not Kind.OTHER}
COLUMNS |= {"wide": Column("wide", WIDE), "no": Column("no", BOOLEAN), "name": Column("name", STRING)}
Row = Mapping[str, Scalar]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=100)
ORDERS: dict[str, Callable[..., bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
WORK: dict[str, Callable[..., int]] = {"+": add, "-": sub, "*": mul, "neg": neg}
BITS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}


# The evaluator.


def value(expression: Expression, row: Row) -> Scalar:
    """Return the value of an expression, as Spark with NULL for what fails."""
    if isinstance(expression, Column):
        return row[expression.name]
    if isinstance(expression, Literal):
        return single(expression.value) if expression.type == FLOAT else expression.value
    assert isinstance(expression, Call)
    if expression.function == "case":
        *branches, otherwise = expression.args
        for condition, chosen in zip(branches[::2], branches[1::2], strict=True):
            if value(condition, row) is True:
                return value(chosen, row)
        return value(otherwise, row)
    args = [value(arg, row) for arg in expression.args]
    if expression.function in ("and", "or"):
        decisive = expression.function == "or"
        return decisive if decisive in args else None if None in args else not decisive
    return applied(expression, args)


def applied(call: Call, args: Sequence[Scalar]) -> Scalar:
    """Return the value of a call whose arguments are known."""
    types = [arg.type for arg in call.args]
    match call.function:
        case "is_null":
            return args[0] is None
        case "coalesce":
            return next((arg for arg in args if arg is not None), None)
        case "<=>":
            return args[0] is args[1] if None in args else compared("=", types, args)
        case "in":
            found = [compared("=", types, args, one) for one in range(1, len(args))]
            return True if True in found else None if None in found else False
    if None in args:
        return None
    match call.function:
        case "not":
            return not args[0]
        case "startswith":
            return str(args[0]).startswith(str(args[1]))
        case "cast":
            return converted(args[0], types[0], call.type)
        case "+" | "-" | "*" | "neg":
            result = WORK[call.function](*args)
            return result if -result <= 1 << BITS[call.type.kind] - 1 > result else None
    return compared(call.function, types, args)


def compared(operator: str, types: Sequence[DataType], args: Sequence[Scalar], other: int = 1) -> bool | None:
    """Compare the first argument with another in the type that all arguments meet in."""
    common = common_of(list(types))
    assert common is not None
    if args[0] is None or args[other] is None:
        return None
    left, right = (ranked(converted(args[one], types[one], common)) for one in (0, other))
    return ORDERS[operator](left, right)


def converted(one: Scalar, source: DataType, target: DataType) -> Scalar:
    """Return a value in a wider type."""
    if target.is_fractional:
        assert isinstance(one, int | float | Decimal)
        return float(one)
    if target.kind is Kind.DECIMAL:
        assert isinstance(one, int | Decimal)
        return Decimal(one).quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, EXACT)
    if source == DATE and target != DATE:
        assert isinstance(one, date)
        return datetime(one.year, one.month, one.day, tzinfo=UTC)
    return one


def ranked(one: Scalar) -> object:
    """Return what compares in Spark's order: NaN is greatest, strings go by bytes."""
    if isinstance(one, float):
        return (1, 0.0) if isnan(one) else (0, one)
    if isinstance(one, str):
        return one.encode()
    return one.replace(tzinfo=UTC) if isinstance(one, datetime) else one


def single(one: Scalar) -> Scalar:
    return None if one is None else float(struct.unpack("f", struct.pack("f", one))[0])


# Formulas, evaluated by the cuts of their sets.


def point(one: Scalar, type: DataType) -> int | float | bytes:
    """Return a value that is not NULL as the number or bytes that cuts are made of."""
    if isinstance(one, datetime):
        return (one.replace(tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
    if isinstance(one, date):
        return (one - EPOCH.date()).days
    if isinstance(one, Decimal):
        return int(one.scaleb(type.scale, EXACT))
    if isinstance(one, str):
        return one.encode()
    assert one is not None
    return int(one) if isinstance(one, bool) else one


def contains(values: wp.Values, one: Scalar, type: DataType) -> bool:
    """Say whether a value is in a set: walk up to it, changing sides at each cut."""
    if one is None:
        return values.null
    place, inside = point(one, type), values.lowest
    for cut in values.cuts:
        is_nan = isinstance(place, float) and isnan(place)
        if is_nan or cut.value < place or (cut.value == place and not cut.after):  # type: ignore[operator]
            inside = not inside
    return inside


def holds(formula: wp.Formula, row: Row) -> bool:
    if isinstance(formula, wp.All | wp.Any):
        return (all if isinstance(formula, wp.All) else any)(holds(part, row) for part in formula.parts)
    return contains(formula.values, value(formula.expression, row), formula.expression.type)


# Random rows and predicates.

_TENTH = struct.unpack("f", struct.pack("f", 0.1))[0]
WHOLES = [0, 1, 5, 6, -1, 127, -128, 128, 2**31 - 1, -(2**31), 2**31, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2]
WHOLES += [-(2**53) - 1, 2**63 - 1, -(2**63)]
DECIMALS = [*map(Decimal, "0.5 5.00 5.5 5.004 5.005 -0.01 99999999.99 99999999.995 -1E+8 127.5".split())]
DECIMALS += [*map(Decimal, "9007199254740993.5 9223372036854775807.5 -9223372036854775808.1 2.5e-8".split())]
DECIMALS += [*map(Decimal, "1.00000000005 1.0000000001 1.000000000100000 1e27".split())]
DOUBLES = [0.0, -0.0, nan, inf, -inf, 0.1, _TENTH, 0.5, 5.0, 5.5, -1.0, 2.0**53, 2.0**53 + 2, 2.0**63]
DOUBLES += [5e-324, 1.7976931348623157e308, 99999999.99]
STRINGS = ["", "A", "AB", "a", "B", "Ä", "\uffff", "\U0001f600", "it's", " or "]
DATES = [date(1970, 1, 1), date(1969, 12, 31), date(2026, 1, 31), date(2026, 2, 1), date.min, date.max]
MOMENTS = [datetime(day.year, day.month, day.day, tzinfo=UTC) for day in DATES]
MOMENTS += [MOMENTS[2] + timedelta(microseconds=1), MOMENTS[2] - timedelta(microseconds=1)]
MOMENTS += [datetime.max.replace(tzinfo=UTC)]


def typed_values(type: DataType) -> list[Scalar]:
    """Return the nastiest values of a type."""
    if type.is_integer:
        half = 1 << BITS[type.kind] - 1
        return [one for one in WHOLES if -half <= one < half]
    if type.kind is Kind.DECIMAL:
        # Row values have the column's scale; those too large for it, also by rounding, are left out.
        whole_digits = type.precision - type.scale
        near = [one for one in (*DECIMALS, *map(Decimal, WHOLES)) if one.adjusted() < whole_digits]
        values = [converted(one, type, type) for one in near]
        return [one for one in values if isinstance(one, Decimal) and one.adjusted() < whole_digits]
    if type.kind is Kind.FLOAT:
        return [single(one) for one in DOUBLES if not 1e39 < abs(one) < inf]
    pools: dict[Kind, Sequence[Scalar]] = {
        Kind.DOUBLE: DOUBLES, Kind.STRING: STRINGS, Kind.DATE: DATES, Kind.TIMESTAMP: MOMENTS,
        Kind.TIMESTAMP_NTZ: [one.replace(tzinfo=None) for one in MOMENTS], Kind.BOOLEAN: [True, False],
        Kind.BINARY: [b"", b"\x00", b"\xff"],
    }  # fmt: skip
    return list(pools[type.kind])


POOLS = {name: [None, None, *typed_values(column.type)] for name, column in COLUMNS.items()}


def random_rows(seed: int, count: int) -> list[Row]:
    source = random.Random(seed)
    return [{name: source.choice(pool) for name, pool in POOLS.items()} for _ in range(count)]


rows = st.integers(0, 10**6).map(lambda seed: random_rows(seed, 30))


@cache
def constants(type: DataType) -> st.SearchStrategy[Literal]:
    """Return constants that compare with a type, whatever their own."""
    null = Literal(None, NULL)
    if type.is_numeric:
        kinds: list[DataType] = [INT, BIGINT, DOUBLE, FLOAT, DataType(Kind.TINYINT)]
        found = [Literal(one, kind) for kind in kinds for one in typed_values(kind)]
        found += [Literal(one, exact_type(one)) for one in (*DECIMALS, *map(Decimal, WHOLES))]
        found.append(Literal(0.1, FLOAT))  # as text gives it, with digits that no float has
        return st.sampled_from([*found, *(Literal(one, type) for one in typed_values(type)), null])
    kinds = [DATE, TIMESTAMP, NTZ] if type.is_time else [type]
    return st.sampled_from([*(Literal(one, kind) for kind in kinds for one in typed_values(kind)), null])


@st.composite
def atoms(draw: st.DrawFn, names: Sequence[str] = tuple(COLUMNS)) -> Expression:
    """Return a comparison, a test for NULL, or a boolean column or constant."""
    column = COLUMNS[draw(st.sampled_from(names))]
    form = draw(st.sampled_from("constant constant between column in null boolean literal sum".split()))
    operator = st.sampled_from([*ORDERS, "<=>"])
    constant = constants(column.type)
    if form == "in":
        options = draw(st.lists(constant, min_size=1, max_size=4))
        return Call("in", (column, *options), BOOLEAN)
    if form == "null":
        return Call("is_null", (column,), BOOLEAN)
    if form == "boolean":
        return draw(st.sampled_from([COLUMNS["ok"], COLUMNS["no"]]))
    if form == "literal":
        return Literal(draw(st.sampled_from([True, False, None])), BOOLEAN)
    if form == "between":
        bounds = [Call(one, (column, draw(constant)), BOOLEAN) for one in (">=", "<=")]
        return Call("and", tuple(bounds), BOOLEAN)
    other: Expression = draw(constant)
    if form == "column":
        alike = [one for one in COLUMNS.values() if common_of([one.type, column.type])]
        other = draw(st.sampled_from(alike))
    if form == "sum" and column.type.is_numeric:
        one, two = (Literal(draw(st.sampled_from([0, 1, 5, 2**31 - 1])), INT) for _ in range(2))
        other = Call(draw(st.sampled_from("+-*")), (one, Call("neg", (two,), INT)), INT)
    args: tuple[Expression, Expression] = (column, other)
    return Call(draw(operator), draw(st.sampled_from([args, args[::-1]])), BOOLEAN)


def trees(atom: st.SearchStrategy[Expression], leaves: int = 8) -> st.SearchStrategy[Expression]:
    """Return boolean expressions over some atoms."""

    def call(function: str, arg: st.SearchStrategy[Expression], *counts: int) -> st.SearchStrategy[Call]:
        args = st.sampled_from(counts).flatmap(lambda count: st.tuples(*[arg] * count))
        return args.map(lambda found: Call(function, found, BOOLEAN))

    def larger(part: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(
            call("and", part, 2, 3), call("or", part, 2, 3), call("not", part, 1), call("not", part, 1),
            call("is_null", part, 1), call("case", part, 3, 5), call("=", part, 2), call("<=>", part, 2),
            call("coalesce", part, 2), st.tuples(part, atom).map(numeric_case),
        )  # fmt: skip

    return st.recursive(atom, larger, max_leaves=leaves)


def numeric_case(parts: tuple[Expression, Expression]) -> Expression:
    """Return IS NULL, or a comparison, of a CASE that gives numbers."""
    chosen = Call("case", (parts[0], COLUMNS["n"], parts[1], Literal(5, INT), Literal(None, INT)), INT)
    if isinstance(parts[1], Column):
        return Call(">=", (chosen, Literal(5, INT)), BOOLEAN)
    return Call("is_null", (chosen,), BOOLEAN)


@given(trees(atoms()), rows)
@settings(max_examples=350, deadline=None)
def test_the_canonical_form_holds_exactly_where_the_predicate_is_true(
    expression: Expression, rows: list[Row]
) -> None:
    formula, opposite = wp.canonical(expression), wp.canonical(Call("not", (expression,), BOOLEAN))
    for row in rows:
        truth = value(expression, row)
        assert holds(formula, row) == (truth is True), (str(formula), row)
        assert holds(opposite, row) == (truth is False), (str(opposite), row)
        assert holds(wp.negation(formula), row) == (truth is not True)


@given(atoms(), st.integers(0, 10**6))
@settings(max_examples=500, deadline=None)
def test_single_comparisons_are_sound_on_every_value(expression: Expression, seed: int) -> None:
    formula, opposite = wp.canonical(expression), wp.canonical(Call("not", (expression,), BOOLEAN))
    for row in random_rows(seed, 60):
        truth = value(expression, row)
        assert (holds(formula, row), holds(opposite, row)) == (truth is True, truth is False), row


# Predicates from text.

NUMBERS = (
    "0 1 5 6 -1 127 128 5.5 5.00 5.005 2147483648 9007199254740993 -9223372036854775808 5e0 0.1f 0.5d 5L"
)
TEXTS = {"n": NUMBERS, "vol": NUMBERS, "price": NUMBERS, "fee": NUMBERS, "ratio": NUMBERS, "tiny": NUMBERS}
OPTIONS = {name: numbers.split() for name, numbers in TEXTS.items()}
OPTIONS |= {
    "symbol": ["''", "'A'", "'AB'", "'Ä'", "'\U0001f600'", "'\uffff'", "'it''s'"],
    "day": ["'1970-01-01'", "DATE '2026-01-31'", "TIMESTAMP '2026-01-31 00:00:00.000001'"],
    "time": ["'2026-01-31'", "'2026-01-31 00:00:00.000001'", "DATE '2026-01-31'"],
    "ntz": ["'2026-01-31'", "TIMESTAMP '2026-01-31 00:00:00.000001'"],
    "ok": ["TRUE", "FALSE"],
}  # fmt: skip


@st.composite
def written(draw: st.DrawFn) -> str:
    """Return the text of a comparison."""
    name = draw(st.sampled_from(list(OPTIONS)))
    options = st.sampled_from([*OPTIONS[name], "NULL"])
    one, two, three = draw(options), draw(options), draw(options)
    operator = draw(st.sampled_from("= <> != < <= > >= <=>".split()))
    forms = [f"{name} {operator} {one}", f"{one} {operator} {name}", f"{name} BETWEEN {one} AND {two}",
             f"{name} NOT BETWEEN {one} AND {two}", f"{name} IN ({one}, {two}, {three})",
             f"{name} NOT IN ({one}, {two})", f"{name} IS NULL", f"{name} IS NOT NULL", "ok", "NOT ok",
             f"{name} IS DISTINCT FROM {one}", f"({name} {operator} {one}) IS NOT TRUE",
             f"CASE WHEN {name} {operator} {one} THEN ok WHEN {name} = {two} THEN NULL ELSE n > vol END",
             f"CASE {name} WHEN {one} THEN TRUE WHEN {two} THEN ok END", "n >= fee", "price < ratio",
             f"(CASE WHEN {name} {operator} {one} THEN n ELSE vol END) IS NULL"]  # fmt: skip
    return draw(st.sampled_from(forms))


texts = st.recursive(
    written(),
    lambda part: st.one_of(
        st.tuples(part, st.sampled_from(["AND", "OR"]), part).map(" ".join),
        part.map(lambda text: f"NOT ({text})"),
        part.map(lambda text: f"({text}) IS NULL"),
    ),
    max_leaves=4,
)


@given(texts, rows)
@settings(max_examples=200, deadline=None)
def test_the_canonical_form_of_a_text_is_sound(text: str, rows: list[Row]) -> None:
    expression = predicate(text)
    formula = wp.canonical(expression)
    assert [holds(formula, row) for row in rows] == [value(expression, row) is True for row in rows]


# Limits: what would grow too large is asked of Spark as one boolean.


def test_a_predicate_with_too_many_tests_is_left_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["weft.predicates.canonical"], "_MOST_TESTS", 200)
    whole = predicate(" OR ".join(f"n + {one} = vol AND n % {one} = 1" for one in range(1, 120)))
    assert size(wp.canonical(whole)) == 1
    few = predicate(" OR ".join(f"n + {one} = vol AND n % {one} = 1" for one in range(1, 12)))
    assert size(wp.canonical(few)) == 22


def test_a_long_case_is_left_whole_and_a_long_list_is_one_test() -> None:
    branches = " ".join(f"WHEN n + {one} = vol THEN ok" for one in range(17))
    assert size(wp.canonical(predicate(f"CASE {branches} END"))) == 1
    assert size(wp.canonical(predicate(f"n IN ({', '.join(map(str, range(5_000)))})"))) == 1


@pytest.mark.parametrize("wrap", ["(({}) IS NULL AND ok)", "CASE WHEN {} THEN ok ELSE n = 1 END"])
def test_deep_nesting_does_not_multiply(wrap: str) -> None:
    text = "n > vol"
    for _ in range(20):
        text = wrap.format(text)
    begin = time.perf_counter()
    expression = predicate(text)
    formula = wp.canonical(expression)
    assert time.perf_counter() - begin < 5
    for row in random_rows(1, 40):
        assert holds(formula, row) == (value(expression, row) is True)


def test_no_predicate_is_always_true() -> None:
    assert wp.canonical(None) == wp.TRUE == wp.all_of([])
    assert wp.FALSE == wp.any_of([]) == wp.negation(wp.TRUE)
