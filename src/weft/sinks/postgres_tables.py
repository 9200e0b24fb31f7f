"""Results as PostgreSQL tables: names, types and statements."""

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from weft.sinks.postgres_values import is_array
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
        # unnest would take arrays of arrays apart, so arrays are given as text.
        arrays = ", ".join("%s::text[]" if _is_array(type) else f"%s::{type}[]" for _, type in self.columns)
        values = ", ".join(
            f"{escaped(name)}::{type}" if _is_array(type) else escaped(name) for name, type in self.columns
        )
        into = f"INSERT INTO {escaped(self.name)} ({columns}) "
        if not self.keys:
            return into + f"SELECT {values} FROM unnest({arrays}) AS new ({columns})"
        position = next(f"place{n}" for n in range(len(names) + 1) if f"place{n}" not in names)
        rest = [name for name in names if name not in self.keys]
        replace = ", ".join(f"{escaped(name)} = EXCLUDED.{escaped(name)}" for name in rest)
        return (
            into + f"SELECT DISTINCT ON ({keys}) {values} "
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
        type = _column_type(field.type)
        if type is None:
            problem = f'column "{field.name}" is of type {field.type}'
            raise SinkError(f"{problem}, which PostgreSQL tables have no column for")
        columns.append((field.name, type))
    keys = keys_of(schema)
    return TableShape(name=query, columns=tuple(columns), keys=() if keys is None else (*_WINDOW, *keys))


def _column_type(type: pa.DataType) -> str | None:
    if is_array(type):
        element = _column_type(type.value_type)
        return None if element is None else f"{element}[]"
    if pa.types.is_list(type) or pa.types.is_struct(type):
        return "jsonb"
    if pa.types.is_decimal(type):
        return f"numeric({type.precision},{type.scale})"
    if pa.types.is_timestamp(type):
        return f"timestamp {'with' if type.tz else 'without'} time zone"
    return _TYPES.get(type)


def _is_array(column_type: str) -> bool:
    return column_type.endswith("[]")
