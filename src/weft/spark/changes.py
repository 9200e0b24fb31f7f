"""Files of a stream whose columns are not the declared ones, named.

A Parquet or ORC file tells its columns in its footer, a CSV file in its header. Columns that came, went or
have another type are told once each, by looking at two files of a batch at most.
"""

import csv
from collections.abc import Sequence
from time import monotonic

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from weft.query.logical import ColumnDef, StreamDef
from weft.spark.files import first_line, stored_columns, two_files

TELL_COLUMNS = frozenset({"parquet", "orc"})
"""Formats whose files tell their columns and types."""
_LONGEST_PAUSE = 30.0
"""After how many seconds a batch is looked at, however long the last look took."""


class SchemaWatch:
    """Tell how the columns of a stream's files differ from the declared ones, each difference once.

    JSON files tell no columns: a field that is not declared is not read, one that is missing is NULL.
    """

    def __init__(self, stream: StreamDef, *, share: float = 0.01) -> None:
        """Spend no more than a share of the time on looking: after a look, none follows for a while."""
        self._stream, self._share = stream, share
        self._told: set[str] = set()
        self._next = 0.0

    def look(self, batch: DataFrame) -> list[str]:
        """Return what is new in two files of a batch, in sentences for the user."""
        source, began = self._stream.source, monotonic()
        if source is None or began < self._next:
            return []
        notices: list[str] = []
        if source.format in TELL_COLUMNS or _has_header(self._stream):
            try:
                for path in two_files(batch):
                    found = self._differences(batch.sparkSession, source.format, path)
                    notices += self._new(path, found)
            except Py4JJavaError:
                pass  # Gone already: the batch was read before it went.
        ended = monotonic()
        self._next = ended + min((ended - began) * (1 / self._share - 1), _LONGEST_PAUSE)
        return notices

    def _new(self, path: str, found: dict[str, str]) -> list[str]:
        new = {key: text for key, text in found.items() if key not in self._told}
        self._told |= new.keys()
        return [f"stream {self._stream.name}: file {path} {text}" for text in new.values()]

    def _differences(self, spark: SparkSession, format: str, path: str) -> dict[str, str]:
        # Columns of a partition are in the path.
        declared = [one for one in self._stream.columns if f"/{one.name}=" not in path]
        if format == "csv":
            return _header_differences(self._stream, declared, first_line(spark, path))
        stored = stored_columns(spark, format, path)
        # Parquet is converted where no value can be lost, and is not readable else.
        converted = ": values that do not fit are NULL" if format == "orc" else ""
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


def _option(stream: StreamDef, *names: str, default: str) -> str:
    assert stream.source is not None
    options = {key.casefold(): value for key, value in stream.source.options}
    return next((options[name] for name in names if name in options), default)


def _has_header(stream: StreamDef) -> bool:
    is_csv = stream.source is not None and stream.source.format == "csv"
    return is_csv and _option(stream, "header", default="false").casefold() == "true"


def _header_differences(stream: StreamDef, declared: Sequence[ColumnDef], line: str) -> dict[str, str]:
    separator = _option(stream, "sep", "delimiter", default=",")
    if not line or len(separator) != 1:
        return {}
    header = next(csv.reader([line.removeprefix("\ufeff")], delimiter=separator))
    found, wanted = [name.strip() for name in header], [one.name for one in declared]
    if [name.casefold() for name in found] == [name.casefold() for name in wanted]:
        return {}
    return {
        f"header {line}": f"has columns {', '.join(found)}, declared {', '.join(wanted)}: values are taken "
        "by their places, and records with more or fewer values are set aside"
    }


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
