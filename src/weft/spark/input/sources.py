"""Open declared streams and tables with Spark's readers."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession

from weft.errors import SourceError
from weft.query import check_stream, parse_columns
from weft.query.logical import ColumnDef, Source, StreamDef, TableDef
from weft.spark.input.paths import FILE_FORMATS, SELF_DESCRIBING, is_pattern, resolved, undeclared
from weft.spark.input.rows import (
    CORRUPT_TEXT,
    TEXT_FORMATS,
    column_defs,
    corrupt_column,
    ddl,
    is_corrupt,
    reader_options,
    reader_schema,
)
from weft.spark.session.causes import root

_WITH_COLUMNS = frozenset({"parquet", "orc", "csv"})
_BATCH_BYTES = 256 << 20
"""Maximum bytes of files in a batch unless the stream says otherwise: bounds memory, shows progress."""
_MAX_FILE_AGE = "36500d"
"""Maximum age of a file, relative to the newest one, unless the stream says otherwise.

Spark silently ignores older files; its own limit is a week.
"""
_PATTERN_CHARACTER = re.compile(r"[*?\[\]{}\\]")
"""A character that Hadoop takes for part of a pattern unless it is escaped by a backslash."""


def frame_or_files(
    source: DataFrame | str | Path,
    *,
    format: str,
    schema: str | None,
    options: Mapping[str, str | int | bool] | None,
) -> tuple[DataFrame | None, Source | None, tuple[ColumnDef, ...]]:
    """Return what a source is, a DataFrame or files of a format, and the columns declared for files."""
    if isinstance(source, DataFrame):
        if schema is not None or options:
            raise SourceError("schema=… and options=… are for files; a DataFrame was read with its own")
        return source, None, ()
    columns = () if schema is None else parse_columns(schema)
    given = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options or {}).items()
    }
    return None, Source(format=format, options=tuple({**given, "path": str(source)}.items())), columns


def open_stream(
    spark: SparkSession, stream: StreamDef, base: Path | None = None
) -> tuple[StreamDef, DataFrame]:
    """Return the stream as a streaming DataFrame, and its definition with the columns that it has.

    A stream of text has one more column: see `corrupt_column`.
    """
    stream = _resolved_stream(spark, stream, base)
    assert stream.source is not None
    options = reader_options(stream)
    with _reading(f"stream {stream.name}", stream.source):
        reader = spark.readStream.format(stream.source.format)
        if stream.source.format in FILE_FORMATS:
            reader = reader.schema(reader_schema(stream))
            given = {key.casefold() for key in options}
            if not {"maxfilespertrigger", "maxbytespertrigger"} & given:
                options["maxBytesPerTrigger"] = str(_BATCH_BYTES)
            if "maxfileage" not in given:
                options["maxFileAge"] = _MAX_FILE_AGE
        frame = reader.options(**options).load()
    # A source may have a schema of its own.
    real = {column.name: column.type for column in column_defs(frame.schema)}
    for column in stream.columns:
        if real.get(column.name) != column.type:
            actual = f"is {real[column.name]}" if column.name in real else "is not there"
            known = ", ".join(f"{name} {type}" for name, type in real.items())
            raise SourceError(
                f'stream {stream.name} declares column "{column.name}" as {column.type}, '
                f"but in the source it {actual}; the source has {known}"
            )
    return typed_stream(stream, frame), frame


@contextmanager
def _reading(what: str, source: Source) -> Iterator[None]:
    """Raise Spark's errors as SourceErrors, each with its first line: options may hold passwords."""
    try:
        yield
    except PySparkException as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{what} cannot be read as {source.format}: {reason}{_mending(reason)}") from error
    except Py4JJavaError as error:
        reason = str(root(error))
        raise SourceError(f"{what} cannot be read as {source.format}: {reason}{_mending(reason)}") from error


def _mending(reason: str) -> str:
    """Return what to do about common reasons why Spark cannot read files."""
    if "UNABLE_TO_INFER_SCHEMA" in reason:
        return "; there are no files to tell the columns: declare them, as in (time TIMESTAMP, vol BIGINT)"
    if "DATA_SOURCE_NOT_FOUND" in reason or "ClassNotFoundException" in reason:
        return f"; formats that need no package are {', '.join(sorted(FILE_FORMATS))}"
    if any(sign in reason for sign in ("is not a Parquet file", "FAILED_READ_FILE", "FileFormatException")):
        return "; if its files have another format, name that after USING"
    return ""


def _resolved_stream(spark: SparkSession, stream: StreamDef, base: Path | None) -> StreamDef:
    """Return the stream with all options resolved, so that its files can be read again in the same way."""
    if stream.source is None:
        raise SourceError(f"stream {stream.name} has no source; write USING format OPTIONS (path '…')")
    source = resolved(stream.source, base, f"stream {stream.name}")
    options = dict(source.options)
    path = options.get("path")
    if path is not None and source.format in FILE_FORMATS and "://" not in path:
        options["path"] = str(Path(path).absolute())
    if source.format in TEXT_FORMATS and "timezone" not in {key.casefold() for key in options}:
        options["timeZone"] = str(spark.conf.get("spark.sql.session.timeZone"))
    source = replace(source, options=tuple(options.items()))
    if stream.columns:
        return replace(stream, source=source)
    with _reading(f"stream {stream.name}", source):
        columns = _infer(spark, source, f"stream {stream.name}")
    return replace(stream, source=source, columns=columns)


