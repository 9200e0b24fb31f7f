"""Files of a stream whose columns are not the declared ones, named.

A Parquet or ORC file tells its columns in its footer, a CSV file in its header; of JSON and of CSV without a
header the first records are looked at. Columns that came, went or have another type are told once each, by
their names: notices go to logs, so they repeat no value of a row.

Looking takes a small share of the time. Files that there was no time for wait: for a batch with few files, or
for the end of the run.
"""

import csv
import json
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.query.logical import ColumnDef, StreamDef
from weft.spark.input.files import HEAD_BYTES, batch_files, head, stored_columns
from weft.spark.input.records import TEXT_FORMATS, corrupt_column
from weft.types import Kind

TELL_COLUMNS = frozenset({"parquet", "orc"})
"""Formats whose files tell their columns and types."""
_LONGEST_PAUSE = 30.0
"""After how many seconds a file is looked at, however long the last look took."""
_SAVED_SECONDS = 0.1
"""How much time for looking is saved up at most: no batch is held up for much longer."""
_LAST_SECONDS = 5.0
"""How long the files that still wait are looked at when the run ends."""
_MOST_WAITING = 10_000
_MOST_TOLD = 100
_RECORDS = 100
"""How many records of a text file are looked at."""
_KINDS: dict[type, str] = {
    bool: "a boolean", int: "a whole number", float: "a fraction", str: "a string", dict: "an object",
    list: "a list",
}  # fmt: skip
"""What a value of JSON is; NULL tells nothing of a column."""
_WHOLE, _NUMBER, _TEXT = frozenset({int}), frozenset({int, float}), frozenset({str})
_READ_FROM: dict[Kind, frozenset[type]] = {
    Kind.BOOLEAN: frozenset({bool}),
    **dict.fromkeys((Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT), _WHOLE),
    **dict.fromkeys((Kind.FLOAT, Kind.DOUBLE), _NUMBER),
    Kind.DECIMAL: _NUMBER | _TEXT,
    **dict.fromkeys((Kind.STRING, Kind.BINARY), _TEXT),
    **dict.fromkeys((Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ), _TEXT),
}
"""What columns are usually read from; those of other types are not compared."""
_NOT_FINITE = ("NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF")
"""What numbers are read from, besides."""


class SchemaWatch:
    """Tell how the columns of a stream's files differ from the declared ones, each difference once."""

    def __init__(self, stream: StreamDef, *, share: float = 0.01) -> None:
        """Spend no more than a share of the time on looking."""
        self._stream, self._share = stream, share
        self._format = "" if stream.source is None else stream.source.format
        self._told: set[str] = set()
        self._waiting: deque[str] = deque(maxlen=_MOST_WAITING)
        self._spent_until = monotonic()
        """Up to when the time has been spent; what has passed since then is there for looking."""

    def look(self, batch: DataFrame) -> list[str]:
        """Look at files as long as there is time, and return what is new, in sentences for the user."""
        if self._format not in TELL_COLUMNS | TEXT_FORMATS or len(self._told) > _MOST_TOLD:
            return []
        # Spark has them by size; names mostly tell which is newer.
        notices = self._await(sorted(batch_files(batch)))
        self._spent_until = max(self._spent_until, monotonic() - _SAVED_SECONDS / self._share)
        # The newest file first: a change that lasts is told soon, however many wait.
        take = self._waiting.pop
        while self._waiting and (began := monotonic()) >= self._spent_until:
            notices += self._looked(batch.sparkSession, take())
            ended = monotonic()
            spent = self._spent_until + (ended - began) / self._share
            self._spent_until = min(spent, ended + _LONGEST_PAUSE)
            take = self._waiting.popleft
        return notices

    def rest(self, spark: SparkSession, *, seconds: float = _LAST_SECONDS) -> list[str]:
        """Look at the files that still wait, because no batch follows, but not for more than some seconds."""
        notices, until = list[str](), monotonic() + seconds
        while self._waiting and monotonic() < until:
            notices += self._looked(spark, self._waiting.popleft())
        if self._waiting:
            unseen = f"{len(self._waiting):,} files from {self._waiting[0]} on"
            notices += self._once("rest", f"there was no time to compare the columns of {unseen}")
            self._waiting.clear()
        return notices

    def _await(self, paths: Sequence[str]) -> list[str]:
        """Have files wait, the oldest of all giving way."""
        lost = len(self._waiting) + len(paths) - _MOST_WAITING
        self._waiting.extend(paths)
        if lost <= 0:
            return []
        return self._once(
            "lost",
            f"files come faster than their columns can be compared, and no more than {_MOST_WAITING:,} wait: "
            "older ones are left out from now on, and what changed in those alone is not told",
        )

    def _looked(self, spark: SparkSession, path: str) -> list[str]:
        try:
            found = self._differences(spark, path)
        except AnalysisException:
            found = {"unknown": "has a column of a type that Spark does not know: none are compared"}
        except (PySparkException, Py4JError):
            return []  # Gone already: the batch was read before it went. A notice is no reason to fail.
        return [one for key, text in found.items() for one in self._once(key, f"file {path} {text}")]

    def _once(self, key: str, text: str) -> list[str]:
        if key in self._told or len(self._told) > _MOST_TOLD:
            return []
        self._told.add(key)
        if len(self._told) > _MOST_TOLD:
            self._waiting.clear()
            text = f"its columns have changed in more than {_MOST_TOLD} ways: no more are told"
        return [f"stream {self._stream.name}: {text}"]

    def _differences(self, spark: SparkSession, path: str) -> dict[str, str]:
        # Columns of a partition are in the path, and corrupt records have a column in no file.
        corrupt = corrupt_column(self._stream)
        declared = [
            one for one in self._stream.columns if f"/{one.name}=" not in path and one.name != corrupt
        ]
        if self._format in TEXT_FORMATS:
            return text_differences(self._stream, declared, head(spark, path))
        stored = stored_columns(spark, self._format, path)
        # Parquet is converted where no value can be lost, and is not readable else.
        converted = ": values that do not fit are NULL" if self._format == "orc" else ""
        return {
            **{
                f"retyped {one.name} {was.type}": f"has {in_words(was, one)}{converted}"
                for was, one in retyped_columns(self._stream, stored)
            },
            **{
                f"added {one.name}": f"has a column {one.name} {_type(one)}, not declared: it is not read"
                for one in _lacking(stored, self._stream.columns)
            },
            **{
                f"missing {one.name}": f"has no column {one.name}, declared {_type(one)}: it is NULL there"
                for one in _lacking(declared, stored)
            },
        }


