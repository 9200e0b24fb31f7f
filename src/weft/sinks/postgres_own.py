"""Weft's own tables in PostgreSQL: which engine has delivered, how far, into which tables; and refused rows.

    weft_delivered   a row for each history: its last commit, and the lineage of the engine that delivered it
    weft_written     a row for each history and query with results in a table of the query's name
    weft_refused     rows that the server has refused, while all others are taken

All change in the transaction of the results.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from weft.errors import DamagedFile
from weft.sinks.fence import Claim, Surplus, Target, is_ahead, read_claim
from weft.sinks.postgres_tables import Connection, columns_of, escaped, quoted
from weft.sinks.postgres_values import Unwritable, as_text, documents, times_fit
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
_CREATE_REFUSED = f"""
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
    connection.execute(_CREATE_REFUSED.encode())
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


def _shown(column: pa.ChunkedArray | pa.Array) -> str | None:
    if not times_fit(column):
        return str(column[0].value)
    if pa.types.is_list(column.type) or pa.types.is_struct(column.type):
        return documents(column.combine_chunks(), _each_shown)[0]
    if pa.types.is_nested(column.type):
        return str(column[0])
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    raw = column.cast(pa.large_binary() if binary else pa.large_string())[0].as_buffer()
    return None if raw is None else raw.to_pybytes().decode(errors="backslashreplace")


def _each_shown(array: pa.Array) -> list[str | None]:
    return [_shown(array.slice(number, 1)) for number in range(len(array))]


DELIVERED = "weft_delivered"
"""The table of the last commit of each history."""
WRITTEN = "weft_written"
"""The table of queries that have results."""
_CREATE = (
    f"""
    CREATE TABLE IF NOT EXISTS {DELIVERED} (
        sink text PRIMARY KEY, "commit" bigint NOT NULL, at timestamp with time zone NOT NULL DEFAULT now(),
        claim text
    )
    """,
    f"CREATE TABLE IF NOT EXISTS {WRITTEN} (sink text, query text, PRIMARY KEY (sink, query))",
)
_WRITERS = f"""
    SELECT own.query, min(other.sink) FILTER (WHERE other.sink <> own.sink)
    FROM {WRITTEN} AS own JOIN {WRITTEN} AS other USING (query)
    WHERE own.sink = %s GROUP BY own.query ORDER BY own.query
"""
"""The queries of a history, each with another history that writes to its table, NULL if there is none."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def create_tables(connection: Connection) -> None:
    """Create Weft's own tables, if missing."""
    for statement in _CREATE:
        connection.execute(statement.encode())
    if "claim" not in columns_of(connection, DELIVERED):
        # Created by a version without claims.
        connection.execute(f"ALTER TABLE {DELIVERED} ADD COLUMN IF NOT EXISTS claim text".encode())


def write_problem(connection: Connection) -> str | None:
    """Return why results cannot be written, and how to mend it; None if they can."""
    [[read_only, schema, creates, known, delivers]] = connection.execute(
        b"""
        SELECT current_setting('transaction_read_only') = 'on', schema,
            has_schema_privilege(schema, 'CREATE'), own,
            has_table_privilege(own, 'SELECT') AND has_table_privilege(own, 'INSERT')
            AND has_table_privilege(own, 'UPDATE')
        FROM (SELECT current_schema()::text AS schema, to_regclass(%s) AS own) AS found
        """,
        (DELIVERED,),
    ).fetchall()
    if read_only:
        return "can only be read; name the server that takes changes"
    if schema is None:
        return "has no schema of the search path; create one, or set search_path in the connection string"
    if known is None and not creates:
        return f"lets this user create no tables in schema {schema}; GRANT CREATE ON SCHEMA {schema} to it"
    if known is not None and not delivers:
        return f"lets this user not write to table {DELIVERED}; GRANT SELECT, INSERT, UPDATE, DELETE on it"
    return None


