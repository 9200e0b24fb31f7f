"""Static tables: read again between batches, let go when no query reads them."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import weft
from weft.errors import UnknownName
from weft.optimizer.rules import optimize
from weft.optimizer.slices import Slicing
from weft.query import bind, parse_select
from weft.query.logical import Catalog, ColumnDef, StreamDef, TableDef
from weft.spark.input import tables as tables_module
from weft.spark.input.declarations import Tables
from weft.spark.input.rows import column_defs
from weft.spark.input.tables import StaticTable
from weft.spark.job.joins import Joins

START = datetime(2026, 1, 1, tzinfo=UTC)
COLUMNS = "time TIMESTAMP, symbol STRING, price DOUBLE, vol BIGINT"
SCHEMA = pa.schema([
    ("time", pa.timestamp("us", "UTC")), ("symbol", pa.string()), ("price", pa.float64()),
    ("vol", pa.int64()),
])  # fmt: skip
Feed = Callable[..., None]
VALUE = "SELECT sum(T.vol * C.cp) AS v FROM trades T [RANGE '10 s'], close C WHERE T.symbol = C.symbol"


@pytest.fixture
def feed(tmp_path: Path) -> Feed:
    """Return a function that writes rows (second, symbol, price, vol) as the stream's next file."""
    (tmp_path / "trades").mkdir()

    def write(*rows: tuple[float, str | None, float | None, int | None]) -> None:
        folder = tmp_path / "trades"
        moments = [datetime.fromtimestamp(START.timestamp() + row[0], UTC) for row in rows]
        columns = [moments, *([row[place] for row in rows] for place in (1, 2, 3))]
        table = pa.table(columns, schema=SCHEMA)
        pq.write_table(table, folder / f"{len(list(folder.iterdir())):04d}.parquet")

    return write


@pytest.fixture
def close(tmp_path: Path) -> Path:
    """Return the file of table close, with one row."""
    path = tmp_path / "close.csv"
    path.write_text("symbol,cp\na,1.5\n")
    return path


def engine_with(spark: SparkSession, base: Path, table: str) -> weft.Engine:
    """Return an engine with stream trades and the table as declared, and query q."""
    engine = weft.Engine(spark)
    engine.load(
        f"CREATE STREAM trades ({COLUMNS}) USING parquet OPTIONS (path 'trades') EVENT TIME time; {table};"
        f"CREATE QUERY q AS {VALUE}",
        base=base,
    )
    return engine


DECLARED = "CREATE TABLE close (symbol STRING, cp DOUBLE) USING csv OPTIONS (path 'close.csv', header true)"
INFERRED = "CREATE TABLE close USING csv OPTIONS (path 'close.csv', header true)"


def values(engine: weft.Engine) -> list[float | None]:
    """Return q's results by window."""
    found: list[float | None] = engine.results("q").sort_by("window_end")["v"].to_pylist()
    return found


def kept(spark: SparkSession) -> int:
    """Return how many frames Spark keeps."""
    return int(spark.sparkContext._jsc.getPersistentRDDs().size())


# Read again


@pytest.mark.parametrize("table", [DECLARED, INFERRED], ids=["declared", "inferred"])
def test_a_replaced_file_counts_from_the_batch_after_refresh(
    spark: SparkSession, feed: Feed, close: Path, table: str
) -> None:
    feed((1, "a", 1.0, 1))
    engine = engine_with(spark, close.parent, table)
    engine.start()
    engine.process_available()
    close.write_text("symbol,cp\na,100.5\nb,7.5\n")
    feed((2, "a", 1.0, 1), (11, "a", 1.0, 1))
    engine.process_available()
    engine.refresh("Close")
    # Window [0, 10) is out, and what [10, 20) holds so far stays as it was.
    feed((12, "b", 1.0, 1), (25, "a", 1.0, 1))
    engine.process_available()
    assert values(engine) == [3.0, 9.0]
    engine.stop(flush=True)
    assert values(engine) == [3.0, 9.0, 100.5]
    assert engine.table_errors == {}


