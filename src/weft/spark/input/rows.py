"""What a stream's rows consist of: columns of Spark's types, event time, and records of text.

Spark's JSON and CSV readers give NULL for a value that does not fit its column, and keep the record's text in
a separate column if the schema has one. A record is corrupt where that column is not NULL: its text is not
JSON, has too few or too many values, or has a value of another type in a declared column.

A stream given as a DataFrame has corrupt records only if it has such a column: `_corrupt_record`, a STRING.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from weft.query.logical import ColumnDef, StreamDef, TimeUnit
from weft.spark.columns import named
from weft.types import DataType, Kind

_KINDS: dict[type[T.DataType], Kind] = {
    T.BooleanType: Kind.BOOLEAN, T.ByteType: Kind.TINYINT, T.ShortType: Kind.SMALLINT,
    T.IntegerType: Kind.INT, T.LongType: Kind.BIGINT, T.FloatType: Kind.FLOAT,
    T.DoubleType: Kind.DOUBLE, T.StringType: Kind.STRING,
    T.BinaryType: Kind.BINARY, T.DateType: Kind.DATE, T.TimestampType: Kind.TIMESTAMP,
    T.TimestampNTZType: Kind.TIMESTAMP_NTZ,
}  # fmt: skip


_BINARY = "UTF8_BINARY"
"""The collation that strings have unless they say otherwise."""


def column_defs(schema: T.StructType) -> tuple[ColumnDef, ...]:
    """Return a Spark schema's columns."""
    return tuple(ColumnDef(name=field.name, type=_data_type(field.dataType)) for field in schema.fields)


def _data_type(type: T.DataType) -> DataType:
    if isinstance(type, T.DecimalType):
        return DataType(Kind.DECIMAL, type.precision, type.scale)
    if isinstance(type, T.StringType) and getattr(type, "collation", _BINARY) != _BINARY:
        # Its own order and equality are not those of the bytes that Weft compares.
        return DataType(Kind.OTHER)
    return DataType(_KINDS.get(type.__class__, Kind.OTHER))


def ddl(columns: tuple[ColumnDef, ...]) -> str:
    """Write columns as the schema text that Spark's readers take."""
    return ", ".join(f"`{column.name.replace('`', '``')}` {column.type}" for column in columns)


_DAY_US = 86_400_000_000
_PER_UNIT = {TimeUnit.SECONDS: 1_000_000, TimeUnit.MILLISECONDS: 1_000, TimeUnit.MICROSECONDS: 1}
LIMIT_US = 1 << 62
"""Times further from the epoch than this are not times: arithmetic on them would overflow."""


def event_time(stream: StreamDef) -> Column:
    """Return the stream's event time; NULL where there is none that can be used."""
    folded = stream.time.casefold()
    column = next(column for column in stream.columns if column.name.casefold() == folded)
    micros = _micros(named(column.name), column.type, stream.time_unit)
    return F.when((micros > -LIMIT_US) & (micros < LIMIT_US), micros)


def _micros(column: Column, type: DataType, unit: TimeUnit | None) -> Column:
    if type.kind is Kind.DATE:
        return F.try_multiply(F.unix_date(column).cast("bigint"), F.lit(_DAY_US))
    if type.is_time:
        # A timestamp without a zone is UTC, the zone of every session that Weft evaluates in.
        return F.unix_micros(column.cast("timestamp"))
    per_unit = _PER_UNIT.get(unit or TimeUnit.SECONDS)
    if type.is_integer:
        whole = column.cast("bigint")
        if per_unit is not None:
            return F.try_multiply(whole, F.lit(per_unit).cast("bigint"))
        # Rounded down; the smallest whole numbers, which stand for no time, would overflow.
        usable = F.when(whole > F.lit(-(2**63) + 1_000), whole)
        return F.call_function("div", usable - F.pmod(usable, F.lit(1_000)), F.lit(1_000))
    exact = (
        F.try_divide(column, F.lit(1_000)) if per_unit is None else F.try_multiply(column, F.lit(per_unit))
    )
    # NaN is greater than any number, so that it lies outside too.
    inside = F.when((exact > -LIMIT_US) & (exact < LIMIT_US), exact)
    return F.floor(inside).cast("bigint")


