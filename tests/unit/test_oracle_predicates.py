"""The parts of the reference that predicates need: matching, joins, lives, pools, other words."""

import math
from datetime import date
from decimal import Decimal
from random import Random

import pytest
from tests.oracle.aggregates import Aggregate
from tests.oracle.cases import STREAM, TIME
from tests.oracle.conditions import Compare
from tests.oracle.expressions import Column, Expression, Instant, Literal, walk
from tests.oracle.generate_workload import random_workload
from tests.oracle.matching import IsTruth, Like, Matcher, NullSafe, Quoted
from tests.oracle.pools import neighbours
from tests.oracle.reference import replay
from tests.oracle.registered import MIDCAP, Called
from tests.oracle.rephrase import rephrased
from tests.oracle.spec import Spec
from tests.oracle.tables import Join, Table, joined_rows
from tests.oracle.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    Row,
    SqlType,
    Value,
    decimal_type,
)

S = Column("s", STRING)
COUNT = Aggregate(name="n", function="count")


def value(of: Expression, **row: Value) -> Value:
    return of.evaluate(row)


def test_null_safe_equality_is_never_null() -> None:
    same = NullSafe(Column("d", DOUBLE), Column("e", DOUBLE))
    assert value(same, d=None, e=None) is True
    assert value(same, d=None, e=1.0) is False
    assert value(same, d=math.nan, e=math.nan) is True
    assert value(same, d=-0.0, e=0.0) is True


@pytest.mark.parametrize(("flag", "answers"), [(True, "TFFT"), (False, "FTTF"), (None, "FTFT")])
def test_is_true_and_is_false_are_never_null(flag: Value, answers: str) -> None:
    x = Column("x", BOOLEAN)
    tests = [IsTruth(x, True), IsTruth(x, True, True), IsTruth(x, False), IsTruth(x, False, True)]
    assert "".join("T" if value(test, x=flag) else "F" for test in tests) == answers


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [("a%", "a", True), ("_", "😀", True), ("__", "😀", False), ("", "", True), (".", "a", False)],
)
def test_like(pattern: str, text: str, matches: bool) -> None:
    assert value(Like(S, pattern), s=text) is matches
    assert value(Like(S, pattern, negated=True), s=text) is not matches
    assert value(Like(S, pattern), s=None) is None


def test_other_matchers() -> None:
    assert value(Like(S, "A%", Matcher.ILIKE), s="ab") is True
    assert value(Like(S, "^b", Matcher.RLIKE), s="ab") is False
    assert Like(S, "a%", negated=True).sql() == "(s NOT LIKE 'a%')"


def test_dates_meet_timestamps_at_midnight() -> None:
    midnight = Compare("=", Column("dt", DATE), Literal(Instant(86_400_000_000)))
    assert value(midnight, dt=date(1970, 1, 2)) is True
    assert Quoted(Literal(date(1970, 1, 2))).sql() == "'1970-01-02'"
    assert Quoted(Literal(Instant(1))).sql() == "'1970-01-01 00:00:00.000001'"


def test_decimals_too_long_to_meet_exactly_are_rounded() -> None:
    # DECIMAL(38,0) and DECIMAL(2,1) meet in DECIMAL(38,0), where 1.5 is 2.
    above = Compare(">", Column("m", decimal_type(38, 0)), Literal(Decimal("1.5")))
    assert [value(above, m=Decimal(m)) for m in (1, 2, 3)] == [False, False, True]


@pytest.mark.parametrize(
    ("at", "of", "near"),
    [
        (2**63 - 1, BIGINT, (2**63 - 2,)),
        (0.0, DOUBLE, (-5e-324, 5e-324)),
        (Decimal("0.99"), decimal_type(2, 2), (Decimal("0.98"),)),
        ("ab", STRING, ("a", "aba")),
        (0, TIMESTAMP, (-1, 1)),
        (date(1970, 1, 1), DATE, (date(1969, 12, 31), date(1970, 1, 2))),
    ],
)
def test_neighbours(at: Value, of: SqlType, near: tuple[Value, ...]) -> None:
    assert neighbours(at, of) == near


# Tables


