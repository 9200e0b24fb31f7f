"""Elements of arrays and fields of structs, which only results of aggregates are.

`x[i]` and `get(x, i)` count from 0, `element_at(x, i)` from 1, and from the end where i is negative. What
does not exist is NULL; for all but `get` that is a failure.
"""

import numpy as np
import pyarrow as pa

from weft.evaluation.vector import Array, Mask, Vector, from_arrow
from weft.expression import Call, Literal

FROM_OUTSIDE = frozenset({"subscript", "element_at"})
"""Functions that fail where there is no such element; an element that is NULL is none."""


def element(call: Call, arrays: Vector, index: Vector) -> Vector:
    """Return one element of each array."""
    places, exists = _places(call, arrays, index)
    exists = exists & _known(arrays, index)
    places, exists = np.broadcast_arrays(places, exists)
    taken = arrays.values.values.take(pa.array(np.where(exists, places, 0), mask=~exists))
    return from_arrow(taken, call.type)


def outside(call: Call, arrays: Vector, index: Vector) -> Mask:
    """Return where an array has no such element."""
    return _known(arrays, index) & ~_places(call, arrays, index)[1]


def size(call: Call, arrays: Vector) -> Vector:
    """Return the number of elements."""
    return Vector(np.diff(np.asarray(arrays.values.offsets)), arrays.valid)


def field(call: Call, structs: Vector, name: Vector) -> Vector:
    """Return one field of each struct."""
    literal = call.args[1]
    assert isinstance(literal, Literal)
    number = structs.values.type.get_field_index(literal.value)
    return from_arrow(structs.values.flatten()[number], call.type)


def _places(call: Call, arrays: Vector, index: Vector) -> tuple[Array, Mask]:
    """Return where the elements lie among those of all arrays, and which exist."""
    offsets = np.asarray(arrays.values.offsets).astype(np.int64)
    sizes, wanted = np.diff(offsets), index.values.astype(np.int64)
    if call.function == "element_at":
        wanted = np.where(wanted > 0, wanted - 1, np.where(wanted < 0, sizes + wanted, -1))
    return offsets[:-1] + wanted, (wanted >= 0) & (wanted < sizes)


def _known(*vectors: Vector) -> Mask:
    known: Mask = np.ones(1, dtype=bool)
    for vector in vectors:
        known = known if vector.valid is None else known & vector.valid
    return known
