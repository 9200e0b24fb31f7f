"""How many Spark jobs a batch takes: as many as explain says."""

from collections.abc import Callable

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import weft
from tests.spark.trades import Feed, stream

PLAIN = (
    "SELECT symbol, count(*) AS n FROM trades T [RANGE '10 s'] WHERE price > {} GROUP BY symbol HAVING n > 0"
)
JOINED = "SELECT sum(C.cp) AS s FROM trades T [RANGE '10 s'], close C WHERE T.symbol = C.symbol AND vol > {}"
CALLED = "SELECT own(count(*)) AS n FROM trades T [RANGE '10 s'] WHERE vol > {}"
CLOSE = "('a', 1.0D), ('b', 2.0D)"


def own(column: Column) -> Column:
    return column + F.lit(1)


@pytest.mark.parametrize(
    ("text", "close", "jobs", "told"),
    [
        (PLAIN, CLOSE, 1, "one Spark job a batch"),
        (
            JOINED,
            CLOSE,
            1,
            "a joined table (close) takes another job if it is large, has a key twice",
        ),
        (JOINED, f"{CLOSE}, ('a', 3.0D)", 2, "a joined table (close) takes another job"),
        (CALLED, CLOSE, 2, "2 Spark jobs a batch"),
    ],
    ids=["plain", "looked up", "joined", "function"],
)
def test_a_batch_takes_the_jobs_that_explain_tells(
    spark: SparkSession, feed: Feed, text: str, close: str, jobs: int, told: str
) -> None:
    engine = weft.Engine(spark)
    stream(engine, spark, feed.at(1, 12))
    engine.table("close", spark.sql(f"SELECT * FROM VALUES {close} AS t (symbol, cp)"))
    engine.function("own", own, returns="bigint")
    for number in range(3):
        engine.add(text.format(number - 1), name=f"q{number}")
    assert told in engine.explain()
    engine.start(follow=True)
    try:
        engine.process_available()
        counts = []
        for moment in (23, 34, 45):
            before = jobs_so_far(spark)
            feed.at(moment)
            engine.process_available()
            counts.append(jobs_so_far(spark) - before)
    finally:
        engine.stop()
    assert counts[-1] == jobs, counts


def jobs_so_far(spark: SparkSession) -> int:
    scheduler: Callable[[], int] = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs
    return scheduler()
