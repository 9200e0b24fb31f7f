"""Static tables joined to the stream as SQL says."""

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import weft
from tests.spark.trades import START, Feed

COLUMNS = "time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT"
TRADES = [
    (1, "a", 10.0, 5), (2, "b", 20.0, 6), (3, "c", 1.0, 1), (4, None, 2.0, 2), (12, "a", 11.0, None),
    (13, "a", None, 7), (15, "d", 3.0, 3), (16, "b", 7.0, 9),
]  # fmt: skip
CLOSE = [("a", 9.0), ("a", 8.0), ("b", 30.0), (None, 4.0), ("d", None), ("z", 1.0)]
INDEX = [("a", True, 1), ("b", False, 2), ("b", True, 2), ("c", True, 1), (None, True, 3)]
QUERIES = {
    "inner": ("T.symbol, count(*) AS n, sum(C.cp) AS s", ", close C", "T.symbol = C.symbol", "T.symbol"),
    "left": (
        "T.symbol, count(*) AS n, count(C.cp) AS k", " LEFT JOIN close C ON T.symbol = C.symbol", "",
        "T.symbol",
    ),
    "alone": ("count(*) AS n, sum(T.vol) AS v", "", "", ""),
    "where": ("sum(T.price - C.cp) AS s", ", close C", "T.symbol = C.symbol AND T.price > C.cp", ""),
    "null": ("count(*) AS n", " LEFT JOIN close C ON T.symbol = C.symbol", "C.symbol IS NULL", ""),
    "group": (
        "X.sector, max(T.vol * C.cp) AS m, count(*) AS n", ", close C, index X",
        "T.symbol = C.symbol AND T.symbol = X.symbol", "X.sector",
    ),
    "linked": (
        "X.sector, C.cp, count(*) AS n", " LEFT JOIN close C ON T.symbol = C.symbol "
        "LEFT JOIN index X ON C.symbol = X.symbol", "", "X.sector, C.cp",
    ),
    "mixed": ("count(*) AS n, sum(C.cp) AS s", " JOIN index X ON T.symbol = X.symbol "
              "LEFT JOIN close C ON T.symbol = C.symbol", "X.member", ""),
    "types": ("count(*) AS n", ", index X", "T.price = X.sector", ""),
}  # fmt: skip


def test_joins_are_those_of_ordinary_spark(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed(*TRADES[:5])
    feed(*TRADES[5:])
    sources: dict[str, DataFrame] = {
        "trades": spark.read.schema(COLUMNS).parquet(str(tmp_path / "trades")),
        "close": spark.createDataFrame(CLOSE, "symbol STRING, cp DOUBLE"),
        "index": spark.createDataFrame(INDEX, "symbol STRING, member BOOLEAN, sector INT"),
    }
    engine = weft.Engine(spark)
    engine.stream("trades", sources["trades"], time="time")
    for name in ("close", "index"):
        engine.table(name, sources[name])
    for name, (select, joins, where, keys) in QUERIES.items():
        text = f"SELECT {select} FROM trades T [RANGE '10 s']{joins}"
        text += (f" WHERE {where}" if where else "") + (f" GROUP BY {keys}" if keys else "")
        engine.add(text, name=name)
    engine.run()
    for name, (select, joins, where, keys) in QUERIES.items():
        text = f"SELECT window(T.time, '10 seconds').end AS window_end, {select} FROM {{trades}} T{joins}"
        text = text.replace("close C", "{close} C").replace("index X", "{index} X")
        text += (f" WHERE {where}" if where else "") + " GROUP BY window(T.time, '10 seconds')"
        used: dict[str, Any] = {source: frame for source, frame in sources.items() if f"{{{source}}}" in text}
        expected = spark.sql(text + (f", {keys}" if keys else ""), **used).toArrow().to_pylist()
        found = engine.results(name).drop_columns(["window_start"]).to_pylist()
        assert _rows(found) == _rows(expected), name
    assert engine.clock("trades").counts.read == len(TRADES)


def _rows(rows: list[dict[str, object]]) -> list[str]:
    # Both give whole moments of UTC, one of them with its zone.
    return sorted(str([str(value).removesuffix("+00:00") for value in row.values()]) for row in rows)


def test_query_4_of_the_paper_runs_as_it_is_printed(spark: SparkSession, feed: Feed) -> None:
    feed(*TRADES)
    engine = weft.Engine(spark)
    rows = spark.createDataFrame(
        [(START, "a", 10.0, 5), (START, "b", 20.0, 6), (START, "c", 1.0, 1)], COLUMNS
    )
    engine.stream("Trades", rows, time="time")
    engine.table("Close", spark.createDataFrame([("a", 8.0), ("b", 19.0)], "Symbol STRING, CP DOUBLE"))
    members = [("a", True, False), ("b", True, True), ("c", True, True)]
    engine.table("Index", spark.createDataFrame(members, "Symbol STRING, R3000 BOOLEAN, R2000 BOOLEAN"))
    query = """
        SELECT sum(T.price * T.vol)
        FROM Trades T[RANGE '600 seconds' SLIDE '300 seconds'],Close C,Index X
        WHERE T.Symbol = C.Symbol AND T.Symbol = X.Symbol
    """
    engine.add(query, name="all")
    engine.add(f"{query} AND X.R3000 AND abs(Price-CP)/CP > 0.1", name="moved")
    engine.add(f"{query} AND NOT X.R2000 AND Vol*Price < 100", name="small")
    engine.run()
    found = {name: engine.results(name).column(2).to_pylist() for name in ("all", "moved", "small")}
    assert found == {"all": [170.0, 170.0], "moved": [50.0, 50.0], "small": [50.0, 50.0]}


def test_keys_of_other_types_match_one_row_of_the_stream_once(spark: SparkSession, feed: Feed) -> None:
    # As doubles both keys are equal, though as integers they differ.
    engine = weft.Engine(spark)
    engine.stream("s", spark.createDataFrame([(START, 2.0**53)], "time TIMESTAMP, x DOUBLE"), time="time")
    engine.table("t", spark.createDataFrame([(2**53,), (2**53 + 1,)], "x BIGINT"))
    engine.add("SELECT count(*) AS n FROM s [RANGE '1 s'] JOIN t USING (x)", name="joined")
    engine.add("SELECT count(*) AS n FROM s [RANGE '1 s']", name="alone")
    engine.run()
    assert [engine.results(name)["n"].to_pylist() for name in ("joined", "alone")] == [[2], [1]]


def test_a_table_may_have_columns_that_queries_cannot_use(spark: SparkSession, feed: Feed) -> None:
    odd = "SELECT 'a' AS symbol, 9.0D AS cp, INTERVAL '3' MONTH AS term, parse_json('{}') AS note"
    engine = weft.Engine(spark)
    engine.stream("trades", spark.read.schema(COLUMNS).parquet(str(feed(*TRADES))), time="time")
    engine.table("odd", spark.sql(odd))
    engine.add(
        "SELECT sum(O.cp) AS s FROM trades T [RANGE '10 s'], odd O WHERE T.symbol = O.symbol", name="q"
    )
    engine.run()
    assert engine.results("q")["s"].to_pylist() == [9.0, 18.0]
