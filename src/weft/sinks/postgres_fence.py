"""Who has delivered to PostgreSQL, how far, and into which tables: and how to take all that back.

    weft_delivered   a row for each history: its last commit, and the lineage of who delivered it
    weft_written     a row for each history and query with results in a table of its name

Both change in the transaction of the results.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from weft.errors import DamagedFile
from weft.sinks.fence import Claim, Surplus, Target, is_ahead, read_claim
from weft.sinks.postgres_refused import count_after, forget_after
from weft.sinks.postgres_tables import quoted
from weft.sinks.sink import SinkError

if TYPE_CHECKING:
    import psycopg

DELIVERED = "weft_delivered"
"""The table of how far each history has come."""
WRITTEN = "weft_written"
"""The table of which queries have results."""
_CREATE = (
    f"""
    CREATE TABLE IF NOT EXISTS {DELIVERED} (
        sink text PRIMARY KEY, "commit" bigint NOT NULL, at timestamp with time zone NOT NULL DEFAULT now(),
        claim text
    )
    """,
    f"CREATE TABLE IF NOT EXISTS {WRITTEN} (sink text, query text, PRIMARY KEY (sink, query))",
)
_HAS_CLAIM = f"""
    SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass('{DELIVERED}') AND attname = 'claim' AND NOT attisdropped
"""
_HAS_WINDOWS = """
    SELECT 1 FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attname = 'window_end' AND NOT attisdropped
"""
_WRITERS = f"""
    SELECT own.query, min(other.sink) FILTER (WHERE other.sink <> own.sink)
    FROM {WRITTEN} AS own JOIN {WRITTEN} AS other USING (query)
    WHERE own.sink = %s GROUP BY own.query ORDER BY own.query
"""
"""The queries of a history, each with another history that writes to its table, NULL if there is none."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def create_tables(connection: "psycopg.Connection[Any]") -> None:
    """Make Weft's own tables, as far as they are not there."""
    for statement in _CREATE:
        connection.execute(statement.encode())
    if connection.execute(_HAS_CLAIM.encode()).fetchone() is None:
        # Made by a version that had no claims.
        connection.execute(f"ALTER TABLE {DELIVERED} ADD COLUMN IF NOT EXISTS claim text".encode())


def seen_by(connection: "psycopg.Connection[Any]", sink: str, *, lock: bool = False) -> Claim | None:
    """Return what was delivered in a history, None if nothing; `lock` keeps others off the row."""
    row = connection.execute(
        f'SELECT "commit", claim FROM {DELIVERED} WHERE sink = %s{" FOR UPDATE" if lock else ""}'.encode(),
        (sink,),
    ).fetchone()
    if row is None:
        return None
    if row[1] is None:
        return Claim(through=int(row[0]))
    name = f'column claim of table {DELIVERED}, sink "{sink}"'
    return Claim(through=int(row[0]), lineage=read_claim(row[1], name=name).lineage)


def note_written(connection: "psycopg.Connection[Any]", sink: str, query: str) -> None:
    """Note that a query has results."""
    connection.execute(
        f"INSERT INTO {WRITTEN} (sink, query) VALUES (%s, %s) ON CONFLICT DO NOTHING".encode(), (sink, query)
    )


def surplus(connection: "psycopg.Connection[Any]", sink: str, target: Target) -> list[Surplus]:
    """Return how many rows of each query lie beyond where a history is to be taken back to.

    Where the target knows all that was delivered, there are none: later rows are others'.
    """
    if not _is_ahead(connection, sink, target):
        return []
    why = f"after commit {target.commit}, which this checkpoint does not have"
    found = []
    for query in _own_queries(connection, sink):
        condition, values = _later(target)
        counted = f"SELECT count(*) FROM {quoted(query)} WHERE {condition}"
        row = connection.execute(counted.encode(), values).fetchone()
        found.append(Surplus(query=query, rows=0 if row is None else int(row[0]), why=why))
    refused = count_after(connection, sink, target.watermark)
    found.append(Surplus(query="weft_refused", rows=refused, why=why))
    return [one for one in found if one.rows]


def rewind(connection: "psycopg.Connection[Any]", sink: str, target: Target) -> None:
    """Remove those rows, and have the history be the current incarnation's; inside a transaction."""
    if not _is_ahead(connection, sink, target, lock=True):
        return
    # Nobody begins to write to one of the tables until this is over.
    connection.execute(f"LOCK TABLE {WRITTEN} IN SHARE MODE".encode())
    for query in _own_queries(connection, sink):
        condition, values = _later(target)
        connection.execute(f"DELETE FROM {quoted(query)} WHERE {condition}".encode(), values)
    forget_after(connection, sink, target.watermark)
    claim = Claim(through=target.commit, lineage=target.lineage).as_json()
    connection.execute(
        f'INSERT INTO {DELIVERED} (sink, "commit", claim) VALUES (%s, %s, %s) ON CONFLICT (sink) '
        f'DO UPDATE SET "commit" = EXCLUDED."commit", claim = EXCLUDED.claim, at = now()'.encode(),
        (sink, target.commit, claim),
    )


def _is_ahead(
    connection: "psycopg.Connection[Any]", sink: str, target: Target, *, lock: bool = False
) -> bool:
    """Say whether more was delivered in a history than the target knows; a damaged claim may hide that."""
    try:
        claim = seen_by(connection, sink, lock=lock)
    except DamagedFile:
        return True
    return claim is not None and is_ahead(target.lineage, claim)


def _own_queries(connection: "psycopg.Connection[Any]", sink: str) -> list[str]:
    """Return the queries with results in tables that only one history writes to.

    Raise SinkError if another writes to one of them, too: rows do not tell whose they are.
    """
    rows = connection.execute(_WRITERS.encode(), (sink,)).fetchall()
    there = [(str(query), other) for query, other in rows if _has_windows(connection, str(query))]
    for query, other in there:
        if other is not None:
            raise SinkError(
                f'sink "{sink}" cannot be taken back: table {_regclass(query)} has results of sink "{other}" '
                "too, and rows do not tell whose they are. Nothing was changed. Begin with a new checkpoint, "
                f"or, if the other is over and its rows may go as well, remove what {WRITTEN} has of it"
            )
    return [query for query, _ in there]


def _has_windows(connection: "psycopg.Connection[Any]", query: str) -> bool:
    """Say whether there is a table of a query's name that is a query's by its columns."""
    if query in (DELIVERED, WRITTEN, "weft_refused"):
        return False
    return connection.execute(_HAS_WINDOWS.encode(), (_regclass(query),)).fetchone() is not None


def _regclass(query: str) -> str:
    return quoted(query).replace("%%", "%")


def _later(target: Target) -> tuple[str, tuple[datetime, ...]]:
    """Return the condition that tells the rows of later commits, with its values."""
    if target.watermark is None:
        return "true", ()
    try:
        return "window_end > %s", (_EPOCH + timedelta(microseconds=target.watermark),)
    except OverflowError:
        return ("false" if target.watermark > 0 else "true"), ()