def open_static(
    spark: SparkSession, stream: StreamDef, base: Path | None = None
) -> tuple[StreamDef, DataFrame]:
    """Return all rows of a stream's files as a static DataFrame, as ordinary Spark would read them."""
    if stream.source is None or stream.source.format not in FILE_FORMATS:
        raise SourceError(
            f"stream {stream.name} does not come from files, so ordinary Spark cannot read it as a table"
        )
    stream = _resolved_stream(spark, stream, base)
    assert stream.source is not None
    with _reading(f"stream {stream.name}", stream.source):
        frame = _reader(spark, stream, reader_options(stream)).load()
    corrupt = corrupt_column(stream)
    if corrupt is not None:
        frame = frame.where(~is_corrupt(corrupt, stream)).drop(CORRUPT_TEXT)
    return typed_stream(stream, frame), frame


def read_files(spark: SparkSession, stream: StreamDef, paths: Sequence[str]) -> DataFrame:
    """Return the rows of some of an opened stream's files, as its batches have them."""
    if not paths:
        return spark.createDataFrame([], reader_schema(stream))
    options = reader_options(stream)
    root = options.pop("path", None)
    # As Spark's own stream does: names are no patterns, and folders may have partitions. But if some names
    # look like patterns, with patterns turned off Spark would read all the other files twice.
    if any(map(is_pattern, paths)):
        paths = [_PATTERN_CHARACTER.sub(r"\\\g<0>", path) for path in paths]
    else:
        options["__globPaths__"] = "false"
    if root is not None and not is_pattern(root):
        options["basePath"] = root
    assert stream.source is not None
    with _reading(f"stream {stream.name}", stream.source):
        return _reader(spark, stream, options).load(list(paths))


def _reader(spark: SparkSession, stream: StreamDef, options: Mapping[str, str]) -> DataFrameReader:
    assert stream.source is not None
    return spark.read.format(stream.source.format).schema(reader_schema(stream)).options(**options)


def typed_stream(stream: StreamDef, frame: DataFrame) -> StreamDef:
    """Return the stream's definition with the columns of its DataFrame, checked."""
    columns = tuple(column for column in column_defs(frame.schema) if column.name != CORRUPT_TEXT)
    known = replace(stream, columns=columns)
    check_stream(known)
    return known


class TableReader:
    """Open a declared table, whenever it is read."""

    def __init__(self, spark: SparkSession, table: TableDef, base: Path | None = None) -> None:
        if table.source is None:
            raise SourceError(f"table {table.name} has no source; write USING format OPTIONS (path '…')")
        self._spark, self._table = spark, table
        # Resolved once: a file that is gone must not be looked for elsewhere.
        self._source = resolved(table.source, base, f"table {table.name}")
        self._stored: tuple[str, ...] = ()

    def __call__(self) -> DataFrame:
        """Return the table as its files are now; refuse files that lack a column they had before."""
        name, columns = self._table.name, self._table.columns
        source = resolved(self._source, None, f"table {name}")
        options = dict(source.options)
        with _reading(f"table {name}", source):
            reader = self._spark.read.format(source.format)
            if columns:
                reader = reader.schema(ddl(columns))
            elif source.format == "csv":
                options.setdefault("inferSchema", "true")
            frame = reader.options(**options).load()
        # Declared columns hide those of the files: Spark gives NULL for a column that is gone.
        if columns and source.format in _WITH_COLUMNS:
            own = {key: value for key, value in source.options if key.casefold() != "inferschema"}
            stored: tuple[str, ...] = ()
            with suppress(PySparkException):  # They cannot be found without reading all rows.
                stored = tuple(self._spark.read.format(source.format).options(**own).load().columns)
            # Spark finds the columns of CSV by their order, those of other files by their names.
            before = self._stored
            is_csv = source.format == "csv"
            if stored[: len(before)] != before if is_csv else not set(before) <= set(stored):
                present = ", ".join(stored) or "no columns"
                raise SourceError(
                    f"table {name}: its files had columns {', '.join(before)}; now there are {present}"
                )
            self._stored = stored
        return frame


def _infer(spark: SparkSession, source: Source, what: str) -> tuple[ColumnDef, ...]:
    """Return the columns of the files; none for sources with a schema of their own."""
    if source.format not in FILE_FORMATS:
        return ()
    if source.format not in SELF_DESCRIBING:
        raise undeclared(what, source.format)
    options: Mapping[str, str] = {"columnNameOfCorruptRecord": CORRUPT_TEXT, **dict(source.options)}
    if source.format == "csv":
        options = {"inferSchema": "true", **options}
    columns = column_defs(spark.read.format(source.format).options(**options).load().schema)
    return tuple(column for column in columns if column.name != CORRUPT_TEXT)
