"""Which engine has delivered to PostgreSQL, how far, and into which tables; and how to take that back.

    weft_delivered   a row for each history: its last commit, and the lineage of the engine that delivered it
    weft_written     a row for each history and query with results in a table of the query's name

Both change in the transaction of the results.
"""

from datetime import UTC, datetime, timedelta

from weft.errors import DamagedFile
from weft.sinks.fence import Claim, Surplus, Target, is_ahead, read_claim
from weft.sinks.postgres_refused import REFUSED, forget, rows_after
from weft.sinks.postgres_tables import Connection, columns_of, escaped, quoted
from weft.sinks.sink import SinkError

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
