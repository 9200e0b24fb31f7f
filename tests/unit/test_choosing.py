"""Which predicates share fragments, and when rows are not shared at all (SDF, section 4.3.3)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.expression import Column
from weft.optimizer import rules
from weft.optimizer.cost import Fragmentation, Weights
from weft.optimizer.explain import explain
from weft.optimizer.plan import SharedPlan
from weft.optimizer.roots import MOST_CELLS, cost, measured_key, roots_of
from weft.optimizer.rules import Sharing, leaves, optimize, share_fragments
from weft.optimizer.statistics import Sample, Statistics
from weft.predicates import attributes, canonical, codebook
from weft.query import bind, parse_select
from weft.query.logical import Catalog, ColumnDef, LogicalQuery, StreamDef
from weft.spark.job.job import in_job_order
from weft.types import BIGINT, DOUBLE, STRING, TIMESTAMP

PAPER_WEIGHTS = Weights(row=1.0, cell=0.0, group=0.0, final=1.0, masked=0.0, root=0.0, word=0.0, verdict=0.0)
"""The paper's: every aggregate operation costs the same, and nothing else costs anything."""
STREAM = StreamDef(
    name="trades",
    time="time",
    columns=tuple(
        ColumnDef(name=name, type=type)
        for name, type in (("time", TIMESTAMP), ("symbol", STRING), ("price", DOUBLE), ("vol", BIGINT))
    ),
)
SLIDING = "[RANGE '10 min' SLIDE '1 s']"
Values = Mapping[str, npt.NDArray[np.float64]]


def queries(predicates: Iterable[str], window: str = SLIDING) -> list[LogicalQuery]:
    """Return a count of rows for each WHERE clause."""
    texts = [f"SELECT count(*) AS n FROM trades {window} WHERE {one}" for one in predicates]
    return [
        bind(parse_select(text, name=f"q{number}"), Catalog(streams=(STREAM,)))
        for number, text in enumerate(texts)
    ]


def statistics(several: Iterable[LogicalQuery], values: Values, *, rows: float = 500_000) -> Statistics:
    """Return the statistics of a stream whose rows look like the given ones, a minute of it in a batch."""
    found = attributes(canonical(query.predicate) for query in several)
    positions = {}
    for expression, attribute in found.items():
        assert isinstance(expression, Column)
        points = np.array(attribute.points, dtype=np.float64)
        own = values[expression.name]
        equal = np.isin(own, points)
        positions[(), expression] = 2 * np.searchsorted(points, own) + equal
    sample = Sample(
        rows=len(next(iter(values.values()))),
        attributes={((), expression): attribute for expression, attribute in found.items()},
        positions=positions,
    )
    return Statistics(rows=rows, span_ms=60_000, sample=sample)


def spread(seed: int = 1, rows: int = 2_048) -> Values:
    """Return independent prices and volumes, even over 0 … 1,000."""
    chance = np.random.default_rng(seed)
    return {"price": chance.uniform(0, 1000, rows), "vol": np.floor(chance.uniform(0, 1000, rows))}