def seen_by(connection: Connection, sink: str, *, lock: bool = False) -> Claim | None:
    """Return what was delivered in a history, None if nothing; `lock` keeps others from changing that."""
    row = connection.execute(
        f'SELECT "commit", claim FROM {DELIVERED} WHERE sink = %s{" FOR UPDATE" if lock else ""}'.encode(),
        (sink,),
    ).fetchone()
    if row is None:
        return None
    commit, claim = row
    if claim is None:
        return Claim(through=commit)
    name = f'column claim of table {DELIVERED}, sink "{sink}"'
    return Claim(through=commit, lineage=read_claim(claim, name=name).lineage)


def note_written(connection: Connection, sink: str, query: str) -> None:
    """Note that a query has results."""
    connection.execute(
        f"INSERT INTO {WRITTEN} (sink, query) VALUES (%s, %s) ON CONFLICT DO NOTHING".encode(), (sink, query)
    )


def count_surplus(connection: Connection, sink: str, target: Target) -> list[Surplus]:
    """Return the number of rows of each query beyond the commit to which a history is to be taken back.

    If the target knows all that was delivered, there are none: later rows belong to others.
    """
    if not _is_ahead(connection, sink, target):
        return []
    condition, values = _later(target)
    rows: dict[str, int] = {}
    for query in _own_queries(connection, sink):
        statement = f"SELECT count(*) FROM {escaped(query)} WHERE {condition}"
        [[rows[query]]] = connection.execute(statement.encode(), values).fetchall()
    rows[REFUSED] = len(rows_after(connection, sink, target.watermark))
    why = f"after commit {target.commit}, which this checkpoint does not have"
    return [Surplus(query=query, rows=count, why=why) for query, count in rows.items() if count]


def remove_surplus(connection: Connection, sink: str, target: Target) -> None:
    """Remove those rows, and claim the history for the current incarnation; inside a transaction."""
    if not _is_ahead(connection, sink, target, lock=True):
        return
    # Until the end of the transaction no other history begins to write to one of the tables.
    connection.execute(f"LOCK TABLE {WRITTEN} IN SHARE MODE".encode())
    condition, values = _later(target)
    for query in _own_queries(connection, sink):
        connection.execute(f"DELETE FROM {escaped(query)} WHERE {condition}".encode(), values)
    forget(connection, rows_after(connection, sink, target.watermark))
    claim = Claim(through=target.commit, lineage=target.lineage).as_json()
    connection.execute(
        f'INSERT INTO {DELIVERED} (sink, "commit", claim) VALUES (%s, %s, %s) ON CONFLICT (sink) '
        f'DO UPDATE SET "commit" = EXCLUDED."commit", claim = EXCLUDED.claim, at = now()'.encode(),
        (sink, target.commit, claim),
    )


def _is_ahead(connection: Connection, sink: str, target: Target, *, lock: bool = False) -> bool:
    """Say whether more was delivered in a history than the target knows; a damaged claim may hide that."""
    try:
        claim = seen_by(connection, sink, lock=lock)
    except DamagedFile:
        return True
    return claim is not None and is_ahead(target.lineage, claim)


def _own_queries(connection: Connection, sink: str) -> list[str]:
    """Return the queries with results in tables that only one history writes to.

    Raise SinkError if another history writes to one of them, too: rows do not show whose they are.
    """
    queries = []
    for query, other in connection.execute(_WRITERS.encode(), (sink,)).fetchall():
        # A table without windows is not a query's.
        if query in (DELIVERED, WRITTEN, REFUSED) or "window_end" not in columns_of(connection, query):
            continue
        if other is not None:
            raise SinkError(
                f'sink "{sink}" cannot be taken back: table {quoted(query)} has results of sink "{other}" '
                "too, and rows do not show whose they are. Nothing was changed. Begin with a new checkpoint, "
                f"or, if the other is over and its rows may go as well, remove its rows from {WRITTEN}"
            )
        queries.append(query)
    return queries


def _later(target: Target) -> tuple[str, tuple[datetime, ...]]:
    """Return the condition for the rows of later commits, with its values."""
    if target.watermark is None:
        return "true", ()
    try:
        return "window_end > %s", (_EPOCH + timedelta(microseconds=target.watermark),)
    except OverflowError:
        return ("false" if target.watermark > 0 else "true"), ()
