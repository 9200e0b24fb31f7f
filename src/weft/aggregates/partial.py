"""Primitives, the mergeable partial aggregates that Spark computes and blocks keep, and partials as columns.

An aggregate is *lifted* from rows to primitives by Spark, primitives are *combined* over slices by Weft, and
the combined primitives are *lowered* to the aggregate's value. In partials, whole numbers, times and booleans
are int64, floating point is float64, decimals are Python integers in units of their scale, strings are their
bytes: every field can be combined exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.expression import Expression
from weft.types import DataType, Kind


class Combine(StrEnum):
    """How the partials of a primitive merge."""

    ADD = "add"
    LEAST = "least"
    GREATEST = "greatest"
    MOMENTS = "moments"
    """(count, mean, variance): merged as one, because sums of squares lose the digits that matter."""

    @property
    def invertible(self) -> bool:
        """Whether a partial can be subtracted from a total."""
        return self is Combine.ADD


@dataclass(frozen=True, slots=True)
class Primitive:
    """One partial aggregate, kept once per group for all queries that use it."""

    lifts: tuple[str, ...]
    """Spark's native aggregate functions that compute the partial's fields from rows."""
    argument: Expression | None
    """The expression they are computed over; None stands for the row itself."""
    combine: Combine
    types: tuple[DataType, ...]
    """The type of each field."""

    @property
    def order_free(self) -> bool:
        """Whether merging in any order gives the same value, bit for bit."""
        rounds = any(type.is_fractional for type in self.types)
        return not (rounds and self.combine in (Combine.ADD, Combine.MOMENTS))

    def __str__(self) -> str:
        name = "moments" if self.combine is Combine.MOMENTS else self.lifts[0]
        return f"{name}({'*' if self.argument is None else self.argument})"


Objects = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Partial:
    """The partials of one primitive, one row per group."""

    fields: tuple[Objects, ...]
    valid: Mask | None
    """Which rows saw a value that is not NULL; None where all did."""
    types: tuple[DataType, ...]

    def __len__(self) -> int:
        return len(self.fields[0])

    def valid_mask(self) -> Mask:
        """Return the validity of each row."""
        return np.ones(len(self), dtype=bool) if self.valid is None else self.valid

    def take(self, rows: npt.NDArray[np.intp]) -> "Partial":
        """Return the given rows, in that order."""
        valid = None if self.valid is None else self.valid[rows]
        return Partial(tuple(field[rows] for field in self.fields), valid, self.types)


def concatenate(parts: Sequence[Partial]) -> Partial:
    """Return the rows of all parts, in order."""
    fields = tuple(np.concatenate(columns) for columns in zip(*(part.fields for part in parts), strict=True))
    if all(part.valid is None for part in parts):
        return Partial(fields, None, parts[0].types)
    return Partial(fields, np.concatenate([part.valid_mask() for part in parts]), parts[0].types)


def empty(primitive: Primitive, rows: int) -> Partial:
    """Return partials of no input at all: counts are 0, everything else is NULL."""
    fields = tuple(np.full(rows, _filler(type), dtype=_dtype(type)) for type in primitive.types)
    valid = None if primitive.lifts == ("count",) else np.zeros(rows, dtype=bool)
    return Partial(fields, valid, primitive.types)


def from_arrow(primitive: Primitive, columns: Sequence[pa.ChunkedArray]) -> Partial:
    """Return a primitive's columns, as Spark computes them, as a partial."""
    fields = tuple(decode(column, type) for column, type in zip(columns, primitive.types, strict=True))
    # count is never NULL; the other fields of a primitive are NULL together.
    last = columns[-1]
    valid = None if last.null_count == 0 else np.asarray(pc.is_valid(last).combine_chunks())
    return Partial(fields, valid, primitive.types)


def decode(column: pa.ChunkedArray, type: DataType) -> Objects:
    """Return an Arrow column as an array whose values can be combined; NULL becomes a filler."""
    if type.kind is Kind.DECIMAL:
        array = column.combine_chunks().cast(pa.decimal128(38, type.scale))
        return unscaled(array).astype(object)
    if type.is_text:
        # A string's bytes need not be UTF-8, and compare as in Spark.
        texts = column.cast(pa.binary()).to_pylist()
        return _objects([_filler(type) if value is None else value for value in texts])
    if type.is_time:
        column = column.cast(pa.int32() if type.kind is Kind.DATE else pa.int64())
    if type.kind is Kind.BOOLEAN:
        column = column.cast(pa.int8())
    if column.null_count:
        column = pc.fill_null(column, 0)
    values: Objects = column.to_numpy().astype(_dtype(type), copy=False)
    return values


