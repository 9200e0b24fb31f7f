"""Departures of a few months, and what dashboards ask of them: many GROUP BYs, few rows a slice."""

from pathlib import Path
from random import Random

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.bench.dataset import Dataset, make, moment, uniform
from weft.bench.workloads import SqlQuery

COLUMNS = (
    "time TIMESTAMP, origin STRING, dest STRING, carrier STRING, plane INT, delay DOUBLE, air_time DOUBLE, "
    "distance BIGINT"
)
_MS_PER_ROW = 100_000
"""About 36 departures an hour."""
GROUPINGS = (
    "origin", "dest", "carrier", "origin, dest", "origin, carrier", "dest, carrier", "", "plane",
    "hour(time)", "origin, hour(time)", "carrier, hour(time)", "upper(origin)", "origin, dest, carrier",
    "plane % 10", "distance > 1000", "dayofweek(time)",
)  # fmt: skip
"""What queries group by: each is a relation."""
_VALUES = (
    "count(*)", "avg(delay)", "sum(distance)", "max(delay)", "min(air_time)", "avg(air_time)",
    "sum(distance * 2)", "stddev(delay)",
)  # fmt: skip
_TESTS = (
    "delay > {minutes}", "distance > {miles}", "origin = '{origin}'", "carrier IN ('C{one}', 'C{two}')",
    "delay > {minutes} AND origin = '{origin}'", "distance BETWEEN {miles} AND {further}",
    "delay > {minutes} AND carrier = 'C{one}'",
)  # fmt: skip
_WINDOWS = (
    ("5 minutes", "5 minutes"), ("10 minutes", "5 minutes"), ("15 minutes", "15 minutes"),
    ("1 hour", "15 minutes"), ("1 hour", "1 hour"), ("3 hours", "1 hour"), ("6 hours", "1 hour"),
    ("1 day", "6 hours"), ("1 day", "1 day"),
)  # fmt: skip
_ORIGINS = ("EWR", "JFK", "LGA")


def make_departures(spark: SparkSession, data: Path, *, rows: int, files: int = 1, seed: int = 1) -> Dataset:
    """Write departures in the order of time, or return those that an earlier run wrote."""
    folder, span_ms = data / f"departures-{rows}-{files}-seed{seed}", rows * _MS_PER_ROW
    dataset = Dataset(
        name="departures", folder=folder, columns=COLUMNS, rows=rows, files=files, span_ms=span_ms
    )
    return make(spark, dataset, departures, seed)


def departures(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into departures."""

    def chosen(salt: int, count: int) -> Column:
        # Some are met more often than others.
        return F.floor(F.pow(uniform(seed, salt), F.lit(2.0)) * F.lit(count)).cast("int")

    delay = F.round(F.lit(-20.0) - F.lit(30.0) * F.ln(F.lit(1.0) - uniform(seed, 6)))
    return numbered.select(
        moment(dataset, uniform(seed, 2)).alias("time"),
        F.element_at(F.array(*map(F.lit, _ORIGINS)), chosen(3, len(_ORIGINS)) + 1).alias("origin"),
        F.concat(F.lit("D"), chosen(4, 105)).alias("dest"),
        F.concat(F.lit("C"), chosen(5, 16)).alias("carrier"),
        chosen(7, 4_000).alias("plane"),
        F.when(uniform(seed, 8) > 0.02, delay).alias("delay"),
        F.when(uniform(seed, 8) > 0.03, F.round(uniform(seed, 9) * 400)).alias("air_time"),
        F.floor(uniform(seed, 9) * 2_500).cast("bigint").alias("distance"),
    )


def departure_queries(relations: int, *, queries: int, seed: int = 1) -> list[SqlQuery]:
    """Return queries that group in a number of ways, each with a predicate."""
    chance = Random(seed)
    return [
        SqlQuery(name=f"q{number}", sql=_query(GROUPINGS[number % relations], chance))
        for number in range(queries)
    ]


def _query(grouping: str, chance: Random) -> str:
    keys = [key.strip() for key in grouping.split(",") if key]
    values = chance.sample(_VALUES, chance.randint(1, 3))
    outputs = [f"{key} AS k{index}" for index, key in enumerate(keys)]
    outputs += [f"{value} AS v{index}" for index, value in enumerate(values)]
    miles = chance.choice((200, 400, 600, 800))
    test = chance.choice(_TESTS).format(
        minutes=chance.choice((0, 5, 10, 15, 20, 30, 45, 60, 90, 120)), miles=miles,
        further=miles + chance.choice((500, 1000)), origin=chance.choice(_ORIGINS),
        one=chance.randrange(4), two=chance.randrange(4, 8),
    )  # fmt: skip
    window = ", ".join(f"'{length}'" for length in chance.choice(_WINDOWS))
    groups = ", ".join([f"window(time, {window})", *keys])
    return f"SELECT {', '.join(outputs)} FROM departures WHERE {test} GROUP BY {groups}"
