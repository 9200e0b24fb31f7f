"""A commit as it is stored: its head, which says where the stream stood, and its results (the outbox)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.durability.encoding import arrow_bytes, arrow_table
from weft.errors import EngineError
from weft.state.clock import Clock, RowCounts
from weft.threads import side_by_side

_FORMAT = 4
_QUERIES = b"weft.queries"
"""In a table's metadata: the queries whose results follow one another, and how many rows each has."""
_QUERY = "__weft_query"
"""Older versions had a column of query names instead."""
_WORTH_THREADS = 20_000
"""Number of rows from which on tables are written in parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The state of a stream after a commit."""

    number: int
    batch: int
    """The last of Spark's batches that it contains."""
    stream: str
    """The stream's columns and time, as declared at that time."""
    clock: Clock
    position: str = ""
    """What the batch consisted of, by Spark's notes; empty if that is not known."""


def commit_bytes(commit: Commit, changes: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a commit, and what changed of queries, as stored."""
    return json.dumps({"format": _FORMAT, **asdict(commit), "queries": list(changes)}).encode()


def read_commit(stored: bytes, place: str) -> tuple[Commit, list[dict[str, Any]]]:
    """Return a commit and what changed of queries; `place` is the checkpoint, for messages."""
    record = json.loads(stored)
    if record.pop("format") != _FORMAT:
        raise EngineError(f"checkpoint {place} was written by another version of Weft; start a new one")
    changes = record.pop("queries")
    clock = record.pop("clock")
    counts = RowCounts(**clock.pop("counts"))
    return Commit(**record, clock=Clock(**clock, counts=counts)), changes


def results_bytes(results: Mapping[str, pa.Table]) -> list[bytes]:
    """Return the results of queries as bytes: one piece for all queries with the same columns."""
    by_columns: dict[tuple[pa.Schema, str], dict[str, pa.Table]] = {}
    for name, table in results.items():
        # Metadata is not part of the equality of schemas.
        columns = table.schema, str(table.schema.metadata)
        by_columns.setdefault(columns, {})[name] = table
    many = sum(table.num_rows for table in results.values()) > _WORTH_THREADS
    return side_by_side(_bytes, by_columns.values(), worth=many)


def _bytes(results: Mapping[str, pa.Table]) -> bytes:
    whole = pa.concat_tables(results.values())
    counts = json.dumps([(name, table.num_rows) for name, table in results.items()]).encode()
    return arrow_bytes(whole.replace_schema_metadata({**(whole.schema.metadata or {}), _QUERIES: counts}))


def read_results(stored: bytes | memoryview) -> dict[str, pa.Table]:
    """Return results by query, of those that have any."""
    rows = arrow_table(stored)
    if _QUERY in rows.column_names:
        queries = rows[_QUERY].unique().to_pylist()
        return {name: rows.filter(pc.equal(rows[_QUERY], name)).drop_columns([_QUERY]) for name in queries}
    metadata = dict(rows.schema.metadata)
    counts = json.loads(metadata.pop(_QUERIES))
    rows = rows.replace_schema_metadata(metadata or None)
    ends = accumulate(count for _, count in counts)
    return {
        name: rows.slice(end - count, count) for (name, count), end in zip(counts, ends, strict=True) if count
    }
