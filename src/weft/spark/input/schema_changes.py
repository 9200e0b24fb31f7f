"""Files of a stream whose columns are not the declared ones, named.

A Parquet or ORC file has its columns in its footer, a CSV file in its header; in JSON and CSV without a
header the first records are inspected. Columns that were added, removed or retyped are reported once each, by
name: notices go to logs, so they contain no value of a row.

Files are inspected for a small share of the time. Files that there was no time for wait: for a batch with few
files, or for the end of the run.
"""

import csv
import json
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from weft.notices import Notice, NoticeKind
from weft.query.logical import ColumnDef, StreamDef
from weft.spark.input.files import HEAD_BYTES, batch_files, head, stored_columns
from weft.spark.input.rows import TEXT_FORMATS, corrupt_column
from weft.types import Kind

TELL_COLUMNS = frozenset({"parquet", "orc"})
"""Formats whose files contain their columns and types."""
_LONGEST_PAUSE = 30.0
"""Maximum number of seconds between files, however long the last one took."""
_SAVED_SECONDS = 0.1
"""Maximum number of seconds saved up for files: no batch is held up for much longer."""
_LAST_SECONDS = 5.0
"""Seconds for the files that still wait when the run ends."""
_MOST_WAITING = 10_000
_MOST_REPORTED = 100
_RECORDS = 100
"""Maximum number of records of a text file that are inspected."""
_KINDS: dict[type, str] = {
    bool: "a boolean", int: "a whole number", float: "a fraction", str: "a string", dict: "an object",
    list: "a list",
}  # fmt: skip
"""Kinds of JSON values in words; NULL says nothing about a column."""
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
        """Spend no more than a share of the time on files."""
        self._stream, self._share = stream, share
        self._format = "" if stream.source is None else stream.source.format
        self._reported: set[str] = set()
        self._waiting: deque[str] = deque(maxlen=_MOST_WAITING)
        self._spent_until = monotonic()
        """The time up to which the share is spent; what has passed since then is available."""

    def look(self, batch: DataFrame) -> list[Notice]:
        """Inspect files as long as there is time, and return new differences."""
        if self._format not in TELL_COLUMNS | TEXT_FORMATS or len(self._reported) > _MOST_REPORTED:
            return []
        # Spark orders them by size; by name, later ones are mostly newer.
        paths, notices = sorted(batch_files(batch)), list[Notice]()
        if len(self._waiting) + len(paths) > _MOST_WAITING:
            left_out = self._notice(NoticeKind.COLUMNS_LEFT_OUT, count=_MOST_WAITING)
            notices += self._once("lost", left_out)
        self._waiting.extend(paths)
        self._spent_until = max(self._spent_until, monotonic() - _SAVED_SECONDS / self._share)
        # The newest file first: a change that lasts is reported soon, however many files wait.
        take = self._waiting.pop
        while self._waiting and (began := monotonic()) >= self._spent_until:
            notices += self._looked(batch.sparkSession, take())
            ended = monotonic()
            spent = self._spent_until + (ended - began) / self._share
            self._spent_until = min(spent, ended + _LONGEST_PAUSE)
            take = self._waiting.popleft
        return notices

    def rest(self, spark: SparkSession, *, seconds: float = _LAST_SECONDS) -> list[Notice]:
        """Inspect the files that still wait, as no batch follows, but for no more than some seconds."""
        notices, until = list[Notice](), monotonic() + seconds
        while self._waiting and monotonic() < until:
            notices += self._looked(spark, self._waiting.popleft())
        if self._waiting:
            kind, count = NoticeKind.COLUMNS_UNSEEN, len(self._waiting)
            notices += self._once("rest", self._notice(kind, count=count, about=self._waiting[0]))
            self._waiting.clear()
        return notices

    def _looked(self, spark: SparkSession, path: str) -> list[Notice]:
        try:
            differences = self._differences(spark, path)
        except AnalysisException:
            differences = {"unknown": "has a column of a type that Spark does not know: none are compared"}
        except (PySparkException, Py4JError):
            return []  # The file has vanished after the batch was read. A notice is no reason to fail.
        stream, kind = self._stream.name, NoticeKind.COLUMNS_DIFFER
        return [
            notice
            for key, text in differences.items()
            for notice in self._once(key, Notice(kind=kind, stream=stream, subject=path, about=text))
        ]

    def _notice(self, kind: NoticeKind, *, count: int, about: str = "") -> Notice:
        """Return a notice of the stream as a whole."""
        return Notice(kind=kind, subject=self._stream.name, count=count, about=about)

    def _once(self, key: str, notice: Notice) -> list[Notice]:
        if key in self._reported or len(self._reported) > _MOST_REPORTED:
            return []
        self._reported.add(key)
        if len(self._reported) > _MOST_REPORTED:
            self._waiting.clear()
            notice = self._notice(NoticeKind.COLUMNS_KEEP_CHANGING, count=_MOST_REPORTED)
        return [notice]

    def _differences(self, spark: SparkSession, path: str) -> dict[str, str]:
        # Columns of a partition are in the path, and corrupt records have a column in no file.
        corrupt = corrupt_column(self._stream)
        declared = [
            column
            for column in self._stream.columns
            if f"/{column.name}=" not in path and column.name != corrupt
        ]
        if self._format in TEXT_FORMATS:
            return text_differences(self._stream, declared, head(spark, path))
        stored = stored_columns(spark, self._format, path)
        own_names, names = (
            {column.name.casefold() for column in columns} for columns in (stored, self._stream.columns)
        )
        # Parquet is converted if no value can be lost, and is unreadable otherwise.
        converted = ": values that do not fit are NULL" if self._format == "orc" else ""
        return {
            **{
                f"retyped {column.name} {own.type}": f"has {in_words(own, column)}{converted}"
                for own, column in retyped_columns(self._stream, stored)
            },
            **{
                f"added {own.name}": f"has a column {own.name} {_type(own)}, not declared: it is not read"
                for own in stored
                if own.name.casefold() not in names
            },
            **{
                f"missing {column.name}": f"has no column {column.name}, declared {_type(column)}: "
                "it is NULL there"
                for column in declared
                if column.name.casefold() not in own_names
            },
        }