@pytest.mark.parametrize("given", ["folder", "frame"])
def test_appended_and_removed_files_are_seen(
    spark: SparkSession, feed: Feed, tmp_path: Path, given: str
) -> None:
    folder = tmp_path / "prices"
    folder.mkdir()
    pq.write_table(pa.table({"symbol": ["a"], "cp": [1.0]}), folder / "0.parquet")
    feed((1, "a", 1.0, 1))
    engine = weft.Engine(spark)
    engine.stream("trades", spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "trades")), time="time")
    engine.table("close", spark.read.parquet(str(folder)) if given == "frame" else folder)
    engine.add(VALUE, name="q")
    engine.start()
    engine.process_available()
    pq.write_table(pa.table({"symbol": ["a"], "cp": [10.0]}), folder / "1.parquet")
    engine.refresh("close")
    feed((11, "a", 1.0, 1))
    engine.process_available()
    (folder / "0.parquet").unlink()
    engine.refresh("close")
    feed((21, "a", 1.0, 1))
    engine.process_available()
    engine.stop(flush=True)
    assert values(engine) == [1.0, 11.0, 10.0]
    assert engine.table_errors == {}


def test_before_a_run_refresh_takes_effect_at_its_start(spark: SparkSession, feed: Feed, close: Path) -> None:
    feed((1, "a", 1.0, 1))
    engine = engine_with(spark, close.parent, DECLARED)
    close.write_text("symbol,cp\na,4.5\n")
    engine.refresh("close")
    engine.run()
    assert values(engine) == [4.5]


def test_an_unknown_table_is_told_with_a_suggestion(spark: SparkSession, close: Path) -> None:
    (close.parent / "trades").mkdir()
    engine = engine_with(spark, close.parent, DECLARED)
    with pytest.raises(UnknownName, match='unknown table "clos"; did you mean "close"'):
        engine.refresh("clos")


