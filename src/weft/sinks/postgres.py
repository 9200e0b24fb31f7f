"""Results in PostgreSQL, one table for each query."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import Any
from uuid import uuid4

import pyarrow as pa

from weft.errors import NotInstalled
from weft.faultpoints import reach
from weft.sinks.fence import Claim, Lineage, Surplus, Target, judge
from weft.sinks.postgres_own import (
    DELIVERED,
    REFUSED,
    WRITTEN,
    Refused,
    count,
    count_surplus,
    create_tables,
    fault_of_table,
    insert,
    keep,
    note_written,
    refuse,
    remove_surplus,
    seen_by,
    write_problem,
)
from weft.sinks.postgres_tables import (
    Connection,
    TableShape,
    columns_of,
    identifier,
    quoted,
    storable,
    table_shape,
)
from weft.sinks.sink import Results, SinkError, keys_of

_OLDEST = 150000
"""PostgreSQL 15 is the first whose unique indexes can treat NULL as a value."""
_ROWS_AT_ONCE = 50_000
_TABLES_KNOWN = 10_000
"""Number of queries whose tables are remembered as checked."""
_SHOWN = ("host", "hostaddr", "port", "dbname", "user")
"""The parts of a connection string that messages may show."""
_DEFAULTS = {
    "application_name": "weft", "client_encoding": "utf8",
    "keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3",
}  # fmt: skip
_CONNECT_SECONDS = "10"
_TRIAL_SECONDS = "2"
"""How long a server may take to answer before a start, unless the connection string says so."""
_DATA_ERRORS = ("22", "23")
"""Classes of errors whose text repeats values of rows."""
_FORGET_OLD = (
    f"DELETE FROM {DELIVERED} WHERE sink ~ ' run [0-9a-f]{{32}}$' AND at < now() - interval '30 days'",
    f"DELETE FROM {WRITTEN} AS old WHERE sink ~ ' run [0-9a-f]{{32}}$' AND NOT EXISTS "
    f"(SELECT 1 FROM {DELIVERED} AS known WHERE known.sink = old.sink)",
)
"""Removes histories of runs that crashed. A run that is still alive after all keeps counting by itself."""
_log = logging.getLogger("weft.sinks")


class PostgresSink:
    """Write each query's results into a table of its name, created if missing, exactly once.

    A row is identified by its window and its group, NULL or not, and replaces an earlier one; a query that
    does not select all its grouping columns only adds rows. All that is delivered together is one
    transaction, which also updates the last commit in the table `weft_delivered`. Rows that the server
    refuses for their values, and those of a query whose table cannot take any, are stored in the table
    `weft_refused`, in the same transaction.
    """

    def __init__(self, dsn: str, *, name: str = "postgres") -> None:
        self.name = name
        self.done = -1
        self.refused = 0
        """Number of rows that the server has refused in this history."""
        try:
            self._dsn: dict[str, Any] = {**_DEFAULTS, **_psycopg().conninfo.conninfo_to_dict(dsn)}
        except _psycopg().ProgrammingError:
            raise SinkError(
                "the connection string for PostgreSQL cannot be read (not shown: it may hold a password); "
                "write postgresql://user:password@host:5432/database, with %-codes for special characters"
            ) from None
        self._connection: Connection | None = None
        self._own = self._history = f"{storable(name)} run {uuid4().hex}"
        """The name of the history of a run without a checkpoint."""
        self._lineage: Lineage | None = None
        self._last = -1
        self._parts: dict[str, list[pa.Table]] = {}
        self._ready: dict[str, TableShape] = {}

    def __repr__(self) -> str:
        return f"PostgresSink({self._server!r}, name={self.name!r})"

    @property
    def place(self) -> str:
        """The server and its database."""
        return self._server

    def try_out(self) -> None:
        """Connect, and look whether results may be written; nothing is created."""
        try:
            with self._errors("connect"), self._connect(timeout=_TRIAL_SECONDS) as connection:
                problem = write_problem(connection)
        except SinkError as error:
            raise SinkError(f"{error}; start the server, or mend the connection string") from None
        if problem is not None:
            raise SinkError(f"sink {self.name}: {self._server} {problem}")

    def set_lineage(self, lineage: Lineage) -> None:
        """Deliver as the current incarnation of a lineage from now on."""
        self._lineage = lineage

    def seen(self, origin: str) -> Claim | None:
        """Return who delivered last in a history, and through which commit."""
        with self._errors("count commits"), self._connect() as connection:
            create_tables(connection)
            return seen_by(connection, self._history_of(origin))

    def surplus(self, target: Target) -> list[Surplus]:
        """Return the rows of windows that later commits answered."""
        with self._errors("count rows"), self._connect() as connection:
            create_tables(connection)
            return count_surplus(connection, self._history_of(target.origin), target)

    def rewind(self, target: Target) -> None:
        """Remove these rows, and claim the history for the current incarnation, in one transaction."""
        with self._errors("remove rows"), self._connect() as connection, connection.transaction():
            create_tables(connection)
            remove_surplus(connection, self._history_of(target.origin), target)

    def resume(self, after: int, *, origin: str = "") -> None:
        """Connect, and find out through which commit results are there; raise Fenced if they are not ours."""
        self._disconnect()
        self._history = self._history_of(origin)
        with self._errors("count commits"):
            self._connection = self._connect()
            with self._connection.transaction():
                create_tables(self._connection)
                if not origin:
                    for statement in _FORGET_OLD:
                        self._connection.execute(statement.encode())
                claim = self._judge(self._connection)
                # The server's count may be ahead of the engine's.
                ahead = f"GREATEST({DELIVERED}.commit, EXCLUDED.commit)"
                [[commit]] = self._connection.execute(
                    f'INSERT INTO {DELIVERED} (sink, "commit") VALUES (%s, %s) '
                    f'ON CONFLICT (sink) DO UPDATE SET "commit" = {ahead} RETURNING "commit"'.encode(),
                    (self._history, after),
                ).fetchall()
                self.done = self._last = int(commit)
                self.refused = count(self._connection, self._history)
        last = -1 if claim is None else claim.through
        if last < after and self._history != self._own:
            # It is another database, or an older copy of it.
            fields = {"sink": self.name, "database": self._server, "first": last + 1, "last": after}
            message = "sink %s: %s has no results of commits %d to %d; it gets those that follow"
            _log.warning(message, self.name, self._server, last + 1, after, extra=fields)

    def _history_of(self, origin: str) -> str:
        return storable(f"{self.name} {origin}") if origin else self._own

    def _judge(self, connection: Connection) -> Claim | None:
        """Return what was delivered in this history; raise Fenced if this lineage does not know it."""
        claim = seen_by(connection, self._history, lock=True)
        if self._lineage is not None and self._history != self._own:
            judge(f"{self.name} ({self._server})", self._lineage, claim)
        return claim

    def deliver(self, commit: int, results: Results) -> None:
        """Keep results until `flush`."""
        if commit <= self.done:
            return
        for query, rows in results.items():
            if rows.num_rows:
                self._parts.setdefault(query, []).append(rows)
        self._last = commit

    def flush(self) -> None:
        """Write all delivered results, in one transaction."""
        if self._last == self.done:
            return
        if self._connection is None:
            raise SinkError(f"sink {self.name}: there is no connection to {self._server}")
        refused: dict[str, list[Refused]] = {}
        try:
            with self._errors("note the commit"), self._connection.transaction():
                self._claim(self._connection)
                # Deferred constraints would fail at the end of the transaction, without a row to blame.
                self._connection.execute(b"SET CONSTRAINTS ALL IMMEDIATE")
                for query, parts in self._parts.items():
                    with self._errors(f"write results of query {query}"):
                        refused[query] = []
                        # Columns change when a name is given to another query.
                        for _, alike in groupby(parts, key=lambda part: (part.schema, keys_of(part.schema))):
                            rows = pa.concat_tables(alike)
                            for begin in range(0, rows.num_rows, _ROWS_AT_ONCE):
                                some = rows.slice(begin, _ROWS_AT_ONCE)
                                refused[query] += self._insert(self._connection, query, some)
                        if refused[query]:
                            keep(self._connection, self._history, storable(query), refused[query])
                    reach("deliver.partly")
        except BaseException:
            self._disconnect()
            raise
        self._parts, self.done = {}, self._last
        for query, kept in refused.items():
            if kept:
                self.refused += len(kept)
                # Without the rows' values.
                reasons = sorted({reason for reason, _ in kept})
                fields = {"sink": self.name, "query": query, "rows": len(kept), "reasons": reasons}
                _log.warning("PostgreSQL refuses rows, which are set aside", extra=fields)

    def close(self) -> None:
        """End the connection; the history of a run without a checkpoint ends, too."""
        if self._connection is not None and self._history == self._own:
            with suppress(_psycopg().Error):
                for table in (DELIVERED, WRITTEN):
                    self._connection.execute(f"DELETE FROM {table} WHERE sink = %s".encode(), (self._own,))
        self._own = f"{storable(self.name)} run {uuid4().hex}"
        self._disconnect()

    def _disconnect(self) -> None:
        """End the connection, and drop the results kept back."""
        self._parts, self._ready, self._last = {}, {}, self.done
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self, *, timeout: str = _CONNECT_SECONDS) -> Connection:
        # What the connection string says itself comes last.
        options = {"connect_timeout": timeout, **self._dsn}
        connection: Connection = _psycopg().connect(**options, autocommit=True, prepare_threshold=None)
        version = connection.info.server_version
        if version < _OLDEST:
            connection.close()
            raise SinkError(
                f"sink {self.name}: PostgreSQL {version // 10000} at {self._server} is too old; "
                "use 15 or newer"
            )
        return connection

    def _claim(self, connection: Connection) -> None:
        """Store the commit and who delivers it, first: another engine that tries waits, and then fails."""
        claim, lineage = self._judge(connection), self._lineage
        if claim is None or claim.through != self.done:
            raise SinkError(
                f'sink {self.name}: another engine delivers to {self._server} as "{self._history}"; '
                "stop it, or give this sink another name"
            )
        text = None
        if lineage is not None and self._history != self._own:
            known = claim.lineage is not None and claim.lineage.current == lineage.current
            text = None if known else Claim(through=self._last, lineage=lineage).as_json()
        connection.execute(
            f'UPDATE {DELIVERED} SET "commit" = %s, claim = COALESCE(%s, claim), at = now() '
            "WHERE sink = %s".encode(),
            (self._last, text, self._history),
        )

    def _insert(self, connection: Connection, query: str, rows: pa.Table) -> list[Refused]:
        """Insert rows; return the refused ones, which are all if the query's table cannot be used."""
        known = self._ready.pop(query, None)
        try:
            shape = table_shape(query, rows.schema)
            if shape != known:
                with connection.transaction():
                    self._prepare_table(connection, shape)
                    note_written(connection, self._history, query)
            refused = insert(connection, shape.insert.encode(), rows)
        except Exception as error:
            reason = fault_of_table(error)
            if reason is None:
                raise
            # A table that was checked may have been dropped or changed since.
            return refuse(reason, rows) if known is None else self._insert(connection, query, rows)
        self._ready[query] = shape
        if len(self._ready) > _TABLES_KNOWN:
            # It is checked again, should its query give more.
            del self._ready[next(iter(self._ready))]
        return refused

    def _prepare_table(self, connection: Connection, shape: TableShape) -> None:
        """Create the table if missing; raise SinkError if it is not the query's."""
        table = quoted(shape.name)
        if shape.name in (DELIVERED, REFUSED, WRITTEN):
            raise SinkError(f"table {table} is the sink's own; give query {shape.name} another name")
        types = columns_of(connection, shape.name)
        missing = [f"{name} {type}" for name, type in shape.columns if types.get(identifier(name)) != type]
        if not types:
            connection.execute(shape.create.encode())
        elif missing:
            raise SinkError(
                f"table {table} is not that of query {shape.name}: it has no column "
                f"{', '.join(missing)}; rename or drop the table, or give the query another name"
            )
        if shape.keys:
            connection.execute(shape.create_index.encode())

    @property
    def _server(self) -> str:
        return " ".join(f"{key}={self._dsn[key]}" for key in _SHOWN if key in self._dsn) or "the local server"

    @contextmanager
    def _errors(self, task: str) -> Iterator[None]:
        """Raise the server's errors as SinkErrors that show neither the password nor values of rows."""
        try:
            yield
        except _psycopg().Error as error:
            kind, text = type(error).__name__, f"{type(error).__name__} ({error.sqlstate})"
            if not (error.sqlstate or "").startswith(_DATA_ERRORS):
                message = error.diag.message_primary or str(error).strip().partition("\n")[0]
                text = f"{kind}: {message}" if message else kind
            for secret in ("password", "sslpassword"):
                if self._dsn.get(secret):
                    text = text.replace(self._dsn[secret], "***")
            raise SinkError(f"sink {self.name}: cannot {task} at {self._server}: {text}") from None


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise NotInstalled("psycopg", "PostgreSQL") from None
    return psycopg
