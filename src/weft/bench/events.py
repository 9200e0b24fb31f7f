"""Keyed values at a high rate, as Scotty's benchmark feeds them."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from weft.bench.dataset import Dataset, make, moment, uniform

COLUMNS = "time TIMESTAMP, key INT, value BIGINT"
_KEYS = 1_000


def make_events(
    spark: SparkSession, data: Path, *, rows: int, rate: int, files: int = 16, seed: int = 1
) -> Dataset:
    """Write `rate` rows per second of event time, or return those that an earlier run wrote."""
    if rows * 1000 < rate:
        raise ValueError(f"{rows} rows at {rate} rows/s last less than a millisecond")
    folder = data / f"events-{rows}-{files}-{rate}hz-seed{seed}"
    span_ms = rows * 1000 // rate
    dataset = Dataset(
        stream="events", folder=folder, columns=COLUMNS, rows=rows, files=files, span_ms=span_ms
    )
    return make(spark, dataset, lambda numbered: events(numbered, dataset, seed))


def events(numbered: DataFrame, dataset: Dataset, seed: int) -> DataFrame:
    """Turn numbered rows into keyed values."""
    return numbered.select(
        moment(dataset, uniform(seed, 2)).alias("time"),
        F.floor(uniform(seed, 3) * F.lit(_KEYS)).cast("int").alias("key"),
        F.floor(uniform(seed, 4) * F.lit(10_000)).cast("bigint").alias("value"),
    )
