"""Rows that are not as declared, or whose time cannot be used, are counted, kept, and aggregated nowhere."""

import csv
import io
import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import weft
from tests.spark.bad_rows import SECOND, Judge, declared
from tests.spark.trades import Feed
from tests.spark.trades import stream as trades
from weft.durability.side_output import Aside, part_of, stream_folder
from weft.query.logical import StreamDef, TimeUnit
from weft.spark.input.quarantine import batch_of
from weft.spark.input.rows import column_defs
from weft.spark.input.sources import open_static
from weft.state.clock import RowCounts
from weft.storage import LocalFolder

FUTURE = 10_000
DELAY = 10
COLUMNS = "id BIGINT, time TIMESTAMP, symbol STRING, vol INT, price DOUBLE, paid DECIMAL(6,2), ok BOOLEAN"


@dataclass(frozen=True)
class Record:
    """A record as it was made, and what is wrong with it."""

    id: int
    seconds: int | None
    wrong: str = ""
    """'vol' and the like for a mistyped value, 'text' for a record that is cut off."""


MISTYPED = {"vol": "many", "price": "1,5 EUR", "paid": 123456.0, "ok": "perhaps", "id": 1.5}


def values(record: Record) -> dict[str, object]:
    """Return a record's values, in the order of the columns."""
    time = None if record.seconds is None else datetime.fromtimestamp(record.seconds, UTC).isoformat()
    good: dict[str, object] = {
        "id": record.id, "time": time, "symbol": f"s, {record.id}", "vol": record.id, "price": 0.5,
        "paid": 1.25, "ok": True,
    }  # fmt: skip
    return {**good, record.wrong: MISTYPED[record.wrong]} if record.wrong in MISTYPED else good


