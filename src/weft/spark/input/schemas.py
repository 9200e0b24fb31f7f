"""Spark's types as Weft's."""

from pyspark.sql import types as T

from weft.query.logical import ColumnDef
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