def text_differences(stream: StreamDef, declared: Sequence[ColumnDef], start: bytes) -> dict[str, str]:
    """Return how the columns of a text file differ from those declared, by its first bytes.

    The differences are in words, each by a key that is the same in other files. There are none if the file
    cannot be understood, or its records are longer than the first bytes.
    """
    assert stream.source is not None
    lines = _lines(stream, start)
    if not lines:
        return {}
    if stream.source.format == "json":
        return _field_differences(stream, declared, lines)
    separator = _option(stream, "sep", "delimiter", default=",").replace("\\t", "\t")
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
    records: list[dict[str, Any]] = []
    for line in lines[:_RECORDS]:
        with suppress(ValueError, RecursionError):  # A line that is not JSON has no records.
            parsed = json.loads(line)
            values = parsed if isinstance(parsed, list) else [parsed]
            records += [value for value in values if isinstance(value, dict)]
    # Unlike names of columns, those of fields are case-sensitive.
    known = {column.name for column in stream.columns}
    fields = dict.fromkeys(name for record in records for name in record)
    added = {
        f"added {name}": f"has a field {name}, not declared: it is not read"
        for name in fields
        if name not in known
    }
    missing = {
        f"missing {column.name}": f"has no field {column.name}, declared {_type(column)}, "
        f"in the records looked at ({len(records)}): it is NULL there"
        for column in declared
        if column.name not in fields
    }
    retyped = {
        f"retyped {column.name} {kind}": f"has field {column.name} as {kind}, declared {_type(column)}, "
        f"in most of the records looked at ({len(records)}): {_fate(column, kind)}"
        for column in declared
        if (kind := _other_kind(column, [record.get(column.name) for record in records])) is not None
    }
    return {**retyped, **added, **missing} if records else {}


def _fate(column: ColumnDef, kind: str) -> str:
    if column.type.kind is Kind.STRING:
        return "it is read as text"
    is_time = column.type.kind is Kind.TIMESTAMP and kind == _KINDS[int]
    return "it is read as seconds since 1970" if is_time else "such records cannot be read"


def _other_kind(column: ColumnDef, values: Sequence[object]) -> str | None:
    """Return the kind of most of a field's values, if the column cannot be read from it; None if it can."""
    read_from = _READ_FROM.get(column.type.kind)
    if read_from is None:
        return None
    present = [value for value in values if value is not None]
    # One value among many that does not fit is a bad record, and no change of the column.
    others = [
        _KINDS[type(value)]
        for value in present
        if type(value) not in read_from and not (read_from == _NUMBER and value in _NOT_FINITE)
    ]
    return Counter(others).most_common(1)[0][0] if 2 * len(others) > len(present) else None


def _header_differences(declared: Sequence[ColumnDef], line: str, separator: str) -> dict[str, str]:
    try:
        header = next(csv.reader([line], delimiter=separator))
    except (csv.Error, TypeError, ValueError):
        return {"header": "has a header that cannot be looked at: its columns are not compared"}
    in_file, names = [name.strip() for name in header], [column.name for column in declared]
    if [name.casefold() for name in in_file] == [name.casefold() for name in names]:
        return {}
    declares = f"declared {', '.join(names)}"
    fate = "values are taken by their places, and records with more or fewer values are set aside"
    folded = {name.casefold() for name in in_file}
    known = [name for name in names if name.casefold() in folded]
    if 2 * len(known) >= len(folded):
        return {f"header {line}": f"has columns {', '.join(in_file)}, {declares}: {fate}"}
    # It may be a record, whose values must not be repeated.
    which = f"only {', '.join(known)} of them declared" if known else "none of them declared"
    return {
        f"header of {len(in_file)}: {known}": f"has {len(in_file)} columns in its first line, {which}; "
        f"{declares}; is there a header? That line is not read as a record, {fate}"
    }


def _width_differences(
    stream: StreamDef, declared: Sequence[ColumnDef], lines: Sequence[str], separator: str
) -> dict[str, str]:
    # If a separator may be quoted, only a CSV parser with all of Spark's options could count the values.
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
    pairs = [(by_name.get(column.name.casefold()), column) for column in stream.columns]
    return [(own, column) for own, column in pairs if own is not None and own.type != column.type]


def in_words(own: ColumnDef, declared: ColumnDef) -> str:
    """Return the type of a column in a file, and the declared one, in words."""
    return f"column {declared.name} as {_type(own)}, declared {_type(declared)}"


def _type(column: ColumnDef) -> str:
    return str(column.type).upper()
