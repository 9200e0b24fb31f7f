"""Files whose columns are not the declared ones are named, and set aside where they cannot be read."""

import gzip
import os
from collections.abc import Mapping
from pathlib import Path
from unittest.mock import ANY

import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from tests.spark.bad_rows import SECOND, Judge, declared
from weft.notices import Notice
from weft.spark.input.files import batch_files
from weft.spark.input.schema_changes import SchemaWatch
from weft.spark.input.unread import VANISHED, MissingFile, readable

COLUMNS = "id BIGINT, time TIMESTAMP, vol BIGINT"


def times(*seconds: int) -> pa.Array:
    """Return moments."""
    return pa.array([second * SECOND for second in seconds], pa.timestamp("us", "UTC"))


def table(first: int, rows: int, **columns: pa.Array) -> pa.Table:
    """Return rows with ids from `first` on, and other columns in the place of vol where given."""
    ids = list(range(first, first + rows))
    return pa.table({"id": pa.array(ids, pa.int64()), "time": times(*ids), **(columns or _vol(ids))})


def _vol(ids: list[int]) -> Mapping[str, pa.Array]:
    return {"vol": pa.array(ids, pa.int64())}


class Folder:
    """A stream's folder, to which files are added one after the other."""

    def __init__(self, path: Path, format: str = "parquet") -> None:
        self.path, self.format = path, format
        self._files = 0
        path.mkdir()

    def add(self, rows: pa.Table) -> Path:
        """Write a file."""
        path = self.path / f"{self._files:04d} %20.{self.format}"
        orc.write_table(rows, str(path)) if self.format == "orc" else pq.write_table(rows, path)
        return self.dated(path)

    def add_text(self, text: str) -> Path:
        """Write a file of text."""
        path = self.path / f"{self._files:04d}.{self.format}"
        path.write_text(text)
        return self.dated(path)

    def dated(self, path: Path) -> Path:
        """Have a file come after those before it."""
        os.utime(path, (1_700_000_000 + self._files, 1_700_000_000 + self._files))
        self._files += 1
        return path

    def declared(self, files: int, columns: str = COLUMNS, options: str = "") -> str:
        """Return the declaration of the folder as a stream with so many files a batch."""
        return (
            f"CREATE STREAM trades ({columns}) USING {self.format} "
            f"OPTIONS (path '{self.path}', maxFilesPerTrigger '{files}'{options}) EVENT TIME time"
        )


def test_columns_that_come_or_go_are_told_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    folder.add(table(0, 2))
    added = folder.add(table(2, 2, vol=pa.array([1, 2], pa.int64()), venue=pa.array(["x", "y"])))
    folder.add(table(4, 2, vol=pa.array([1, 2], pa.int64()), venue=pa.array(["x", "y"])))
    missing = folder.add(table(6, 2, other=pa.array([1.5, 2.5])))
    narrow = folder.add(table(8, 2, vol=pa.array([1, 2], pa.int32())))
    stream, frame = declared(spark, folder.declared(1))
    found = Judge(stream).run(frame)
    assert [judged.counts.good for judged in found] == [2] * 5
    assert [judged.notices for judged in found] == [
        [],
        [f"stream trades: file file://{added} has a column venue STRING, not declared: it is not read"],
        [],
        [
            f"stream trades: file file://{missing} has a column other DOUBLE, not declared: it is not read",
            f"stream trades: file file://{missing} has no column vol, declared BIGINT: it is NULL there",
        ],
        [f"stream trades: file file://{narrow} has column vol as INT, declared BIGINT"],
    ]


