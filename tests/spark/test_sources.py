"""What streams are read from, what their event time may be, and rows that have none."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import START, Feed, counted, ends, stream


def test_an_idle_stream_closes_what_only_the_delay_holds_open(spark: SparkSession, feed: Feed) -> None:
    folder = feed((1, "a", 1.0, 1), (10, "a", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder, delay="1 hour")
    query = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    heard: list[pa.Table] = []
    query.subscribe(heard.append)
    engine.start(idle="1 second")
    while not heard:
        engine.wait(1)
    engine.stop()
    assert ends(query.results()) == [10]


@pytest.mark.parametrize("format", ["csv", "json"])
def test_text_formats_are_read_as_declared(spark: SparkSession, tmp_path: Path, format: str) -> None:
    lines = {
        "csv": "2026-01-01T00:00:01Z,a,1.5\nnot a time,b,2.5\n2026-01-01T00:00:03Z,c,oops\n",
        "json": '{"time":"2026-01-01T00:00:01Z","symbol":"a","price":1.5}\n'
        '{"time":"x","symbol":"b","price":2.5}\n'
        '{"time":"2026-01-01T00:00:03Z","symbol":"c","price":"oops"}\n',
    }
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / f"rows.{format}").write_text(lines[format])
    engine = weft.Engine(spark)
    engine.load(
        f"""
        CREATE STREAM s (time TIMESTAMP, symbol STRING, price DOUBLE) USING {format} OPTIONS (path 'in')
          EVENT TIME time;
        CREATE QUERY q AS SELECT count(*) AS n, sum(price) AS p FROM s [RANGE '10 s'];
        """,
        base=tmp_path,
    )
    engine.run()
    assert engine.results("q").select(["n", "p"]).to_pylist() == [{"n": 1, "p": 1.5}]
    counts = engine.clock("s").counts
    # What is not of its column's type is set aside.
    assert (counts.good, counts.quarantined, counts.read) == (1, 2, 3)


CSV = "at;vol\n2026-01-01T00:00:01Z;3\n2026-01-01T00:00:02Z;4\n"


def test_files_are_read_with_a_schema_and_the_readers_options(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("rows", "names"):
        (tmp_path / name).mkdir()
    (tmp_path / "rows" / "a.csv").write_text(CSV)
    (tmp_path / "names" / "a.csv").write_text("3|three\n4|four\n")
    engine = weft.Engine(spark)
    engine.stream(
        "s", tmp_path / "rows", time="at", format="csv", schema="at TIMESTAMP, vol INT",
        options={"header": True, "sep": ";"},
    )  # fmt: skip
    engine.table(
        "names", tmp_path / "names", format="csv", schema="vol INT, name STRING", options={"sep": "|"}
    )
    query = engine.add(
        "SELECT name, sum(vol) AS v FROM s [RANGE '10 s'] JOIN names USING (vol) GROUP BY name", name="q"
    )
    engine.run()
    rows = query.results().select(["name", "v"]).sort_by("v").to_pylist()
    assert rows == [{"name": "three", "v": 3}, {"name": "four", "v": 4}]


def test_what_is_no_schema_is_shown_with_a_caret(spark: SparkSession) -> None:
    engine = weft.Engine(spark)
    with pytest.raises(weft.QueryError, match=r"unknown type \"bigit\"") as caught:
        engine.stream("s", "rows", time="at", schema="at TIMESTAMP, vol bigit")
    assert "(at TIMESTAMP, vol bigit)" in str(caught.value)
    with pytest.raises(weft.SourceError, match="a DataFrame was read with its own"):
        engine.table("t", spark.range(1), schema="id BIGINT")


def test_files_that_cannot_be_read_are_told_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text(CSV)
    engine = weft.Engine(spark)
    for source, format, mending in (
        ("csv", "parquet", "if its files have another format, name that after USING"),
        ("empty", "parquet", "there are no files to tell the columns: declare them"),
        ("csv", "nosuchformat", "formats that need no package are csv, json, orc, parquet, text"),
    ):
        for declare in (partial(engine.stream, "s", time="at"), partial(engine.table, "t")):
            with pytest.raises(weft.SourceError) as caught:
                declare(source=tmp_path / source, format=format)
            (line,) = str(caught.value).splitlines()
            assert f"cannot be read as {format}: " in line
            assert f"; {mending}" in line


def test_the_rate_source_runs(spark: SparkSession) -> None:
    engine = weft.Engine(spark)
    engine.load("""
        CREATE STREAM s USING rate OPTIONS (rowsPerSecond '100') EVENT TIME timestamp;
        CREATE QUERY q AS SELECT count(*) AS n FROM s [RANGE '1 s'];
    """)
    engine.start()
    while not engine.results("q").num_rows:
        engine.wait(1)
    engine.stop()
    assert max(engine.results("q")["n"].to_pylist()) <= 100


@pytest.mark.parametrize(
    ("kind", "unit", "value"),
    [
        ("DATE", None, "DATE '1970-01-03'"),
        ("TIMESTAMP_NTZ", None, "TIMESTAMP_NTZ '1970-01-03 00:00:00'"),
        ("BIGINT", "s", "2L * 86400"),
        ("INT", "s", "2 * 86400"),
        ("BIGINT", "ms", "2L * 86400000"),
        ("BIGINT", "us", "2L * 86400000000"),
        ("BIGINT", "ns", "2L * 86400000000000 + 999"),
        ("DOUBLE", "s", "172800.25D"),
        ("DECIMAL(20,3)", "s", "172800.250BD"),
        ("DECIMAL(38,0)", "ns", "172800000000999BD"),
    ],
)
def test_event_time_may_be_of_many_kinds(
    spark: SparkSession, kind: str, unit: str | None, value: str
) -> None:
    engine = weft.Engine(spark)
    rows = spark.sql(f"SELECT CAST({value} AS {kind}) AS t UNION ALL SELECT NULL")
    engine.stream("s", rows, time="t", unit=unit)
    engine.add("SELECT count(*) AS n FROM s [RANGE '1 day']", name="q")
    engine.run()
    (row,) = engine.results("q").to_pylist()
    assert (row["window_start"], row["n"]) == (datetime(1970, 1, 3, tzinfo=UTC), 1)
    assert engine.clock("s").counts.no_time == 1


def test_another_session_time_zone_changes_nothing(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    rows = other.sql("SELECT TIMESTAMP_NTZ '2026-03-08 02:30:00' AS t, TIMESTAMP '2026-01-01 01:00:00Z' AS u")
    engine = weft.Engine(other)
    engine.stream("s", rows, time="t")
    engine.add("SELECT max(hour(u)) AS h FROM s [RANGE '1 hour']", name="q")
    engine.run()
    (row,) = engine.results("q").to_pylist()
    assert (row["window_start"], row["h"]) == (datetime(2026, 3, 8, 2, tzinfo=UTC), 1)


def test_future_and_timeless_rows_are_set_aside_and_counted(spark: SparkSession, feed: Feed) -> None:
    folder = feed((1, "a", 1.0, 1), (40 * 365 * 86400, "a", 1.0, 1))
    folder = feed((2, "a", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    query = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    engine.run()
    counts = engine.clock("trades").counts
    assert (counts.good, counts.future, counts.late, counts.read) == (2, 1, 0, 3)
    assert query.results()["n"].to_pylist() == [2]


def test_a_row_far_ahead_of_the_clock_closes_nobodys_windows(spark: SparkSession, feed: Feed) -> None:
    now = datetime.now(UTC).timestamp() // 10 * 10 - START.timestamp()
    feed.at(now - 60, now + 23 * 3600)
    folder = feed.at(now - 59, now - 40)
    engine = weft.Engine(spark)
    engine.load(f"""
        CREATE STREAM trades (time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT)
          USING parquet OPTIONS (path '{folder}', maxFilesPerTrigger '1') EVENT TIME time;
        CREATE QUERY q AS SELECT count(*) AS n FROM trades [RANGE '10 s'];
    """)
    engine.run()
    counts = engine.clock("trades").counts
    assert (counts.good, counts.late, counts.future) == (3, 0, 1)
    assert counted(engine.results("q")) == {now - 50: 2, now - 30: 1}


@pytest.mark.parametrize(
    ("kind", "unit", "values"),
    [
        ("DOUBLE", "s", ["double('NaN')", "double('inf')", "-1e300D"]),
        ("DOUBLE", "ns", ["double('NaN')", "double('-inf')"]),
        ("BIGINT", "ns", ["-9223372036854775808L"]),
        ("BIGINT", "s", ["9223372036854775807L", "-9223372036854775808L"]),
        ("DECIMAL(38,0)", "s", ["99999999999999999999999999999999999999BD"]),
        ("DATE", None, ["date_add(DATE '9999-12-31', 360000000)"]),
    ],
)
def test_times_that_are_none_are_set_aside(
    spark: SparkSession, kind: str, unit: str | None, values: list[str]
) -> None:
    rows = spark.sql(" UNION ALL ".join(f"SELECT CAST({value} AS {kind}) AS t" for value in values))
    engine = weft.Engine(spark)
    engine.stream("s", rows, time="T", unit=unit)
    engine.add("SELECT count(*) AS n FROM s [RANGE '1 day'] EMIT EMPTY", name="q")
    engine.run()
    assert engine.results("q").num_rows == 0
    assert engine.clock("s").counts.no_time == len(values)


def test_keys_beyond_the_year_9999_are_groups(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP '2026-01-01 00:00:00Z' AS t, date_add(DATE '9999-12-31', 360000) AS d")
    engine = weft.Engine(spark)
    engine.stream("s", rows.union(rows), time="t")
    engine.add("SELECT d, count(*) AS n FROM s [RANGE '1 day'] GROUP BY d", name="q")
    engine.run()
    assert engine.results("q")["n"].to_pylist() == [2]
