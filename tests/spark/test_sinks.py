"""Declared sinks of engines: each gets its queries' results once, over streams, restarts and rejoins."""

import logging
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, counted, stream, windows
from weft.durability.checkpoint import Checkpoint
from weft.errors import UnknownName
from weft.sinks import SinkError
from weft.storage import LocalFolder

COUNT = "SELECT count(*) AS n FROM trades [RANGE '10 s']"
NOWHERE = "postgresql://me:p4ss@127.0.0.1:1/db"


def queries_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if path.is_dir()}


def test_each_sink_gets_its_queries_whatever_comes_and_goes(spark: SparkSession, tmp_path: Path) -> None:
    trades, quotes = Feed(tmp_path / "trades"), Feed(tmp_path / "quotes")
    out, some = tmp_path / "out", tmp_path / "some"

    def engine(*, sinks: str) -> weft.Engine:
        made = weft.Engine(spark)
        stream(made, spark, trades.folder)
        stream(made, spark, quotes.folder, name="quotes")
        made.add(COUNT, name="a")
        made.add(COUNT, name="b")
        made.add(COUNT.replace("trades", "quotes"), name="q")
        made.load(sinks, base=tmp_path)
        return made

    first = engine(sinks="CREATE SINK some USING parquet OPTIONS (path 'some') FOR b, q")
    trades.at(1, 12)
    quotes.at(5)
    first.start(checkpoint=tmp_path / "state", out=out, keep=False)
    first.process_available()
    first.remove("b")
    trades.at(23)
    first.process_available()
    # Named in FOR, it joins again: its first window begins after what was aggregated without it.
    first.add(COUNT, name="b")
    trades.at(45)
    first.process_available()
    first.stop()
    # What `--out` began, a sink of its name goes on with; another that was there before may be left out.
    again = engine(
        sinks="CREATE SINK parquet USING parquet OPTIONS (path 'out');"
        "CREATE SINK some USING parquet OPTIONS (path 'some') FOR q, b"
    )
    trades.at(57)
    quotes.at(26)
    again.run(checkpoint=tmp_path / "state", keep=False, flush=True)
    assert queries_in(out) == {"a", "b", "q"}
    assert queries_in(some) == {"b", "q"}
    for name in ("b", "q"):
        assert counted(pq.read_table(some / name)) == counted(pq.read_table(out / name))
    assert counted(pq.read_table(out / "a")) == windows((1, 12, 23, 45, 57), range=10, slide=10, until=60)
    assert counted(pq.read_table(out / "q")) == windows((5, 26), range=10, slide=10, until=30)
    assert sum(counted(pq.read_table(out / "b")).values()) < 5


def test_a_refused_start_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """The results of an earlier run stay, though a run begins by removing them."""
    feed, out = Feed(tmp_path / "trades"), tmp_path / "out"
    feed.at(1, 12)

    def engine() -> weft.Engine:
        made = weft.Engine(spark)
        stream(made, spark, feed.folder)
        made.add(COUNT, name="a")
        return made

    engine().run(out=out, keep=False)
    before = {path: path.read_bytes() for path in out.rglob("*.parquet")}
    unknown, away = engine(), engine()
    unknown.sink("c", "console", queries=["b"])
    with pytest.raises(UnknownName, match='sink c is FOR "b", which is no query'):
        unknown.run(out=out, keep=False)
    away.sink("pg", "postgres", connection=NOWHERE)
    with pytest.raises(SinkError, match="sink pg: cannot connect"):
        away.run(out=out, keep=False)
    assert {path: path.read_bytes() for path in out.rglob("*.parquet")} == before
    with pytest.raises(SinkError, match="sink pg: cannot connect"):
        away.start(out=out, keep=False, checkpoint=tmp_path / "state")


def test_a_service_starts_again_while_a_server_is_away(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    feed, state = Feed(tmp_path / "trades"), tmp_path / "state"

    def engine() -> weft.Engine:
        made = weft.Engine(spark)
        stream(made, spark, feed.folder)
        made.add(COUNT, name="a")
        return made

    feed.at(1, 12)
    engine().run(checkpoint=state, out=tmp_path / "out", keep=False)
    # As a start would leave it that found the server there.
    notes = Checkpoint(LocalFolder(state / "trades"))
    notes.deliver_to({"parquet": notes.delivered("parquet"), "pg": notes.delivered("parquet")})
    again = engine()
    # A query that was dropped meanwhile keeps no service from going on, either.
    again.sink("pg", "postgres", connection=NOWHERE, queries=["a", "gone"])
    feed.at(23)
    with caplog.at_level(logging.WARNING, "weft"):
        again.start(checkpoint=state, out=tmp_path / "out", keep=False)
        again.process_available()
        (status,) = [sink for sink in again.status().sinks if sink.sink == "pg"]
        again.stop()
    assert status.behind > 0
    assert "sink pg: cannot connect" in caplog.text
    assert 'sink pg is FOR "gone", which is no query' in caplog.text
    assert "p4ss" not in caplog.text
    # One that ends with its input would only end without the results being there.
    ends = engine()
    ends.sink("pg", "postgres", connection=NOWHERE)
    with pytest.raises(SinkError, match="sink pg: cannot connect"):
        ends.run(checkpoint=state, out=tmp_path / "out", keep=False)
