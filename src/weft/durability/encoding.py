"""Blocks as bytes: Arrow columns, with what they hold named in the schema.

The meaning of a block's fragments is stored apart, in the codebook: it is the same for all blocks of a
relation until the plan changes.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.aggregates import Bags, Partial, Primitive
from weft.aggregates.partial import Field
from weft.durability import format4
from weft.durability.stored_names import (
    grouping_name,
    predicate_name,
    primitive_name,
    read_grouping,
    read_predicate,
    read_primitive,
)
from weft.optimizer.plan import Grouping
from weft.predicates import Formula
from weft.predicates.codebook import Bits, Packed
from weft.predicates.signatures import Signatures, pieces
from weft.state.running_query import Derivation
from weft.state.store import Block

_ROWS = b"weft.rows"
_PRIMITIVES = b"weft.primitives"
_GROUPING = b"weft.grouping"
"""In blocks; those of format 4 had it in the section's name."""
_CODEBOOK = b"weft.codebook"
_PREDICATES = b"weft.predicates"
"""Only in codebooks of format 4, whose rows are fragments."""
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The names of what is stored, in some format."""

    grouping: Callable[[Grouping], str]
    predicate: Callable[[Formula], str]
    primitive: Callable[[Primitive], str]


NAMES = Naming(grouping=grouping_name, predicate=predicate_name, primitive=primitive_name)
NAMES_OF_4 = Naming(
    grouping=format4.grouping_name, predicate=format4.predicate_name, primitive=format4.primitive_name
)


def codebook_bytes(signatures: Signatures) -> bytes:
    """Return the meaning of fragments as bytes: predicates by name, and the bits of each fragment."""
    bits = np.ascontiguousarray(signatures.packed).tobytes()
    columns = {
        "predicates": pa.array([list(map(predicate_name, signatures.predicates))], pa.list_(pa.string())),
        "fragments": pa.array([len(signatures)]),
        "bits": pa.array([bits], pa.large_binary()),
    }
    return arrow_bytes(pa.table(columns))


def read_codebook(
    stored: bytes | memoryview, predicates: Mapping[str, Formula], derivations: Iterable[Derivation] = ()
) -> Signatures:
    """Read which fragments satisfy the given predicates, which are known by their names.

    Those that were not stored, but follow from predicates that were, are included.
    """
    table = arrow_table(stored)
    of_4 = _PREDICATES in (table.schema.metadata or {})
    names, packed = _codebook_of_4(table) if of_4 else _codebook(table)
    derived: dict[str, Derivation] = {}
    for derivation in derivations:
        if derivation.predicate in predicates and derivation.predicate not in names:
            derived.setdefault(derivation.predicate, derivation)
    kept = [index for index, name in enumerate(names) if name in predicates]
    asked = tuple(predicates[name] for name in (*(names[index] for index in kept), *derived))
    if asked and len(kept) == len(names) == len(asked):
        return Signatures(predicates=asked, packed=packed)
    known = np.empty((len(packed), -(-(len(kept) + len(derived)) // 8)), dtype=np.uint8)
    for rows in pieces(len(packed), len(names) + len(derived)):
        bits: Bits = np.unpackbits(packed[rows], axis=1, count=len(names)).view(bool)
        columns = [bits[:, kept], *(one.column(names, bits)[:, None] for one in derived.values())]
        known[rows] = np.packbits(np.hstack(columns), axis=1)
    return Signatures(predicates=asked, packed=known)


def _codebook(table: pa.Table) -> tuple[list[str], Packed]:
    names, fragments, bits = (table[name][0].as_py() for name in ("predicates", "fragments", "bits"))
    return names, np.frombuffer(bits, dtype=np.uint8).reshape(fragments, -(-len(names) // 8))


def _codebook_of_4(table: pa.Table) -> tuple[list[str], Packed]:
    names = json.loads(table.schema.metadata[_PREDICATES])
    # A relation may have had no row yet, and so no fragment: the width is not to be inferred.
    shape = table.num_rows, -(-len(names) // 8)
    return names, np.frombuffer(b"".join(table["bits"].to_pylist()), dtype=np.uint8).reshape(shape)


def block_bytes(grouping: Grouping, block: Block, codebook: str) -> bytes:
    """Return a block as bytes, with primitives by their names."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        "start": pa.array(block.starts),
        "fragment": pa.array(block.fragments),
    }
    columns |= {f"k{index}": block.keys.column(index) for index in range(block.keys.num_columns)}
    for number, partial in enumerate(block.partials.values()):
        columns |= {f"p{number}_{index}": _stored(field) for index, field in enumerate(partial.fields)}
        if partial.valid is not None:
            columns[f"p{number}_valid"] = pa.array(partial.valid)
    notes = {
        _GROUPING: grouping_name(grouping).encode(),
        _PRIMITIVES: json.dumps(list(map(primitive_name, block.partials))).encode(),
        _ROWS: str(block.rows).encode(),
        _CODEBOOK: codebook.encode(),
    }
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
    """A block whose primitives are known by their names only; `section` is where it is stored."""

    def __init__(self, section: str, stored: bytes | memoryview) -> None:
        self._file = pa.ipc.open_file(pa.py_buffer(stored))
        self._notes: Mapping[bytes, bytes] = self._file.schema.metadata
        self.primitives: list[str] = json.loads(self._notes[_PRIMITIVES])
        """The names of the primitives that it holds."""
        self.codebook = self._notes[_CODEBOOK].decode()
        """The name of the codebook that gives its fragments meaning."""
        if _GROUPING in self._notes:
            self.grouping, self._names = self._notes[_GROUPING].decode(), NAMES
        else:
            self.grouping, self._names = section.split("/")[-2], NAMES_OF_4

    def block(self, primitives: Iterable[Primitive], signatures: Signatures) -> Block:
        """Return the block with those of the given primitives that it holds."""
        table = self._file.read_all()
        keys = [name for name in table.column_names if name.startswith("k")]
        numbers = {name: number for number, name in enumerate(self.primitives)}
        held = {one: numbers.get(self._names.primitive(one)) for one in primitives}
        return Block(
            starts=np.asarray(table["start"]),
            keys=table.select(keys),
            fragments=np.asarray(table["fragment"]),
            signatures=signatures,
            partials={
                one: _partial(table, one, number) for one, number in held.items() if number is not None
            },
            rows=int(self._notes[_ROWS]),
        )


