"""A registered Python function is called at most once per row of a batch, however many queries use it."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import weft
from weft.spark.columns import Udf

ROWS = 40
QUERIES = (
    "SELECT count(*) AS n FROM trades [RANGE '10 s'] WHERE midcap(symbol)",
    "SELECT count(*) AS n FROM trades [RANGE '20 s' SLIDE '5 s'] WHERE midcap(symbol) AND vol > 3",
    "SELECT sum(vol) AS v FROM trades [RANGE '10 s'] WHERE NOT midcap(symbol) OR vol = 1",
    "SELECT count(*) FILTER (WHERE midcap(symbol)) AS n FROM trades [RANGE '10 s']",
    "SELECT midcap(symbol) AS m, max(vol) AS v FROM trades [RANGE '10 s'] GROUP BY midcap(symbol)",
    "SELECT sum(CASE WHEN midcap(symbol) THEN vol END) AS v FROM trades [RANGE '5 s'] WHERE vol < 30",
)


def logged(path: Path) -> Udf:
    """Return midcap(symbol), which writes down each symbol it is asked about."""

    def midcap(symbol):  # type: ignore[no-untyped-def]
        # One short write to a file opened for appending is atomic, so workers do not mix.
        with open(path, "a") as log:
            log.write(f"{symbol}\n")
        return int(symbol[1:]) % 3 == 0

    return F.udf(midcap, "boolean")


def test_a_function_is_called_once_per_row(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = [(start + timedelta(seconds=n), f"s{n}", n) for n in range(ROWS)]
    engine = weft.Engine(spark)
    engine.stream(
        "trades", spark.createDataFrame(rows, "time TIMESTAMP, symbol STRING, vol BIGINT"), time="time"
    )
    engine.function("midcap", logged(log))
    found = [engine.add(text, name=f"q{place}") for place, text in enumerate(QUERIES)]
    engine.run()
    assert sum(found[0].results()["n"].to_pylist()) == len(range(0, ROWS, 3))
    calls = Counter(log.read_text().split())
    assert set(calls) == {f"s{n}" for n in range(ROWS)}
    assert max(calls.values()) == 1, f"{sum(calls.values())} calls for {ROWS} rows"