def to_arrow(values: Objects, valid: Mask, type: DataType) -> pa.Array:
    """Return values as an Arrow array of the given type, NULL where not valid."""
    hidden = ~np.asarray(valid, dtype=bool)
    if type.kind is Kind.DECIMAL:
        bitmap = pa.py_buffer(np.packbits(~hidden, bitorder="little"))
        data = pa.py_buffer(words_of(values, ~hidden))
        return pa.Array.from_buffers(arrow_type(type), len(values), [bitmap, data])
    if values.dtype == object and type.is_integer:
        pairs = zip(values, hidden, strict=True)
        values = np.array([0 if skip else value for value, skip in pairs], dtype=np.int64)
    # Without a mask, numbers are not copied.
    mask = hidden if hidden.any() else None
    if type.kind is Kind.DATE:
        return pa.array(values.astype(np.int32), pa.int32(), mask=mask).cast(pa.date32())
    if type.is_time:
        return pa.array(values, pa.int64(), mask=mask).cast(arrow_type(type))
    if type.kind is Kind.BOOLEAN:
        return pa.array(values.astype(bool), pa.bool_(), mask=mask)
    if type.kind is Kind.STRING:
        return pa.array(values, pa.binary(), mask=mask).view(pa.string())
    return pa.array(values, mask=mask, from_pandas=False).cast(arrow_type(type))


_ARROW = {
    Kind.BOOLEAN: pa.bool_(), Kind.TINYINT: pa.int8(), Kind.SMALLINT: pa.int16(), Kind.INT: pa.int32(),
    Kind.BIGINT: pa.int64(), Kind.FLOAT: pa.float32(), Kind.DOUBLE: pa.float64(), Kind.STRING: pa.string(),
    Kind.BINARY: pa.binary(), Kind.DATE: pa.date32(), Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.TIMESTAMP_NTZ: pa.timestamp("us"), Kind.NULL: pa.null(),
}  # fmt: skip


def arrow_type(type: DataType) -> pa.DataType:
    """Return the Arrow type of a column in the results.

    >>> arrow_type(DataType(Kind.DECIMAL, 12, 2))
    Decimal128Type(decimal128(12, 2))
    """
    if type.kind is Kind.DECIMAL:
        return pa.decimal128(type.precision, type.scale)
    if type.is_nested:
        # The element's name is the one that Parquet gives it, so that a file reads back as it was written.
        fields = [pa.field(name, arrow_type(of)) for name, of in type.fields]
        return pa.list_(*fields) if type.kind is Kind.ARRAY else pa.struct(fields)
    return _ARROW[type.kind]


def _dtype(type: DataType) -> npt.DTypeLike:
    if type.is_fractional:
        return np.float64
    return object if type.is_text or type.kind is Kind.DECIMAL else np.int64


def _filler(type: DataType) -> int | bytes:
    """Return the value in place of NULL; it compares with other values of the type."""
    return b"" if type.is_text else 0


def _objects(values: list[Any]) -> Objects:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def unscaled(array: pa.Array) -> Objects:
    """Return decimals in units of their scale: int64 if all fit, Python integers otherwise; 0 for NULL."""
    rows = len(array)
    if rows == 0:
        return np.zeros(0, dtype=np.int64)
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * rows, 16 * array.offset).reshape(rows, 2)
    if array.null_count:
        words = np.where(np.asarray(array.is_valid())[:, None], words, 0)
    low, high = words[:, 0], words[:, 1]
    if np.array_equal(high, low >> 63):
        return np.ascontiguousarray(low)
    whole: Objects = high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object)
    return whole


def words_of(values: Objects, valid: Mask | None) -> Objects:
    """Return whole numbers as Arrow stores decimals: a low and a high word each."""
    words = np.empty((len(values), 2), dtype=np.int64)
    if values.dtype != object:
        words[:, 0] = values
        np.right_shift(words[:, 0], 63, out=words[:, 1])
        return words
    if valid is not None:
        values = np.where(valid, values, 0)
    words[:, 0] = (values & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)
    words[:, 1] = (values >> 64).astype(np.int64)
    return words