def test_a_retyped_column_of_orc_is_told(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in", "orc")
    # Spark 4.0 cannot read times that carry a zone from ORC.
    folder.add(table(0, 2).drop_columns("time"))
    retyped = folder.add(table(2, 2, vol=pa.array(["1", "x"])).drop_columns("time"))
    text = folder.declared(1, "id BIGINT, vol BIGINT").replace("EVENT TIME time", "EVENT TIME id UNIT 's'")
    stream, frame = declared(spark, text)
    found = Judge(stream).run(frame)
    # ORC converts, whatever the types are.
    assert [judged.good for judged in found] == [[0, 1], [2, 3]]
    told = "has column vol as STRING, declared BIGINT: values that do not fit are NULL"
    assert [judged.notices for judged in found] == [[], [f"stream trades: file file://{retyped} {told}"]]


def test_a_file_with_a_retyped_column_is_set_aside_and_the_rest_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "in")
    folder.add(table(0, 3))
    retyped = folder.add(table(3, 4, vol=pa.array(["1", "2", "3", "x"])))
    folder.add(table(7, 2))
    folder.add(table(9, 1))
    stream, frame = declared(spark, folder.declared(3))
    judge = Judge(stream, future=8 * SECOND, keep=tmp_path)
    first, second = judge.run(frame)
    # Row 9 alone lies beyond the bound on the future.
    assert (first.good, second.good) == ([0, 1, 2, 7, 8], [])
    assert (first.counts.good, first.counts.corrupt, first.counts.read) == (5, 4, 9)
    reason = "has column vol as STRING, declared BIGINT"
    assert first.aside == [
        {
            "reason": reason, "event_time": None, "source": f"file://{retyped}", "position": None,
            "row": '{"rows": 4}',
        }
    ]  # fmt: skip
    notice = f"stream trades: file file://{retyped} {reason}; its rows (4) are set aside"
    assert first.notices == [notice]
    kept = pq.read_table(tmp_path / "quarantine")
    assert sorted(zip(kept["batch"].to_pylist(), kept["reason"].to_pylist(), strict=True)) == [
        (0, reason),
        (1, "time in the future"),
    ]


def test_damaged_files_are_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    whole = folder.add(table(0, 1000))
    cut = folder.path / "cut.parquet"
    cut.write_bytes(whole.read_bytes()[:3000])
    folder.dated(cut)
    # Its footer is as it was, and tells 1,000 rows; its pages are not.
    spoilt = folder.add(table(1000, 1000))
    data = bytearray(spoilt.read_bytes())
    data[4:3000] = bytes([255]) * 2996
    spoilt.write_bytes(data)
    os.utime(spoilt, (1_700_000_050, 1_700_000_050))
    stream, frame = declared(spark, folder.declared(10))
    (judged,) = Judge(stream).run(frame)
    assert judged.good == list(range(1000))
    rows = {file.path: file.rows for file in judged.files}
    assert rows == {f"file://{cut}": 1, f"file://{spoilt}": 1000}
    assert judged.counts.read == 2001
    reasons = [file.reason for file in judged.files]
    assert all(reason.startswith("cannot be read as parquet: ") for reason in reasons)
    told = f"file file://{cut} cannot be read as parquet (FAILED_READ_FILE.NO_HINT, RuntimeException)"
    assert f"stream trades: {told}; its rows (1) are set aside" in judged.notices


def test_a_file_with_a_bad_record_that_must_fail_is_set_aside_without_its_values_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "in", "csv")
    folder.add_text("1,1970-01-01 00:00:01,1\n")
    bad = folder.add_text("2,1970-01-01 00:00:02,secret\n3,1970-01-01 00:00:03,3\n")
    stream, frame = declared(spark, folder.declared(10, options=", mode 'FAILFAST'"))
    (judged,) = Judge(stream).run(frame)
    assert (judged.good, judged.counts.corrupt) == ([1], 1)
    (told,) = judged.notices
    assert told == (
        f"stream trades: file file://{bad} cannot be read as csv "
        "(MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION, NumberFormatException); its rows (1) are set aside"
    )
    # Where rows are kept, so are their values.
    assert [row["reason"] for row in judged.aside] == ['cannot be read as csv: For input string: "secret"']


