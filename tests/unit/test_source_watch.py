"""How a stream's files wait to have their columns looked at, and what the first bytes of text files tell."""

import json
from typing import cast
from unittest.mock import Mock

import pytest
from pyspark.sql import DataFrame, SparkSession

from weft.notices import Notice
from weft.query.logical import ColumnDef, Source, StreamDef
from weft.spark.input import schema_changes as changes
from weft.spark.input.files import HEAD_BYTES
from weft.spark.input.schema_changes import SchemaWatch, text_differences
from weft.types import DataType, Kind

COLUMNS = tuple(
    ColumnDef(name=name, type=DataType(kind))
    for name, kind in (("id", Kind.BIGINT), ("time", Kind.TIMESTAMP), ("vol", Kind.BIGINT))
)
SPARK = cast(SparkSession, None)
A_LOOK = 0.004


def stream(format: str, **options: str) -> StreamDef:
    """Return a stream of files."""
    return StreamDef(
        name="s", columns=COLUMNS, time="time", source=Source(format=format, options=tuple(options.items()))
    )


class Files:
    """Files of Parquet, each look at which takes four milliseconds of a clock of its own."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.seen: list[str] = []
        self.columns: dict[str, tuple[ColumnDef, ...]] = {}
        """Of the files whose columns are not the declared ones."""
        self._batch: list[str] = []
        patch.setattr(changes, "monotonic", lambda: self.now)
        patch.setattr(changes, "batch_files", lambda batch: self._batch)
        patch.setattr(changes, "stored_columns", self._stored)

    def _stored(self, spark: SparkSession, format: str, path: str) -> tuple[ColumnDef, ...]:
        self.now += A_LOOK
        self.seen.append(path)
        return self.columns.get(path, COLUMNS)

    def batch(self, watch: SchemaWatch, paths: list[str], *, seconds: float) -> list[str]:
        """Have a batch take some time and be looked at."""
        self.now += seconds
        self._batch = paths
        return words(watch.look(cast(DataFrame, Mock())))


def words(notices: list[Notice]) -> list[str]:
    """Return notices as sentences."""
    return [notice.words for notice in notices]


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> Files:
    """Return files that need no Spark."""
    return Files(monkeypatch)


def named(first: int, last: int) -> list[str]:
    """Return paths of files."""
    return [f"/in/{number:05d}" for number in range(first, last)]


def test_every_file_is_looked_at_in_the_end(files: Files) -> None:
    files.columns["/in/00050"] = COLUMNS[:2]
    watch = SchemaWatch(stream("parquet"))
    assert files.batch(watch, named(0, 100), seconds=2.0) == []
    # A hundredth of two seconds, and the newest first.
    assert files.seen == ["/in/00099", *named(0, 5)]
    told = ["stream s: file /in/00050 has no column vol, declared BIGINT: it is NULL there"]
    assert words(watch.rest(SPARK)) == told
    assert sorted(files.seen) == sorted(named(0, 100))
    assert watch.rest(SPARK) == []


def test_looking_takes_a_small_share_of_the_time(files: Files) -> None:
    watch = SchemaWatch(stream("parquet"))
    began = files.now
    for batch in range(200):
        before = len(files.seen)
        files.batch(watch, named(10 * batch, 10 * batch + 10), seconds=0.1)
        assert len(files.seen) - before <= 1
    share = len(files.seen) * A_LOOK / (files.now - began)
    assert 0.009 < share < 0.0105


def test_short_batches_of_one_file_miss_none_in_the_long_run(files: Files) -> None:
    files.columns["/in/00003"] = COLUMNS[:2]
    watch = SchemaWatch(stream("parquet"))
    told = [files.batch(watch, named(batch, batch + 1), seconds=0.3) for batch in range(20)]
    told += [files.batch(watch, [], seconds=0.3) for batch in range(20)]
    assert sorted(files.seen) == sorted(named(0, 20))
    assert [len(notices) for notices in told if notices] == [1]


def test_time_that_passed_without_batches_does_not_hold_up_the_next(files: Files) -> None:
    watch = SchemaWatch(stream("parquet"))
    files.batch(watch, named(0, 1000), seconds=3600.0)
    # A tenth of a second at most.
    assert len(files.seen) in (25, 26)


def test_a_slow_look_is_not_waited_for_forever(files: Files) -> None:
    watch = SchemaWatch(stream("parquet"), share=1e-9)
    seen = []
    for _ in range(3):
        files.batch(watch, named(0, 10), seconds=20.0)
        seen.append(len(files.seen))
    assert seen == [1, 1, 2]


def test_files_that_are_left_out_are_told(files: Files) -> None:
    watch = SchemaWatch(stream("parquet"), share=1e-9)
    assert files.batch(watch, named(0, 10_000), seconds=1.0) == []
    (told,) = files.batch(watch, named(10_000, 10_010), seconds=1.0)
    assert told.startswith("stream s: files come faster than their columns can be compared, and no more than")
    assert files.batch(watch, named(10_010, 10_020), seconds=1.0) == []
    files.seen.clear()
    # A look takes 4 ms: 25 are looked at, and the oldest 19 are not among them.
    assert words(watch.rest(SPARK, seconds=0.1)) == [
        "stream s: there was no time to compare the columns of 9,975 files from /in/00044 on"
    ]
    assert files.seen == named(19, 44)


def test_no_more_than_a_hundred_changes_are_told(files: Files) -> None:
    for path in named(0, 300):
        files.columns[path] = (*COLUMNS, ColumnDef(name=f"c{path}", type=DataType(Kind.INT)))
    watch = SchemaWatch(stream("parquet"), share=1.0)
    told = files.batch(watch, named(0, 300), seconds=10.0) + words(watch.rest(SPARK))
    assert len(told) == 101
    assert told[-1] == "stream s: its columns have changed in more than 100 ways: no more are told"
    assert files.batch(watch, named(0, 300), seconds=10.0) == []
    assert len(files.seen) == 101


def test_other_formats_are_not_looked_at(files: Files) -> None:
    for format in ("text", "kafka"):
        assert files.batch(SchemaWatch(stream(format)), named(0, 3), seconds=10.0) == []
    assert files.seen == []


RECORD = {"id": 1, "time": "2024-01-01", "vol": 5}


@pytest.mark.parametrize(
    ("lines", "keys"),
    [
        ([RECORD], []),
        ([{**RECORD, "venue": "x"}], ["added venue"]),
        ([{"id": 1, "VOL": 2}, {"time": None}], ["added VOL", "missing vol"]),
        ([{"id": 1, "time": None}] * 99 + [RECORD], []),
        ([[{"id": 1}, {"time": None}]], ["missing vol"]),
        ([1, "vol", None, [3]], []),
    ],
)
def test_fields_of_json(lines: list[object], keys: list[str]) -> None:
    text = "\r\n".join(map(json.dumps, lines)).encode()
    assert list(text_differences(stream("json"), COLUMNS, b"\xef\xbb\xbf" + text)) == keys


def test_json_that_is_not_understood_tells_nothing() -> None:
    deep = b"[" * 16_000
    for text in (b"", b"\n\n", b"{'id': 1}", b'{"id": 1', b"\xff\xfe", deep, b'{"id": ' + b"9" * 5000 + b"}"):
        assert text_differences(stream("json"), COLUMNS, text) == {}


def test_a_record_that_is_cut_off_is_not_looked_at() -> None:
    line = json.dumps({"id": 1, "time": "x" * 500}).encode() + b"\n"
    start = (line * 100)[:HEAD_BYTES]
    assert list(text_differences(stream("json"), COLUMNS, start)) == ["missing vol"]
    assert text_differences(stream("json"), COLUMNS, start.replace(b"\n", b" ")) == {}
    several = stream("json", multiLine="true")
    assert text_differences(several, COLUMNS, start) == {}
    assert list(text_differences(several, COLUMNS, b'[{\n"id": 1},\n{"time": "2"}]')) == ["missing vol"]


@pytest.mark.parametrize(
    ("options", "text", "keys"),
    [
        ({}, "1,2,3\n", []),
        ({}, "1,2\n1,2,3\n", []),
        ({}, "1,2,3,4\n1,2\n5,6,7,8\n", ["width 4"]),
        ({}, '"1,2",3\n', []),
        ({}, "1\\,2,3\n", []),
        ({"quote": "'", "sep": "\\t"}, "1\t2\n'1\t2\t3'\n", ["width 2"]),
        ({"multiLine": "true"}, "1,2\n", []),
        ({"comment": "#", "lineSep": "|"}, "#1,2|1,2,3,4|", ["width 4"]),
        ({"comment": "#"}, "#1,2\n", []),
        ({"sep": "||"}, "1||2\n", []),
        ({"encoding": "UTF-16"}, "1,2\n", ["width 2"]),
        ({"encoding": "no such"}, "1,2\n", []),
        ({"header": "true"}, "\nID,time,vol\n1,2\n", []),
        ({"header": "TRUE"}, "id,time,venue\n", ["header id,time,venue"]),
        ({"header": "true"}, "4711,2024-01-01,5\n", ["header of 3: []"]),
        ({"header": "true"}, "id,4711,4712,4713\n", ["header of 4: ['id']"]),
        ({"header": "true", "lineSep": "|"}, "id,ti\rme,vol|1,2,3|", ["header"]),
        ({"header": "true", "lineSep": "|", "sep": "\n"}, "id\ntime\nvol|", ["header"]),
    ],
)
def test_columns_of_csv(options: dict[str, str], text: str, keys: list[str]) -> None:
    encoded = text.encode("utf-16" if options.get("encoding") == "UTF-16" else "utf-8")
    assert list(text_differences(stream("csv", **options), COLUMNS, encoded)) == keys


def test_a_record_in_the_place_of_a_header_is_not_repeated() -> None:
    """Notices go to a service's log."""
    headed = stream("csv", header="true")
    (told,) = text_differences(headed, COLUMNS, b"4711,2024-01-01,4712\n").values()
    assert told == (
        "has 3 columns in its first line, none of them declared; declared id, time, vol; is there a header? "
        "That line is not read as a record, values are taken by their places, and records with more or fewer "
        "values are set aside"
    )
    (told,) = text_differences(headed, COLUMNS, b"VOL,4711,4712\n").values()
    assert told.startswith(
        "has 3 columns in its first line, only vol of them declared; declared id, time, vol;"
    )
    assert "4711" not in told


