"""The reference agrees with plain Spark: two evaluators that share nothing."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.oracle.cases import TIME
from tests.oracle.compare import assert_same
from tests.oracle.generate import random_case
from tests.oracle.generate_queries import random_list

SEEDS = range(24)


@pytest.mark.spark
@pytest.mark.parametrize("seed", SEEDS)
def test_spark_gives_the_same_answers(spark: Any, seed: int) -> None:
    case = random_case(seed, queries=3)
    run = case.expected()
    spark.createDataFrame(case.table(run.accepted)).createOrReplaceTempView("oracle_rows")
    for spec in case.specs:
        if not spec.emit_empty:
            found = spark.sql(spec.spark_sql("oracle_rows", TIME)).toArrow()
            # Plain Spark keeps running totals of decimals; ours are exact.
            assert_same(spec, run.results(spec.name), found, allow_overflow_null=True)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(100, 106))
def test_spark_lists_the_same_values(spark: Any, seed: int) -> None:
    case, rng = random_case(seed, queries=3), Random(seed)
    # HAVING may name aggregates that are no longer there.
    specs = [
        replace(
            spec, having=None, emit_empty=False,
            aggregates=tuple(random_list(rng, f"a{n}", case.schema) for n in range(3)),
        )
        for spec in case.specs
    ]  # fmt: skip
    run = replace(case, specs=tuple(specs)).expected()
    spark.createDataFrame(case.table(run.accepted)).createOrReplaceTempView("oracle_rows")
    for spec in specs:
        found = spark.sql(spec.spark_sql("oracle_rows", TIME)).toArrow()
        assert_same(spec, run.results(spec.name), found)
