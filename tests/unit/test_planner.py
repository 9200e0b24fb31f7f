"""Plans follow what the stream shows, and only where that pays."""

from tests.unit.test_choosing import queries, split_by, spread, statistics, thresholds

from weft.optimizer.rules import Sharing
from weft.optimizer.statistics import Sample
from weft.runtime.planner import Planner


def test_a_plan_is_kept_until_another_is_clearly_better() -> None:
    several = queries(thresholds(100))
    apart = statistics(several, spread())
    planner = Planner()
    plan = planner.plan(several, lambda _: apart.sample)
    assert len(plan.relations) == 2
    assert planner.reconsider(plan, several) is plan
    planner.note(plan, rows=500_000, span_ms=60_000, groups=[900, 900])
    assert planner.reconsider(plan, several) is plan


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
