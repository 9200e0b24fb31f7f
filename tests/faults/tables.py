"""The results that are in PostgreSQL."""

import psycopg
from psycopg import sql

from tests.faults.oracle import Key, Reader, Value
from tests.faults.workload import Asked

_MICROS = "(extract(epoch FROM {}) * 1000000)::bigint"


def tables_of(dsn: str) -> Reader:
    """Return what reads a query's rows; a query that never gave one has no table."""

    def read(query: Asked) -> list[tuple[Key, Value]]:
        bounds = [sql.SQL(_MICROS).format(sql.Identifier(name)) for name in ("window_start", "window_end")]
        columns = [*bounds, *map(sql.Identifier, (*query.keys, *query.outputs))]
        place = 2 + len(query.keys)
        with psycopg.connect(dsn, autocommit=True) as connection:
            if connection.execute("SELECT to_regclass(%s)", (query.name,)).fetchone() == (None,):
                return []
            select = sql.SQL("SELECT {} FROM {}").format(
                sql.SQL(", ").join(columns), sql.Identifier(query.name)
            )
            return [(row[:place], row[place:]) for row in connection.execute(select)]

    return read