def _lacking(columns: Sequence[ColumnDef], others: Sequence[ColumnDef]) -> list[ColumnDef]:
    """Return the columns that others do not have."""
    names = {one.name.casefold() for one in others}
    return [column for column in columns if column.name.casefold() not in names]


def text_differences(stream: StreamDef, declared: Sequence[ColumnDef], start: bytes) -> dict[str, str]:
    """Return how the columns of a text file differ from those declared, by its first bytes.

    The differences are in words, each by a key that is the same in other files. Where the file cannot be
    understood, or its records are longer than what is looked at, there are none.
    """
    assert stream.source is not None
    lines = _lines(stream, start)
    if not lines:
        return {}
    if stream.source.format == "json":
        return _field_differences(stream, declared, lines)
    separator = {"\\t": "\t"}.get(found := _option(stream, "sep", "delimiter", default=","), found)
    comment = _option(stream, "comment", default="")
    lines = [line for line in lines if not comment or not line.startswith(comment)]
    if not lines or len(separator) != 1:
        return {}
    if _is_on(stream, "header"):
        return _header_differences(declared, lines[0], separator)
    return {} if _is_on(stream, "multiline") else _width_differences(stream, declared, lines, separator)


def _lines(stream: StreamDef, start: bytes) -> list[str]:
    """Return the lines of a file's first bytes that are whole and not empty."""
    try:
        text = start.decode(_option(stream, "encoding", "charset", default="utf-8"), "replace")
    except LookupError:
        return []
    text, is_whole = text.removeprefix("\ufeff"), len(start) < HEAD_BYTES
    assert stream.source is not None
    if stream.source.format == "json" and _is_on(stream, "multiline"):
        return [text] if is_whole else []
    end = _option(stream, "linesep", default="")
    lines = text.split(end) if end else text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [line for line in (lines if is_whole else lines[:-1]) if line.strip()]


def _field_differences(
    stream: StreamDef, declared: Sequence[ColumnDef], lines: Sequence[str]
) -> dict[str, str]:
    records = [record for line in lines[:_RECORDS] for record in _records(line)]
    # Unlike columns, fields are not found by a name in other letters.
    known, fields = (
        {one.name for one in stream.columns},
        dict.fromkeys(name for one in records for name in one),
    )
    added = {
        f"added {name}": f"has a field {name}, not declared: it is not read"
        for name in fields
        if name not in known
    }
    missing = {
        f"missing {one.name}": f"has no field {one.name}, declared {_type(one)}, in the records looked at "
        f"({len(records)}): it is NULL there"
        for one in declared
        if one.name not in fields
    }
    retyped = {
        f"retyped {one.name} {kind}": f"has field {one.name} as {kind}, declared {_type(one)}, in most "
        f"of the records looked at ({len(records)}): {_fate(one, kind)}"
        for one in declared
        if (kind := _other_kind(one, [record.get(one.name) for record in records])) is not None
    }
    return {**retyped, **added, **missing} if records else {}


