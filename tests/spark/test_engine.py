"""The engine as a Python user drives it: streams of files, joins, live queries, restarts."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import weft
from tests.spark.trades import Feed, Row, ends, seconds, stream


def test_a_bounded_run_closes_every_window(spark: SparkSession, feed: Feed) -> None:
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
    spark: SparkSession, feed: Feed
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


def test_a_registered_function_may_be_called(spark: SparkSession, feed: Feed) -> None:
    folder = feed((1, "ab", 10.0, 5), (2, "b", 20.0, 6))
    engine = weft.Engine(spark)
    stream(engine, spark, folder)
    engine.function("midcap", F.udf(lambda symbol: symbol.startswith("a"), "boolean"))
    query = engine.add("SELECT sum(vol) AS v FROM trades [RANGE '10 s'] WHERE midcap(symbol)", name="q")
    engine.run()
    assert query.results()["v"].to_pylist() == [5]


def test_failing_expressions_are_null_counted_and_harm_nobody(spark: SparkSession, feed: Feed) -> None:
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


def test_a_query_added_while_running_begins_with_what_is_at_hand(spark: SparkSession, feed: Feed) -> None:
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
    # What is kept for the other one answers it: slices from second 5 on are at hand when it comes.
    assert seconds(new.first_window) == (5, 15)
    assert ends(new.results()) == [15, 20, 25, 45, 50]
    assert new.results()["n"].to_pylist() == [2, 3, 1, 1, 1]
    assert "old" not in engine.queries


def test_a_restart_gives_the_rows_of_an_uninterrupted_run(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    batches: list[list[Row]] = [
        [(1, "a", 1.5, 1), (3, "b", 2.5, 2)],
        [(9, "a", 3.5, 3), (11, None, 4.5, 4)],
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


def test_a_query_with_a_new_text_is_replaced_at_the_next_start(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    for slide, moment in (("5 s", 1), ("6 s", 13)):
        engine = weft.Engine(spark)
        stream(engine, spark, feed((moment, "a", 1.5, 1)))
        query = engine.add(f"SELECT count(*) AS n FROM trades [RANGE '12 s' SLIDE '{slide}']", name="q")
        engine.run(checkpoint=tmp_path / "checkpoint", flush=slide == "6 s")
        notices = tuple(notice.words for notice in engine.status().streams["trades"].notices)
        replaced = "query q has another text than before: it is replaced"
        assert notices == (() if slide == "5 s" else (replaced,))
    # The partials of the other are not cut at 6 s: its first window begins after what there was.
    assert ends(query.results()) == [18, 24]


def test_subscribers_hear_each_batch(spark: SparkSession, feed: Feed) -> None:
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


def test_empty_windows_are_emitted_when_asked(spark: SparkSession, feed: Feed) -> None:
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


def test_names_are_claimed_and_errors_name_them(spark: SparkSession, feed: Feed) -> None:
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


def test_a_live_query_that_spark_refuses_harms_nobody(spark: SparkSession, feed: Feed) -> None:
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
    engine.stop()
    assert (good.state, good.results()["n"].to_pylist()) == ("dropped", [1])


def test_a_checkpoint_refuses_a_stream_whose_columns_changed(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    folder = feed((1, "a", 1.5, 1))
    for kind in ("BIGINT", "INT"):
        engine = weft.Engine(spark)
        reader = spark.readStream.schema(f"time TIMESTAMP, symbol STRING, price DOUBLE, vol {kind}")
        engine.stream("trades", reader.parquet(str(folder)), time="time")
        engine.add("SELECT sum(vol) AS n FROM trades [RANGE '12 s']", name="q")
        if kind == "BIGINT":
            engine.run(checkpoint=tmp_path / "checkpoint")
        else:
            with pytest.raises(weft.EngineError, match="stream trades is not that of checkpoint"):
                engine.run(checkpoint=tmp_path / "checkpoint")


def test_a_replayed_batch_is_not_aggregated_again(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
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


def test_what_fails_after_aggregation_is_counted(spark: SparkSession, feed: Feed) -> None:
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
