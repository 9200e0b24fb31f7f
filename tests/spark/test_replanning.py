"""A plan that changes at every batch gives the rows of any other."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import pytest
from pyspark.sql import SparkSession

from tests.oracle.compare import assert_same
from tests.oracle.generate_workload import random_workload
from tests.oracle.spec import WindowSyntax
from tests.spark.replay import Player, Replayed
from tests.unit.language_samples import CATALOG, TRADES
from weft.optimizer.plan import SharedPlan
from weft.optimizer.rules import Sharing, leaves, optimize
from weft.optimizer.slices import Slicing
from weft.query import bind, parse_select
from weft.query.logical import LogicalQuery
from weft.spark.job.job import BatchJob
from weft.state.report import BatchReport
from weft.stream.planner import Planner, TakeSample

WAYS = Sharing.JOINT, Sharing.SEPARATE, Sharing.UNSHARED


class Restless(Planner):
    """Share in another way in every batch."""

    def __init__(self) -> None:
        super().__init__(provisional=False)
        self.ways = cycle(WAYS)

    def plan(self, queries: Sequence[LogicalQuery], take_sample: TakeSample | None) -> SharedPlan:
        """Take the next way."""
        return optimize(queries, self.slicing, sharing=next(self.ways))

    def reconsider(self, plan: SharedPlan, queries: Sequence[LogicalQuery]) -> SharedPlan:
        """Take the next way."""
        return self.plan(queries, None)


@pytest.mark.parametrize("seed", [9010, 9024])
def test_a_plan_may_change_at_every_batch(spark: SparkSession, seed: int) -> None:
    case = random_workload(seed, queries=(6, 6), calls=False)
    player = Player(spark, case, slicing=Slicing.PAIRED, syntax=WindowSyntax.BRACKET)
    pipeline = player.pipeline
    pipeline.plans.planner = Restless()
    reports: list[BatchReport] = []
    ways = set[bool]()
    for number, table in enumerate(case.batch_tables()):
        player.before(number)
        reports.append(pipeline.process(spark.createDataFrame(table)))
        ways |= {one.shared for one in pipeline.plan.relations if len(one.predicates) > 1}
        counted = [relation for relation, _ in pipeline.fragmentations]
        assert counted == [relation for relation in pipeline.plan.relations if relation.shared]
    player.before(len(case.batches))
    reports.append(pipeline.finish(spark))
    assert ways == {True, False}
    # Where queries come or go, a plan that computes what it should already stays for that batch.
    assert sum(report.replanned for report in reports) > len(reports) // 2
    expected, found = case.expected(), Replayed(reports, pipeline.clock)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))


def test_a_job_computes_what_has_no_other_source(spark: SparkSession) -> None:
    texts = (
        f"SELECT {by}sum(1 / vol) AS s FROM trades [RANGE '1 min'] GROUP BY {by}day"
        for by in ("", "symbol, ")
    )
    plan = leaves([bind(parse_select(text, name="q"), CATALOG) for text in texts])
    coarse, fine = plan.relations
    forest = replace(plan, relations=(fine, replace(coarse, source=fine.id)))
    job = BatchJob(forest, TRADES, {}, {})
    assert job.relations == (fine,)
    assert job.index_of == {fine.id: 0}
    assert [answer.relation for told in job.failures.answers.values() for answer in told] == [fine.id]
