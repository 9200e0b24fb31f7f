"""Commits, their results, blocks and codebooks as bytes.

The meaning of a block's fragments is stored apart, in the codebook: it is the same for all blocks of a
relation until the plan changes.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import Partial, Primitive
from weft.aggregates.partial import Objects
from weft.errors import EngineError
from weft.predicates import Formula
from weft.state.clock import Clock, RowCounts
from weft.state.running_query import Derivation
from weft.state.signatures import Signatures
from weft.state.store import Block
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


def read_commit(stored: bytes, uri: str) -> tuple[Commit, list[dict[str, Any]]]:
    """Return a commit and what changed of queries; `uri` is the checkpoint, for messages."""
    record = json.loads(stored)
    if record.pop("format") != _FORMAT:
        raise EngineError(f"checkpoint {uri} was written by another version of Weft; start a new one")
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


_ROWS = b"weft.rows"
_PRIMITIVES = b"weft.primitives"
_PREDICATES = b"weft.predicates"
_CODEBOOK = b"weft.codebook"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def codebook_bytes(signatures: Signatures) -> bytes:
    """Return the meaning of fragments as bytes, with predicates by their descriptions."""
    packed = np.packbits(signatures.bits, axis=1)
    rows = [row.tobytes() for row in packed]
    names = json.dumps([described(predicate) for predicate in signatures.predicates]).encode()
    table = pa.table({"bits": pa.array(rows, pa.binary())}).replace_schema_metadata({_PREDICATES: names})
    return arrow_bytes(table)


def read_codebook(
    stored: bytes | memoryview, predicates: Mapping[str, Formula], derivations: Iterable[Derivation] = ()
) -> Signatures:
    """Read which fragments satisfy the given predicates, which are known by their descriptions.

    Those that were not stored, but follow from predicates that were, are included.
    """
    table = arrow_table(stored)
    names = json.loads(table.schema.metadata[_PREDICATES])
    # A relation may have had no row yet, and so no fragment: the width is not to be inferred.
    shape = table.num_rows, -(-len(names) // 8)
    packed = np.frombuffer(b"".join(table["bits"].to_pylist()), dtype=np.uint8).reshape(shape)
    bits = np.unpackbits(packed, axis=1, count=len(names)).astype(bool)
    columns = {name: bits[:, index] for index, name in enumerate(names) if name in predicates}
    for derivation in derivations:
        if derivation.predicate in predicates and derivation.predicate not in columns:
            columns[derivation.predicate] = derivation.column(names, bits)
    known = np.column_stack(list(columns.values())) if columns else bits[:, :0]
    return Signatures(predicates=tuple(predicates[name] for name in columns), bits=known)


def described(predicate: Formula) -> str:
    """Return a short description of a predicate that is the same in every run."""
    return sha256(repr(predicate).encode()).hexdigest()[:32]


def block_bytes(block: Block, codebook: str) -> bytes:
    """Return a block as bytes, with primitives by their descriptions."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "start": pa.array(block.starts),
        "fragment": pa.array(block.fragments),
    }
    columns |= {f"k{index}": block.keys.column(index) for index in range(block.keys.num_columns)}
    for number, partial in enumerate(block.partials.values()):
        columns |= {f"p{number}_{index}": _stored(field) for index, field in enumerate(partial.fields)}
        if partial.valid is not None:
            columns[f"p{number}_valid"] = pa.array(partial.valid)
    names = json.dumps([repr(primitive) for primitive in block.partials]).encode()
    notes = {_PRIMITIVES: names, _ROWS: str(block.rows).encode(), _CODEBOOK: codebook.encode()}
    return arrow_bytes(pa.table(columns).replace_schema_metadata(notes))


def arrow_bytes(table: pa.Table) -> bytes:
    """Return a table as bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def arrow_table(stored: bytes | memoryview) -> pa.Table:
    """Return a table from its bytes."""
    return pa.ipc.open_file(pa.py_buffer(stored)).read_all()


class StoredBlock:
    """A block whose primitives are known by their descriptions only."""

    def __init__(self, stored: bytes | memoryview) -> None:
        self._table = table = arrow_table(stored)
        self._numbers = {
            text: number for number, text in enumerate(json.loads(table.schema.metadata[_PRIMITIVES]))
        }

    @property
    def codebook(self) -> str:
        """The name of the codebook that gives the block's fragments meaning."""
        return str(self._table.schema.metadata[_CODEBOOK].decode())

    def block(self, primitives: Iterable[Primitive], signatures: Signatures) -> Block:
        """Return the block with those of the given primitives that it holds."""
        table = self._table
        keys = [name for name in table.column_names if name.startswith("k")]
        names = {primitive: repr(primitive) for primitive in primitives}
        return Block(
            starts=np.asarray(table["start"]),
            keys=table.select(keys),
            fragments=np.asarray(table["fragment"]),
            signatures=signatures,
            partials={
                primitive: self._partial(primitive, self._numbers[name])
                for primitive, name in names.items()
                if name in self._numbers
            },
            rows=int(table.schema.metadata[_ROWS]),
        )

    def _partial(self, primitive: Primitive, number: int) -> Partial:
        fields = tuple(
            _loaded(self._table[f"p{number}_{index}"], whole=type.kind == "decimal")
            for index, type in enumerate(primitive.types)
        )
        valid = f"p{number}_valid"
        mask = np.asarray(self._table[valid]) if valid in self._table.column_names else None
        return Partial(fields, mask, primitive.types)


def _stored(field: Objects) -> pa.Array:
    if field.dtype != object:
        return pa.array(field)
    # Exact whole numbers may be wider than any Arrow integer.
    return pa.array([str(value) if isinstance(value, int) else value for value in field])


def _loaded(column: pa.ChunkedArray, *, whole: bool) -> Objects:
    if not (
        pa.types.is_string(column.type) or pa.types.is_binary(column.type) or pa.types.is_null(column.type)
    ):
        return np.asarray(column)
    values = np.empty(len(column), dtype=object)
    values[:] = [int(value) if whole else value for value in column.to_pylist()]
    return values
