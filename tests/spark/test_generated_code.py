"""Java compiles no method of more than 8,000 bytes: what Spark generates for a job has none."""

from collections.abc import Callable, Sequence
from unittest.mock import patch

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import weft
from weft.bench.relations import COLUMNS, departure_queries
from weft.optimizer.rules import Sharing, optimize
from weft.spark.job.job import BatchJob
from weft.spark.job.verdicts import Bounds

MOST_BYTES = 8_000
BOUNDS = Bounds(watermark=None, future=None)
JOINED = (
    "SELECT city, avg(delay) AS d FROM departures, towns WHERE dest = code AND {} "
    "GROUP BY window(time, '1 hour'), city"
)
CONDITIONS = [
    f"delay > {5 * n} AND dest <> 'D{n}' AND distance < {n + 10} * delay AND origin LIKE '%{n % 10}%'"
    for n in range(40)
]
"""So many that rows have words."""
Run = Callable[[BatchJob, DataFrame], pa.Table]


def job_of(spark: SparkSession, queries: Sequence[str], sharing: Sharing = Sharing.JOINT) -> BatchJob:
    engine = weft.Engine(spark)
    engine.stream("departures", nothing(spark), time="time")
    engine.table("towns", spark.createDataFrame([("D1", "x", 3)], "code STRING, city STRING, size INT"))
    for number, text in enumerate(queries):
        engine.add(text, name=f"q{number}")
    declared = engine._declared
    plan = optimize(engine._queries_of("departures"), sharing=sharing)
    return BatchJob(plan, declared.streams["departures"].definition, declared.tables, declared.functions)


def nothing(spark: SparkSession) -> DataFrame:
    # Spark would fold a relation that it knows to be empty.
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), COLUMNS)


def dashboards(relations: int, queries: int = 60) -> list[str]:
    return [one.sql for one in departure_queries(relations, queries=queries)]


def largest_method(spark: SparkSession, run: Callable[[], object]) -> int:
    """Return the size in bytes of the largest method that is generated for what a job collects."""
    collected: list[DataFrame] = []
    whole = ClassicDataFrame.toArrow

    def noted(frame: DataFrame) -> pa.Table:
        collected.append(frame)
        return whole(frame)

    with patch.object(ClassicDataFrame, "toArrow", noted):
        run()
    (frame,) = collected
    assert spark._jvm is not None
    debug = getattr(spark._jvm.org.apache.spark.sql.execution.debug, "package$")
    subtrees = getattr(debug, "MODULE$").codegenStringSeq(frame._jdf.queryExecution().executedPlan())
    sizes = [subtrees.apply(place)._3().maxMethodCodeSize() for place in range(subtrees.size())]
    assert sizes
    return max(sizes)


@pytest.mark.parametrize("relations", [1, 7, 16])
def test_rows_for_the_driver(spark: SparkSession, relations: int) -> None:
    job = job_of(spark, dashboards(relations))
    assert len(job.relations) >= relations
    assert largest_method(spark, lambda: job.fold_rows(nothing(spark), BOUNDS)) < MOST_BYTES


def test_rows_for_the_driver_with_many_predicates(spark: SparkSession) -> None:
    job = job_of(spark, dashboards(4, queries=256))
    assert largest_method(spark, lambda: job.fold_rows(nothing(spark), BOUNDS)) < MOST_BYTES


def test_rows_for_the_driver_with_joins(spark: SparkSession) -> None:
    tests = [f"size > {size} AND delay < {10 * size}" for size in range(20)]
    job = job_of(spark, [*dashboards(7), *map(JOINED.format, tests)])
    assert largest_method(spark, lambda: job.fold_rows(nothing(spark), BOUNDS)) < MOST_BYTES


@pytest.mark.parametrize("relations", [1, 7, 16])
def test_rows_that_spark_groups(spark: SparkSession, relations: int) -> None:
    job = job_of(spark, dashboards(relations))
    assert largest_method(spark, lambda: job.group_rows(nothing(spark), BOUNDS)) < MOST_BYTES


def with_words(spark: SparkSession) -> BatchJob:
    window = "[RANGE '1 hour' SLIDE '10 min']"
    job = job_of(spark, [f"SELECT count(*) AS n FROM departures {window} WHERE {one}" for one in CONDITIONS])
    assert job.fragments.word_coders
    return job


def test_rows_with_words(spark: SparkSession) -> None:
    job = with_words(spark)
    assert largest_method(spark, lambda: job.group_rows(nothing(spark), BOUNDS)) < MOST_BYTES


@pytest.mark.parametrize("make", [with_words, lambda spark: job_of(spark, dashboards(16))])
def test_a_plan_that_comes_again_has_the_same_code(
    spark: SparkSession, make: Callable[[SparkSession], BatchJob]
) -> None:
    """What is compiled again is run slowly again, too: a second or more of the first batches."""
    assert spark._jvm is not None
    metric = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    make(spark).group_rows(nothing(spark), BOUNDS)
    before = metric.getCount()
    make(spark).group_rows(nothing(spark), BOUNDS)
    assert metric.getCount() == before
