"""Rows that PostgreSQL refuses: kept in a table of their own, while all others go on."""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.sinks.postgres_tables import Unwritable, as_arrays, times_fit

if TYPE_CHECKING:
    import psycopg

REFUSED = "weft_refused"
"""The table of rows that could not be taken."""
Refused = tuple[str, str]
"""Why a row was refused, and the row as JSON."""
_ABOUT_VALUES = ("22", "23", "54000")
"""Errors that a row brings with it wherever it goes: of data, of constraints, of size."""
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


def insert(connection: "psycopg.Connection[Any]", statement: bytes, rows: pa.Table) -> Iterator[Refused]:
    """Insert rows, inside a transaction; yield those that the server refuses.

    Rows that are refused together are halved until each of those at fault is known.
    """
    try:
        arrays = as_arrays(rows)
        with connection.transaction():
            connection.execute(statement, arrays)
    except Exception as error:
        reason = refusal(error)
        if reason is None:
            raise
        if rows.num_rows == 1:
            yield reason, as_json(rows)
            return
    else:
        return
    middle = rows.num_rows // 2
    yield from insert(connection, statement, rows.slice(0, middle))
    yield from insert(connection, statement, rows.slice(middle))


def refusal(error: Exception) -> str | None:
    """Return why a row was refused, without its values; None if the error is not about values."""
    if isinstance(error, Unwritable):
        return str(error)
    state = getattr(error, "sqlstate", None) or ""
    # What the client itself refuses has no state.
    if state.startswith(_ABOUT_VALUES) or (not state and type(error).__name__ == "DataError"):
        return f"{type(error).__name__} ({state})" if state else type(error).__name__
    return None


def keep(connection: "psycopg.Connection[Any]", sink: str, query: str, refused: Sequence[Refused]) -> None:
    """Keep refused rows, in the transaction of those that were taken."""
    connection.execute(_CREATE.encode())
    reasons, rows = zip(*refused, strict=True)
    connection.execute(_KEEP.encode(), (sink, query, list(reasons), list(rows)))


def count(connection: "psycopg.Connection[Any]", sink: str) -> int:
    """Return how many rows of a sink are kept."""
    there = connection.execute(b"SELECT to_regclass(%s)", (REFUSED,)).fetchone()
    if there is None or there[0] is None:
        return 0
    found = connection.execute(f"SELECT count(*) FROM {REFUSED} WHERE sink = %s".encode(), (sink,)).fetchone()
    return 0 if found is None else int(found[0])


def as_json(row: pa.Table) -> str:
    """Return a row as JSON, in characters that every text can hold.

    >>> as_json(pa.table({"symbol": ["a\\0b"], "vol": [7], "price": [None]}))
    '{"symbol": "a\\\\u0000b", "vol": "7", "price": null}'
    """
    return json.dumps({name: _shown(row[name]) for name in row.column_names})


def _shown(column: pa.ChunkedArray) -> str | None:
    if not times_fit(column):
        return str(column[0].value)
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    raw = column.cast(pa.large_binary() if binary else pa.large_string())[0].as_buffer()
    return None if raw is None else raw.to_pybytes().decode(errors="backslashreplace")
