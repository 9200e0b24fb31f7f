"""Columns while expressions are evaluated: NumPy arrays, and Arrow arrays of bytes for strings.

A constant has one row, which is broadcast. Booleans, numbers and times are arrays of their own width (dates
int32 days, timestamps int64 microseconds). Decimals are whole numbers in units of their scale: int64 while
all of them fit, Python integers otherwise. What an array holds where a value is NULL is undefined.
"""

from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates import arrow_type
from weft.aggregates.decimal_words import unscaled, words_of
from weft.types import DataType, Kind

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


class Vector(NamedTuple):
    """The values of an expression, one for each row or one for all."""

    values: Any
    """A NumPy array; an Arrow array of bytes for text, of their type for arrays and structs."""
    valid: Mask | None
    """Which values are not NULL; None where all are."""


_DTYPES: dict[Kind, npt.DTypeLike] = {
    Kind.TINYINT: np.dtype(np.int8), Kind.SMALLINT: np.dtype(np.int16), Kind.INT: np.dtype(np.int32),
    Kind.BIGINT: np.dtype(np.int64), Kind.FLOAT: np.dtype(np.float32), Kind.DOUBLE: np.dtype(np.float64),
    Kind.DATE: np.dtype(np.int32), Kind.TIMESTAMP: np.dtype(np.int64),
    Kind.TIMESTAMP_NTZ: np.dtype(np.int64), Kind.BOOLEAN: np.dtype(np.bool_),
    Kind.DECIMAL: np.dtype(np.int64), Kind.NULL: np.dtype(np.int8),
}  # fmt: skip
SECOND, DAY = 1_000_000, 86_400_000_000
"""Microseconds in a second and in a day."""
_NEVER = np.zeros(1, dtype=bool)
_EPOCH = datetime(1970, 1, 1)


def dtype_of(type: DataType) -> Any:
    """Return the NumPy type of a type's values."""
    return _DTYPES[type.kind]


@lru_cache(maxsize=256)
def null(type: DataType) -> Vector:
    """Return NULL as a constant."""
    if type.is_text:
        return Vector(pa.array([None], pa.binary()), _NEVER)
    return Vector(np.zeros(1, dtype=dtype_of(type)), _NEVER)


def both(left: Mask | None, right: Mask | None) -> Mask | None:
    """Return where both of two vectors are valid."""
    if left is None:
        return right
    return left if right is None else left & right


def narrowed(valid: Mask | None, good: Mask) -> Mask | None:
    """Return which rows are valid and good."""
    if good.all():
        return valid
    return good if valid is None else valid & good


def mask(array: pa.Array) -> Mask:
    """Return an Arrow array of booleans as a mask that is false for NULL."""
    filled = array.fill_null(False) if array.null_count else array
    return filled.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def text(array: pa.Array) -> Vector:
    """Return an Arrow array of bytes as a vector."""
    return Vector(array, validity(array))


def validity(array: pa.Array) -> Mask | None:
    """Return which values of an Arrow array are not NULL; None where all are."""
    if array.null_count == 0:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:  # an array of the type null has no bitmap
        return np.zeros(len(array), dtype=bool)
    return _bits(bitmap, array.offset, len(array))


def _bits(buffer: pa.Buffer, offset: int, length: int) -> Mask:
    first = offset // 8
    count = (offset + length + 7) // 8 - first
    packed = np.frombuffer(buffer, dtype=np.uint8, count=count, offset=first)
    bits: Mask = np.unpackbits(packed, bitorder="little", count=length + offset % 8).view(np.bool_)
    return bits[offset % 8 :]


def from_arrow(array: pa.Array, type: DataType) -> Vector:
    """Return an Arrow column as a vector."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if array.type != arrow_type(type):
        array = array.cast(arrow_type(type))
    kind, length = type.kind, len(array)
    if type.is_text:
        return text(array if kind is Kind.BINARY else array.view(pa.binary()))
    if type.is_nested:
        return Vector(array, validity(array))
    if length == 0 or kind is Kind.NULL:
        return Vector(np.zeros(length, dtype=dtype_of(type)), validity(array))
    data = array.buffers()[1]
    if kind is Kind.BOOLEAN:
        return Vector(_bits(data, array.offset, length), validity(array))
    if kind is Kind.DECIMAL:
        return Vector(unscaled(array), validity(array))
    dtype = dtype_of(type)
    values = np.frombuffer(data, dtype=dtype, count=length, offset=array.offset * dtype.itemsize)
    return Vector(values, validity(array))


def to_arrow(vector: Vector, type: DataType, rows: int) -> pa.Array:
    """Return a vector as an Arrow column with a number of rows."""
    values, valid = vector
    if type.is_text:
        array = values if len(values) == rows else values.take(np.zeros(rows, dtype=np.int32))
        return array.view(pa.string()) if type.kind is Kind.STRING else array
    if type.is_nested:
        return values if len(values) == rows else values.take(pa.array(np.zeros(rows, dtype=np.int32)))
    if type.kind is Kind.NULL:
        return pa.nulls(rows)
    if len(values) != rows:
        values = np.repeat(values, rows)
    bitmap, nulls = None, 0
    if valid is not None:
        valid = valid if len(valid) == rows else np.repeat(valid, rows)
        bitmap, nulls = pa.py_buffer(np.packbits(valid, bitorder="little")), -1
    if type.kind is Kind.BOOLEAN:
        data = np.packbits(values, bitorder="little")
    elif type.kind is Kind.DECIMAL:
        data = words_of(values, valid)
    else:
        data = np.ascontiguousarray(values, dtype=dtype_of(type))
    buffers = [bitmap, pa.py_buffer(data)]
    return pa.Array.from_buffers(arrow_type(type), rows, buffers, null_count=nulls)


def constant(value: Any, type: DataType) -> Vector:
    """Return a constant of a type as a vector of one row."""
    if value is None:
        return null(type)
    if type.kind is Kind.STRING:
        raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        return Vector(pa.array([raw], pa.binary()), None)
    if isinstance(value, datetime):
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return Vector(np.array([(naive - _EPOCH) // timedelta(microseconds=1)]), None)
    if isinstance(value, date):
        days = (value - _EPOCH.date()).days
        return Vector(np.array([days if type.kind is Kind.DATE else days * DAY], dtype=dtype_of(type)), None)
    if type.kind is Kind.DECIMAL:
        return from_arrow(pa.array([value], arrow_type(type)), type)
    if type.kind is Kind.BINARY:
        return Vector(pa.array([value], pa.binary()), None)
    return Vector(np.array([value], dtype=dtype_of(type)), None)


def chosen(where: Mask, taken: Vector, other: Vector) -> Vector:
    """Return the first vector's values where a condition holds and the second's elsewhere."""
    if isinstance(taken.values, pa.Array):
        lengths = len(where), len(taken.values), len(other.values)
        condition = pa.array(np.broadcast_to(where, 0 if min(lengths) == 0 else max(lengths)))
        return text(pc.if_else(condition, _datum(taken.values), _datum(other.values)))
    values = np.where(where, taken.values, other.values)
    if taken.valid is None and other.valid is None:
        return Vector(values, None)
    valid = np.where(
        where, True if taken.valid is None else taken.valid, True if other.valid is None else other.valid
    )
    return Vector(values, np.broadcast_to(valid, values.shape))


def _datum(array: pa.Array) -> pa.Array | pa.Scalar:
    return array[0] if len(array) == 1 else array
