"""Blocks as files: Arrow columns, with the primitives they hold named in the schema."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa

from weft.aggregates import Partial, Primitive
from weft.aggregates.partial import Objects
from weft.runtime.state import Block

_ROWS = b"weft.rows"
_PRIMITIVES = b"weft.primitives"


def write_block(path: Path, block: Block) -> None:
    """Write a block; a primitive is known by its own description when it is read back."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {"start": pa.array(block.starts)}
    columns |= {f"k{place}": block.keys.column(place) for place in range(block.keys.num_columns)}
    for number, partial in enumerate(block.partials.values()):
        columns |= {f"p{number}_{place}": _stored(field) for place, field in enumerate(partial.fields)}
        if partial.valid is not None:
            columns[f"p{number}_valid"] = pa.array(partial.valid)
    names = json.dumps([repr(primitive) for primitive in block.partials]).encode()
    table = pa.table(columns).replace_schema_metadata({_PRIMITIVES: names, _ROWS: str(block.rows).encode()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def read_block(path: Path) -> "StoredBlock":
    """Read a block; its primitives are still to be recognised."""
    with pa.OSFile(str(path)) as file:
        return StoredBlock(pa.ipc.open_file(file).read_all())


class StoredBlock:
    """A block whose primitives are known by their descriptions only."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._numbers = {
            text: number for number, text in enumerate(json.loads(table.schema.metadata[_PRIMITIVES]))
        }

    def block(self, primitives: tuple[Primitive, ...]) -> Block:
        """Return the block with those of the given primitives that it holds."""
        table = self._table
        keys = [name for name in table.column_names if name.startswith("k")]
        known = {one: self._numbers[repr(one)] for one in primitives if repr(one) in self._numbers}
        return Block(
            starts=np.asarray(table["start"]),
            keys=table.select(keys),
            partials={one: self._partial(one, number) for one, number in known.items()},
            rows=int(table.schema.metadata[_ROWS]),
        )

    def _partial(self, primitive: Primitive, number: int) -> Partial:
        fields = tuple(
            _loaded(self._table[f"p{number}_{place}"], whole=type.kind == "decimal")
            for place, type in enumerate(primitive.types)
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