def test_a_batch_of_nothing_but_damaged_files_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in", "json")
    path = folder.path / "a.json.gz"
    path.write_bytes(b"\x1f\x8b\x08\x00 this is not gzip")
    folder.dated(path)
    stream, frame = declared(spark, folder.declared(10))
    (judged,) = Judge(stream).run(frame)
    assert (judged.good, judged.counts.corrupt, judged.counts.read) == ([], 1, 1)
    assert [file.path for file in judged.files] == [f"file://{path}"]


def test_a_file_that_is_gone_is_missing_and_not_set_aside(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    folder.add(table(0, 2))
    gone = folder.add(table(2, 2))
    stream, frame = declared(spark, folder.declared(10))
    found: list[object] = []

    def process(batch: DataFrame, number: int) -> None:
        gone.unlink()
        found.append(readable(batch, stream)[1])
        assert [row.id for row in readable(batch, stream)[0].collect()] == [0, 1]

    frame.writeStream.foreachBatch(process).trigger(availableNow=True).start().awaitTermination()
    assert found == [[MissingFile(path=f"file://{gone}", reason=VANISHED)]]


def test_partitions_of_a_folder_are_columns_in_every_pass(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    for day, first in ((1, 0), (2, 4)):
        (folder.path / f"day={day}").mkdir()
        rows = table(first, 3)
        rows = rows.set_column(1, "time", pa.array([None, *rows["time"].to_pylist()[1:]], rows["time"].type))
        path = folder.path / f"day={day}" / "a [1].parquet"
        pq.write_table(rows, path)
        folder.dated(path)
    bad = folder.path / "day=2" / "b.parquet"
    bad.write_bytes(b"PAR1 and nothing else")
    folder.dated(bad)
    stream, frame = declared(spark, folder.declared(10, f"{COLUMNS}, day INT"))
    (judged,) = Judge(stream).run(frame)
    assert judged.good == [1, 2, 5, 6]
    assert (judged.counts.no_time, judged.counts.corrupt) == (2, 1)
    assert sorted(row["row"] for row in judged.aside)[:2] == [
        '{"id":0,"time":null,"vol":0,"day":1}',
        '{"id":4,"time":null,"vol":4,"day":2}',
    ]
    assert len(judged.notices) == 1


def test_a_header_of_other_columns_is_told(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in", "csv")
    folder.add_text("ID,time,vol\n1,1970-01-01 00:00:01,1\n")
    changed = folder.add_text("id,time,vol,venue\n2,1970-01-01 00:00:02,2,x\n")
    stream, frame = declared(spark, folder.declared(1, options=", header 'true'"))
    first, second = Judge(stream).run(frame)
    assert (first.notices, first.good) == ([], [1])
    assert second.notices == [
        f"stream trades: file file://{changed} has columns id, time, vol, venue, declared id, time, vol: "
        "values are taken by their places, and records with more or fewer values are set aside"
    ]
    assert [row["reason"] for row in second.aside] == ["corrupt record"]


def test_records_of_other_widths_are_told_where_there_is_no_header(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = Folder(tmp_path / "in", "csv")
    folder.add_text("1,1970-01-01 00:00:01,1\n2,1970-01-01 00:00:02\n")
    changed = folder.add_text("3,1970-01-01 00:00:03,3,x\n4,1970-01-01 00:00:04,4,y\n")
    stream, frame = declared(spark, folder.declared(1))
    first, second = Judge(stream).run(frame)
    assert (first.notices, first.good) == ([], [1])
    assert second.notices == [
        f"stream trades: file file://{changed} has records of 4 values, declared are 3 columns: records with "
        "more or fewer values are set aside"
    ]
    assert [row["reason"] for row in second.aside] == ["corrupt record"] * 2


def test_a_file_in_the_middle_of_a_batch_is_told_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    for first in range(4):
        folder.add(table(first, 1))
    changed = folder.add(table(4, 1, venue=pa.array(["x"])))
    unknown = folder.add(table(5, 1, vol=pa.array([1], pa.int64()), at=pa.array([1], pa.time32("s"))))
    gone = folder.add(table(6, 1, other=pa.array([1])))
    folder.add(table(7, 1))
    stream, frame = declared(spark, folder.declared(8))
    watch, found, files = SchemaWatch(stream, share=1e-9), list[list[Notice]](), list[list[str]]()

    def process(batch: DataFrame, number: int) -> None:
        files.append(batch_files(batch))
        found.append(watch.look(batch))

    frame.writeStream.foreachBatch(process).trigger(availableNow=True).start().awaitTermination()
    # There was time for the last file only.
    assert found == [[]]
    assert list(map(sorted, files)) == [[f"file://{path}" for path in sorted(folder.path.iterdir())]]
    gone.unlink()
    assert [notice.words for notice in watch.rest(spark)] == [
        f"stream trades: file file://{changed} has a column venue STRING, not declared: it is not read",
        f"stream trades: file file://{changed} has no column vol, declared BIGINT: it is NULL there",
        f"stream trades: file file://{unknown} has a column of a type that Spark does not know: none are "
        "compared",
    ]
    assert watch.rest(spark) == []


def test_fields_of_json_that_come_or_go_are_told(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in", "json")
    folder.add_text('{"id": 0, "time": "1970-01-01 00:00:00"}\n{"id": 1, "time": null, "vol": 1}\n')
    path = folder.path / "b.json.gz"
    # Spark does not find a field by a name in other letters.
    record = b'{"id": 2, "time": "1970-01-01 00:00:02", "VOL": 7}\n'
    path.write_bytes(gzip.compress(record * 1000))
    folder.dated(path)
    stream, frame = declared(spark, folder.declared(1))
    first, second = Judge(stream).run(frame)
    assert first.notices == []
    assert second.notices == [
        f"stream trades: file file://{path} has a field VOL, not declared: it is not read",
        f"stream trades: file file://{path} has no field vol, declared BIGINT, in the records looked at "
        "(100): it is NULL there",
    ]
    assert (second.good, spark.read.schema(COLUMNS).json(str(path)).first()) == ([2] * 1000, (2, ANY, None))


def test_retyped_fields_of_json_are_told_once(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in", "json")
    folder.add_text('{"id": 0, "time": "1970-01-01 00:00:00", "vol": "x"}\n')
    for id in (1, 2):
        folder.add_text(f'{{"id": {id}, "time": {id}, "vol": {id}}}\n')
    folder.add_text('{"id": "3", "time": "1970-01-01 00:00:03", "vol": "x"}\n')
    stream, frame = declared(spark, folder.declared(1, COLUMNS.replace("vol BIGINT", "vol STRING")))
    found = Judge(stream).run(frame)
    # As the notices say.
    assert [judged.good for judged in found] == [[0], [1], [2], []]
    assert [[one.partition(".json ")[2] for one in judged.notices] for judged in found] == [
        [],
        [
            "has field time as a whole number, declared TIMESTAMP, in most of the records looked at (1): it "
            "is read as seconds since 1970",
            "has field vol as a whole number, declared STRING, in most of the records looked at (1): it is "
            "read as text",
        ],
        [],
        [
            "has field id as a string, declared BIGINT, in most of the records looked at (1): such records "
            "cannot be read"
        ],
    ]


def test_partitions_that_read_like_files_are_none(spark: SparkSession, tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in")
    day = "day=x%0Apath: y, range: 0-1"
    (folder.path / day).mkdir()
    pq.write_table(table(0, 1), folder.path / day / "a, b.parquet")
    stream, frame = declared(spark, folder.declared(10, f"{COLUMNS}, day STRING"))
    (judged,) = Judge(stream).run(frame)
    found: list[list[str]] = []
    query = frame.writeStream.foreachBatch(lambda batch, number: found.append(batch_files(batch)))
    query.trigger(availableNow=True).start().awaitTermination()
    assert found == [[f"file://{folder.path}/{day}/a, b.parquet"]]
    assert (judged.good, judged.notices) == ([0], [])


def test_a_batch_of_no_files_has_none(spark: SparkSession) -> None:
    assert batch_files(spark.range(1)) == []