def test_a_table_is_read_again_when_its_time_has_come(
    spark: SparkSession, feed: Feed, close: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(tables_module, "monotonic", lambda: now)
    feed((1, "a", 1.0, 1))
    engine = engine_with(spark, close.parent, f"{DECLARED} REFRESH '10 minutes'")
    engine.start()
    engine.process_available()
    close.write_text("symbol,cp\na,4.5\n")
    for second, later in ((11, 599.0), (21, 600.0)):
        now = 1000.0 + later
        feed((second, "a", 1.0, 1))
        engine.process_available()
    engine.stop(flush=True)
    assert values(engine) == [1.5, 1.5, 4.5]


BROKEN = {
    "gone": (DECLARED, None, "no files at"),
    "column gone, declared": (
        DECLARED,
        "symbol\na\n",
        "its files had columns symbol, cp; now there are symbol",
    ),
    "columns swapped": (DECLARED, "cp,symbol\n4.5,a\n", "now there are cp, symbol"),
    "empty": (DECLARED, "", "now there are no columns"),
    "column gone": (INFERRED, "symbol,p\na,4.5\n", 'column "cp" is gone; now there are symbol, p'),
    "another type": (INFERRED, "symbol,cp\na,x\n", 'column "cp" was double and is string now'),
    "unreadable": (f"{DECLARED[:-1]}, mode 'FAILFAST')", "symbol,cp\na,x\n", "cannot be read"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_cannot_be_read_again_stays_in_use_and_is_told(
    spark: SparkSession, feed: Feed, close: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    table, text, problem = BROKEN[case]
    feed((1, "a", 1.0, 1))
    engine = engine_with(spark, close.parent, table)
    engine.start()
    engine.process_available()
    if text is None:
        close.unlink()
    else:
        close.write_text(text)
    engine.refresh("close")
    feed((11, "a", 1.0, 1))
    with caplog.at_level(logging.WARNING, "weft"):
        engine.process_available()
    assert problem in engine.table_errors["close"]
    assert [record.getMessage() for record in caplog.records if record.name == "weft"] == [
        "table close keeps its old contents, for it cannot be read"
    ]
    notice = f"table close keeps its old contents: {engine.table_errors['close']}"
    assert notice in [one.words for one in engine.status().streams["trades"].notices]
    # A query that joins in another way reads the same old contents.
    engine.add(VALUE.replace("T.symbol = C", "upper(T.symbol) = C"), name="other")
    close.write_text("symbol,cp\na,4.5\nB,2.5\n")
    feed((21, "a", 1.0, 1), (22, "b", 1.0, 1))
    engine.process_available()
    engine.refresh("close")
    feed((31, "a", 1.0, 1), (32, "b", 1.0, 1))
    engine.process_available()
    assert engine.table_errors == {}
    engine.stop(flush=True)
    assert values(engine) == [1.5, 1.5, 1.5, 4.5]
    assert engine.results("other")["v"].to_pylist() == [2.5]


# Kept and let go


def plans(spark: SparkSession, *texts: str) -> Callable[[Tables, int], Joins]:
    """Return a function that makes the joins of one of the queries."""
    stream = StreamDef(name="trades", columns=_columns(spark, COLUMNS), time="time")
    table = TableDef(name="close", columns=_columns(spark, "symbol STRING, cp DOUBLE"))
    catalog = Catalog(streams=(stream,), tables=(table,))
    found = [
        optimize([bind(parse_select(text, name="q"), catalog)], Slicing.PAIRED).relations for text in texts
    ]
    return lambda tables, number: Joins(found[number], tables, {})


def _columns(spark: SparkSession, text: str) -> tuple[ColumnDef, ...]:
    return column_defs(spark.createDataFrame([], text).schema)


def test_no_frame_is_left_behind_by_a_thousand_plans(spark: SparkSession) -> None:
    before = kept(spark)
    tables = Tables()
    frame = spark.createDataFrame([("a", 1.0)], "symbol STRING, cp DOUBLE")
    tables["close"] = StaticTable(frame, name="close")
    other = VALUE.replace("C.symbol", "upper(C.symbol)")
    joins_of = plans(spark, VALUE, VALUE + " AND T.vol > 5", other,
                     "SELECT count(*) AS n FROM trades [RANGE '10 s']")  # fmt: skip
    job = joins_of(tables, 0)
    for number in range(1000):
        # As in a pipeline: at the batch's beginning the old job is there, then the new one takes its place.
        tables.refresh_due()
        job = joins_of(tables, 2 if number % 50 == 49 else number % 2)
        assert kept(spark) <= before + 3
    job = joins_of(tables, 3)
    assert not job
    # What is out of use is spared once, in case a query comes that reads it.
    tables.refresh_due()
    tables.refresh_due()
    assert kept(spark) == before


def test_a_table_tried_out_is_not_read_twice(spark: SparkSession, close: Path) -> None:
    tables = Tables()
    reader = spark.read.option("header", True).schema("symbol STRING, cp DOUBLE")
    tables["close"] = StaticTable(reader.csv(str(close)), name="close")
    joins_of = plans(spark, VALUE)
    assert joins_of(tables, 0)
    close.unlink()
    tables.refresh_due()
    job = joins_of(tables, 0)
    assert job.apply(spark.createDataFrame([("a", 7)], "symbol STRING, vol BIGINT")).count() == 1
    tables.release()


def test_a_plan_change_keeps_what_both_plans_join(spark: SparkSession) -> None:
    tables = Tables()
    frame = spark.createDataFrame([("a", 1.0)], "symbol STRING, cp DOUBLE")
    tables["close"] = StaticTable(frame, name="close")
    joins_of = plans(spark, VALUE, VALUE + " AND T.vol > 5")
    stream = spark.createDataFrame([("a", 7)], "symbol STRING, vol BIGINT")
    ids = []
    for number in (0, 1, 0):
        job = joins_of(tables, number)
        tables.refresh_due()
        assert job.apply(stream).count() == 1
        ids.append(set(spark.sparkContext._jsc.getPersistentRDDs().keySet()))
        del job
    assert ids[0] == ids[1] == ids[2]
    tables.release()


def test_a_batch_under_way_keeps_what_it_reads(spark: SparkSession, close: Path) -> None:
    tables = Tables()
    reader = spark.read.option("header", True).schema("symbol STRING, cp DOUBLE")
    tables["close"] = StaticTable(reader.csv(str(close)), name="close")
    joins_of = plans(spark, VALUE)
    stream = spark.createDataFrame([("a", 7)], "symbol STRING, vol BIGINT")

    def prices(joined: DataFrame) -> list[float]:
        return [row["__weft_table0_cp"] for row in joined.collect()]

    one, other = joins_of(tables, 0), joins_of(tables, 0)
    under_way = one.apply(stream)
    assert prices(under_way) == prices(other.apply(stream)) == [1.5]
    reading = kept(spark)
    close.write_text("symbol,cp\na,4.5\n")
    tables["close"].ask()
    tables.refresh_due()
    # Spark takes both readings of the file for the same data, unless told otherwise.
    assert prices(other.apply(stream)) == [4.5]
    assert prices(under_way) == [1.5]
    assert kept(spark) == reading + 1
    assert prices(one.apply(stream)) == [4.5]
    assert kept(spark) == reading
    tables.release()


def test_stopping_lets_go_of_everything(spark: SparkSession, feed: Feed, close: Path) -> None:
    before = kept(spark)
    feed((1, "a", 1.0, 1))
    engine = engine_with(spark, close.parent, DECLARED)
    engine.run()
    assert kept(spark) == before
