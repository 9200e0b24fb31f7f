"""Points and sets of weft.predicates as Spark columns: comparisons, tables, and where values stand.

A binary search answers i for the value of point i itself, and −(i + 1) for values between point i − 1 and
point i. Tables that are looked up by position are laid out in the order of those answers, with NULL last.

Numbers that depend on how many constants there are leave room for more: they are part of the code that Spark
generates, and change only when the next power of two is reached.
"""

from bisect import bisect_left
from collections.abc import Sequence
from decimal import Context, Decimal
from functools import reduce
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from py4j.java_gateway import JavaObject
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.internal import InternalFunction

from weft.expression import Expression
from weft.optimizer import statistics
from weft.optimizer.plan import Relation
from weft.predicates import All, Attribute, Formula, Test, Values
from weft.predicates.values import Cut, Point
from weft.query.logical import Join
from weft.spark.columns import Translator
from weft.spark.session.gateway import gateway, java_class
from weft.types import DataType, Kind

_SQL = "org.apache.spark.sql"
_WHOLE = (Kind.BOOLEAN, Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)
_EXACT = Context(prec=100)
_BUFFERS = {
    "int32": ("int", "asIntBuffer"),
    "int64": ("long", "asLongBuffer"),
    "float64": ("double", "asDoubleBuffer"),
}


def comparable(value: Column, type: DataType) -> Column:
    """Return a column whose values are those that cuts are made at: see weft.predicates.values."""
    if type.kind in _WHOLE:
        return value.cast("bigint")
    if type.kind is Kind.DATE:
        return F.unix_date(value).cast("bigint")
    if type.kind is Kind.TIMESTAMP:
        return F.unix_micros(value)
    return F.unix_micros(value.cast("timestamp")) if type.kind is Kind.TIMESTAMP_NTZ else value


def points_array(points: Sequence[Point], type: DataType) -> Column:
    """Return an array of points, in the type of `comparable`."""
    if type.kind is Kind.BINARY:
        return F.array(*map(F.lit, points))
    if type.kind is Kind.STRING:
        return _strings([point.decode() for point in points if isinstance(point, bytes)])
    if type.kind is Kind.DECIMAL:
        numbers = ",".join(str(_decimal(point, type)) for point in points)
        return F.split(F.lit(numbers), ",").cast(f"array<{type}>")
    return _searched(np.array(points, dtype=np.float64 if type.is_fractional else np.int64))


def lookup(values: npt.NDArray[np.integer], index: Column) -> Column:
    """Return the number at an index of a table, however large.

    The table is one block of memory for Spark. (As an array of objects it would be sent and printed number by
    number: 1.0 s a batch for 262,144 of them, instead of nothing to speak of.)
    """
    return F.get(_numbers(values.astype(np.int32), "int"), index)


def lookup_long(values: npt.NDArray[np.int64], index: Column) -> Column:
    """Return the 64-bit number at an index of a table."""
    return F.get(_numbers(values, "bigint"), index)


def searched_longs(values: npt.NDArray[np.int64], value: Column) -> Column:
    """Return the index of a 64-bit number among others in order, as Java's binary search gives it."""
    return InternalFunction.array_binary_search(_searched(values), value)


