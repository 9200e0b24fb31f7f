"""A stream's declaration changes between runs, and its state stays as long as no query notices."""

from collections import Counter
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import weft
from tests.spark.trades import Feed, Row, counted

BASE = {"time": "TIMESTAMP", "symbol": "STRING", "price": "DOUBLE", "vol": "BIGINT"}
UNREAD = {"price": ("DOUBLE", None), "more": (None, "INT", "STRING"), "other": (None, "DATE")}
"""Columns that no query reads, and how they may be declared; None for not at all."""
QUERIES = {
    "by_symbol": "SELECT symbol, count(*) AS n FROM trades [RANGE '40 s' SLIDE '10 s'] GROUP BY symbol",
    "large": "SELECT sum(vol) AS n FROM trades [RANGE '60 s' SLIDE '20 s'] WHERE vol > 3",
    "resting": "SELECT count(vol) AS n FROM trades [RANGE '10 s']",
}


def evolved(chance: Random) -> dict[str, str]:
    """Return the columns of a declaration like the first, in any order."""
    columns = {name: type for name, type in BASE.items() if name not in UNREAD}
    for name, types in UNREAD.items():
        type = chance.choice(types)
        if type is not None:
            columns[name] = type
    return dict(chance.sample(list(columns.items()), len(columns)))


def started(spark: SparkSession, feed: Feed, root: Path, columns: dict[str, str]) -> weft.Engine:
    """Return an engine that runs on what is declared."""
    engine = weft.Engine(spark)
    ddl = ", ".join(f"{name} {type}" for name, type in columns.items())
    engine.stream("trades", spark.readStream.schema(ddl).parquet(str(feed.folder)), time="time")
    for name, text in QUERIES.items():
        engine.add(text, name=name)
    engine.start(checkpoint=root / "checkpoint", out=root / "out")
    return engine


def sums(rows: list[Row], *, range: int, slide: int, by_symbol: bool) -> dict[object, int]:
    """Return, for each window that has ended, the rows by symbol, or the sum of volumes above 3."""
    found: Counter[object] = Counter()
    reached = max(row[0] for row in rows)
    for second, symbol, _, vol in rows:
        assert vol is not None
        end = (second // slide + 1) * slide
        while end - range <= second:
            if end <= reached and (by_symbol or vol > 3):
                found[(end, symbol) if by_symbol else end] += 1 if by_symbol else vol
            end += slide
    return dict(found)


def test_state_stays_where_no_query_notices(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    chance, rows, columns = Random(0), list[Row](), BASE
    for run in range(4):
        engine = started(spark, feed, tmp_path, columns)
        if run == 0:
            engine.pause("resting")
        new: list[Row] = [
            (15 * run + chance.random() * 15, chance.choice("ab"), 1.0, chance.randrange(9))
            for _ in range(12)
        ]
        rows += sorted(new)
        feed(*sorted(new))
        engine.process_available()
        engine.stop()
        columns = evolved(chance)
    table = pq.read_table(tmp_path / "out" / "by_symbol")
    found = {
        (end, symbol): n
        for symbol in "ab"
        for end, n in counted(table.filter([one == symbol for one in table["symbol"].to_pylist()])).items()
    }
    assert found == sums(rows, range=40, slide=10, by_symbol=True)
    large = counted(pq.read_table(tmp_path / "out" / "large"))
    assert large == sums(rows, range=60, slide=20, by_symbol=False)


def test_what_a_query_notices_is_refused(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    engine = started(spark, feed, tmp_path, BASE)
    engine.add("SELECT max(price) AS m FROM trades [RANGE '10 s']", name="live")
    engine.pause("live")
    engine.stop()
    without = {name: type for name, type in BASE.items() if name != "price"}
    for columns, said in (
        ({**BASE, "vol": "INT"}, 'column "vol", which query large reads, was bigint, and is int now'),
        ({**BASE, "time": "DATE"}, "the type of its event time was timestamp, and is date now"),
        (without, 'column "price", which query live reads, is not declared any more'),
    ):
        with pytest.raises(
            weft.EngineError, match=f"{said}; declare it as before, or start a new checkpoint"
        ):
            started(spark, feed, tmp_path, columns)
    engine = started(spark, feed, tmp_path, BASE)
    engine.remove("live")
    engine.stop()
    started(spark, feed, tmp_path, without).stop()
