"""Queries that join late over random streams: the reference evaluator's rows from their first window on."""

from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession

from tests.oracle.cases import TIME, Case
from tests.oracle.compare import assert_same
from tests.oracle.generate_workload import random_workload
from tests.oracle.results import Expected
from tests.oracle.spec import Spec, WindowSyntax
from tests.spark.replay import Player, Replayed
from weft.optimizer.slices import Slicing
from weft.state.running_query import RunningQuery

ALWAYS = -(1 << 62)
"""Before all rows."""


def with_late_twins(case: Case, chance: Random) -> Case:
    """Return a case in which queries like those there join late, with the same windows or each other's."""
    twins: list[Spec] = []
    for number in range(6):
        one, other = chance.choice(case.specs), chance.choice(case.specs)
        begins = chance.randint(1, len(case.batches))
        ends = chance.choice((None, None, chance.randint(begins + 1, len(case.batches) + 1)))
        window = chance.choice((one, one, other))
        twins.append(
            replace(
                one, name=f"twin{number}", from_batch=begins, until_batch=ends, range_ms=window.range_ms,
                slide_ms=window.slide_ms, offset_ms=window.offset_ms,
            )
        )  # fmt: skip
    return replace(case, specs=(*case.specs, *twins))


def run(spark: SparkSession, case: Case, chance: Random) -> tuple[Replayed, dict[str, RunningQuery]]:
    """Push a case through a pipeline; past windows are answered at once, or with the next batch."""
    player = Player(spark, case, slicing=Slicing.PAIRED, syntax=WindowSyntax.BRACKET)
    pipeline, lives, reports = player.pipeline, {}, []
    for number in range(len(case.batches) + 1):
        for spec in case.specs:
            if spec.until_batch == number and spec.from_batch < number:
                pipeline.remove(spec.name)
            if spec.from_batch == number and spec.lives_in(number):
                lives[spec.name] = replace(pipeline.add(player.query(spec)))
        if chance.random() < 0.5:
            reports.append(pipeline.answer_warm(spark))
            assert not pipeline.behind
        if number < len(case.batches):
            reports.append(pipeline.process(spark.createDataFrame(case.table(case.batches[number]))))
    reports.append(pipeline.finish(spark))
    return Replayed(reports, pipeline.clock), lives


def after_rows(case: Case, spec: Spec) -> int:
    """Return the first moment after all rows that were there before a query."""
    times = [row[TIME] for batch in case.batches[: spec.from_batch] for row in batch]
    return max((time + 1 for time in times if isinstance(time, int)), default=ALWAYS)


def latest_starts(case: Case) -> dict[str, int]:
    """Return when the windows of each query must begin at the latest.

    After all rows so far; or, where one like it is there, where that one's open windows begin.
    """
    watermarks = [batch.watermark_us for batch in case.expected().batches]
    latest: dict[str, int] = {}
    for spec in sorted(case.specs, key=lambda one: one.from_batch):
        watermark = watermarks[spec.from_batch - 1] if spec.from_batch else None
        kept = [
            max(start, open_since(other, watermark))
            for other in case.specs
            if watermark is not None
            and (start := latest.get(other.name)) is not None
            and other.lives_in(spec.from_batch)
            and alike(other) == alike(spec)
        ]
        latest[spec.name] = min([after_rows(case, spec), *kept])
    return latest


def alike(spec: Spec) -> Spec:
    """Return what two queries have in common if either answers the other."""
    return replace(spec, name="", from_batch=0, until_batch=None)


def open_since(spec: Spec, watermark_us: int) -> int:
    """Return where the first window begins that has not ended by a watermark."""
    slide_us = 1000 * spec.slide_ms
    end = watermark_us - (watermark_us - 1000 * spec.offset_ms) % slide_us + slide_us
    return end - 1000 * spec.range_ms


@pytest.mark.parametrize("seed", range(5004, 5010))
def test_late_queries_give_the_reference_answers_from_their_first_window(
    spark: SparkSession, seed: int
) -> None:
    chance = Random(seed)
    case = with_late_twins(random_workload(chance, queries=(4, 7), rows=80), chance)
    found, lives = run(spark, case, chance)
    latest = latest_starts(case)
    assert any(latest[spec.name] < after_rows(case, spec) for spec in case.specs if spec.name in lives)
    for name, live in lives.items():
        assert live.first_start <= latest[name], name
    # As if they had been there always, but for windows before the first.
    always = replace(
        case,
        specs=tuple(
            replace(spec, from_batch=0, first_start_us=lives[spec.name].first_start)
            for spec in case.specs
            if spec.name in lives
        ),
    )
    expected = always.expected()
    for spec in always.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))


def test_an_identical_query_answers_at_once_and_without_another_plan(spark: SparkSession) -> None:
    case = random_workload(Random(3), queries=(5, 5), rows=80, changes=False)
    player = Player(spark, case, slicing=Slicing.PAIRED, syntax=WindowSyntax.BRACKET)
    pipeline, reports = player.pipeline, []
    player.before(0)
    for batch in case.batches[:-1]:
        reports.append(pipeline.process(spark.createDataFrame(case.table(batch))))
    plan, told, newest = pipeline.plan, {}, pipeline.clock.newest
    assert newest is not None
    for spec in case.specs:
        told[spec.name] = replace(pipeline.add(player.query(replace(spec, name=f"{spec.name}_again"))))
    assert pipeline.plan.relations == plan.relations
    reports.append(pipeline.answer_warm(spark))
    reports.append(pipeline.process(spark.createDataFrame(case.table(case.batches[-1]))))
    assert not reports[-1].replanned
    found = Replayed([*reports, pipeline.finish(spark)], pipeline.clock)
    expected = case.expected()
    watermark = expected.batches[-2].watermark_us
    assert watermark is not None
    # What the open windows of any of them hold is at hand.
    first, begun = min(open_since(spec, watermark) for spec in case.specs), 0
    for spec in case.specs:
        assert told[spec.name].first_start == first
        after = [one for one in expected.results(spec.name) if _start(one) >= first]
        begun += sum(_start(one) <= newest for one in after)
        assert_same(spec, expected.results(spec.name), found.results(spec.name))
        assert_same(spec, after, found.results(f"{spec.name}_again"))
    assert begun > 0


def _start(row: Expected) -> int:
    start = row.values["window_start"]
    assert isinstance(start, int)
    return start