@pytest.mark.parametrize(
    ("type", "read_from", "others"),
    [
        (Kind.BIGINT, [1, None], ["x", 1.5, True, [1], {"a": 1}]),
        (Kind.DOUBLE, [1, 1.5, "NaN", "-Infinity", None], ["x", False, [1]]),
        (Kind.DECIMAL, [1, 1.5, "1.5"], [True, {}]),
        (Kind.STRING, ["x", "", None], [1, 1.5, True, [], {}]),
        (Kind.BOOLEAN, [True, False], [0, "true"]),
        (Kind.TIMESTAMP, ["2024-01-01"], [1_700_000_000, 1.5, True]),
        (Kind.DATE, ["2024-01-01"], [20_240_101]),
        (Kind.BINARY, ["eA=="], [1]),
        (Kind.OTHER, [1, "x", [1], {"a": 1}, True], []),
    ],
)
def test_types_of_json(type: Kind, read_from: list[object], others: list[object]) -> None:
    column = ColumnDef(name="c", type=DataType(type))
    typed = StreamDef(name="s", columns=(column,), time="c", source=Source(format="json"))

    def told(*values: object) -> list[str]:
        text = "\n".join(json.dumps({"c": value}) for value in values).encode()
        return list(text_differences(typed, (column,), text))

    assert told(*read_from) == []
    for value in others:
        (key,) = told(value, value, *read_from[:1])
        assert key.startswith("retyped c a")
        # One among many is a bad record; NULL tells nothing.
        assert told(value, read_from[0], read_from[0]) == []
        assert told(value, None, None) == [key]


def test_a_retyped_field_is_told_in_words_without_its_value() -> None:
    record = {"id": "4711", "time": 4712, "vol": 4713}
    text = json.dumps(record).encode()
    assert list(text_differences(stream("json"), COLUMNS, text).values()) == [
        "has field id as a string, declared BIGINT, in most of the records looked at (1): such records "
        "cannot be read",
        "has field time as a whole number, declared TIMESTAMP, in most of the records looked at (1): it is "
        "read as seconds since 1970",
    ]
