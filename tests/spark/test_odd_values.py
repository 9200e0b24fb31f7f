"""Values at the edges of their types, beside a query that has nothing to do with them."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import weft
from weft.errors import EngineError

START = datetime(2026, 1, 1, tzinfo=UTC)
NEIGHBOUR = "SELECT count(*) AS n, sum(p) AS s FROM t [RANGE '1 hour']"


def rows(spark: SparkSession, type: str, values: list[Any]) -> DataFrame:
    data = [(START + timedelta(seconds=place), 1.0, value) for place, value in enumerate(values)]
    return spark.createDataFrame(data, f"time TIMESTAMP, p DOUBLE, v {type}")


def answered(engine: weft.Engine, *texts: str) -> list[list[dict[str, Any]]]:
    """Run queries beside the neighbour; return their rows without times."""
    queries = [engine.add(text, name=f"q{place}") for place, text in enumerate((*texts, NEIGHBOUR))]
    engine.run()
    found = [query.results().drop_columns(["window_start", "window_end"]).to_pylist() for query in queries]
    return found


def engine_over(frame: DataFrame) -> weft.Engine:
    engine = weft.Engine(frame.sparkSession)
    engine.stream("t", frame, time="time")
    return engine


def test_nan_is_a_key_with_a_partner(spark: SparkSession) -> None:
    nan = float("nan")
    engine = engine_over(rows(spark, "DOUBLE", [nan, 1.0, 0.0, None]))
    engine.table("u", spark.createDataFrame([(nan, 10), (nan, 20), (1.0, 30), (None, 7)], "k DOUBLE, x INT"))
    engine.table("w", spark.createDataFrame([(nan, 100), (1.0, 300)], "k DOUBLE, x INT"))
    engine.table("z", spark.createDataFrame([(nan, 5), (1.0, 6), (0.0, 7)], "k DOUBLE, y INT"))
    several, merged, neighbour = answered(
        engine,
        "SELECT sum(u.x) AS s FROM t [RANGE '1 hour'], u WHERE t.v = u.k",
        "SELECT sum(w.x) AS s, sum(z.y) AS y FROM t [RANGE '1 hour'], w, z WHERE t.v = w.k AND t.v = z.k",
    )
    assert several == [{"s": 60}]
    assert merged == [{"s": 400, "y": 11}]
    assert neighbour == [{"n": 4, "s": 4.0}]


def test_a_column_of_a_table_compared_twice_is_joined_as_spark_does(spark: SparkSession) -> None:
    frame = rows(spark, "INT", [1, 2, 3]).withColumn("w", F.lit(2))
    engine = engine_over(frame)
    engine.table("u", spark.createDataFrame([(1, 10), (2, 20)], "k INT, x INT"))
    engine.table("z", spark.createDataFrame([(2, 2, 5)], "k INT, j INT, y INT"))
    twice, other, _ = answered(
        engine,
        "SELECT sum(u.x) AS s FROM t [RANGE '1 hour'], u WHERE t.v = u.k AND t.w = u.k",
        "SELECT sum(z.y) AS s FROM t [RANGE '1 hour'], z WHERE t.v = z.k AND t.w = z.j",
    )
    assert (twice, other) == ([{"s": 20}], [{"s": 5}])


def test_old_dates_and_times_are_those_of_spark(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(START, 1.0)], "time TIMESTAMP, p DOUBLE").selectExpr(
        "*", "CAST(NULL AS TIMESTAMP) AS ts", "CAST(NULL AS DATE) AS d"
    )
    least, same, day, _ = answered(
        engine_over(frame),
        "SELECT unix_micros(min(coalesce(ts, TIMESTAMP '0001-01-01 00:00:00'))) AS m FROM t [RANGE '1 hour']",
        "SELECT count(*) AS n FROM t [RANGE '1 hour'] "
        "WHERE coalesce(ts, TIMESTAMP '0001-01-01 00:00:00') = TIMESTAMP '0001-01-01 00:00:00'",
        "SELECT max(coalesce(d, DATE '0001-01-01')) AS d FROM t [RANGE '1 hour']",
    )
    assert least == [{"m": -62135596800000000}]
    assert same == [{"n": 1}]
    assert day == [{"d": date(1, 1, 1)}]


def test_days_that_no_timestamp_reaches_are_null_and_counted(spark: SparkSession) -> None:
    frame = rows(spark, "INT", [110_000_000, 20_000]).withColumn("d", F.date_from_unix_date("v")).drop("v")
    engine = engine_over(frame)
    before, hours, neighbour = answered(
        engine,
        "SELECT count(*) AS n FROM t [RANGE '1 hour'] WHERE d < TIMESTAMP '2030-01-01 00:00:00'",
        "SELECT count(hour(d)) AS n FROM t [RANGE '1 hour']",
    )
    assert (before, hours, neighbour) == ([{"n": 1}], [{"n": 1}], [{"n": 2, "s": 2.0}])
    assert engine.failures == {"q1": 1}


def test_rounding_up_beyond_38_digits_is_null_and_counted(spark: SparkSession) -> None:
    engine = engine_over(rows(spark, "DECIMAL(38,0)", [Decimal("9" * 38), Decimal(44), None]))
    rounded, neighbour = answered(engine, "SELECT max(round(v, -1)) AS m FROM t [RANGE '1 hour']")
    assert rounded == [{"m": Decimal(40)}]
    assert neighbour == [{"n": 3, "s": 3.0}]
    assert engine.failures == {"q0": 1}


@pytest.mark.parametrize(
    "condition",
    [
        "CAST(v AS TINYINT) > 1000",
        "10 / p > 1 AND v > '5' AND v < '2'",
        "10 / p > 1 OR v IS NULL OR v IS NOT NULL",
    ],
)
def test_what_a_simpler_predicate_does_without_can_still_be_counted(
    spark: SparkSession, condition: str
) -> None:
    engine = engine_over(rows(spark, "STRING", ["1", "x", None]))
    engine.add(f"SELECT count(*) AS n FROM t [RANGE '1 hour'] WHERE {condition}", name="simple")
    found = answered(engine, "SELECT max(p) AS m FROM t [RANGE '1 hour'] WHERE p > 0")
    assert found[-1] == [{"n": 3, "s": 3.0}]
    assert engine.results("simple").to_pylist() == engine.run_plain("simple").to_pylist()


def test_strings_need_not_be_utf_8(spark: SparkSession) -> None:
    frame = rows(spark, "BINARY", [b"\xff", b"a", b"\xff"]).withColumn("v", F.col("v").cast("string"))
    engine = engine_over(frame)
    engine.add("SELECT v, count(*) AS n FROM t [RANGE '1 hour'] GROUP BY v", name="groups")
    engine.add("SELECT max(v) AS m FROM t [RANGE '1 hour']", name="greatest")
    assert answered(engine) == [[{"n": 3, "s": 3.0}]]
    groups = engine.results("groups")
    bytes_of = groups["v"].cast("binary").to_pylist()
    assert dict(zip(bytes_of, groups["n"].to_pylist(), strict=True)) == {b"\xff": 2, b"a": 1}
    assert engine.results("greatest")["m"].cast("binary").to_pylist() == [b"\xff"]


def test_strings_with_a_collation_are_refused_by_name(spark: SparkSession) -> None:
    frame = rows(spark, "STRING", ["abc"]).selectExpr("time", "p", "v COLLATE UTF8_LCASE AS v")
    with pytest.raises(weft.QueryError, match="v"):
        engine_over(frame).add("SELECT max(v) AS m FROM t [RANGE '1 hour']", name="collated")


@pytest.mark.parametrize("arrow", [False, True])
def test_a_function_that_raises_gives_null_and_harms_nobody(spark: SparkSession, arrow: bool) -> None:
    engine = engine_over(rows(spark, "STRING", ["abc", None, "d"]))
    engine.function("long", F.udf(lambda text: len(text) > 2, "boolean", useArrow=arrow))
    found, guarded, neighbour = answered(
        engine,
        "SELECT count(*) AS n FROM t [RANGE '1 hour'] WHERE long(v)",
        "SELECT count(*) AS n FROM t [RANGE '1 hour'] WHERE v IS NOT NULL AND NOT long(v)",
    )
    assert (found, guarded, neighbour) == ([{"n": 1}], [{"n": 1}], [{"n": 3, "s": 3.0}])
    assert engine.failures["q0"] == 1


NAMES: list[tuple[str, Callable[..., Any] | Any, str, str]] = [
    ("neg", lambda c: c, "boolean", "already"),
    ("is_null", lambda c: c, "boolean", "already"),
    ("case", lambda c: c, "boolean", "already"),
    ("mid cap", lambda c: c, "boolean", "letters"),
    ("five", 5, "boolean", "5"),
    ("odd", lambda c: c, "array<int>", "array<int>"),
    ("odd", lambda c: c, "no such type", "no such type"),
]


@pytest.mark.parametrize(("name", "function", "returns", "told"), NAMES)
def test_functions_that_cannot_be_used_are_refused(
    spark: SparkSession, name: str, function: Any, returns: str, told: str
) -> None:
    with pytest.raises(EngineError, match=told):
        weft.Engine(spark).function(name, function, returns=returns)
