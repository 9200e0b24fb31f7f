"""Results as PostgreSQL tables: names, types and statements."""

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from weft.sinks.sink import SinkError, keys_of
from weft.storage.names import file_name

if TYPE_CHECKING:
    import psycopg

Connection: TypeAlias = "psycopg.Connection[Any]"
_LONGEST_NAME = 63
"""PostgreSQL silently cuts off longer names, so two of them could become the same."""
_CUT_NAME = re.compile(r".*_[0-9a-f]{10}", re.DOTALL)
"""The form of a name that was cut; it has 60 to 63 bytes, for no character is cut in two."""
_WINDOW = ("window_start", "window_end")
_NUL = "␀"
"""Replaces NUL, which PostgreSQL's text cannot hold."""
_FIRST_DAY, _LAST_DAY = -719_162, 11_248_737
"""Of the years 1 to 32767: in these, times as text mean the same to Arrow and to PostgreSQL."""
_PER_DAY = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}
_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean", pa.int8(): "smallint", pa.int16(): "smallint", pa.int32(): "integer",
    pa.int64(): "bigint", pa.float32(): "real", pa.float64(): "double precision", pa.date32(): "date",
    pa.string(): "text", pa.large_string(): "text", pa.null(): "text",
    pa.binary(): "bytea", pa.large_binary(): "bytea",
}  # fmt: skip
_COLUMNS = b"""
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""


class Unwritable(ValueError):
    """A value that has no text; the message says why, without the value."""


def storable(name: str) -> str:
    """Return a name as PostgreSQL's text can hold it, which has neither NUL nor unpaired surrogates.

    Of a history's name, the space is encoded as well, so that no other name becomes the same.

    >>> storable("postgres c1 trades"), storable("postgres c1 a\\0")
    ('postgres c1 trades', 'postgres%20c1%20a%00')
    """
    unfit = any(character == "\0" or "\ud800" <= character <= "\udfff" for character in name)
    return file_name(name) if unfit else name


def identifier(name: str) -> str:
    """Return a name as PostgreSQL can hold it; one that is too long ends in a digest of the whole.

    >>> identifier("by symbol"), len(identifier("x" * 200))
    ('by symbol', 63)
    """
    encoded = name.encode()
    # A name in the form of a cut one gets a digest, too, so that it differs from those.
    looks_cut = len(encoded) > _LONGEST_NAME - 4 and _CUT_NAME.fullmatch(name)
    if len(encoded) <= _LONGEST_NAME and not looks_cut:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:10]
    return encoded[: _LONGEST_NAME - len(digest) - 1].decode(errors="ignore") + "_" + digest


def quoted(name: str) -> str:
    """Return a name as an identifier in a statement without parameters.

    >>> print(quoted('50% "off"'))
    "50% ""off"\""
    """
    return '"' + identifier(name).replace('"', '""') + '"'


def escaped(name: str) -> str:
    """Return a name as an identifier in a statement with parameters, where percent signs are doubled."""
    return quoted(name).replace("%", "%%")


def columns_of(connection: Connection, table: str) -> dict[str, str]:
    """Return the columns of a table, with their types; none if there is no such table."""
    rows: list[tuple[str, str]] = connection.execute(_COLUMNS, (quoted(table),)).fetchall()
    return dict(rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShape:
    """The table of one query."""

    name: str
    columns: tuple[tuple[str, str], ...]
    """Names and types."""
    keys: tuple[str, ...]
    """The columns that identify a row; empty if none do."""

    @property
    def create(self) -> str:
        """The statement that creates the table if missing."""
        columns = ", ".join(f"{quoted(name)} {type}" for name, type in self.columns)
        return f"CREATE TABLE IF NOT EXISTS {quoted(self.name)} ({columns})"

    @property
    def create_index(self) -> str:
        """The statement that creates the unique index, in which NULL equals NULL, if missing."""
        index = quoted(f"{identifier(self.name)} weft key")
        keys = ", ".join(map(quoted, self.keys))
        return f"CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {quoted(self.name)} ({keys}) NULLS NOT DISTINCT"

    @property
    def insert(self) -> str:
        """The statement that inserts rows, given as an array per column; the last row of a key wins."""
        names = [name for name, _ in self.columns]
        columns, keys = (", ".join(map(escaped, listed)) for listed in (names, self.keys))
        arrays = ", ".join(f"%s::{type}[]" for _, type in self.columns)
        into = f"INSERT INTO {escaped(self.name)} ({columns}) "
        if not self.keys:
            return into + f"SELECT {columns} FROM unnest({arrays}) AS new ({columns})"
        position = next(f"place{n}" for n in range(len(names) + 1) if f"place{n}" not in names)
        rest = [name for name in names if name not in self.keys]
        replace = ", ".join(f"{escaped(name)} = EXCLUDED.{escaped(name)}" for name in rest)
        return (
            into + f"SELECT DISTINCT ON ({keys}) {columns} "
            f"FROM unnest({arrays}) WITH ORDINALITY AS new ({columns}, {escaped(position)}) "
            f"ORDER BY {keys}, {escaped(position)} DESC "
            f"ON CONFLICT ({keys}) DO " + (f"UPDATE SET {replace}" if rest else "NOTHING")
        )


def table_shape(query: str, schema: pa.Schema) -> TableShape:
    """Return the table that holds a query's results; raise SinkError if PostgreSQL can have no such table."""
    for name in (query, *schema.names):
        if storable(name) != name:
            raise SinkError(f"PostgreSQL has no name {name!a}; give the query, or its column, another")
    columns = []
    for field in schema:
        if pa.types.is_decimal(field.type):
            type = f"numeric({field.type.precision},{field.type.scale})"
        elif pa.types.is_timestamp(field.type):
            type = f"timestamp {'with' if field.type.tz else 'without'} time zone"
        elif field.type in _TYPES:
            type = _TYPES[field.type]
        else:
            problem = f'column "{field.name}" is of type {field.type}'
            raise SinkError(f"{problem}, which PostgreSQL tables have no column for")
        columns.append((field.name, type))
    keys = keys_of(schema)
    return TableShape(name=query, columns=tuple(columns), keys=() if keys is None else (*_WINDOW, *keys))


def as_text(column: pa.ChunkedArray) -> list[str | None]:
    """Return values as text that PostgreSQL reads back exactly; raise Unwritable if there is none."""
    type = column.type
    if pa.types.is_binary(type) or pa.types.is_large_binary(type):
        return [None if value is None else "\\x" + value.hex() for value in column.to_pylist()]
    if not times_fit(column):
        raise Unwritable("a time before the year 1 or after the year 32767")
    text = column.cast(pa.large_string())
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        text = pc.replace_substring(text, "\0", _NUL)
    try:
        return list(text.to_pylist())
    except UnicodeDecodeError:
        raise Unwritable("text that is not UTF-8") from None


def times_fit(column: pa.ChunkedArray) -> bool:
    """Say whether PostgreSQL can hold all times of a column; columns of other types pass."""
    if not pa.types.is_temporal(column.type):
        return True
    is_date = pa.types.is_date32(column.type)
    bounds = pc.min_max(column.cast(pa.int32() if is_date else pa.int64())).as_py()
    per_day = 1 if is_date else _PER_DAY[column.type.unit]
    return bounds["min"] is None or (
        _FIRST_DAY * per_day <= bounds["min"] and bounds["max"] < (_LAST_DAY + 1) * per_day
    )
