"""Weft's rows are the reference evaluator's: random schemas, rows, disorder, batch cuts and query sets."""

from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession

import weft
from tests.oracle.cases import STREAM, TIME
from tests.oracle.compare import assert_same
from tests.oracle.generate import random_case
from tests.oracle.generate_queries import random_list, random_nested
from tests.oracle.spec import WindowSyntax
from tests.spark.replay import replay
from weft.optimizer.slices import Slicing

SEEDS = range(1000, 1024)


@pytest.mark.parametrize("seed", SEEDS)
def test_weft_gives_the_reference_answers(spark: SparkSession, seed: int) -> None:
    case = random_case(seed)
    slicing = Slicing.PANED if seed % 5 == 0 else Slicing.PAIRED
    syntax = WindowSyntax.FUNCTION if seed % 3 == 0 else WindowSyntax.BRACKET
    expected = case.expected()
    found = replay(spark, case, slicing=slicing, syntax=syntax)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))


@pytest.mark.parametrize("seed", range(2000, 2006))
def test_each_batch_emits_what_its_watermark_reaches(spark: SparkSession, seed: int) -> None:
    case = random_case(seed)
    expected = case.expected(flush=False)
    found = replay(spark, case, flush=False)
    for batch, report in zip(expected.batches, found.reports, strict=True):
        assert report.counts.read == batch.counters.read
        assert report.counts.late == batch.counters.late
        assert report.counts.no_time == batch.counters.no_time
        for spec in case.specs:
            assert_same(spec, batch.results[spec.name], report.results.get(spec.name, []))
    assert found.clock.watermark == expected.batches[-1].watermark_us


@pytest.mark.parametrize("seed", range(3000, 3006))
def test_weft_the_reference_and_ordinary_spark_agree(spark: SparkSession, seed: int) -> None:
    case = random_case(seed)
    expected = case.expected()
    shared = replay(spark, case)
    engine = weft.Engine(spark)
    engine.stream(STREAM, spark.createDataFrame(case.table(expected.accepted)), time=TIME, skew=None)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), shared.results(spec.name))
        if not spec.emit_empty:
            engine.add(spec.sql(STREAM, TIME), name=spec.name)
            # Ordinary Spark keeps running totals of decimals, and may call an overflow what cancels out.
            found = engine.run_plain(spec.name)
            assert_same(spec, expected.results(spec.name), found, allow_overflow_null=True)


@pytest.mark.parametrize("seed", range(4000, 4006))
def test_arrays_are_those_of_the_reference(spark: SparkSession, seed: int) -> None:
    drawn = random_case(seed, queries=4)
    rng = Random(seed)
    # HAVING and ORDER BY may name aggregates that are no longer there.
    specs = tuple(
        replace(
            spec,
            having=None,
            order=(),
            limit_by=None,
            limit=None,
            aggregates=tuple(random_nested(rng, f"a{n}", drawn.schema) for n in range(2)),
        )
        for spec in drawn.specs
    )
    case = replace(drawn, specs=specs)
    expected, found = case.expected(), replay(spark, case)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))


@pytest.mark.parametrize("seed", range(5000, 5004))
def test_lists_are_those_of_the_reference_and_of_ordinary_spark(spark: SparkSession, seed: int) -> None:
    drawn, rng = random_case(seed, queries=4), Random(seed)
    specs = tuple(
        replace(
            spec, having=None, emit_empty=False, order=(), limit_by=None, limit=None,
            aggregates=tuple(random_list(rng, f"a{n}", drawn.schema) for n in range(2)),
        )
        for spec in drawn.specs
    )  # fmt: skip
    case = replace(drawn, specs=specs)
    expected, found = case.expected(), replay(spark, case)
    engine = weft.Engine(spark)
    engine.stream(STREAM, spark.createDataFrame(case.table(expected.accepted)), time=TIME, skew=None)
    for spec in case.specs:
        assert_same(spec, expected.results(spec.name), found.results(spec.name))
        engine.add(spec.sql(STREAM, TIME), name=spec.name)
        assert_same(spec, expected.results(spec.name), engine.run_plain(spec.name))