def _other_kind(column: ColumnDef, values: Sequence[object]) -> str | None:
    """Return what most of a field's values are, if the column is not read from such; None if it is."""
    read_from = _READ_FROM.get(column.type.kind)
    if read_from is None:
        return None
    there = [value for value in values if value is not None]
    # One that does not fit among many is a bad record, and no change of the column.
    others = [_KINDS[type(value)] for value in there if not _fits(value, read_from)]
    return Counter(others).most_common(1)[0][0] if 2 * len(others) > len(there) else None


def _fits(value: object, read_from: frozenset[type]) -> bool:
    return type(value) in read_from or (read_from == _NUMBER and value in _NOT_FINITE)


def _fate(column: ColumnDef, kind: str) -> str:
    if column.type.kind is Kind.STRING:
        return "it is read as text"
    if column.type.kind is Kind.TIMESTAMP and kind == _KINDS[int]:
        return "it is read as seconds since 1970"
    return "such records cannot be read"


def _records(text: str) -> Iterator[dict[str, Any]]:
    """Give the records of a text of JSON: one, or several in a list; none where it is no JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield from (one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict))


def _header_differences(declared: Sequence[ColumnDef], line: str, separator: str) -> dict[str, str]:
    try:
        header = next(csv.reader([line], delimiter=separator))
    except (csv.Error, TypeError, ValueError):
        return {"header": "has a header that cannot be looked at: its columns are not compared"}
    found, wanted = [name.strip() for name in header], [one.name for one in declared]
    if [name.casefold() for name in found] == [name.casefold() for name in wanted]:
        return {}
    declares = f"declared {', '.join(wanted)}"
    fate = "values are taken by their places, and records with more or fewer values are set aside"
    folded = {name.casefold() for name in found}
    known = [name for name in wanted if name.casefold() in folded]
    if 2 * len(known) >= len(folded):
        return {f"header {line}": f"has columns {', '.join(found)}, {declares}: {fate}"}
    # It may be a record, whose values are not to be repeated.
    some = f"only {', '.join(known)} of them declared" if known else "none of them declared"
    return {
        f"header of {len(found)}: {known}": f"has {len(found)} columns in its first line, {some}; "
        f"{declares}; is there a header? That line is not read as a record, {fate}"
    }


def _width_differences(
    stream: StreamDef, declared: Sequence[ColumnDef], lines: Sequence[str], separator: str
) -> dict[str, str]:
    # Where a separator may be quoted, only a CSV parser with all of Spark's options could count the values.
    marks = [_option(stream, "quote", default='"'), _option(stream, "escape", default="\\")]
    plain = [line for line in lines[:_RECORDS] if not any(mark and mark in line for mark in marks)]
    widths = Counter(line.count(separator) + 1 for line in plain)
    if not widths or len(declared) in widths:
        return {}
    ((width, _),) = widths.most_common(1)
    return {
        f"width {width}": f"has records of {width} values, declared are {len(declared)} columns: records "
        "with more or fewer values are set aside"
    }


def _option(stream: StreamDef, *names: str, default: str) -> str:
    assert stream.source is not None
    options = {key.casefold(): value for key, value in stream.source.options}
    return next((options[name] for name in names if name in options), default)


def _is_on(stream: StreamDef, name: str) -> bool:
    return _option(stream, name, default="false").casefold() == "true"


def retyped_columns(stream: StreamDef, stored: Sequence[ColumnDef]) -> list[tuple[ColumnDef, ColumnDef]]:
    """Return the declared columns that a file has with another type, each with the file's."""
    by_name = {column.name.casefold(): column for column in stored}
    both = [(by_name.get(column.name.casefold()), column) for column in stream.columns]
    return [(found, column) for found, column in both if found is not None and found.type != column.type]


def in_words(found: ColumnDef, declared: ColumnDef) -> str:
    """Return how a file has a column, and how it is declared."""
    return f"column {declared.name} as {_type(found)}, declared {_type(declared)}"


def _type(column: ColumnDef) -> str:
    return str(column.type).upper()
