"""The results of a commit as bytes: those of all queries with the same columns in one table."""

import json
from collections.abc import Mapping
from itertools import accumulate

import pyarrow as pa
import pyarrow.compute as pc

from weft.durability.encoding import arrow_bytes, arrow_table
from weft.threads import side_by_side

_QUERIES = b"weft.queries"
"""Noted beside the columns: whose results follow one another, and how many rows each query has."""
_QUERY = "__weft_query"
"""Older versions had a column with the query's name instead."""
_WORTH_THREADS = 20_000
"""From so many rows on, tables are written side by side."""


def results_bytes(results: Mapping[str, pa.Table]) -> list[bytes]:
    """Return the results of queries as few pieces of bytes: as many as there are different columns."""
    by_columns: dict[tuple[pa.Schema, str], dict[str, pa.Table]] = {}
    for name, table in results.items():
        # What a schema notes beside the columns is no part of its equality.
        columns = table.schema, str(table.schema.metadata)
        by_columns.setdefault(columns, {})[name] = table
    many = sum(table.num_rows for table in results.values()) > _WORTH_THREADS
    return side_by_side(_bytes, by_columns.values(), worth=many)


def _bytes(results: Mapping[str, pa.Table]) -> bytes:
    whole = pa.concat_tables(results.values())
    noted = json.dumps([(name, table.num_rows) for name, table in results.items()]).encode()
    return arrow_bytes(whole.replace_schema_metadata({**(whole.schema.metadata or {}), _QUERIES: noted}))


def read_results(stored: bytes | memoryview) -> dict[str, pa.Table]:
    """Return results by query, of those that have any."""
    rows = arrow_table(stored)
    if _QUERY in rows.column_names:
        queries = rows[_QUERY].unique().to_pylist()
        return {one: rows.filter(pc.equal(rows[_QUERY], one)).drop_columns([_QUERY]) for one in queries}
    notes = dict(rows.schema.metadata)
    noted = json.loads(notes.pop(_QUERIES))
    rows = rows.replace_schema_metadata(notes or None)
    ends = accumulate(count for _, count in noted)
    return {
        name: rows.slice(end - count, count) for (name, count), end in zip(noted, ends, strict=True) if count
    }