CLOSE = Table(
    name="close",
    columns=(Column("sym", STRING), Column("cp", DOUBLE)),
    rows=({"sym": "a", "cp": 1.0}, {"sym": "a", "cp": None}, {"sym": None, "cp": 2.0}),
)


def partners(left: bool, s: Value) -> list[Value]:
    join = Join(table=CLOSE, on=((S, CLOSE.column("sym")),), left=left)
    return [row["close.cp"] for row in joined_rows({"s": s}, (join,))]


def test_joins_pair_with_every_partner_and_null_has_none() -> None:
    assert partners(False, "a") == [1.0, None]
    assert partners(False, None) == []
    assert partners(True, None) == [None]
    assert partners(True, "b") == [None]


def test_joins_as_text() -> None:
    join = Join(table=CLOSE, on=((S, CLOSE.column("sym")),), left=True)
    spec = Spec(name="q", range_ms=1, slide_ms=1, aggregates=(COUNT,), joins=(join,))
    assert "FROM t [RANGE '1 ms' SLIDE '1 ms'] LEFT JOIN close ON s = close.sym" in spec.sql("t", TIME)
    assert "FROM v LEFT JOIN close ON s = close.sym GROUP BY" in spec.spark_sql("v", TIME)


# Queries that come and go


def test_a_query_that_comes_late_begins_after_all_rows_so_far() -> None:
    # rows 1 8 | 3 12 27      the second batch's query begins after 8 ms: [10, 20) is its first window
    batches: list[list[Row]] = [[{TIME: at * 1000} for at in some] for some in ((1, 8), (3, 12, 27))]
    late = Spec(name="late", range_ms=10, slide_ms=10, aggregates=(COUNT,), from_batch=1)
    gone = Spec(name="gone", range_ms=10, slide_ms=10, aggregates=(COUNT,), until_batch=1)
    run = replay(batches, [late, gone], delay_ms=100)
    starts = [item.values["window_start"] for item in run.results("late")]
    assert starts == [10_000, 20_000]
    assert run.results("gone") == []
    assert [late.lives_in(batch) for batch in range(3)] == [False, True, True]


# Generated workloads


def test_a_seed_gives_one_workload_for_ever() -> None:
    for seed in range(5):
        assert repr(random_workload(seed)) == repr(random_workload(seed))


def test_other_words_mean_the_same() -> None:
    for seed in range(25):
        case = random_workload(seed, calls=False)
        rows = [row for batch in case.batches for row in batch]
        for spec in case.specs:
            if spec.predicate is not None and not spec.joins:
                other = rephrased(Random(seed), spec.predicate)
                assert [spec.predicate.evaluate(row) for row in rows] == [other.evaluate(row) for row in rows]


def test_workloads_cover_what_goes_wrong() -> None:
    drawn = [random_workload(seed, queries=(5, 40)) for seed in range(30)]
    specs = [spec for case in drawn for spec in case.specs]
    predicates = [spec.predicate for spec in specs if spec.predicate is not None]
    nodes = [node for predicate in predicates for node in walk(predicate)]
    written = [predicate.sql() for predicate in predicates]
    assert {type(node).__name__ for node in nodes} >= set(
        "Compare And Or Not IsNull In Between NullSafe IsTruth Like Case Cast Abs Arithmetic Called".split()
    )
    assert any(spec.joins and spec.joins[0].left for spec in specs)
    assert any(spec.joins and not spec.joins[0].left for spec in specs)
    assert any(spec.from_batch for spec in specs)
    assert any(spec.until_batch is not None for spec in specs)
    assert max(len(case.specs) for case in drawn) > 30
    assert len(set(written)) < len(written), "no predicate is asked for twice"
    assert any(isinstance(node, Called) and node.function is MIDCAP for node in nodes)
    assert any(spec.sql(STREAM, TIME).count("close.cp") for spec in specs)


def test_predicates_split_the_rows() -> None:
    """A predicate that is the same for every row would test nothing."""
    told = split = 0
    for seed in range(15):
        case = random_workload(seed, calls=False)
        rows = [row for batch in case.batches for row in batch]
        for spec in case.specs:
            if spec.predicate is not None and not spec.joins:
                told += 1
                split += len({spec.predicate.evaluate(row) is True for row in rows}) == 2
    assert split > 0.6 * told
