"""Results in PostgreSQL, one table for each query."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.errors import UserError
from weft.faultpoints import reach
from weft.sinks.postgres_refused import Refused, count, insert, keep
from weft.sinks.postgres_tables import TableShape, identifier, quoted, table_shape
from weft.sinks.sink import Results, SinkError

if TYPE_CHECKING:
    import psycopg

_OLDEST = 150000
"""PostgreSQL 15 is the first whose unique indexes can take NULL as a value."""
_ROWS_AT_ONCE = 50_000
_SHOWN = ("host", "hostaddr", "port", "dbname", "user")
"""What messages may say of a connection."""
_DEFAULTS = {
    "application_name": "weft",
    "client_encoding": "utf8",
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
}
_DATA_ERRORS = ("22", "23")
"""Classes of errors whose text repeats values of rows."""
_DELIVERED = """
    CREATE TABLE IF NOT EXISTS weft_delivered (
        sink text PRIMARY KEY, "commit" bigint NOT NULL, at timestamp with time zone NOT NULL DEFAULT now()
    )
"""
_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_log = logging.getLogger("weft.sinks")


class PostgresSink:
    """Write each query's results into a table of its name, made when missing, exactly once.

    A row is known by its window and its group, NULL or not, and takes the place of an earlier one; a query
    that does not select all it groups by only adds rows. All that is delivered together is one transaction,
    in which the table `weft_delivered` is told, too, through which commit it goes. Rows that the server
    refuses for their values are kept in the table `weft_refused`, in the same transaction.
    """

    def __init__(self, dsn: str, *, name: str = "postgres") -> None:
        self.name = name
        self.done = -1
        self.refused = 0
        """How many rows the server has refused."""
        self._dsn = _parsed(dsn)
        self._connection: psycopg.Connection[Any] | None = None
        self._counted_as = name
        self._last = -1
        self._resumed = False
        self._parts: dict[str, list[pa.Table]] = {}
        self._ready: dict[str, TableShape] = {}

    def __repr__(self) -> str:
        return f"PostgresSink({self._place!r}, name={self.name!r})"

    def resume(self, after: int, *, origin: str = "") -> None:
        """Connect, and find out through which commit results are there."""
        self.close()
        self._counted_as = f"{self.name} {origin}" if origin else self.name
        with self._errors("count commits"):
            self._connection = self._connect()
            with self._connection.transaction():
                self._connection.execute(_DELIVERED)
                known = bool(origin) or self._resumed or after >= 0
                self.done = self._last = self._count_on(self._connection, after, known=known)
                self.refused = count(self._connection, self._counted_as)
        self._resumed = True

    def deliver(self, commit: int, results: Results) -> None:
        """Keep results until `flush`."""
        if commit <= self.done:
            return
        for query, rows in results.items():
            if rows.num_rows:
                self._parts.setdefault(query, []).append(rows)
        self._last = commit

    def flush(self) -> None:
        """Write all that was delivered, in one transaction."""
        if self._last == self.done:
            return
        if self._connection is None:
            raise SinkError(f"sink {self.name}: there is no connection to {self._place}")
        refused: dict[str, list[Refused]] = {}
        try:
            with self._errors("note the commit"), self._connection.transaction():
                self._claim(self._connection)
                for query, parts in self._parts.items():
                    with self._errors(f"write results of query {query}"):
                        refused[query] = self._write(self._connection, query, parts)
                    reach("deliver.partly")
        except BaseException:
            self.close()
            raise
        self._parts, self.done = {}, self._last
        for query, several in refused.items():
            self._tell(query, several)

    def _tell(self, query: str, refused: list[Refused]) -> None:
        """Count rows that were set aside, and log why, without their values."""
        if refused:
            self.refused += len(refused)
            reasons = sorted({reason for reason, _ in refused})
            fields = {"sink": self.name, "query": query, "rows": len(refused), "reasons": reasons}
            _log.warning("PostgreSQL refuses rows, which are set aside", extra=fields)

    def close(self) -> None:
        """End the connection."""
        self._parts, self._ready, self._last = {}, {}, self.done
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> "psycopg.Connection[Any]":
        connection: psycopg.Connection[Any] = _psycopg().connect(
            **self._dsn, autocommit=True, prepare_threshold=None
        )
        version = connection.info.server_version
        if version < _OLDEST:
            connection.close()
            raise SinkError(
                f"sink {self.name}: PostgreSQL {version // 10000} at {self._place} is too old; "
                "use 15 or newer"
            )
        return connection

    def _count_on(self, connection: "psycopg.Connection[Any]", after: int, *, known: bool) -> int:
        """Return the commit to go on after: a count of this history may be ahead of what the engine noted."""
        # Without a checkpoint nothing tells this run's first commits from those of an earlier one.
        ahead = "GREATEST(weft_delivered.commit, EXCLUDED.commit)" if known else "EXCLUDED.commit"
        row = connection.execute(
            'INSERT INTO weft_delivered (sink, "commit") VALUES (%s, %s) '
            f'ON CONFLICT (sink) DO UPDATE SET "commit" = {ahead} RETURNING "commit"'.encode(),
            (self._counted_as, after),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def _claim(self, connection: "psycopg.Connection[Any]") -> None:
        """Note the commit first: whoever else delivers under this name waits, and then finds it taken."""
        claimed = connection.execute(
            'UPDATE weft_delivered SET "commit" = %s, at = now() WHERE sink = %s AND "commit" = %s',
            (self._last, self._counted_as, self.done),
        )
        if claimed.rowcount != 1:
            raise SinkError(
                f'sink {self.name}: another engine delivers to {self._place} as "{self._counted_as}"; '
                "stop it, or give this sink another name"
            )

    def _write(
        self, connection: "psycopg.Connection[Any]", query: str, parts: list[pa.Table]
    ) -> list[Refused]:
        """Write a query's results; return the rows that the server refuses, once they are kept elsewhere."""
        rows = pa.concat_tables(parts)
        shape = table_shape(query, parts[0].schema)
        if self._ready.get(query) != shape:
            self._make_ready(connection, shape)
            self._ready[query] = shape
        statement, refused = shape.insert.encode(), list[Refused]()
        for begin in range(0, rows.num_rows, _ROWS_AT_ONCE):
            refused += insert(connection, statement, rows.slice(begin, _ROWS_AT_ONCE))
        if refused:
            keep(connection, self._counted_as, query, refused)
        return refused

    def _make_ready(self, connection: "psycopg.Connection[Any]", shape: TableShape) -> None:
        find = quoted(shape.name).replace("%%", "%")
        found = dict(connection.execute(_COLUMNS, (find,)).fetchall())
        if not found:
            connection.execute(shape.create.replace("%%", "%").encode())
        elif wrong := [
            f"{name} {type}" for name, type in shape.columns if found.get(identifier(name)) != type
        ]:
            raise SinkError(
                f"sink {self.name}: table {find} is not that of query {shape.name}: it has no column "
                f"{', '.join(wrong)}; rename or drop the table, or give the query another name"
            )
        if shape.keys:
            connection.execute(shape.create_index.replace("%%", "%").encode())

    @property
    def _place(self) -> str:
        return " ".join(f"{key}={self._dsn[key]}" for key in _SHOWN if key in self._dsn) or "the local server"

    @contextmanager
    def _errors(self, task: str) -> Iterator[None]:
        """Say what could not be done, with neither the password nor values of rows."""
        psycopg = _psycopg()
        try:
            yield
        except psycopg.Error as error:
            text = _text(error)
            for secret in ("password", "sslpassword"):
                if self._dsn.get(secret):
                    text = text.replace(self._dsn[secret], "***")
            raise SinkError(f"sink {self.name}: cannot {task} at {self._place}: {text}") from None


def _text(error: "psycopg.Error") -> str:
    kind = type(error).__name__
    if (error.sqlstate or "").startswith(_DATA_ERRORS):
        return f"{kind} ({error.sqlstate})"
    said = error.diag.message_primary or str(error).strip().partition("\n")[0]
    return f"{kind}: {said}" if said else kind


def _parsed(dsn: str) -> dict[str, Any]:
    psycopg = _psycopg()
    try:
        given = psycopg.conninfo.conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:
        raise SinkError(
            "the connection string for PostgreSQL cannot be read (not shown: it may hold a password); write "
            "postgresql://user:password@host:5432/database, with %-codes for special characters"
        ) from None
    return {**_DEFAULTS, **given}


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise UserError(
            "PostgreSQL needs the package psycopg; install it: pip install 'weft[postgres]'"
        ) from None
    return psycopg
