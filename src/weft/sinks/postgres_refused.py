"""Rows that PostgreSQL refuses: stored in a table of their own, while all others are taken."""

import json
from collections.abc import Sequence

import pyarrow as pa

from weft.sinks.postgres_tables import Connection, Unwritable, as_text, times_fit
from weft.sinks.sink import SinkError

REFUSED = "weft_refused"
"""The table of refused rows."""
Refused = tuple[str, str]
"""Why a row was refused, and the row as JSON."""
_ABOUT_VALUES = ("22", "23", "44", "54000", "P0")
"""Errors caused by a row: of data, constraints, views and size, and those raised by triggers."""
_ABOUT_A_TABLE = ("0A", "42", "54", "55000")
"""Errors of one table that stay until it is changed: of names, types, rights and missing features."""
_ALREADY_CREATED = "42P07"
"""Another engine has created the table at the same time."""
_CREATE = f"""
    CREATE TABLE IF NOT EXISTS {REFUSED} (
        at timestamp with time zone NOT NULL DEFAULT now(),
        sink text NOT NULL, query text NOT NULL, reason text NOT NULL, "row" text NOT NULL
    )
"""
_KEEP = f"""
    INSERT INTO {REFUSED} (sink, query, reason, "row")
    SELECT %s, %s, reason, "row" FROM unnest(%s::text[], %s::text[]) AS new (reason, "row")
"""


def insert(connection: Connection, statement: bytes, rows: pa.Table) -> list[Refused]:
    """Insert rows, inside a transaction; return those that the server refuses, or raise and insert none.

    Rows that are refused together are halved until each row at fault is known.
    """
    try:
        arrays = [as_text(column) for column in rows.columns]
        with connection.transaction():
            connection.execute(statement, arrays)
        return []
    except Exception as error:
        reason = _fault_of_row(error)
        if reason is None:
            raise
    if rows.num_rows == 1:
        return refuse(reason, rows)
    middle = rows.num_rows // 2
    with connection.transaction():
        first = insert(connection, statement, rows.slice(0, middle))
        return first + insert(connection, statement, rows.slice(middle))


def refuse(reason: str, rows: pa.Table) -> list[Refused]:
    """Return rows as refused for the same reason."""
    return [(reason, as_json(rows.slice(number, 1))) for number in range(rows.num_rows)]


def fault_of_table(error: Exception) -> str | None:
    """Return why a table can take no rows as it is; None if the error is not about one table."""
    if isinstance(error, SinkError):
        return str(error)
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(_ABOUT_A_TABLE) and state != _ALREADY_CREATED:
        return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    return None


def _fault_of_row(error: Exception) -> str | None:
    """Return why a row was refused, without its values; None if the error is not about values."""
    if isinstance(error, Unwritable):
        return str(error)
    state = getattr(error, "sqlstate", None) or ""
    # Errors of the client itself have no state.
    if state.startswith(_ABOUT_VALUES) or (not state and type(error).__name__ == "DataError"):
        return f"{type(error).__name__} ({state})" if state else type(error).__name__
    return None


def keep(connection: Connection, sink: str, query: str, refused: Sequence[Refused]) -> None:
    """Store refused rows, in the transaction of those that were taken."""
    connection.execute(_CREATE.encode())
    reasons, rows = zip(*refused, strict=True)
    connection.execute(_KEEP.encode(), (sink, query, list(reasons), list(rows)))


def count(connection: Connection, sink: str) -> int:
    """Return the number of a sink's refused rows."""
    if connection.execute(b"SELECT to_regclass(%s)", (REFUSED,)).fetchall() == [(None,)]:
        return 0
    statement = f"SELECT count(*) FROM {REFUSED} WHERE sink = %s"
    [[rows]] = connection.execute(statement.encode(), (sink,)).fetchall()
    return int(rows)


def rows_after(connection: Connection, sink: str, watermark: int | None) -> list[str]:
    """Return the ids of refused rows whose windows end after a watermark."""
    if not count(connection, sink):
        return []
    rows = connection.execute(f'SELECT ctid, "row" FROM {REFUSED} WHERE sink = %s'.encode(), (sink,))
    return [str(id) for id, row in rows.fetchall() if watermark is None or _end(row) > watermark]


def forget(connection: Connection, ids: Sequence[str]) -> None:
    """Remove refused rows."""
    if ids:
        connection.execute(f"DELETE FROM {REFUSED} WHERE ctid = ANY(%s::tid[])".encode(), (list(ids),))


def _end(row: str) -> int:
    """Return the end of the window of a refused row, in microseconds."""
    text = str(json.loads(row)["window_end"])
    # A time that has no text is stored as its number.
    if text.removeprefix("-").isdecimal():
        return int(text)
    return int(pa.scalar(text).cast(pa.timestamp("us", "UTC")).value)


def as_json(row: pa.Table) -> str:
    """Return a row as JSON in ASCII, which every text column can hold.

    >>> as_json(pa.table({"symbol": ["a\\0b"], "vol": [7], "price": [None]}))
    '{"symbol": "a\\\\u0000b", "vol": "7", "price": null}'
    """
    return json.dumps({name: _shown(row[name]) for name in row.column_names})


def _shown(column: pa.ChunkedArray) -> str | None:
    if not times_fit(column):
        return str(column[0].value)
    if pa.types.is_nested(column.type):
        return str(column[0])
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    raw = column.cast(pa.large_binary() if binary else pa.large_string())[0].as_buffer()
    return None if raw is None else raw.to_pybytes().decode(errors="backslashreplace")
