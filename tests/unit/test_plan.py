"""Plans: what queries share, and what keeps them apart."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG

from weft.errors import InternalError
from weft.expression import Call, Column, Literal
from weft.optimizer.plan import SharedPlan, answer, leaf, lift
from weft.optimizer.rules import RULES, leaves, optimize, share_slices
from weft.optimizer.slices import Slicing, edge_classes
from weft.query import bind, parse_select
from weft.query.logical import AggregateCall, LogicalQuery
from weft.runtime.programs import program_of, programs
from weft.types import BIGINT, BOOLEAN, DOUBLE, NULL

FIVE, SEVEN = "[RANGE '12 min' SLIDE '5 min']", "[RANGE '21 min' SLIDE '7 min']"


def queries(*texts: str) -> list[LogicalQuery]:
    """Bind SELECTs as q0, q1, …"""
    return [bind(parse_select(text, name=f"q{place}"), CATALOG) for place, text in enumerate(texts)]


def kept(plan: SharedPlan) -> list[list[str]]:
    """Return the primitives of each relation, in words."""
    return [[str(one) for one in relation.primitives] for relation in plan.relations]


# Shared slices.


def test_queries_that_differ_in_windows_share_one_relation() -> None:
    several = queries(
        f"SELECT sum(price) AS s FROM trades {FIVE}", f"SELECT sum(price) AS s FROM trades {SEVEN}"
    )
    plan = optimize(several)
    (relation,) = plan.relations
    assert relation.windows == {query.window for query in several}
    assert relation.edges(Slicing.PAIRED) == edge_classes(query.window for query in several)
    assert [one.relation for one in plan.answers] == [0, 0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("SELECT count(*) AS c FROM trades {} WHERE vol > 5", "SELECT count(*) AS c FROM trades {}"),
        ("SELECT count(*) AS c FROM trades {} WHERE vol > 5",
         "SELECT count(*) AS c FROM trades {} WHERE vol > 6"),
        ("SELECT symbol, count(*) AS c FROM trades {} GROUP BY symbol",
         "SELECT count(*) AS c FROM trades {}"),
        ("SELECT symbol, count(*) AS c FROM trades {} GROUP BY symbol",
         "SELECT day, count(*) AS c FROM trades {} GROUP BY day"),
        ("SELECT count(*) AS c FROM trades {}",
         "SELECT count(*) AS c FROM trades T {}, close C WHERE T.symbol = C.symbol"),
        ("SELECT count(*) AS c FROM trades T {} JOIN close C ON T.symbol = C.symbol",
         "SELECT count(*) AS c FROM trades T {} LEFT JOIN close C ON T.symbol = C.symbol"),
    ],
    ids=["a predicate", "two predicates", "a key", "two keys", "a join", "two joins"],
)  # fmt: skip
def test_what_keeps_relations_apart(first: str, second: str) -> None:
    plan = optimize(queries(first.format(FIVE), second.format(SEVEN)))
    assert [one.relation for one in plan.answers] == [0, 1]


def test_the_order_of_keys_does_not_matter() -> None:
    plan = optimize(
        queries(
            f"SELECT symbol, day, count(*) AS c FROM trades {FIVE} GROUP BY symbol, day",
            f"SELECT day, symbol, count(*) AS c FROM trades {SEVEN} GROUP BY day, symbol",
        )
    )
    (relation,) = plan.relations
    names = [str(key) for key in relation.keys]
    assert sorted(names) == ["day", "symbol"]
    for one in plan.answers:
        assert [names[place] for place in one.keys] == [str(key.expression) for key in one.query.keys]


def test_spelling_does_not_matter() -> None:
    plan = optimize(
        queries(
            f"SELECT sum(price*vol) AS a FROM trades {FIVE} WHERE vol>5",
            f"select SUM( t.price * t.VOL ) as b from Trades t {SEVEN} where t.vol > 5",
        )
    )
    assert kept(plan) == [["sum((price * vol))"]]


# Primitives.


def test_each_primitive_is_kept_once() -> None:
    plan = optimize(
        queries(
            f"SELECT avg(price) AS a, count(price) AS c FROM trades {FIVE}",
            f"SELECT sum(price) AS s, var_pop(price) AS v, stddev_samp(price) AS d FROM trades {SEVEN}",
            f"SELECT count(*) AS n, avg(price) AS a FROM trades {SEVEN}",
        )
    )
    assert kept(plan) == [["sum(price)", "count(price)", "moments(price)", "count(*)"]]
    assert [one.aggregates for one in plan.answers] == [((0, 1), (1,)), ((0,), (2,), (2,)), ((3,), (0, 1))]


def test_a_filter_is_part_of_what_is_aggregated() -> None:
    plan = optimize(
        queries(
            "SELECT sum(price) FILTER (WHERE vol > 5) AS s, count(*) FILTER (WHERE ok) AS c "
            f"FROM trades {FIVE}",
            f"SELECT sum(price) AS s FROM trades {FIVE}",
        )
    )
    big = Call(">", (Column("vol", BIGINT), Literal(5, BIGINT)), BOOLEAN)
    price, flag = Column("price", DOUBLE), Column("ok", BOOLEAN)
    arguments = [one.argument for one in plan.relations[0].primitives]
    assert arguments[1] == Call("case", (flag, Literal(True, BOOLEAN), Literal(None, NULL)), BOOLEAN)
    assert arguments[2] == price
    filtered = arguments[0]
    assert isinstance(filtered, Call)
    assert filtered.function == "case"
    assert str(filtered.args[0]) == str(big)
    assert filtered.args[1:] == (price, Literal(None, NULL))


def test_an_aggregate_that_does_not_exist_is_our_fault() -> None:
    with pytest.raises(InternalError, match="median"):
        lift(AggregateCall(function="median", argument=None, filter=None, type=DOUBLE))


# Rules.


def test_a_rule_that_changes_nothing_returns_its_argument() -> None:
    for several in (
        queries(),
        queries(f"SELECT count(*) AS c FROM trades {FIVE}"),
        queries(
            f"SELECT count(*) AS c FROM trades {FIVE} WHERE ok", f"SELECT count(*) AS c FROM trades {FIVE}"
        ),
    ):
        plan = leaves(several)
        assert share_slices(plan) is plan
    shared = optimize(queries(*[f"SELECT count(*) AS c FROM trades {one}" for one in (FIVE, SEVEN)]))
    assert all(rule(shared) is shared for rule in RULES)


def test_a_plan_is_a_value() -> None:
    several = queries(f"SELECT count(*) AS c FROM trades {FIVE}", f"SELECT max(n) AS m FROM trades {SEVEN}")
    assert optimize(several) == optimize(list(several))
    assert optimize(several, Slicing.PANED).slicing is Slicing.PANED
    assert len(leaves(several).relations) == 2


SELECTS = [
    f"SELECT {aggregate} AS x FROM trades {window} {where} {group}"
    for aggregate in ("sum(price)", "avg(n)", "count(*)", "max(symbol)")
    for window in (FIVE, SEVEN)
    for where, group in (
        ("", ""),
        ("WHERE ok", ""),
        ("", "GROUP BY symbol"),
        ("WHERE ok", "GROUP BY symbol, n"),
    )
]


@settings(max_examples=40)
@given(st.lists(st.sampled_from(SELECTS), max_size=12))
def test_a_shared_plan_answers_every_query_as_its_leaf_would(texts: Sequence[str]) -> None:
    several = queries(*texts)
    plan = optimize(several)
    assert [one.query for one in plan.answers] == several
    groupings = [relation.grouping for relation in plan.relations]
    assert len(set(groupings)) == len(groupings)
    for one in plan.answers:
        relation, own = plan.relations[one.relation], leaf(one.query)
        # The relation feeds the leaf: its edges, attributes and primitives refine it.
        assert relation.grouping == own.grouping
        assert own.windows <= relation.windows
        assert own.edges(plan.slicing) <= relation.edges(plan.slicing)
        assert set(own.primitives) <= set(relation.primitives)
        assert len(set(relation.primitives)) == len(relation.primitives)
        alone = answer(one.query, own, 0)
        read = [[relation.primitives[place] for place in places] for places in one.aggregates]
        assert read == [[own.primitives[place] for place in places] for places in alone.aggregates]
    asked = {window for query in several for window in (query.window,)}
    assert asked == {window for relation in plan.relations for window in relation.windows}


def test_programs_forget_names_and_windows() -> None:
    plan = optimize(
        queries(
            f"SELECT sum(price) AS a FROM trades {FIVE}",
            f"SELECT sum(price) AS b FROM trades {SEVEN}",
            f"SELECT sum(price) AS c FROM trades {SEVEN} HAVING count(*) > 1",
            f"SELECT sum(price) + 1 AS d FROM trades {SEVEN}",
            f"SELECT sum(price) AS e FROM trades {SEVEN} EMIT EMPTY",
        )
    )
    found = programs(plan)
    assert [[one.query.name for one in answers] for answers in found.values()] == [
        ["q0", "q1"], ["q2"], ["q3"], ["q4"],
    ]  # fmt: skip
    assert all(one in found[program_of(one)] for one in plan.answers)
