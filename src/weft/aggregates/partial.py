"""Primitives, the mergeable partial aggregates that Spark computes and blocks keep, and partials as columns.

An aggregate is *lifted* from rows to primitives by Spark, primitives are *combined* over slices by Weft, and
the combined primitives are *lowered* to the aggregate's value. In partials, whole numbers, times and booleans
are int64, floating point is float64, decimals are Python integers in units of their scale, strings are their
bytes: every field can be combined exactly.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from weft.aggregates.bags import Bags
from weft.aggregates.decimal_words import unscaled, words_of
from weft.expression import Expression
from weft.types import DataType, Kind

Objects = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
Field = Any
"""A column of partials, an array with one value for each group, or bags of values (weft.aggregates.bags)."""


Parameter = bool | int | float | str
"""A constant of an aggregate that its partials depend on."""


@dataclass(frozen=True, slots=True)
class RunningForm:
    """How partials of plain numbers are added up along time, many groups at once."""

    ufunc: np.ufunc
    nothing_double: float
    """What never makes a difference, among doubles."""
    nothing_integer: int
    """The same among whole numbers."""


class Combine(ABC):
    """How the partials of a primitive merge: an object, known by its name wherever it is stored."""

    name: str
    invertible: bool = False
    """Whether a partial can be subtracted from a total."""
    rounds: bool = False
    """Whether merging doubles in another order may round in another way."""
    in_pieces: bool = False
    """Whether long ranges that overlap are better merged from pieces whose lengths are powers of two."""
    never_null: bool = False
    """Whether partials of no value at all are not NULL."""
    reads_ranges: bool = False
    """Whether aggregates are read off ranges of bags (weft.aggregates.ranges), rather than merged ones."""
    running: RunningForm | None = None
    """How partials of one field of plain numbers can be added up along time, if they can."""

    @property
    def parameters(self) -> "tuple[Parameter, ...]":
        """What tells ways to merge of one name apart."""
        return ()

    @abstractmethod
    def merge(self, partial: "Partial", lo: Rows, hi: Rows) -> tuple[Field, ...]:
        """Return the fields of one combined partial per range of rows; ranges may overlap, none is empty."""

    def empty(self, types: "tuple[DataType, ...]", rows: int) -> tuple[Field, ...]:
        """Return the fields of partials of no input at all."""
        return tuple(np.full(rows, filler(type), dtype=_dtype(type)) for type in types)

    def kept(self, fields: tuple[Field, ...]) -> tuple[Field, ...]:
        """Return what a store keeps of merged partials: all, or as much as has a bounded size."""
        return fields

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class Primitive:
    """One partial aggregate, kept once per group for all queries that use it."""

    lifts: tuple[str, ...]
    """The names of the lifts (weft.spark.job.lifts) that compute the partial's fields from rows."""
    arguments: tuple[Expression, ...]
    """The expressions they are computed over; none stands for the row itself."""
    combine: Combine
    types: tuple[DataType, ...]
    """The type of each field."""
    parameters: tuple[Parameter, ...] = ()
    """What else the lifts are given."""

    @property
    def order_free(self) -> bool:
        """Whether merging in any order gives the same value, bit for bit."""
        return not (self.combine.rounds and any(type.is_fractional for type in self.types))

    @property
    def never_null(self) -> bool:
        """Whether partials of no value at all are not NULL: counts are 0, bags are empty."""
        return self.lifts == ("count",) or self.combine.never_null

    def __str__(self) -> str:
        bounds = self.combine.parameters
        name = self.lifts[0] if len(self.lifts) == 1 and not bounds else self.combine.name
        inner = [*map(str, self.arguments), *map(str, self.parameters), *map(str, bounds)]
        return f"{name}({', '.join(inner or ['*'])})"


@dataclass(frozen=True, slots=True)
class Partial:
    """The partials of one primitive, one row per group."""

    fields: tuple[Field, ...]
    valid: Mask | None
    """Which rows saw a value that is not NULL; None where all did."""
    types: tuple[DataType, ...]

    def __len__(self) -> int:
        return len(self.fields[0])

    def valid_mask(self) -> Mask:
        """Return the validity of each row."""
        return np.ones(len(self), dtype=bool) if self.valid is None else self.valid

    def seen_mask(self) -> Mask:
        """Return which rows saw a value that is not NULL: a bag is never NULL, but may hold nothing."""
        first = self.fields[0]
        return first.sizes > 0 if isinstance(first, Bags) else self.valid_mask()

    def take(self, rows: npt.NDArray[np.intp]) -> "Partial":
        """Return the given rows, in that order."""
        valid = None if self.valid is None else self.valid[rows]
        return Partial(tuple(field[rows] for field in self.fields), valid, self.types)


def concatenate(parts: Sequence[Partial]) -> Partial:
    """Return the rows of all parts, in order."""
    fields = tuple(map(_joined, zip(*(part.fields for part in parts), strict=True)))
    if all(part.valid is None for part in parts):
        return Partial(fields, None, parts[0].types)
    return Partial(fields, np.concatenate([part.valid_mask() for part in parts]), parts[0].types)


def _joined(columns: Sequence[Field]) -> Field:
    return Bags.joined(columns) if isinstance(columns[0], Bags) else np.concatenate(columns)


def empty(primitive: Primitive, rows: int) -> Partial:
    """Return partials of no input at all: counts are 0, everything else is NULL."""
    fields = primitive.combine.empty(primitive.types, rows)
    valid = None if primitive.never_null else np.zeros(rows, dtype=bool)
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
        return _objects([filler(type) if value is None else value for value in texts])
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


def filler(type: DataType) -> int | bytes:
    """Return the value in place of NULL; it compares with other values of the type."""
    return b"" if type.is_text else 0


def _objects(values: list[Any]) -> Objects:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
