"""A commit as it is stored: its head, which says where the stream stood, and its results (the outbox)."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from weft.durability.declared import Declared, read_declared
from weft.durability.encoding import arrow_bytes, arrow_table
from weft.durability.stored_names import only
from weft.errors import EngineError
from weft.state.clock import Clock, RowCounts
from weft.threads import side_by_side

FORMAT = 5
"""The format in which commits and snapshots are written."""
OLDEST = 4
"""The oldest format that is read (weft.durability.format4)."""
_QUERIES = b"weft.queries"
"""In a table's metadata: the queries whose results follow one another, and how many rows each has."""
_QUERY = "__weft_query"
"""Older versions had a column of query names instead."""
_SMALL_CHUNK = 16_384
"""Average number of rows below which chunks are copied into one."""
_WORTH_THREADS = 20_000
"""Number of rows from which on tables are written in parallel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The state of a stream after a commit."""

    number: int
    batch: int
    """The last of Spark's batches that it contains."""
    stream: Declared
    """The stream as it was declared at that time."""
    clock: Clock
    position: str = ""
    """What the batch consisted of, by Spark's notes; empty if that is not known."""


def commit_bytes(commit: Commit, changes: Iterable[Mapping[str, Any]]) -> bytes:
    """Return a commit, and what changed of queries, as stored."""
    record = {
        "format": FORMAT,
        "number": commit.number,
        "batch": commit.batch,
        "position": commit.position,
        "stream": commit.stream.as_record(),
        "clock": _clock_record(commit.clock),
        "queries": list(changes),
    }
    return json.dumps(record).encode()


def read_format(stored: bytes, place: str) -> int:
    """Return the format of a commit; raise EngineError, with the checkpoint's place, if it cannot be read."""
    format: int = json.loads(stored)["format"]
    if OLDEST <= format <= FORMAT:
        return format
    age = "a newer" if format > FORMAT else "an older"
    raise EngineError(
        f"checkpoint {place} was written by {age} version of Weft: it has format {format}, and this version "
        f"reads {OLDEST} to {FORMAT}; use the version that wrote it, or start a new checkpoint"
    )


def read_commit(stored: bytes) -> tuple[Commit, list[dict[str, Any]]]:
    """Return a commit and what changed of queries; raise Unknown if it has anything else."""
    record = json.loads(stored)
    only(record, ("format", "number", "batch", "position", "stream", "clock", "queries"), "a commit")
    commit = Commit(
        number=record["number"],
        batch=record["batch"],
        stream=read_declared(record["stream"]),
        clock=_read_clock(record["clock"]),
        position=record["position"],
    )
    return commit, record["queries"]


def _clock_record(clock: Clock) -> dict[str, Any]:
    counts = clock.counts
    return {
        "watermark": clock.watermark,
        "oldest": clock.oldest,
        "newest": clock.newest,
        "counts": {
            "good": counts.good,
            "late": counts.late,
            "no_time": counts.no_time,
            "future": counts.future,
            "corrupt": counts.corrupt,
            "missing": counts.missing,
        },
    }


def _read_clock(record: Mapping[str, Any]) -> Clock:
    only(record, ("watermark", "oldest", "newest", "counts"), "a clock")
    counts = record["counts"]
    only(counts, ("good", "late", "no_time", "future", "corrupt", "missing"), "a clock's counts")
    return Clock(
        watermark=record["watermark"],
        oldest=record["oldest"],
        newest=record["newest"],
        counts=RowCounts(
            good=counts["good"],
            late=counts["late"],
            no_time=counts["no_time"],
            future=counts["future"],
            corrupt=counts["corrupt"],
            missing=counts.get("missing", 0),
        ),
    )


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
    # Each chunk would be compressed by itself, and thousands of queries may have a few rows each.
    if whole.num_columns and whole.column(0).num_chunks * _SMALL_CHUNK > whole.num_rows:
        whole = whole.combine_chunks()
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
