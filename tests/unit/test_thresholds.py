"""HAVING of many readers at once against each reader's own HAVING, for every type that can be compared."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import columns

from weft.aggregates import arrow_type
from weft.evaluation import Evaluator
from weft.expression import Expression, Slot, walk
from weft.finals import thresholds
from weft.finals.readings import Program, Reader, program_of
from weft.optimizer.plan import answer, leaf
from weft.query import bind, parse_select
from weft.query.logical import Catalog, LogicalQuery, StreamDef
from weft.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, Kind

TYPES = {
    "t": TIMESTAMP, "i": INT, "b": BIGINT, "f": DataType(Kind.FLOAT), "x": DOUBLE, "s": STRING, "day": DATE,
    "ok": BOOLEAN, "tiny": DataType(Kind.TINYINT), "ntz": DataType(Kind.TIMESTAMP_NTZ),
    "cents": DataType(Kind.DECIMAL, 10, 2), "fine": DataType(Kind.DECIMAL, 38, 30),
    "long": DataType(Kind.DECIMAL, 38, 20),
}  # fmt: skip
CATALOG = Catalog(streams=(StreamDef(name="s", time="t", columns=columns(**TYPES)),))
NAN, INF = float("nan"), float("inf")
BELOW, ABOVE = Decimal(f"4.{'9' * 30}"), Decimal(f"5.{'0' * 29}1")
NOON = datetime(2020, 1, 2, 12, tzinfo=UTC)
VALUES: dict[str, tuple[Any, ...]] = {
    "i": (-(2**31), -1, 0, 5, 6, 2**31 - 1),
    "b": (-(2**63), -1, 0, 5, 6, 10**10, 2**53, 2**53 + 1, 2**63 - 1),
    "tiny": (-128, 0, 5, 127),
    "f": (-INF, -0.0, 0.0, 0.5, float(np.float32(0.1)), 5.0, INF, NAN),
    "x": (-INF, -0.0, 0.0, 0.1, 0.5, 5.0, float(2**53), INF, NAN),
    "s": ("", "a", "b", "ab", "é", "5"),
    "day": (date(1969, 12, 31), date(2020, 1, 2), date(2020, 1, 3)),
    "t": (NOON, NOON.replace(hour=0), NOON.replace(microsecond=1)),
    "ntz": (NOON.replace(tzinfo=None), NOON.replace(hour=0, tzinfo=None)),
    "ok": (False, True),
    "cents": (Decimal("-5.01"), Decimal(0), Decimal("5.00"), Decimal("5.01"), Decimal("99999999.99")),
    "fine": (BELOW, Decimal(5), ABOVE, Decimal("1E-30"), ABOVE.copy_negate(), Decimal("0.1")),
    "long": (Decimal(10**10), Decimal(f"{10**10}.{'0' * 19}1"), Decimal(f"5.{'0' * 19}1"), Decimal(10**17)),
}
NUMBERS = (
    "-1", "0", "5", "6", "50000", "2147483647", "10000000000", "0.1", "5.0", "5.01", "0.5", "-0.0",
    "5.000000000000000000000000000001", "CAST(5 AS BIGINT)", "2 + 3", "CAST('NaN' AS DOUBLE)",
    "CAST(0.1 AS FLOAT)", "CAST(0.1 AS DOUBLE)", "CAST('-0.0' AS DOUBLE)", "9007199254740993", "NULL",
)  # fmt: skip
DAYS = (
    "DATE '2020-01-02'",
    "DATE '1969-12-31'",
    "TIMESTAMP '2020-01-02 12:00:00Z'",
    "TIMESTAMP '2020-01-02'",
)
CONSTANTS = {
    "s": ("''", "'a'", "'ab'", "'é'"),
    "ok": ("TRUE", "FALSE"),
    "day": DAYS,
    "t": DAYS,
    "ntz": DAYS,
}
COMPARISONS = ("<", "<=", ">", ">=", "=", "<>")


@lru_cache(maxsize=4096)
def bound(name: str, condition: str) -> LogicalQuery:
    text = f"SELECT 1 AS one FROM s [RANGE '1 s'] GROUP BY {', '.join(TYPES)} HAVING {condition}"
    return bind(parse_select(text, name=name), CATALOG)


def reader(query: LogicalQuery) -> Reader:
    answered = answer(query, leaf(query))
    program, parameters = program_of(answered)
    return Reader(answer=answered, program=program, parameters=parameters)


def slots(expression: Expression, rows: dict[str, list[Any]]) -> dict[Slot, pa.Array]:
    """Return the columns that a condition reads."""
    names = list(TYPES)
    return {
        node: pa.array(rows[names[node.index]], arrow_type(node.type))
        for node in walk(expression)
        if isinstance(node, Slot) and node.kind == "key"
    }


def assert_each_gets_its_own(conditions: Sequence[Sequence[str]], rows: dict[str, list[Any]]) -> None:
    """Compare with each reader's condition as it is written; every ask has all rows."""
    length = len(next(iter(rows.values())))
    asks: dict[Program, dict[int, list[Reader]]] = defaultdict(lambda: defaultdict(list))
    wanted: dict[str, list[int]] = {}
    for ask, several in enumerate(conditions):
        for turn, condition in enumerate(several):
            query = bound(f"q{ask}_{turn}", condition)
            assert query.having is not None
            held = Evaluator(slots(query.having, rows), length).holds(query.having)
            wanted[query.name] = np.flatnonzero(held).tolist()
            one = reader(query)
            asks[one.program][ask].append(one)
    for program, by_ask in asks.items():
        assert program.having is not None
        repeated = {name: values * len(by_ask) for name, values in rows.items()}
        evaluator = Evaluator(slots(program.having, repeated), length * len(by_ask))
        bounds = np.arange(len(by_ask) + 1) * length
        passed = thresholds.passing(program.having, evaluator, bounds, list(by_ask.values()))
        begin = dict(zip(by_ask, bounds.tolist(), strict=False))
        ends = np.cumsum(passed.counts).tolist()
        for one, count, end in zip(passed.readers, passed.counts.tolist(), ends, strict=True):
            name = one.answer.query.name
            got = passed.rows[end - count : end] - begin[int(name[1 : name.index("_")])]
            assert got.tolist() == wanted.pop(name)
    assert not wanted