CORRUPT_TEXT = "__weft_corrupt"
"""The column that Weft adds to streams of text."""
TEXT_FORMATS = frozenset({"json", "csv"})
_SPARKS_NAME = "_corrupt_record"
_OPTION = "columnNameOfCorruptRecord"


def corrupt_column(stream: StreamDef) -> str | None:
    """Return the column that holds the text of corrupt records; None if there can be none.

    With `mode 'FAILFAST'` or `mode 'DROPMALFORMED'` among a stream's options there are none: Spark drops
    them, or cannot read their file, which is then set aside as a whole (`unread.py`).
    """
    if stream.source is None:
        return _SPARKS_NAME if _declares(stream, _SPARKS_NAME) else None
    if stream.source.format not in TEXT_FORMATS:
        return None
    options = {key.casefold(): value for key, value in stream.source.options}
    if options.get("mode", "permissive").casefold() != "permissive":
        return None
    own = options.get(_OPTION.casefold(), _SPARKS_NAME)
    return own if _declares(stream, own) else CORRUPT_TEXT


def _declares(stream: StreamDef, name: str) -> bool:
    return any(column.name == name and column.type.kind is Kind.STRING for column in stream.columns)


def reader_schema(stream: StreamDef) -> str:
    """Return the schema that a stream's files are read with."""
    added = f", `{CORRUPT_TEXT}` string" if corrupt_column(stream) == CORRUPT_TEXT else ""
    return ddl(stream.columns) + added


def reader_options(stream: StreamDef) -> dict[str, str]:
    """Return the options that a stream's files are read with."""
    options = dict(stream.source.options) if stream.source is not None else {}
    corrupt = corrupt_column(stream)
    if corrupt is None or stream.source is None:
        return options
    others = {key: value for key, value in options.items() if key.casefold() != _OPTION.casefold()}
    return {**others, _OPTION: corrupt}


def is_corrupt(column: str, stream: StreamDef) -> Column:
    """Return whether a record is corrupt, by the column that holds the text of corrupt ones.

    Spark notices a mistyped value only in columns that it reads. So all are named here: the result must not
    depend on what queries read. They are evaluated for corrupt records only.
    """
    are_null = [named(other.name).isNull() for other in stream.columns if other.name != column]
    always = F.xxhash64(*are_null) >= F.lit(-(2**63)).cast("bigint")
    return named(column).isNotNull() & always


def why_corrupt(column: str, stream: StreamDef) -> Column:
    """Return 'mistyped value in column vol', or 'corrupt record' if the column is unknown."""
    plain = F.lit("corrupt record")
    if stream.source is None:
        return plain
    data = [other for other in stream.columns if other.name != column]
    schema = ", ".join(f"`{field.name.replace('`', '``')}` string" for field in data)
    schema += f", `{CORRUPT_TEXT}` string"
    options = {**reader_options(stream), _OPTION: CORRUPT_TEXT, "header": "false"}
    parse = F.from_json if stream.source.format == "json" else F.from_csv
    text = parse(named(column), schema, options)
    # A value that is not NULL as text, but is NULL as the declared type, is mistyped.
    names = [
        F.when(text.getField(field.name).isNotNull() & named(field.name).isNull(), F.lit(field.name))
        for field in data
        if field.type.kind is not Kind.STRING
    ]
    mistyped = F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")
    whole = text.getField(CORRUPT_TEXT).isNull() & (F.size(mistyped) > 0)
    prefix = F.when(F.size(mistyped) > 1, F.lit("mistyped values in columns ")).otherwise(
        F.lit("mistyped value in column ")
    )
    return F.when(whole, F.concat(prefix, F.array_join(mistyped, ", "))).otherwise(plain)