def write(folder: Path, format: str, number: int, records: Sequence[Record]) -> Path:
    """Write records as the next file of a folder."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{number:04d} [{number}].{format}"
    if format == "json":
        lines = [json.dumps(values(one)) for one in records]
        path.write_text("".join(f"{_cut(line, one)}\n" for line, one in zip(lines, records, strict=True)))
    elif format == "csv":
        path.write_text("".join(f"{_cut(_as_csv(one), one)}\n" for one in records))
    else:
        rows = [values(one) for one in records]
        times = [None if one.seconds is None else one.seconds * SECOND for one in records]
        columns = {
            "id": pa.array([row["id"] for row in rows], pa.int64()),
            "time": pa.array(times, pa.timestamp("us", "UTC")),
            "symbol": pa.array([row["symbol"] for row in rows], pa.string()),
            "vol": pa.array([row["vol"] for row in rows], pa.int32()),
            "price": pa.array([row["price"] for row in rows], pa.float64()),
            "paid": pa.array([row["paid"] for row in rows], pa.float64()).cast(pa.decimal128(6, 2)),
            "ok": pa.array([row["ok"] for row in rows], pa.bool_()),
        }
        pq.write_table(pa.table(columns), path)
    # Spark takes files in the order of their times, which may be equal for files just written.
    os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return path


def _as_csv(record: Record) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="", escapechar="\\", doublequote=False).writerow(values(record).values())
    return line.getvalue()


def _cut(line: str, record: Record) -> str:
    return line[: len(line) // 2] if record.wrong == "text" else line


def statement(folder: Path, format: str, columns: str = COLUMNS, options: str = "") -> str:
    """Return the declaration of a folder as a stream, one file a batch."""
    return (
        f"CREATE STREAM bad ({columns}) USING {format} "
        f"OPTIONS (path '{folder}', maxFilesPerTrigger '1'{options}) EVENT TIME time DELAY '{DELAY} seconds'"
    )


def expected(batches: Sequence[Sequence[Record]]) -> Iterator[tuple[RowCounts, list[int], Counter[str]]]:
    """Yield, for each batch, the counts, the good rows and the reasons of the others: said once more."""
    watermark: int | None = None
    for batch in batches:
        reasons = [_reason(record, watermark) for record in batch]
        good = [record for record, reason in zip(batch, reasons, strict=True) if reason is None]
        counted = Counter(reason for reason in reasons if reason is not None)
        late, no_time, future = (counted[one] for one in ("late", "no event time", "time in the future"))
        corrupt = sum(counted.values()) - late - no_time - future
        counts = RowCounts(good=len(good), late=late, no_time=no_time, future=future, corrupt=corrupt)
        yield counts, sorted(one.id for one in good), counted
        newest = [one.seconds - DELAY for one in good if one.seconds is not None]
        watermark = max([*newest, *([] if watermark is None else [watermark])], default=None)


def _reason(record: Record, watermark: int | None) -> str | None:
    if record.wrong == "text":
        return "corrupt record"
    if record.wrong:
        return f"mistyped value in column {record.wrong}"
    if record.seconds is None:
        return "no event time"
    if watermark is not None and record.seconds < watermark:
        return "late"
    return "time in the future" if record.seconds > FUTURE else None


def random_batches(seed: int, wrongs: Sequence[str]) -> list[list[Record]]:
    """Return batches whose rows are often bad, and often exactly at a bound."""
    chance = random.Random(seed)
    batches: list[list[Record]] = []
    number = 0
    for batch in range(4):
        newest = 100 * (batch + 1)
        seconds = [newest, newest - 100, newest - 100 - DELAY, newest - 101 - DELAY, FUTURE + 1, None]
        # The bound on the future is reached by a good row in the last batch only: it moves the watermark.
        seconds += [FUTURE] if batch == 3 else []
        records = [Record(0, newest)]
        records += [
            Record(0, chance.choice(seconds), chance.choice(["", "", "", *wrongs])) for _ in range(20)
        ]
        batches.append([replace(one, id=number + place) for place, one in enumerate(records)])
        number += len(records)
    return batches


@pytest.mark.parametrize("format", ["json", "csv", "parquet"])
def test_good_and_late_and_quarantined_is_all_that_was_read(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    wrongs = () if format == "parquet" else ("text", "vol", "price", "ok", "paid", "id")
    batches = random_batches(len(format), wrongs)
    for number, batch in enumerate(batches):
        write(tmp_path / "in", format, number, batch)
    stream, frame = declared(spark, statement(tmp_path / "in", format))
    judge = Judge(stream, future=FUTURE * SECOND, keep=tmp_path if format == "json" else None)
    found = judge.run(frame)
    assert len(found) == len(batches)
    for judged, batch, (counts, good, reasons) in zip(found, batches, expected(batches), strict=True):
        assert judged.counts == counts
        assert judged.counts.read == len(batch) == counts.good + len(judged.aside)
        assert judged.good == good
        assert Counter(row["reason"] for row in judged.aside) == reasons
    if format != "json":
        return
    late = pq.read_table(tmp_path / "late")
    quarantined = pq.read_table(tmp_path / "quarantine")
    assert (late.num_rows, quarantined.num_rows) == (
        sum(one.counts.late for one in found),
        sum(one.counts.quarantined for one in found),
    )
    assert set(late["reason"].to_pylist()) == {"late"}
    assert late.column_names == ["reason", "event_time", "source", "position", "row", "stream", "batch"]


def test_what_is_kept_of_a_row_tells_where_it_was(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "p", "parquet", 0, [Record(0, 1), Record(1, None), Record(2, 2), Record(3, FUTURE + 1)])
    stream, frame = declared(spark, statement(tmp_path / "p", "parquet"))
    (judged,) = Judge(stream, future=FUTURE * SECOND).run(frame)
    none, ahead = sorted(judged.aside, key=lambda row: int(row["position"]))
    assert (none["position"], ahead["position"]) == (1, 3)
    assert none["event_time"] is None
    assert ahead["event_time"] == datetime.fromtimestamp(FUTURE + 1, UTC)
    assert ahead["source"].startswith("file:")
    assert ahead["source"].endswith(".parquet")
    assert json.loads(none["row"]) == {
        "id": 1, "time": None, "symbol": "s, 1", "vol": 1, "price": 0.5, "paid": 1.25, "ok": True,
    }  # fmt: skip


def test_a_corrupt_record_is_kept_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    lines = [
        '{"id": 1, "time": "1970-01-01T00:00:01Z", "vol": 99999999999}',
        '{"id": 2, "time": "yesterday", "vol": "x"}',
        '{"id": 3, "time": "1970-01-01T00:00:01Z", "vol": 3, "unknown": {}}',
        '{"id": 4, "time": "1970-01-01T00:00:01Z"}',
        "12",
        "no JSON",
    ]
    (tmp_path / "j" / "a.json").write_text("\n".join(lines))
    stream, frame = declared(spark, statement(tmp_path / "j", "json", "id BIGINT, time TIMESTAMP, vol INT"))
    assert [column.name for column in stream.columns] == ["id", "time", "vol"]
    (judged,) = Judge(stream).run(frame)
    # A field that is not declared is no mistake, and neither is one that is missing.
    assert judged.good == [3, 4]
    assert {row["row"]: row["reason"] for row in judged.aside} == {
        lines[0]: "mistyped value in column vol",
        lines[1]: "mistyped values in columns time, vol",
        lines[4]: "corrupt record",
        lines[5]: "corrupt record",
    }
    assert {row["position"] for row in judged.aside} == {0}


def test_a_record_of_csv_has_as_many_values_as_there_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    lines = [
        "id;time;symbol",
        "1;1970-01-01 00:00:01;a",
        "2;1970-01-01 00:00:01",
        "3;1970-01-01 00:00:01;a;b",
    ]
    (tmp_path / "c" / "a.csv").write_text("\n".join([*lines, "x;1970-01-01 00:00:02;", ";;"]))
    text = statement(
        tmp_path / "c", "csv", "id BIGINT, time TIMESTAMP, symbol STRING", ", header 'true', sep ';'"
    )
    stream, frame = declared(spark, text)
    (judged,) = Judge(stream).run(frame)
    assert judged.good == [1]
    assert [(row["reason"], row["row"]) for row in judged.aside] == [
        ("corrupt record", "2;1970-01-01 00:00:01"),
        ("corrupt record", "3;1970-01-01 00:00:01;a;b"),
        ("mistyped value in column id", "x;1970-01-01 00:00:02;"),
        ("no event time", '{"id":null,"time":null,"symbol":null}'),
    ]


def unused(spark: SparkSession, *reasons: str) -> DataFrame:
    """Return rows that are not aggregated, for some reasons."""
    schema = "reason string, event_time timestamp, source string, position bigint, row string"
    return spark.createDataFrame([(reason, None, None, None, reason) for reason in reasons], schema)


def test_a_batch_that_comes_again_replaces_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    def rows(*reasons: str) -> DataFrame:
        return unused(spark, *reasons)

    place = tmp_path / "kept"
    aside = Aside(stream="a/b é", origin="me", quarantine=LocalFolder(place), late=None)

    def keep(batch: int, *reasons: str) -> None:
        aside.keep(lambda: rows(*reasons), RowCounts(no_time=len(reasons)), batch=batch)

    for batch, reasons in ((0, ["a"]), (1, ["b", "late", "c"]), (1, ["d"])):
        keep(batch, *reasons)
    # What a crash leaves of a batch is replaced too.
    folder = place / stream_folder("a/b é")
    (folder / "batch=000000002" / "_temporary").mkdir(parents=True)
    (folder / "batch=000000002" / "part-9.parquet").write_bytes(b"half")
    keep(2, "e", "late")
    expected = [("a/b é", 0, "a"), ("a/b é", 1, "d"), ("a/b é", 2, "e")]
    kept = pq.read_table(place).to_pylist()
    assert sorted((row["stream"], row["batch"], row["reason"]) for row in kept) == expected
    # Spark takes the bytes of a name for letters.
    name = F.decode(F.encode("stream", "ISO-8859-1"), "UTF-8").alias("stream")
    kept = spark.read.parquet(str(place)).select(name, "batch", "reason").collect()
    assert sorted(map(tuple, kept)) == expected
    assert {batch_of(name) for name in os.listdir(folder)} == {0, 1, 2, None}
    assert batch_of("_SUCCESS") is None


def test_rows_are_on_the_disk_before_they_are_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda one: found.append(os.readlink(f"/proc/self/fd/{one}")))
    kept = tmp_path / "kept"
    aside = Aside(stream="s", origin="me", quarantine=LocalFolder(kept), late=None)
    aside.keep(lambda: unused(spark, "a"), RowCounts(no_time=1), batch=7)
    stream, batch = kept / "stream=s", kept / "stream=s" / "batch=000000007"
    (part,) = batch.glob("part-*.parquet")
    assert {str(part), str(batch)} <= set(found)
    # What leads there is too, beginning at what was there before.
    assert found[:2] == [str(tmp_path), str(kept)]
    assert found[-1] == str(stream)


def test_runs_on_other_checkpoints_leave_one_anothers_rows(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.at(12)
    feed.at(3)
    for checkpoint in (tmp_path / "checkpoint", None):
        engine = weft.Engine(spark)
        trades(engine, spark, feed.folder)
        engine.add("SELECT count(*) AS n FROM trades [RANGE '10 s']", name="q")
        engine.start(checkpoint=checkpoint, late=tmp_path / "late", follow=False)
        engine.wait()
        engine.stop()
    kept = pq.read_table(tmp_path / "late").to_pylist()
    assert [(row["reason"], row["stream"], row["batch"]) for row in kept] == [("late", "trades", 1)] * 2
    origins = {row["origin"] for row in kept}
    assert len(origins) == 2
    assert (tmp_path / "checkpoint" / "id").read_text().split()[0] in origins


def test_a_start_forgets_only_its_own_batches(tmp_path: Path) -> None:
    shared = LocalFolder(tmp_path)
    for origin, batch in (("a", 0), ("a", 1), ("b", 0), ("b", 1)):
        part_of(shared, origin).folder("stream=s").folder(f"batch=00000000{batch}").write("part", b"")
    Aside(stream="s", origin="a", quarantine=part_of(shared, "a"), late=None).forget_after(0)
    Aside(stream="s", origin="c", quarantine=None, late=part_of(shared, "c")).forget_after(-1)
    left = {(one.parts[-4], one.parts[-2]) for one in tmp_path.rglob("part")}
    assert left == {
        ("origin=a", "batch=000000000"), ("origin=b", "batch=000000000"), ("origin=b", "batch=000000001"),
    }  # fmt: skip


def test_times_far_ahead_are_kept_exactly(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / "a.json").write_text('{"id": 1, "time": "9999-12-31T23:59:59.999999Z"}\n')
    stream, frame = declared(spark, statement(tmp_path / "j", "json", "id BIGINT, time TIMESTAMP"))
    Judge(stream, future=0, keep=tmp_path).run(frame)
    found = pq.read_table(tmp_path / "quarantine")["event_time"].to_pylist()
    assert found == [datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)]


def test_times_without_a_zone_are_judged_alike_in_both_passes(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a.csv").write_text("1,1970-01-01 02:00:10\n2,1970-01-01 02:00:11\n")
    text = statement(tmp_path / "c", "csv", "id BIGINT, time TIMESTAMP")
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", "Africa/Cairo")
    try:
        stream, frame = declared(spark, text)
        (judged,) = Judge(stream, future=10 * SECOND).run(frame)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert judged.good == [1]
    assert [row["event_time"] for row in judged.aside] == [datetime.fromtimestamp(11, UTC)]


def test_what_queries_read_does_not_decide_what_is_corrupt(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1, "time": 1, "vol": 1}\n{"id": 2, "time": 1, "vol": "x"}\n')
    rows = spark.read.schema("id BIGINT, time BIGINT, vol INT, _corrupt_record STRING").json(str(path))
    definition = StreamDef(
        name="s", columns=column_defs(rows.schema), time="time", time_unit=TimeUnit.SECONDS
    )
    judge = Judge(definition)
    # No query reads vol, and the DataFrame is static, so that Spark would not read it either.
    judge.process(rows, 0)
    assert judge.batches[0].good == [1]
    assert judge.batches[0].counts == RowCounts(good=1, corrupt=1)
    assert [row["reason"] for row in judge.batches[0].aside] == ["corrupt record"]


def test_static_files_are_read_without_their_corrupt_records(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "j", "json", 0, [Record(1, 1), Record(2, 1, "vol"), Record(3, 1, "text")])
    stream, _ = declared(spark, statement(tmp_path / "j", "json"))
    same, rows = open_static(spark, stream)
    assert same.columns == stream.columns
    assert [row.id for row in rows.select("id").collect()] == [1]


def test_a_dataframe_of_the_users_tells_topic_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "p", "parquet", 0, [Record(7, None)])
    raw = spark.readStream.schema(COLUMNS).parquet(str(tmp_path / "p"))
    given = raw.select(
        "id", "time", F.lit("t").alias("topic"), F.lit(3).alias("partition"), F.lit(42).alias("offset")
    )
    stream, _ = declared(spark, statement(tmp_path / "p", "parquet"))
    columns = column_defs(given.schema)
    (judged,) = Judge(replace(stream, source=None, columns=columns)).run(given)
    assert [(row["source"], row["position"]) for row in judged.aside] == [("t/3/42", 42)]
    (named,) = Judge(replace(stream, source=None)).run(raw)
    assert [row["source"].rsplit("/", 1)[1][-8:] for row in named.aside] == [".parquet"]


def test_parquet_is_read_with_no_column_more(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "p", "parquet", 0, [Record(0, 1)])
    stream, frame = declared(spark, statement(tmp_path / "p", "parquet"))
    assert frame.columns == [column.name for column in stream.columns]
