"""Positions of values among constants: one binary search, however many predicates compare with them."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.evaluation.casts import converted
from weft.evaluation.vector import Array, Vector, constant
from weft.expression import Literal
from weft.types import DataType

Numbers = npt.NDArray[np.int64]
Point = int | float | bytes


def positions(vector: Vector, points: Sequence[Point]) -> Numbers:
    """Return the positions of values among ordered points.

    Points and the stretches between them are numbered from below: 0 is less than all points, 1 is the first
    itself, 2 lies between that and the next, and so on. NULL comes last. NaN is greater than all numbers.

    >>> positions(Vector(np.array([4, 5, 7, 9, 10]), None), (5, 9)).tolist()
    [0, 1, 2, 3, 4]
    """
    numbers = _among(vector.values, _array(points, vector.values))
    if vector.valid is not None:
        numbers = np.where(vector.valid, numbers, 2 * len(points) + 1)
    return numbers


def text_positions(encoded: pa.DictionaryArray, points: Sequence[Point]) -> Numbers:
    """Return the positions of strings or binaries, searched once for each distinct value."""
    binary = encoded.dictionary.cast(pa.binary())
    numbers = _among(_objects(binary.to_pylist()), _objects(points))
    by_value: Numbers = np.append(numbers, 2 * len(points) + 1)
    by_row: Numbers = by_value[np.asarray(encoded.indices.fill_null(len(binary)))]
    return by_row


@lru_cache(maxsize=1 << 14)
def point(literal: Literal, type: DataType) -> Point | None:
    """Return a constant as a point among values of a type; None for NULL, and for NaN, which equals no point.

    >>> from weft.types import INT, decimal
    >>> point(Literal(5, INT), decimal(12, 2))
    500
    """
    with np.errstate(all="ignore"):
        vector = converted(constant(literal.value, literal.type), literal.type, type)
    if vector.valid is not None and not vector.valid[0]:
        return None
    value: Point = vector.values[0].as_py() if type.is_text else vector.values.tolist()[0]
    return value if value == value else None


def _among(values: Array, points: Array) -> Numbers:
    if len(points) == 0:
        return np.zeros(len(values), dtype=np.int64)
    index = np.searchsorted(points, values)
    equal = points[np.minimum(index, len(points) - 1)] == values
    numbers: Numbers = 2 * index + equal.astype(np.int64)
    return numbers


def _array(points: Sequence[Point], values: Array) -> Array:
    """Return points in the form in which values compare with them: as doubles or as whole numbers."""
    if values.dtype.kind == "f":
        return np.array(points, dtype=np.float64)
    try:
        return _objects(points) if values.dtype == object else np.array(points, dtype=np.int64)
    except OverflowError:
        # Decimals that are small themselves may be compared with any.
        return _objects(points)


def _objects(values: Sequence[Point]) -> Array:
    # None keeps NumPy from making an array of byte strings of one length.
    return np.array([*values, None], dtype=object)[:-1]
