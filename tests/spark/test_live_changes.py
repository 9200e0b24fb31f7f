"""What queries that come and go need, and what they leave behind."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.test_live_queries import more, running
from tests.spark.trades import Feed, ends, stream
from weft.state.report import BatchReport
from weft.stream.loop import Loop, Trigger


def compiled(spark: SparkSession) -> int:
    """Return how much of the code that Spark generates was compiled so far."""
    assert spark._jvm is not None
    metrics = spark._jvm.org.apache.spark.metrics.source.CodegenMetrics
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_queries_that_come_and_go_need_no_new_code(spark: SparkSession, feed: Feed) -> None:
    """New code would be interpreted, many times slower, until Java has warmed to it."""
    feed.at(1, 12)
    asked = "SELECT sum(vol) AS v FROM trades [RANGE '10 s'] WHERE {}"
    first = ("price > 1 AND vol < 5", "vol > 7", "price < 3 AND symbol = 'a'")
    later = ("symbol IN ('a', 'c') AND vol > 2", "vol BETWEEN 2 AND 9 AND price > 2", "price > 8 OR vol = 4")
    reports: list[BatchReport] = []
    with running(
        spark, feed, *map(asked.format, first), sharing="joint", on_batch=lambda _, one: reports.append(one)
    ) as engine:
        more(engine, feed, 23)
        before = compiled(spark)
        for number, test in enumerate(later):
            engine.add(asked.format(test), name=f"new{number}")
            engine.remove(f"q{number}")
            more(engine, feed, 34 + 11 * number)
        assert [one.replanned for one in reports[-3:]] == [True] * 3
        assert compiled(spark) == before


def test_a_name_is_another_streams_once_sinks_have_all_results(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    engine = weft.Engine(spark)
    stream(engine, spark, feed((1, "a", 1.0, 1), (12, "a", 1.0, 1)))
    engine.stream("others", spark.readStream.schema("time TIMESTAMP").parquet(str(feed.folder)), time="time")
    for name, source in (("q", "trades"), ("other", "others")):
        engine.add(f"SELECT count(*) AS n FROM {source} [RANGE '10 s']", name=name)
    engine.start(out=tmp_path / "out", follow=True)
    engine.process_available()
    engine.remove("q")
    other = "SELECT count(*) AS n FROM others [RANGE '10 s' SLIDE '5 s']"
    # Parquet files are written once a minute.
    with pytest.raises(
        weft.EngineError, match='results of a query "q" of stream trades are still on their way'
    ):
        engine.add(other, name="q")
    assert list(engine.queries) == ["other"]
    engine.add("SELECT count(*) AS n FROM trades [RANGE '5 s']", name="q")
    engine.remove("q")
    assert engine._execution is not None
    assert engine._execution.streams["trades"].ledger.drain(30)
    engine.add(other, name="q")
    assert not engine._execution.streams["trades"].ledger.still_delivers("q")
    feed((21, "a", 1.0, 1))
    engine.process_available()
    engine.stop(flush=True)
    # Both streams' results of that name are there.
    assert sorted(ends(pq.read_table(tmp_path / "out" / "q"))) == [10, 25, 30]


def beside(spark: SparkSession, feed: Feed, tmp_path: Path) -> weft.Engine:
    """Return an engine at work on one stream, with another declared that nobody asks anything of."""
    engine = weft.Engine(spark)
    stream(engine, spark, feed.at(1, 12))
    reader = spark.readStream.schema("time TIMESTAMP").option("maxFilesPerTrigger", 1)
    engine.stream("others", reader.parquet(str(feed.folder)), time="time")
    engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
    engine.start(out=tmp_path / "out", checkpoint=tmp_path / "state", follow=True)
    engine.process_available()
    return engine


OTHER = "SELECT count(*) AS n FROM others [RANGE '10 s']"


def test_a_stream_that_sinks_refuse_does_not_start_and_the_others_go_on(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    taken = weft.Engine(spark)
    stream(taken, spark, feed.at(1), name="others")
    taken.add(OTHER, name="o")
    taken.run(out=tmp_path / "out", checkpoint=tmp_path / "another", flush=True)
    engine = beside(spark, feed, tmp_path)
    with pytest.raises(weft.EngineError, match="another checkpoint"):
        engine.add(OTHER, name="o")
    assert not engine.wait(0.5)
    assert list(engine.queries) == ["q"]
    more(engine, feed, 23)
    shutil.rmtree(tmp_path / "out" / "o")
    engine.add(OTHER, name="o")
    engine.process_available()
    engine.stop(flush=True)
    assert ends(pq.read_table(tmp_path / "out" / "q")) == [10, 20, 30]
    assert ends(pq.read_table(tmp_path / "out" / "o")) == [10, 20, 30]


def test_a_stream_that_could_not_start_leaves_no_claim_behind(
    spark: SparkSession, feed: Feed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = beside(spark, feed, tmp_path)

    def commit_only(loop: Loop, trigger: Trigger) -> None:
        loop.membership.commit("the stream cannot start")
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "start", commit_only)
        with pytest.raises(weft.EngineError, match="no space left"):
            engine.add(OTHER, name="o")
    engine.add(OTHER, name="o")
    engine.process_available()
    engine.stop(flush=True)
    assert ends(pq.read_table(tmp_path / "out" / "o")) == [10, 20]
