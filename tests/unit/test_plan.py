"""Plans: what queries share, and what keeps them apart."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.language_samples import CATALOG

from weft.errors import InternalError
from weft.expression import Call, Column, Literal
from weft.finals.readings import Program, program_of
from weft.optimizer.plan import SharedPlan, answer, leaf, lift
from weft.optimizer.rules import RULES, Sharing, leaves, optimize, share_slices
from weft.optimizer.slices import Slicing, edge_classes
from weft.optimizer.statistics import Statistics, assumed
from weft.predicates import TRUE, canonical
from weft.query import bind, parse_select
from weft.query.logical import AggregateCall, LogicalQuery
from weft.spark.job.job import in_job_order
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
        ("SELECT symbol, count(*) AS c FROM trades {} GROUP BY symbol",
         "SELECT count(*) AS c FROM trades {}"),
        ("SELECT symbol, count(*) AS c FROM trades {} GROUP BY symbol",
         "SELECT day, count(*) AS c FROM trades {} GROUP BY day"),
        ("SELECT count(*) AS c FROM trades {}",
         "SELECT count(*) AS c FROM trades T {}, close C WHERE T.symbol = C.symbol"),
        ("SELECT count(*) AS c FROM trades T {} JOIN close C ON T.symbol = C.symbol",
         "SELECT count(*) AS c FROM trades T {} LEFT JOIN close C ON T.symbol = C.symbol"),
    ],
    ids=["a key", "two keys", "a join", "two joins"],
)  # fmt: skip
@pytest.mark.parametrize("sharing", Sharing)
def test_what_keeps_relations_apart(first: str, second: str, sharing: Sharing) -> None:
    plan = optimize(queries(first.format(FIVE), second.format(SEVEN)), sharing=sharing)
    assert [one.relation for one in plan.answers] == [0, 1]
    assert [one.grouping for one in plan.answers] == [one.grouping for one in plan.relations]


# Shared fragments; tests/unit/test_choosing.py asks when they pay.


@pytest.mark.parametrize(
    ("first", "second"),
    [("vol > 5", "true"), ("vol > 5", "vol > 6"), ("vol > 5", "price < 2"), ("ok", "vol IN (5, 6)")],
    ids=["a predicate", "two constants", "two columns", "two kinds"],
)
def test_queries_that_differ_in_predicates_share_one_relation(first: str, second: str) -> None:
    several = queries(
        f"SELECT count(*) AS c FROM trades {FIVE} WHERE {first}",
        f"SELECT max(price) AS m FROM trades {SEVEN} WHERE {second}",
    )
    plan = optimize(several)
    (relation,) = plan.relations
    assert relation.windows == {query.window for query in several}
    assert relation.predicates == tuple(canonical(query.predicate) for query in several)
    assert relation.shared
    assert kept(plan) == [["count(*)", "max(price)"]]
    assert [one.relation for one in plan.answers] == [0, 0]
    # Each reads the fragments that satisfy its own predicate.
    assert tuple(one.predicate for one in plan.answers) == relation.predicates


def test_ways_of_sharing() -> None:
    several = queries(
        f"SELECT count(*) AS c FROM trades {FIVE}",
        f"SELECT count(*) AS c FROM trades {FIVE} WHERE vol > 5",
        f"SELECT count(*) AS c FROM trades {SEVEN} WHERE vol > 5",
    )
    big = canonical(several[1].predicate)
    found = {
        sharing: [(one.predicates, one.shared) for one in optimize(several, sharing=sharing).relations]
        for sharing in Sharing
    }
    assert found == {
        Sharing.AUTO: [((TRUE, big), True)],
        Sharing.JOINT: [((TRUE, big), True)],
        Sharing.SEPARATE: [((TRUE,), True), ((big,), True)],
        Sharing.UNSHARED: [((TRUE, big), False)],
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("vol > 5 AND ok", "ok AND 5 < vol"),
        ("vol > 5", "NOT vol <= 5"),
        ("vol > 5", "vol >= 6 OR vol > 5"),
        ("vol BETWEEN 5 AND 9", "vol >= 5 AND vol <= 9"),
        ("symbol IN ('b', 'a')", "symbol = 'a' OR symbol = 'b'"),
    ],
)
def test_predicates_that_mean_the_same_are_one(first: str, second: str) -> None:
    plan = optimize(
        queries(*(f"SELECT count(*) AS c FROM trades {FIVE} WHERE {one}" for one in (first, second))),
        sharing=Sharing.SEPARATE,
    )
    (relation,) = plan.relations
    assert len(relation.predicates) == 1
    assert [one.predicate for one in plan.answers] == [*relation.predicates] * 2


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


# The forest.


def fed(plan: SharedPlan) -> SharedPlan:
    """Return a plan whose second relation is computed from the first."""
    first, second = plan.relations
    return replace(plan, relations=(first, replace(second, source=first.id)))


def test_relations_are_computed_from_the_stream_or_from_another() -> None:
    by = ("GROUP BY symbol", "")
    plan = leaves(queries(*(f"SELECT count(*) AS c FROM trades {FIVE} {group}" for group in by)))
    first, second = plan.relations
    assert (plan.roots, plan.children(first.id)) == (plan.relations, ())
    forest = fed(plan)
    assert forest.roots == (first,)
    assert forest.children(first.id) == (forest.relation(second.id),) == (replace(second, source=first.id),)
    assert forest.children(second.id) == ()


def test_a_job_computes_the_roots_of_a_plan_a_shared_one_first() -> None:
    several = [f"SELECT count(*) AS c FROM trades {FIVE} WHERE vol > {least}" for least in (5, 6)]
    plan = optimize(
        queries(*several, f"SELECT symbol, count(*) AS c FROM trades {FIVE} GROUP BY symbol"),
        sharing=Sharing.UNSHARED,
    )
    copied, shared = plan.relations
    assert [copied.shared, shared.shared] == [False, True]
    assert in_job_order(plan.roots) == (shared, copied)
    assert in_job_order(fed(plan).roots) == (copied,)


def test_a_plan_is_a_forest_or_our_fault() -> None:
    plan = fed(leaves(queries(*(f"SELECT count(*) AS c FROM trades {one}" for one in (FIVE, SEVEN)))))
    first, second = plan.relations
    for relations, fault in (
        ((first, first), "two relations of a plan have the id 0"),
        ((second, first), "relation 1 comes before its source, 0"),
        ((replace(first, source=first.id), second), "relation 0 comes before its source, 0"),
        ((first,), "a query is answered from no relation"),
    ):
        with pytest.raises(InternalError, match=fault):
            replace(plan, relations=relations)


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
    total, count, moments, everything = plan.relations[0].primitives
    assert [one.aggregates for one in plan.answers] == [
        ((total, count), (count,)),
        ((total,), (moments,), (moments,)),
        ((everything,), (total, count)),
    ]


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
    arguments = [argument for one in plan.relations[0].primitives for argument in one.arguments]
    assert arguments[1] == Call("case", (flag, Literal(True, BOOLEAN), Literal(None, NULL)), BOOLEAN)
    assert arguments[2] == price
    filtered = arguments[0]
    assert isinstance(filtered, Call)
    assert filtered.function == "case"
    assert str(filtered.args[0]) == str(big)
    assert filtered.args[1:] == (price, Literal(None, NULL))


def test_an_aggregate_that_does_not_exist_is_our_fault() -> None:
    with pytest.raises(InternalError, match="winsorized"):
        lift(AggregateCall(function="winsorized", arguments=(), filter=None, type=DOUBLE))


# Rules.


def unseen(plan: SharedPlan) -> Statistics:
    """Return the statistics of a stream that nobody has seen."""
    return assumed((one.joins, predicate) for one in plan.relations for predicate in one.predicates)


def test_a_rule_that_changes_nothing_returns_its_argument() -> None:
    for several in (
        queries(),
        queries(f"SELECT count(*) AS c FROM trades {FIVE}"),
        queries(
            f"SELECT count(*) AS c FROM trades {FIVE} WHERE ok", f"SELECT count(*) AS c FROM trades {FIVE}"
        ),
    ):
        plan = leaves(several)
        assert share_slices(plan, unseen(plan)) is plan
    shared = optimize(
        queries(
            *[f"SELECT count(*) AS c FROM trades {one}" for one in (FIVE, SEVEN)],
            f"SELECT symbol, count(*) AS c FROM trades {FIVE} WHERE ok GROUP BY symbol",
        )
    )
    assert len(shared.relations) == 2
    for rules in RULES.values():
        assert all(rule(shared, unseen(shared)) is shared for rule in rules)


def test_rows_that_are_copied_already_are_left_so() -> None:
    several = queries(*(f"SELECT count(*) AS c FROM trades {FIVE} WHERE vol > {one}" for one in (5, 6)))
    plan = optimize(several, sharing=Sharing.UNSHARED)
    *_, copy_rows = RULES[Sharing.UNSHARED]
    assert copy_rows(plan, unseen(plan)) is plan


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
        ("WHERE vol > 5", ""),
        ("", "GROUP BY symbol"),
        ("WHERE ok", "GROUP BY symbol, n"),
    )
]


@settings(max_examples=60)
@given(st.lists(st.sampled_from(SELECTS), max_size=12), st.sampled_from(Sharing))
def test_a_shared_plan_answers_every_query_as_its_leaf_would(texts: Sequence[str], sharing: Sharing) -> None:
    several = queries(*texts)
    plan = optimize(several, sharing=sharing)
    assert [one.query for one in plan.answers] == several
    apart = [(one.grouping, predicate) for one in plan.relations for predicate in one.predicates]
    assert len(set(apart)) == len(apart)
    groupings = {relation.grouping for relation in plan.relations}
    # A few predicates fit one grid, and on a stream not seen yet they are worth one.
    assert len(plan.relations) == (len(apart) if sharing is Sharing.SEPARATE else len(groupings))
    for one in plan.answers:
        relation, own = plan.relation(one.relation), leaf(one.query)
        # The relation feeds the leaf: its edges, attributes and primitives refine it.
        assert (relation.grouping, one.predicate) == (one.grouping, one.predicate) == own.selection
        assert one.predicate == own.predicate == canonical(one.query.predicate)
        assert one.predicate in relation.predicates
        assert own.window in relation.windows
        assert own.relation().edges(plan.slicing) <= relation.edges(plan.slicing)
        assert set(own.primitives) <= set(relation.primitives)
        assert len(set(relation.primitives)) == len(relation.primitives)
        alone = answer(one.query, own)
        assert (one.keys, one.aggregates) == (alone.keys, alone.aggregates)
        assert {primitive for several in one.aggregates for primitive in several} <= set(relation.primitives)
    asked = {window for query in several for window in (query.window,)}
    assert asked == {window for relation in plan.relations for window in relation.windows}


def test_programs_forget_names_windows_predicates_and_thresholds() -> None:
    plan = optimize(
        queries(
            f"SELECT sum(price) AS a FROM trades {FIVE}",
            f"SELECT sum(price) AS b FROM trades {SEVEN} WHERE vol > 5",
            f"SELECT sum(price) AS c FROM trades {SEVEN} HAVING count(*) > 1",
            f"SELECT sum(price) + 1 AS d FROM trades {SEVEN}",
            f"SELECT sum(price) AS e FROM trades {SEVEN} EMIT EMPTY",
            f"SELECT sum(price) AS f FROM trades {FIVE} HAVING count(*) > -7",
        )
    )
    by_program: dict[Program, list[tuple[str, list[object]]]] = {}
    for one in plan.answers:
        program, parameters = program_of(one)
        by_program.setdefault(program, []).append((one.query.name, [each.value for each in parameters]))
    assert list(by_program.values()) == [
        [("q0", []), ("q1", []), ("q4", [])], [("q2", [1]), ("q5", [-7])], [("q3", [])],
    ]  # fmt: skip