def check_codebook(stored: bytes | memoryview) -> None:
    """Raise Unknown if a codebook names a predicate in words that this version does not know."""
    names, _ = _codebook(arrow_table(stored))
    for name in names:
        read_predicate(name)


def check_block(section: str, stored: bytes | memoryview) -> None:
    """Raise Unknown if a block has names with words that this version does not know."""
    block = StoredBlock(section, stored)
    read_grouping(block.grouping)
    for name in block.primitives:
        read_primitive(name)


def _partial(table: pa.Table, primitive: Primitive, number: int) -> Partial:
    fields = tuple(
        _loaded(table[f"p{number}_{index}"], whole=type.kind == "decimal")
        for index, type in enumerate(primitive.types)
    )
    valid = f"p{number}_valid"
    mask = np.asarray(table[valid]) if valid in table.column_names else None
    return Partial(fields, mask, primitive.types)


def _stored(field: Field) -> pa.Array:
    if isinstance(field, Bags):
        return field.to_arrow()
    if field.dtype != object:
        return pa.array(field)
    # Exact whole numbers may be wider than any Arrow integer.
    return pa.array([str(value) if isinstance(value, int) else value for value in field])


def _loaded(column: pa.ChunkedArray, *, whole: bool) -> Field:
    if pa.types.is_large_list(column.type):
        return Bags.from_arrow(column)
    if not (
        pa.types.is_string(column.type) or pa.types.is_binary(column.type) or pa.types.is_null(column.type)
    ):
        return np.asarray(column)
    values = np.empty(len(column), dtype=object)
    values[:] = [int(value) if whole else value for value in column.to_pylist()]
    return values
