"""Results in PostgreSQL, one table for each query."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa

from weft.errors import UserError
from weft.faultpoints import reach
from weft.sinks.fence import Claim, Lineage, Surplus, Target, judge
from weft.sinks.postgres_fence import DELIVERED, WRITTEN, create_tables, note_written, seen_by
from weft.sinks.postgres_fence import rewind as take_back
from weft.sinks.postgres_fence import surplus as beyond
from weft.sinks.postgres_refused import REFUSED, Refused, count, fault_of_table, insert, keep, refuse
from weft.sinks.postgres_tables import TableShape, identifier, quoted, storable, table_shape
from weft.sinks.sink import Results, SinkError, keys_of

if TYPE_CHECKING:
    import psycopg

_OLDEST = 150000
"""PostgreSQL 15 is the first whose unique indexes can take NULL as a value."""
_ROWS_AT_ONCE = 50_000
_TABLES_KNOWN = 10_000
"""Of how many queries it is remembered that their tables can be used."""
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
_FORGET_OLD = (
    f"DELETE FROM {DELIVERED} WHERE sink ~ ' run [0-9a-f]{{32}}$' AND at < now() - interval '30 days'",
    f"DELETE FROM {WRITTEN} AS old WHERE sink ~ ' run [0-9a-f]{{32}}$' AND NOT EXISTS "
    f"(SELECT 1 FROM {DELIVERED} AS known WHERE known.sink = old.sink)",
)
"""Forgets histories that a crash ended. One that is not over after all is counted on by who has it."""
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
    refuses for their values, and those of a query whose table cannot take any, are kept in the table
    `weft_refused`, in the same transaction.
    """

    def __init__(self, dsn: str, *, name: str = "postgres") -> None:
        self.name = name
        self.done = -1
        self.refused = 0
        """How many rows the server has refused in this history."""
        self._dsn = _parsed(dsn)
        self._connection: psycopg.Connection[Any] | None = None
        self._own = self._counted_as = self._new_history()
        self._lineage: Lineage | None = None
        self._last = -1
        self._parts: dict[str, list[pa.Table]] = {}
        self._ready: dict[str, TableShape] = {}

    def __repr__(self) -> str:
        return f"PostgresSink({self._place!r}, name={self.name!r})"

    def stand_as(self, lineage: Lineage) -> None:
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
            return beyond(connection, self._history_of(target.origin), target)

    def rewind(self, target: Target) -> None:
        """Remove these rows, and have the history be the current incarnation's, in one transaction."""
        with self._errors("remove rows"), self._connect() as connection, connection.transaction():
            create_tables(connection)
            take_back(connection, self._history_of(target.origin), target)

    def resume(self, after: int, *, origin: str = "") -> None:
        """Connect, and find out through which commit results are there; raise Fenced if they are not ours."""
        self._disconnect()
        self._counted_as = self._history_of(origin)
        with self._errors("count commits"):
            self._connection = self._connect()
            with self._connection.transaction():
                create_tables(self._connection)
                if not origin:
                    for forget in _FORGET_OLD:
                        self._connection.execute(forget.encode())
                claim = self._judge(self._connection)
                self.done = self._last = self._count_on(self._connection, after)
                self.refused = count(self._connection, self._counted_as)
        self._tell_missing(-1 if claim is None else claim.through, after)

    def _tell_missing(self, last: int, after: int) -> None:
        """Say so if results are gone that were delivered: it is another database, or an older copy of it."""
        if last < after and self._counted_as != self._own:
            fields = {"sink": self.name, "database": self._place, "first": last + 1, "last": after}
            message = "sink %s: %s has no results of commits %d to %d; it gets those that follow"
            _log.warning(message, self.name, self._place, last + 1, after, extra=fields)

    def _history_of(self, origin: str) -> str:
        return storable(f"{self.name} {origin}") if origin else self._own

    def _judge(self, connection: "psycopg.Connection[Any]") -> Claim | None:
        """Return what was delivered in this history; raise Fenced if that is not known to this lineage."""
        claim = seen_by(connection, self._counted_as, lock=True)
        if self._lineage is not None and self._counted_as != self._own:
            judge(f"{self.name} ({self._place})", self._lineage, claim)
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
        """Write all that was delivered, in one transaction."""
        if self._last == self.done:
            return
        if self._connection is None:
            raise SinkError(f"sink {self.name}: there is no connection to {self._place}")
        refused: dict[str, list[Refused]] = {}
        try:
            with self._errors("note the commit"), self._connection.transaction():
                self._claim(self._connection)
                # What would be refused at the end of the transaction is refused with the rows at fault.
                self._connection.execute(b"SET CONSTRAINTS ALL IMMEDIATE")
                for query, parts in self._parts.items():
                    with self._errors(f"write results of query {query}"):
                        refused[query] = self._write(self._connection, query, parts)
                    reach("deliver.partly")
        except BaseException:
            self._disconnect()
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
        """End the connection, and a history that nothing outlives."""
        if self._connection is not None and self._counted_as == self._own:
            with suppress(_psycopg().Error):
                for table in (DELIVERED, WRITTEN):
                    forget = f"DELETE FROM {table} WHERE sink = %s"
                    self._connection.execute(forget.encode(), (self._own,))
        self._own = self._new_history()
        self._disconnect()

    def _new_history(self) -> str:
        """Return a name for commits that no checkpoint counts: no other engine or stream counts by it."""
        return f"{storable(self.name)} run {uuid4().hex}"

    def _disconnect(self) -> None:
        """End the connection, and forget what is kept back."""
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

    def _count_on(self, connection: "psycopg.Connection[Any]", after: int) -> int:
        """Return the commit to go on after: a count of this history may be ahead of what the engine noted."""
        ahead = f"GREATEST({DELIVERED}.commit, EXCLUDED.commit)"
        row = connection.execute(
            f'INSERT INTO {DELIVERED} (sink, "commit") VALUES (%s, %s) '
            f'ON CONFLICT (sink) DO UPDATE SET "commit" = {ahead} RETURNING "commit"'.encode(),
            (self._counted_as, after),
        ).fetchone()
        assert row is not None
        return int(row[0])

    def _claim(self, connection: "psycopg.Connection[Any]") -> None:
        """Note the commit and who delivers it, first: whoever else does so waits, and then finds it taken."""
        claim, lineage = self._judge(connection), self._lineage
        if claim is None or claim.through != self.done:
            raise SinkError(
                f'sink {self.name}: another engine delivers to {self._place} as "{self._counted_as}"; '
                "stop it, or give this sink another name"
            )
        text = None
        if lineage is not None and self._counted_as != self._own:
            known = claim.lineage is not None and claim.lineage.current == lineage.current
            text = None if known else Claim(through=self._last, lineage=lineage).as_json()
        connection.execute(
            f'UPDATE {DELIVERED} SET "commit" = %s, claim = COALESCE(%s, claim), at = now() '
            "WHERE sink = %s".encode(),
            (self._last, text, self._counted_as),
        )

    def _write(
        self, connection: "psycopg.Connection[Any]", query: str, parts: list[pa.Table]
    ) -> list[Refused]:
        """Write a query's results; return the rows that are refused, once they are kept elsewhere."""
        refused: list[Refused] = []
        # Columns change when a name is given to another query.
        for _, alike in groupby(parts, key=lambda part: (part.schema, keys_of(part.schema))):
            rows = pa.concat_tables(alike)
            for begin in range(0, rows.num_rows, _ROWS_AT_ONCE):
                refused += self._insert(connection, query, rows.slice(begin, _ROWS_AT_ONCE))
        if refused:
            keep(connection, self._counted_as, storable(query), refused)
        return refused

    def _insert(self, connection: "psycopg.Connection[Any]", query: str, rows: pa.Table) -> list[Refused]:
        """Insert rows; return those that are refused, which are all if the query's table cannot be used."""
        known = self._ready.pop(query, None)
        try:
            shape = table_shape(query, rows.schema)
            if shape != known:
                with connection.transaction():
                    self._make_ready(connection, shape)
                    note_written(connection, self._counted_as, query)
            refused = insert(connection, shape.insert.encode(), rows)
        except Exception as error:
            reason = fault_of_table(error)
            if reason is None:
                raise
        else:
            self._ready[query] = shape
            if len(self._ready) > _TABLES_KNOWN:
                # It is looked at again, should its query give more.
                del self._ready[next(iter(self._ready))]
            return refused
        # A table that was ready may have been dropped or changed since.
        return refuse(reason, rows) if known is None else self._insert(connection, query, rows)

    def _make_ready(self, connection: "psycopg.Connection[Any]", shape: TableShape) -> None:
        find = quoted(shape.name).replace("%%", "%")
        if shape.name in (DELIVERED, REFUSED, WRITTEN):
            raise SinkError(f"table {find} is the sink's own; give query {shape.name} another name")
        found = dict(connection.execute(_COLUMNS, (find,)).fetchall())
        if not found:
            connection.execute(shape.create.replace("%%", "%").encode())
        elif wrong := [
            f"{name} {type}" for name, type in shape.columns if found.get(identifier(name)) != type
        ]:
            raise SinkError(
                f"table {find} is not that of query {shape.name}: it has no column "
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
