"""Blocks as bytes: Arrow columns, with the primitives they hold named in the schema.

The meaning of a block's fragments is stored apart, in the codebook: it is the same for all blocks of a
relation until the plan changes.
"""

import json
from collections.abc import Iterable, Mapping
from hashlib import sha256

import numpy as np
import pyarrow as pa

from weft.aggregates import Partial, Primitive
from weft.aggregates.partial import Objects
from weft.predicates import Formula
from weft.state.block import Block
from weft.state.derivation import Derivation
from weft.state.signatures import Signatures

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
