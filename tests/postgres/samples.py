"""Results to be written into PostgreSQL, and what is read back."""

from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa

from weft.sinks import Limits, PostgresSink, with_keys

MOMENT = pa.timestamp("us", "UTC")
COLUMNS = "window_start timestamptz, window_end timestamptz, symbol text, n bigint"
"""Of the table of a result."""
FAST = Limits(first_retry_s=0.01, longest_retry_s=0.05)


def result(*rows: tuple[int, str | None, int | None]) -> pa.Table:
    """Return rows of (end of the window in seconds, symbol, count)."""
    schema = pa.schema(
        [("window_start", MOMENT), ("window_end", MOMENT), ("symbol", pa.string()), ("n", pa.int64())]
    )
    ends = [end * 1_000_000 for end, _, _ in rows]
    columns = [ends, ends, [symbol for _, symbol, _ in rows], [n for _, _, n in rows]]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=with_keys(schema, ["symbol"]))


def keyless(table: pa.Table) -> pa.Table:
    return table.replace_schema_metadata()


def ask(dsn: str, query: str, parameters: Sequence[object] | None = None) -> list[Any]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), parameters)
        return cursor.fetchall() if cursor.description else []


def rows(dsn: str, table: str) -> list[tuple[str | None, int | None]]:
    return ask(dsn, f'SELECT symbol, n FROM "{table}" ORDER BY window_end, symbol NULLS FIRST, n')


def started(dsn: str, after: int = -1, origin: str = "c1") -> PostgresSink:
    sink = PostgresSink(dsn)
    sink.resume(after, origin=origin)
    return sink


def fail_at(dsn: str, table: str, condition: str) -> None:
    """Make a table of which no row can be inserted, for a trigger raises a condition."""
    ask(dsn, f"CREATE TABLE {table} ({COLUMNS})")
    body = f"BEGIN RAISE {condition}; END"
    ask(dsn, f"CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS '{body}'")
    ask(dsn, f"CREATE TRIGGER no BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION no()")
