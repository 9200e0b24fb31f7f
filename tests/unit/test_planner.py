"""Plans follow what the stream shows, and only where that pays."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_choosing import queries, split_by, spread, statistics, thresholds

import weft.stream.planner as planning
from weft.optimizer.roots import cost, roots_of
from weft.optimizer.rules import Sharing, optimize
from weft.optimizer.statistics import Sample
from weft.stream.planner import Planner


def test_a_plan_is_kept_until_another_is_clearly_better() -> None:
    several = queries(thresholds(100))
    apart = statistics(several, spread())
    planner = Planner()
    plan = planner.plan(several, lambda _: apart.sample)
    assert len(plan.relations) == 2
    assert planner.reconsider(plan, several) is plan
    planner.note(plan, rows=500_000, span_ms=60_000, groups=[900, 900])
    assert planner.reconsider(plan, several) is plan


def test_other_rows_than_expected_do_not_have_a_plan_made_that_could_not_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    several = queries([f"vol > {number}" for number in range(300)])
    planner, made = Planner(), list[object]()
    plan = planner.plan(several, lambda _: statistics(several, spread()).sample)
    monkeypatch.setattr(planning, "share", lambda *_: made.append(None) or plan)
    for rows in (50, 5_000_000, 50, 5_000_000):
        for _ in range(8):
            planner.note(plan, rows=rows, span_ms=rows / 10, groups=[rows // 5])
            assert planner.reconsider(plan, several) is plan
    assert made == []


@given(
    count=st.integers(1, 12),
    rows=st.sampled_from([50.0, 5_000.0, 500_000.0, 5e7]),
    span_ms=st.sampled_from([1.0, 60_000.0, 3_600_000.0]),
    more=st.lists(st.sampled_from(["vol > 7 AND price < 3", "price < 9 OR vol > 4"]), unique=True),
)
@settings(max_examples=30, deadline=None)
def test_whatever_the_plan_a_batch_costs_about_as_much_as_the_least(
    count: int, rows: float, span_ms: float, more: list[str]
) -> None:
    several = queries([*thresholds(count), *more])
    assumed = statistics(several, spread())
    known = replace(assumed, rows=rows, span_ms=span_ms)
    least = planning._least(roots_of(optimize(several, statistics=assumed), known))
    for sharing in Sharing:
        other = optimize(several, statistics=known, sharing=sharing)
        assert cost(other, known) > 0.99 * least


def test_a_plan_made_without_rows_is_provisional() -> None:
    several = queries(thresholds(3))
    planner = Planner()
    planner.plan(several, None)
    assert planner.provisional
    planner.plan(several, lambda _: Sample(rows=0, attributes={}, positions={}))
    assert planner.provisional
    planner.plan(several, lambda _: statistics(several, spread()).sample)
    assert not planner.provisional


def test_one_predicate_needs_no_rows_to_judge_by() -> None:
    planner = Planner()
    planner.plan(queries(["vol > 5", "vol > 5"]), None)
    assert not planner.provisional


def test_groups_that_were_not_expected_change_the_plan() -> None:
    several = queries(thresholds(2))
    planner = Planner()
    joint = planner.plan(several, lambda _: statistics(several, spread()).sample)
    assert split_by(joint) == [{"vol", "price"}]
    planner.note(joint, rows=500_000, span_ms=60_000, groups=[2_000_000])
    other = planner.reconsider(joint, several)
    assert sorted(map(sorted, split_by(other))) == [["price"], ["vol"]]
    assert [answer.query for answer in other.answers] == several
    # What was measured is remembered: as long as the other plan does as expected, it stays.
    planner.note(other, rows=500_000, span_ms=60_000, groups=[180, 180])
    assert planner.reconsider(other, several) is other


def test_what_was_planned_in_vain_is_not_planned_again_until_batches_cost_something_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    several = queries(thresholds(2))
    planner, made = Planner(), list[object]()
    joint = planner.plan(several, lambda _: statistics(several, spread()).sample)
    monkeypatch.setattr(planning, "share", lambda *_: made.append(None) or joint)
    for groups in (2_000_000, 2_000_000, 2_100_000, 8_000_000):
        # However many are noted: each look waits for twice as many batches.
        for _ in range(16):
            planner.note(joint, rows=500_000, span_ms=60_000, groups=[groups])
        planner._expected = None
        assert planner.reconsider(joint, several) is joint
    assert len(made) == 2


def test_a_way_that_was_asked_for_stays() -> None:
    several = queries(thresholds(2))
    planner = Planner(sharing=Sharing.JOINT)
    joint = planner.plan(several, lambda _: statistics(several, spread()).sample)
    planner.note(joint, rows=500_000, span_ms=60_000, groups=[2_000_000])
    assert planner.reconsider(joint, several) is joint


def test_what_is_known_is_told_once_there_were_rows() -> None:
    several = queries(thresholds(2))
    planner = Planner()
    planner.plan(several, None)
    assert planner.statistics is None
    plan = planner.plan(several, lambda _: statistics(several, spread()).sample)
    planner.note(plan, rows=1_000, span_ms=5_000, groups=[10])
    known = planner.statistics
    assert known is not None
    assert (known.rows, known.span_ms, list(known.groups.values())) == (1_000, 5_000, [10])