def thresholds(count: int) -> list[str]:
    """Return as many predicates on vol as on price."""
    steps = [1 + 998 * number // count for number in range(count)]
    return [f"vol > {step}" for step in steps] + [f"price > {step}.5" for step in steps]


def split_by(plan: SharedPlan) -> list[set[str]]:
    """Return the columns that each relation tests."""
    return [{str(one) for one in attributes(relation.predicates)} for relation in plan.relations]


def test_cuts_on_price_do_not_split_a_query_on_vol() -> None:
    several = queries(thresholds(100))
    found = statistics(several, spread())
    plan = optimize(several, statistics=found)
    assert sorted(map(sorted, split_by(plan))) == [["price"], ["vol"]]
    joint = optimize(several, statistics=found, sharing=Sharing.JOINT)
    assert split_by(joint) == [{"vol", "price"}]
    assert cost(plan, found) < cost(joint, found)


def test_few_cuts_share_one_root() -> None:
    several = queries([*thresholds(2), "true"])
    plan = optimize(several, statistics=statistics(several, spread()))
    assert split_by(plan) == [{"vol", "price"}]
    assert len(plan.relations[0].predicates) == 5


def test_in_between_what_belongs_together_is_together() -> None:
    mixed = [f"symbol = 'a' AND vol > {step}" for step in range(0, 1000, 10)]
    mixed += [f"symbol = 'a' AND price > {step}.5" for step in range(0, 1000, 10)] + ["symbol = 'a'"]
    several = queries(mixed)
    values = {**spread(), "symbol": np.zeros(2_048)}
    found = attributes(canonical(query.predicate) for query in several)
    sample = statistics(queries(thresholds(1)), spread()).sample
    chance = np.random.default_rng(2)
    positions = {
        ((), expression): chance.integers(0, attribute.positions - 1, len(values["symbol"]))
        for expression, attribute in found.items()
    }
    measured = Sample(
        rows=sample.rows, attributes={((), key): one for key, one in found.items()}, positions=positions
    )
    plan = optimize(several, statistics=Statistics(sample=measured))
    assert len(plan.relations) == 2
    assert {len(relation.predicates) for relation in plan.relations} == {100, 101}


def test_rows_are_not_shared_where_fragments_are_as_many_as_rows() -> None:
    # A row satisfies few predicates, and rows of a slice hardly twice the same ones.
    lows = np.random.default_rng(3).uniform(-200, 990, (20, 3))
    boxes = [
        f"vol BETWEEN {int(vol)} AND {int(vol) + 330} AND price BETWEEN {price:.3f} AND {price + 330:.3f}"
        for vol, price, _ in lows
    ]
    several = queries(boxes, "[RANGE '1 s']")
    found = statistics(several, spread(), rows=20_000)
    plan = optimize(several, statistics=found)
    assert [relation.shared for relation in plan.relations] == [False]
    told = explain(STREAM, plan, statistics=found)
    assert "not shared: a row is aggregated once for each predicate that it satisfies: by operations" in told
    assert "by operations sharing is cheaper, by time not sharing is" in told
    assert cost(plan, found) < cost(optimize(several, statistics=found, sharing=Sharing.JOINT), found)


def test_table_5() -> None:
    # The paper's example: 189,445 rows in ten minutes, 12,068 fragments, α = β = 76.
    found = Fragmentation(rows=189_445, fragments=12_068, alpha=76, beta=76)
    assert found.unshared.total == 76 * 189_445
    assert found.shared.total == 189_445 + 12_068 * 76


def test_figure_10_sharing_stops_paying_where_fragments_are_as_many_as_rows() -> None:
    rows, alpha = 189_445, 76
    pays = [
        Fragmentation(rows=rows, fragments=k, alpha=alpha, beta=alpha).shared.total < alpha * rows
        for k in range(1, rows + 1, 997)
    ]
    # |T| + kα < α|T| exactly while k < |T| (1 − 1/α).
    assert pays == [k < rows * (1 - 1 / alpha) for k in range(1, rows + 1, 997)]
    assert pays[0]
    assert not pays[-1]


def overlapping(count: int, chance: np.random.Generator) -> list[str]:
    """Return predicates on both columns, one of which all rows satisfy: F0 is empty."""
    sides = chance.integers(100, 700, (count, 2))
    lows = chance.integers(0, 1000 - sides)
    found = [
        f"vol BETWEEN {vol} AND {vol + wide} AND price BETWEEN {price} AND {price + high}"
        for (vol, price), (wide, high) in zip(lows.tolist(), sides.tolist(), strict=True)
    ]
    return ["vol >= 0 AND price >= 0", *dict.fromkeys(found)]


def test_with_the_papers_costs_the_choice_is_table_5s() -> None:
    chance, chosen = np.random.default_rng(5), Counter[bool]()
    for seed in range(30):
        several = queries(overlapping(int(chance.integers(2, 16)), chance), "[RANGE '1 min']")
        rows = int(chance.choice([8, 16, 32, 512, 4_096]))
        found = statistics(several, spread(seed), rows=rows)
        plan = share_fragments(leaves(several), found, PAPER_WEIGHTS)
        (root,) = roots_of(plan, found, PAPER_WEIGHTS)
        # The window is the batch: T is its rows.
        table_5 = root.fragmentation(rows)
        saved = table_5.unshared.total - table_5.shared.total
        assert root.shared.microseconds == pytest.approx(table_5.shared.total)
        # Table 5 leaves out that an unshared aggregate is looked at once, too.
        assert root.unshared.microseconds == pytest.approx(table_5.unshared.total + len(several))
        if not -len(several) <= saved <= 0:
            assert plan.relations[0].shared is (saved > 0)
            chosen[saved > 0] += 1
    assert min(chosen[True], chosen[False]) >= 5


def test_k_alpha_and_beta_are_those_of_the_rows() -> None:
    several = queries(["vol > 10", "vol > 20", "price > 5"])
    values = {"vol": np.array([5.0, 15, 25, 25, 5]), "price": np.array([1.0, 1, 9, 9, 1])}
    (root,) = roots_of(
        optimize(several, statistics=statistics(several, values), sharing=Sharing.JOINT),
        statistics(several, values),
    )
    # Signatures {}, {0}, {0,1,2}, {0,1,2}, {}: two fragments beside F0.
    assert root.fragmentation() == Fragmentation(rows=5, fragments=2, alpha=7 / 5, beta=2.0)


def test_a_grid_is_never_larger_than_its_table() -> None:
    boxes = [f"vol > {step} AND price > {step}.5" for step in range(1000)]
    several = queries(boxes)
    # Joint roots have words where they have no grid; copies of rows are looked up in grids.
    joint = optimize(several, statistics=statistics(several, spread()), sharing=Sharing.JOINT)
    assert len(joint.relations) == 1
    plan = optimize(several, statistics=statistics(several, spread()), sharing=Sharing.UNSHARED)
    assert len(plan.relations) > 1
    for relation in plan.relations:
        assert len(codebook(relation.predicates).fragments) <= MOST_CELLS


def test_a_predicate_too_wide_for_any_grid_shares_words() -> None:
    wide = " AND ".join(f"price + {number} BETWEEN 1 AND 5" for number in range(12))
    plan = optimize(queries([wide, "vol > 5", "vol > 6"]), sharing=Sharing.JOINT)
    assert [len(relation.predicates) for relation in plan.relations] == [3]
    unshared = optimize(queries([wide, "vol > 5", "vol > 6"]), sharing=Sharing.UNSHARED)
    assert sorted(len(relation.predicates) for relation in unshared.relations) == [1, 2]


def test_words_of_one_grouping_leave_others_as_they_are() -> None:
    wide = " AND ".join(f"price + {number} BETWEEN 1 AND 5" for number in range(12))
    ungrouped = [wide, "vol > 5", "vol > 6"]
    others = [f"vol > 5 GROUP BY {key}" for key in ("symbol", "price", "vol")]
    plan = optimize(queries(ungrouped + others), sharing=Sharing.JOINT)
    assert [len(relation.predicates) for relation in plan.relations if not relation.keys] == [3]
    assert [len(relation.predicates) for relation in plan.relations if relation.keys] == [1, 1, 1]


@pytest.mark.parametrize(("with_words", "in_grids", "chosen"), [(1.0, 2.0, 1), (3.0, 2.0, 3), (2.0, 2.0, 1)])
def test_words_are_used_where_they_cost_no_more_than_grids(
    monkeypatch: pytest.MonkeyPatch, with_words: float, in_grids: float, chosen: int
) -> None:
    costs = {False: [with_words], True: [in_grids / 3] * 3}

    def roots(_: object, *, in_grids: bool) -> list[SimpleNamespace]:
        return [SimpleNamespace(has_words=not in_grids, least=least) for least in costs[in_grids]]

    monkeypatch.setattr(rules, "_roots", roots)
    assert len(rules._coded([], rules.Coding.CHEAPEST)) == chosen


@settings(max_examples=40, deadline=None)
@given(data=st.data(), sharing=st.sampled_from(Sharing), seed=st.integers(0, 99))
def test_every_query_is_answered_from_one_relation_that_has_its_predicate(
    data: st.DataObject, sharing: Sharing, seed: int
) -> None:
    clause = st.builds(
        "{} {} {}".format, st.sampled_from(["vol", "price"]), st.sampled_from("<>="), st.integers(0, 9)
    )
    both = st.builds("{} AND {}".format, clause, clause)
    texts = data.draw(st.lists(st.one_of(clause, both, st.just("true")), min_size=1, max_size=20))
    several = queries(texts)
    chance = np.random.default_rng(seed)
    values = {name: chance.integers(0, 10, 64).astype(np.float64) for name in ("vol", "price")}
    plan = optimize(several, statistics=statistics(several, values), sharing=sharing)
    assert [answer.query for answer in plan.answers] == several
    for answer in plan.answers:
        relation = plan.relation(answer.relation)
        assert answer.predicate == canonical(answer.query.predicate)
        assert answer.predicate in relation.predicates
        assert answer.query.window in relation.windows
    # A row must count once for a predicate: no two relations of a grouping have one in common.
    everyone = [predicate for relation in plan.relations for predicate in relation.predicates]
    assert len(everyone) == len(set(everyone))
    assert all(one >= two for one, two in pairwise(relation.shared for relation in in_job_order(plan.roots)))


def test_measured_group_counts_outweigh_estimates() -> None:
    several = queries(thresholds(100), "[RANGE '5 s' SLIDE '1 s']")
    found = statistics(several, spread())
    joint = optimize(several, statistics=found, sharing=Sharing.JOINT)
    told = Statistics(
        rows=found.rows,
        span_ms=found.span_ms,
        sample=found.sample,
        # Volume and price turn out to go together: hardly more groups than cuts.
        groups={measured_key(joint.relations[0]): 300.0},
    )
    assert cost(joint, told) < cost(joint, found)
    assert len(optimize(several, statistics=found).relations) == 2
    assert len(optimize(several, statistics=told).relations) == 1