def strings_block(texts: Sequence[bytes]) -> Column:
    """Return an array of strings as one block of memory: Spark's own layout, with the texts at its end."""
    count, sizes = len(texts), np.array([len(text) for text in texts], dtype=np.int64)
    header = 8 + 8 * -(-count // 64)
    padded = -(-sizes // 8) * 8
    offsets = header + 8 * count + np.cumsum(padded) - padded
    words = np.zeros(header // 8 + count, dtype="<i8")
    words[0], words[header // 8 :] = count, (offsets << 32) | sizes
    texts_end = b"".join(text.ljust(int(size), b"\0") for text, size in zip(texts, padded, strict=True))
    data = bytearray(words.tobytes() + texts_end)
    block = java_class(f"{_SQL}.catalyst.expressions.UnsafeArrayData")()
    block.pointTo(data, java_class("org.apache.spark.unsafe.Platform").BYTE_ARRAY_OFFSET, len(data))
    return _block(block, "string")


def _numbers(values: npt.NDArray[np.integer], element: str) -> Column:
    block = java_class(f"{_SQL}.catalyst.expressions.UnsafeArrayData")
    return _block(block.fromPrimitiveArray(_java_array(values)), element)


def _block(block: JavaObject, element: str) -> Column:
    """Return an array that is one block of memory as a constant."""
    of = java_class(f"{_SQL}.types.DataType").fromDDL(element)
    type = java_class(f"{_SQL}.types.ArrayType")(of, False)
    constant = java_class(f"{_SQL}.catalyst.expressions.Literal")(block, type)
    return Column(java_class(f"{_SQL}.classic.ExpressionUtils").column(constant))


def _searched(values: npt.NDArray[np.generic]) -> Column:
    """Return an array as a constant that Spark can search without copying it for every row."""
    return Column(java_class(f"{_SQL}.functions").lit(_java_array(values)))


def _java_array(values: npt.NDArray[np.generic]) -> JavaObject:
    """Return numbers as a Java array: their bytes cross to the JVM at once."""
    kind, view = _BUFFERS[values.dtype.name]
    array = gateway().new_array(java_class(kind), len(values))
    big_endian = bytearray(values.astype(values.dtype.newbyteorder(">")).tobytes())
    getattr(java_class("java.nio.ByteBuffer").wrap(big_endian), view)().get(array)
    return array


def condition(formula: Formula, translate: Translator) -> Column:
    """Return where a formula is true, as a native expression; NULL there means that it is not."""
    if isinstance(formula, Test):
        return _condition(translate(formula.expression), formula.expression.type, formula.values)
    join = Column.__and__ if isinstance(formula, All) else Column.__or__
    parts = (condition(part, translate) for part in formula.parts)
    return reduce(join, parts, F.lit(isinstance(formula, All)))


def _condition(value: Column, type: DataType, values: Values) -> Column:
    if values.null:
        rest = values.without_null()
        null = value.isNull()
        return null if rest.is_empty else null | F.coalesce(_condition(value, type, rest), F.lit(False))
    if values.lowest and not values.cuts:
        return value.isNotNull()
    inside = comparable(value, type)
    if len(values.cuts) > 2 and values.lowest:
        return ~_condition(value, type, (~values).without_null())
    return reduce(Column.__or__, [_stretch(inside, type, low, high) for low, high in values.stretches()])


def _stretch(value: Column, type: DataType, low: Cut | None, high: Cut | None) -> Column:
    if low is not None and high is not None and low.value == high.value:
        return value == _point(low.value, type)
    sides = []
    if low is not None:
        bound = _point(low.value, type)
        sides.append(value > bound if low.after else value >= bound)
    if high is not None:
        bound = _point(high.value, type)
        sides.append(value <= bound if high.after else value < bound)
    return sides[0] if len(sides) == 1 else sides[0] & sides[1]


def _point(point: Point, type: DataType) -> Column:
    if isinstance(point, bytes):
        return F.lit(point if type.kind is Kind.BINARY else point.decode())
    if type.kind is Kind.DECIMAL:
        return F.lit(_decimal(point, type)).cast(str(type))
    return F.lit(point) if isinstance(point, float) else F.lit(point).cast("bigint")


def _decimal(point: Point, type: DataType) -> Decimal:
    assert isinstance(point, int)
    return _EXACT.scaleb(Decimal(point), -type.scale)


def _strings(texts: Sequence[str]) -> Column:
    used = frozenset().union(*texts)
    separator = next(char for char in map(chr, range(0xE000, 0xF8FF)) if char not in used)
    return F.split(F.lit(separator.join(texts)), separator)


_LEAST_ROOM = 64
_Number = TypeVar("_Number", np.int32, np.int64)
JoinedExpression = tuple[tuple[Join, ...], Expression]
"""An expression, and the tables that are joined where it is evaluated."""


def attributes_of(relations: Sequence[Relation]) -> dict[JoinedExpression, Attribute]:
    """Return the attributes that relations test, with the tables that each reads."""
    return statistics.attributes_of(
        (own.joins, predicate) for own in relations for predicate in own.predicates
    )


def position(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands: the search's answers −(m + 1) … m − 1, moved above 0, and NULL last."""
    middle = room(len(attribute.points) + 1)
    return F.nvl(search(attribute, value) + middle, F.lit(2 * middle))


def search(attribute: Attribute, value: Column) -> Column:
    """Return where a value stands among the points, as Java's binary search tells it: NULL for NULL.

    i for the value of point i itself, −(i + 1) for those between point i − 1 and point i.
    """
    type = attribute.expression.type
    if type.kind is Kind.BOOLEAN:
        no, yes = (search_answer(attribute.points, point) for point in (0, 1))
        return F.when(value, yes).when(~value, no)
    if not attribute.points:
        return F.when(value.isNotNull(), F.lit(-1))
    return InternalFunction.array_binary_search(points_array(attribute.points, type), comparable(value, type))


def search_answer(points: Sequence[Point], value: Point) -> int:
    """Return what the search would answer."""
    index = bisect_left(points, value)
    return index if index < len(points) and points[index] == value else -(index + 1)


def in_search_order(by_position: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return shares where `position` looks for them: −(m + 1) … m − 1 around the middle, and NULL last.

    >>> shares = np.array([10, 11, 12, 13, 14, 99])  # points a, b: below a, a, between, b, above b; NULL
    >>> in_search_order(shares)[[61, 62, 63, 64, 65, 128]]
    array([14, 12, 10, 11, 13, 99])
    """
    below, points = by_position[:-1:2][::-1], by_position[1:-1:2]
    middle = room(len(below))
    ordered = np.zeros(2 * middle + 1, dtype=by_position.dtype)
    ordered[middle - len(below) : middle] = below
    ordered[middle : middle + len(points)] = points
    ordered[-1] = by_position[-1]
    return ordered


def room(count: int) -> int:
    """Return how many there may be before numbers change: a power of two.

    >>> room(1), room(64), room(65)
    (64, 64, 128)
    """
    return max(_LEAST_ROOM, 1 << (count - 1).bit_length())
