"""The engine as a Python user drives it: streams of files, joins, live queries, restarts."""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import weft

START = datetime(2026, 1, 1, tzinfo=UTC)
Row = tuple[float, str, float | None, int | None]
"""Seconds after START, symbol, price, volume."""
SCHEMA = pa.schema([
    ("time", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64()),
    ("vol", pa.int64()),
])  # fmt: skip


def at(seconds: float) -> datetime:
    """Return a moment of the test's day."""
    return datetime.fromtimestamp(START.timestamp() + seconds, UTC)


@pytest.fixture
def feed(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes rows as the next file of a stream's folder."""
    folder = tmp_path / "trades"
    folder.mkdir()

    def write(*rows: Row) -> Path:
        number = len(list(folder.iterdir()))
        columns = [[at(row[0]) for row in rows], *([row[place] for row in rows] for place in (1, 2, 3))]
        path = folder / f"{number:04d}.parquet"
        pq.write_table(pa.table(columns, schema=SCHEMA), path)
        # Spark takes files in the order of their times, which may be equal for files just written.
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
        return folder

    return write


def stream(engine: weft.Engine, spark: SparkSession, folder: Path, delay: str = "0 seconds") -> None:
    """Declare the folder as stream trades, one file a batch."""
    reader = spark.readStream.schema("time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT")
    engine.stream(
        "trades", reader.option("maxFilesPerTrigger", 1).parquet(str(folder)), time="time", delay=delay
    )


def ends(table: pa.Table) -> list[float]:
    """Return window ends as seconds after START."""
    return [(end - START).total_seconds() for end in table["window_end"].to_pylist()]


def test_a_bounded_run_closes_every_window(spark: SparkSession, feed: Callable[..., Path]) -> None:
    feed((1, "a", 10.0, 5), (4, "b", 20.0, 6))
    folder = feed((11, "a", 30.0, 7))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    query = engine.add("SELECT sum(vol) AS v FROM trades [RANGE '10 s' SLIDE '5 s']", name="q")
    engine.run()
    table = query.results()
    assert table.column_names == ["window_start", "window_end", "v"]
    assert list(zip(ends(table), table["v"].to_pylist(), strict=True)) == [
        (5, 11),
        (10, 11),
        (15, 7),
        (20, 7),
    ]


def test_a_static_table_is_joined_once_and_inner_drops_rows_without_partner(
    spark: SparkSession, feed: Callable[..., Path]
) -> None:
    folder = feed((1, "a", 10.0, 5), (2, "b", 20.0, 6), (3, "c", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    # Symbol a is listed twice: its trade counts twice in a join, and once among the rows read.
    engine.table(
        "close", spark.createDataFrame([("a", 9.0), ("a", 8.0), ("b", 30.0)], "symbol STRING, cp DOUBLE")
    )
    inner = engine.add(
        "SELECT count(*) AS n, sum(C.cp) AS s FROM trades T [RANGE '10 s'], close C "
        "WHERE T.symbol = C.symbol",
        name="inner",
    )
    left = engine.add(
        "SELECT T.symbol, count(C.cp) AS n FROM trades T [RANGE '10 s'] LEFT JOIN close C "
        "ON T.symbol = C.symbol GROUP BY T.symbol",
        name="left",
    )
    alone = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="alone")
    engine.run()
    assert inner.results().select(["n", "s"]).to_pylist() == [{"n": 3, "s": 47.0}]
    assert sorted((row["symbol"], row["n"]) for row in left.results().to_pylist()) == [
        ("a", 2),
        ("b", 1),
        ("c", 0),
    ]
    assert alone.results()["n"].to_pylist() == [3]
    assert engine.clock("trades").counts.read == 3


def test_a_registered_function_may_be_called(spark: SparkSession, feed: Callable[..., Path]) -> None:
    folder = feed((1, "ab", 10.0, 5), (2, "b", 20.0, 6))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    engine.function("midcap", F.udf(lambda symbol: symbol.startswith("a"), "boolean"))
    query = engine.add("SELECT sum(vol) AS v FROM trades [RANGE '10 s'] WHERE midcap(symbol)", name="q")
    engine.run()
    assert query.results()["v"].to_pylist() == [5]


def test_failing_expressions_are_null_counted_and_harm_nobody(
    spark: SparkSession, feed: Callable[..., Path]
) -> None:
    folder = feed((1, "7", 10.0, 0), (2, "x", 20.0, 2**62), (3, "8", None, 2**62))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    bad = engine.add(
        "SELECT sum(10 / vol) AS a, sum(vol * 4) AS b, sum(vol) AS c, count(CAST(symbol AS INT)) AS d "
        "FROM trades [RANGE '10 s']",
        name="bad",
    )
    good = engine.add("SELECT count(*) AS n, sum(price) AS p FROM trades [RANGE '10 s']", name="good")
    engine.run()
    (row,) = bad.results().to_pylist()
    assert (row["b"], row["c"], row["d"]) == (0, None, 2)
    # 10/0 and the bad cast in rows 1 and 2, vol * 4 in rows 2 and 3; and the sum of vol that overflows.
    assert bad.failures == 3 + 1
    assert good.results().select(["n", "p"]).to_pylist() == [{"n": 3, "p": 30.0}]
    assert good.failures == 0


def test_a_query_added_while_running_begins_after_what_was_aggregated(
    spark: SparkSession, feed: Callable[..., Path]
) -> None:
    folder = feed((1, "a", 1.0, 1), (12, "a", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    old = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s']", name="old")
    engine.start()
    engine.process_available()
    new = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s']", name="new")
    feed((13, "a", 1.0, 1), (16, "a", 1.0, 1))
    engine.process_available()
    engine.remove("old")
    feed((40, "a", 1.0, 1))
    engine.process_available()
    engine.stop(flush=True)
    assert ends(old.results()) == [5, 10, 15]
    assert old.results()["n"].to_pylist() == [1, 1, 2]
    # Data up to second 12 was aggregated before it came: [15, 25) is the first window that begins later.
    assert ends(new.results()) == [25, 45, 50]
    assert "old" not in engine.queries


def test_a_restart_gives_the_rows_of_an_uninterrupted_run(
    spark: SparkSession, feed: Callable[..., Path], tmp_path: Path
) -> None:
    batches: list[list[Row]] = [
        [(1, "a", 1.5, 1), (3, "b", 2.5, 2)],
        [(9, "a", 3.5, 3), (11, None, 4.5, 4)],  # type: ignore[list-item]
        [(21, "b", 5.5, 5)],
        [(34, "a", 6.5, 6)],
    ]
    texts = {
        "by": "SELECT symbol, sum(vol) AS v, min(symbol) AS m FROM trades [RANGE '12 s' SLIDE '5 s'] "
        "GROUP BY symbol",
        "all": "SELECT avg(price) AS p, var_pop(price) AS d FROM trades [RANGE '20 s' SLIDE '10 s']",
    }

    def run(folder: Path, checkpoint: Path | None, out: Path, flush: bool | None) -> None:
        engine = weft.Engine(spark)
        stream(engine, spark, folder, delay="2 seconds")
        for name, text in texts.items():
            engine.add(text, name=name)
        engine.run(out=out, checkpoint=checkpoint, flush=flush)

    for number, batch in enumerate(batches):
        folder = feed(*batch)
        last = number == len(batches) - 1
        run(folder, tmp_path / "checkpoint", tmp_path / "parts", True if last else None)
    run(folder, None, tmp_path / "whole", None)
    for name in texts:
        keys = [("window_end", "ascending"), ("window_start", "ascending")]
        parts = pq.read_table(tmp_path / "parts" / name)
        whole = pq.read_table(tmp_path / "whole" / name)
        order = [*keys, *([("symbol", "ascending")] if name == "by" else [])]
        assert parts.sort_by(order).to_pylist() == whole.sort_by(order).to_pylist()


def test_a_checkpoint_refuses_another_query_of_the_same_name(
    spark: SparkSession, feed: Callable[..., Path], tmp_path: Path
) -> None:
    folder = feed((1, "a", 1.5, 1))
    for slide in ("5 s", "6 s"):
        engine = weft.Engine(spark)
        stream(engine, spark, folder)
        engine.add(f"SELECT count(*) AS n FROM trades [RANGE '12 s' SLIDE '{slide}']", name="q")
        if slide == "5 s":
            engine.run(checkpoint=tmp_path / "checkpoint")
        else:
            with pytest.raises(weft.EngineError, match="query q is not the one that checkpoint"):
                engine.run(checkpoint=tmp_path / "checkpoint")


def test_subscribers_hear_each_batch(spark: SparkSession, feed: Callable[..., Path]) -> None:
    feed((1, "a", 1.0, 1))
    folder = feed((12, "a", 1.0, 2))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    heard: list[list[float]] = []
    engine.add("SELECT sum(vol) AS v FROM trades [RANGE '10 s']", name="q").subscribe(
        lambda table: heard.append(table["v"].to_pylist())
    )
    engine.run()
    assert heard == [[1], [2]]


def test_an_idle_stream_closes_what_only_the_delay_holds_open(
    spark: SparkSession, feed: Callable[..., Path]
) -> None:
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
    assert engine.results("q").select(["n", "p"]).to_pylist() == [{"n": 2, "p": 1.5}]
    counts = engine.clock("s").counts
    assert (counts.good, counts.no_time) == (2, 1)


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


def test_future_and_timeless_rows_are_set_aside_and_counted(
    spark: SparkSession, feed: Callable[..., Path]
) -> None:
    folder = feed((1, "a", 1.0, 1), (40 * 365 * 86400, "a", 1.0, 1))
    folder = feed((2, "a", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    query = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    engine.run()
    counts = engine.clock("trades").counts
    assert (counts.good, counts.future, counts.late, counts.read) == (2, 1, 0, 3)
    assert query.results()["n"].to_pylist() == [2]


def test_empty_windows_are_emitted_when_asked(spark: SparkSession, feed: Callable[..., Path]) -> None:
    folder = feed((1, "a", 1.0, 1), (31, "b", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    query = engine.add(
        "SELECT count(*) AS n, sum(vol) AS v FROM trades [RANGE '10 s'] WHERE symbol = 'a' EMIT EMPTY",
        name="q",
    )
    engine.run()
    rows = [(row["n"], row["v"]) for row in query.results().sort_by("window_end").to_pylist()]
    assert rows == [(1, 1), (0, None), (0, None), (0, None)]


def test_names_are_claimed_and_errors_name_them(spark: SparkSession, feed: Callable[..., Path]) -> None:
    folder = feed((1, "a", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    with pytest.raises(weft.EngineError, match='a stream or table "trades" already'):
        stream(engine, spark, folder)
    engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    with pytest.raises(weft.EngineError, match='a query "q" already'):
        engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    with pytest.raises(weft.QueryError, match='unknown query "p"; known are q'):
        engine.remove("p")
    with pytest.raises(
        weft.QueryError, match='unknown column "prise" in stream trades; did you mean "price"'
    ):
        engine.add("SELECT sum(prise) AS n FROM trades [RANGE '10 s']", name="r")
    assert list(engine.queries) == ["q"]


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


def test_a_live_query_that_spark_refuses_harms_nobody(spark: SparkSession, feed: Callable[..., Path]) -> None:
    folder = feed((1, "a", 1.0, 1))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    engine.function("pair", lambda left, right: left + right, returns="double")
    good = engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="good")
    engine.start()
    engine.process_available()
    with pytest.raises(weft.EngineError, match="query bad cannot be run"):
        engine.add("SELECT sum(pair(price)) AS s FROM trades [RANGE '10 s']", name="bad")
    feed((12, "a", 1.0, 1))
    engine.process_available()
    engine.remove("good")
    with pytest.raises(weft.EngineError, match='there was a query "good" in this run'):
        engine.add("SELECT sum(vol) AS s FROM trades [RANGE '10 s']", name="good")
    engine.stop()
    assert good.results()["n"].to_pylist() == [1]


def test_a_checkpoint_refuses_a_stream_whose_columns_changed(
    spark: SparkSession, feed: Callable[..., Path], tmp_path: Path
) -> None:
    folder = feed((1, "a", 1.5, 1))
    for kind in ("BIGINT", "INT"):
        engine = weft.Engine(spark)
        reader = spark.readStream.schema(f"time TIMESTAMP, symbol STRING, price DOUBLE, vol {kind}")
        engine.stream("trades", reader.parquet(str(folder)), time="time")
        engine.add("SELECT count(*) AS n FROM trades [RANGE '12 s']", name="q")
        if kind == "BIGINT":
            engine.run(checkpoint=tmp_path / "checkpoint")
        else:
            with pytest.raises(weft.EngineError, match="stream trades is not that of checkpoint"):
                engine.run(checkpoint=tmp_path / "checkpoint")


def test_keys_beyond_the_year_9999_are_groups(spark: SparkSession) -> None:
    rows = spark.sql("SELECT TIMESTAMP '2026-01-01 00:00:00Z' AS t, date_add(DATE '9999-12-31', 360000) AS d")
    engine = weft.Engine(spark)
    engine.stream("s", rows.union(rows), time="t")
    engine.add("SELECT d, count(*) AS n FROM s [RANGE '1 day'] GROUP BY d", name="q")
    engine.run()
    assert engine.results("q")["n"].to_pylist() == [2]


def test_a_replayed_batch_is_not_aggregated_again(
    spark: SparkSession, feed: Callable[..., Path], tmp_path: Path
) -> None:
    feed((1, "a", 1.5, 1))
    folder = feed((12, "a", 1.5, 1))
    for _ in range(2):
        engine = weft.Engine(spark)
        stream(engine, spark, folder)
        engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s' SLIDE '5 s']", name="q")
        engine.run(checkpoint=tmp_path / "checkpoint", out=tmp_path / "out", flush=False)
        # Spark forgets that it was done with the last batch, as after a crash before its own commit.
        for commit in (tmp_path / "checkpoint" / "trades" / "spark" / "commits").glob("*1*"):
            commit.unlink()
    assert pq.read_table(tmp_path / "out" / "q")["n"].to_pylist() == [1, 1]


def test_what_fails_after_aggregation_is_counted(spark: SparkSession, feed: Callable[..., Path]) -> None:
    folder = feed((1, "a", 3.0, 0), (12, "a", 3.0, 2))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    query = engine.add("SELECT sum(price) / sum(vol) AS mean FROM trades [RANGE '10 s']", name="q")
    other = engine.add(
        "SELECT count(*) AS n FROM trades [RANGE '10 s'] HAVING 1 / sum(vol) > 0", name="other"
    )
    engine.run()
    assert sorted(query.results()["mean"].to_pylist(), key=str) == [1.5, None]
    assert other.results()["n"].to_pylist() == [1]
    assert (query.failures, other.failures) == (1, 1)