@st.composite
def comparisons(draw: st.DrawFn, name: str, count: int) -> list[str]:
    """Return comparisons of a column, alike but for their constants."""
    operator, mirrored = draw(st.sampled_from(COMPARISONS)), draw(st.booleans())
    drawn = st.sampled_from(CONSTANTS.get(name, NUMBERS))
    constants = draw(st.lists(drawn, min_size=count, max_size=count))
    return [f"{one} {operator} {name}" if mirrored else f"{name} {operator} {one}" for one in constants]


@st.composite
def rows_of(draw: st.DrawFn, names: Sequence[str]) -> dict[str, list[Any]]:
    length = draw(st.integers(0, 8))
    return {
        name: draw(st.lists(st.none() | st.sampled_from(VALUES[name]), min_size=length, max_size=length))
        for name in names
    }


@pytest.fixture(params=[0, 100], ids=["searched", "one by one"])
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have conditions searched for, or evaluated reader by reader, however few readers there are."""
    monkeypatch.setattr(thresholds, "_FEW_READERS", request.param)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=20)
@given(data=st.data())
def test_a_comparison_is_the_same_with_a_parameter(name: str, data: st.DataObject) -> None:
    conditions = data.draw(comparisons(name, data.draw(st.integers(1, 7))))
    split = data.draw(st.integers(0, len(conditions) - 1))
    asks = [conditions[split:], *([conditions[:split]] if split else [])]
    assert_each_gets_its_own(asks, data.draw(rows_of([name])))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("name", "constants"),
    [("fine", ("5", "6", "50000", "0", "2 + 3")), ("long", ("10000000000", "20000000000", "5", "6"))],
)
@pytest.mark.parametrize("operator", COMPARISONS)
def test_a_whole_constant_beside_a_decimal_has_only_its_digits(
    name: str, constants: Sequence[str], operator: str
) -> None:
    conditions = [f"{name} {operator} {constant}" for constant in constants]
    assert_each_gets_its_own([conditions], {name: [*VALUES[name], None]})


@st.composite
def conditions_alike(draw: st.DrawFn, names: Sequence[str], count: int) -> list[str]:
    """Return conditions of one shape; of each of their constants, all readers may have the same."""
    shape = draw(st.sampled_from(SHAPES))
    parts = []
    for name in names[: shape.count("{}")]:
        several = draw(comparisons(name, count))
        parts.append(several[:1] * count if draw(st.booleans()) else several)
    return [shape.format(*one) for one in zip(*parts, strict=True)]


SHAPES = (
    "{} AND {}", "{} AND {} AND {}", "i IS NOT NULL AND {} AND i <> 5", "({} AND {}) AND i + 1 > 0",
    "{} OR {}", "NOT ({}) AND {}", "{} AND ({} OR {})",
)  # fmt: skip


@pytest.mark.usefixtures("few")
@settings(max_examples=80)
@given(data=st.data())
def test_readers_get_what_their_own_condition_lets_pass(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(list(VALUES)), min_size=3, max_size=3))
    first = data.draw(conditions_alike(names, data.draw(st.integers(1, 7))))
    split = data.draw(st.integers(0, len(first) - 1))
    rows = data.draw(rows_of(sorted({*names, "i"})))
    assert_each_gets_its_own([first[split:], *([first[:split]] if split else [])], rows)


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ("i >= 3 AND x > {}", {"i": [2, 3, 4, None], "x": [NAN, 7.0, 1.0, 9.0]}),
        ("i >= {} AND x > {}", {"i": [2, 3, 4, None], "x": [NAN, 7.0, 1.0, 9.0]}),
        ("x BETWEEN {} AND 7", {"x": [7.0, 1.0, -0.0, None]}),
        ("i <> 3 AND cents >= {}", {"i": [3, 4, 5], "cents": [Decimal(4), Decimal("3.99"), None]}),
        ("day < DATE '2020-01-0{}'", {"day": [date(2020, 1, 2), date(2020, 1, 6), None]}),
        ("TIMESTAMP '2020-01-0{} 12:00:00Z' <= t", {"t": [NOON, NOON.replace(microsecond=1), None]}),
        ("s = '{}'", {"s": ["3", "5", "55", None]}),
    ],
)
def test_alerts_are_searched_for_not_evaluated_one_by_one(
    monkeypatch: pytest.MonkeyPatch, condition: str, values: dict[str, list[Any]]
) -> None:
    monkeypatch.setattr(thresholds, "_passing_each", None)
    assert_each_gets_its_own([[condition.format(*[number] * 2) for number in range(1, 9)]], values)


def test_parameters_that_agree_make_one_computation_of_any_condition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thresholds, "_passing_each", None)
    assert_each_gets_its_own([["i = 3 OR NOT x > 2"] * 6], {"i": [3, 4, None], "x": [9.0, 1.0, NAN]})


def test_a_long_constant_beside_a_decimal_has_only_its_digits() -> None:
    query = bound("q", "long > 10000000000")
    assert query.having is not None
    bit_more = Decimal(f"{10**10}.{'0' * 19}1")
    held = Evaluator(slots(query.having, {"long": [bit_more, Decimal(10**10)]}), 2).holds(query.having)
    assert held.tolist() == [True, False]  # as in Spark, but not of CAST(10000000000 AS BIGINT)
