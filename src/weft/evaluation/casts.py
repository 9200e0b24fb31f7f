"""Casts among all types; what has no value in the target type becomes NULL.

Numbers and times are printed as Spark prints them; not doubles, whose form depends on the version of Java.
"""

from collections.abc import Callable
from datetime import date, timedelta
from decimal import Decimal
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation import decimals
from weft.evaluation.from_text import parsed
from weft.evaluation.numbers import as_double, rounded_units, scale_of
from weft.evaluation.vector import DAY, SECOND, Array, Mask, Vector, dtype_of, narrowed, null, text
from weft.expression import Call
from weft.types import BIGINT, DataType, Kind


def printed(value: Vector, source: DataType) -> Vector:
    """Return values of any type but doubles and floats as strings."""
    hidden = None if value.valid is None else ~np.broadcast_to(value.valid, value.values.shape)
    if source.is_integer:
        return text(pa.array(value.values, mask=hidden).cast(pa.string()).view(pa.binary()))
    if source.kind is Kind.BOOLEAN:
        return text(pc.if_else(pa.array(value.values, mask=hidden), b"true", b"false"))
    if source.kind is Kind.DECIMAL:
        printer: Callable[[int], bytes] = partial(_decimal, scale=source.scale)
    else:
        printer = day if source.kind is Kind.DATE else _timestamp
    values = value.values if hidden is None else np.where(hidden, 0, value.values)
    distinct, rows = np.unique(values, return_inverse=True)
    words = pa.array([printer(number) for number in distinct.tolist()], pa.binary())
    return text(words.take(pa.array(rows, mask=hidden)))


def _decimal(units: int, *, scale: int) -> bytes:
    digits = str(abs(units)).rjust(scale + 1, "0")
    point = len(digits) - scale
    sign = "-" if units < 0 else ""
    return f"{sign}{digits[:point]}{'.' if scale else ''}{digits[point:]}".encode()


def day(days: int) -> bytes:
    """Return a date as text.

    >>> day(0), day(10_000_000), day(-1_000_000)
    (b'1970-01-01', b'+29349-01-26', b'-0768-02-04')
    """
    # The calendar repeats after 400 years; 1970 to 2369 are among those that Python knows.
    cycles, of_cycle = divmod(days, 146_097)
    civil = date(1970, 1, 1) + timedelta(days=of_cycle)
    year = civil.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{civil.month:02d}-{civil.day:02d}".encode()


def _timestamp(micros: int) -> bytes:
    days, rest = divmod(micros, DAY)
    seconds, fraction = divmod(rest, SECOND)
    clock = f" {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    part = f".{fraction:06d}".rstrip("0") if fraction else ""
    return day(days) + clock.encode() + part.encode()


_LAST_DAY = (2**63 - 1) // DAY


def cast(call: Call, value: Vector) -> Vector:
    """Return a value in the call's type."""
    return converted(value, call.args[0].type, call.type)


def converted(value: Vector, source: DataType, target: DataType) -> Vector:
    """Return a vector of one type in another."""
    if source == target:
        return value
    if source.kind is Kind.NULL:
        return null(target)
    if source.is_text:
        return value if target.is_text else parsed(value.values, target)
    if target.is_text:
        return printed(value, source)
    if source.is_time:
        return _from_time(value, source, target)
    if target.is_time:
        return _to_time(value, source)
    if target.kind is Kind.BOOLEAN:
        return Vector((value.values != 0).astype(bool), value.valid)
    if target.kind is Kind.DECIMAL and source.is_fractional:
        return _double_to_decimal(value, target)
    if target.kind is Kind.DECIMAL:
        return decimals.converted(decimals.units(value), scale_of(source), target)
    if target.is_fractional:
        return Vector(_fractional(value, source, target), value.valid)
    if source.kind is Kind.DECIMAL:
        return _decimal_to_integer(value, source, target)
    if source.is_fractional:
        return _double_to_integer(value.values.astype(np.float64), value.valid, target)
    return _integer(value, target)


def _integer(value: Vector, target: DataType) -> Vector:
    """Return whole numbers in another width."""
    dtype = dtype_of(target)
    result = value.values.astype(dtype)
    if value.values.dtype.itemsize <= dtype.itemsize:
        return Vector(result, value.valid)
    return Vector(result, narrowed(value.valid, result == value.values))


def _fractional(value: Vector, source: DataType, target: DataType) -> Array:
    if target.kind is Kind.DOUBLE or source.kind is not Kind.DECIMAL:
        return as_double(value, source) if target.kind is Kind.DOUBLE else value.values.astype(np.float32)
    doubles = decimals.to_double(value.values, source.scale)
    singles = doubles.astype(np.float32)
    for row in np.flatnonzero(decimals.is_between_floats(doubles)):
        exact = Decimal(int(value.values[row])).scaleb(-source.scale)
        singles[row] = decimals.nudged(float(doubles[row]), exact)
    return singles


def _double_to_integer(number: Array, valid: Mask | None, target: DataType) -> Vector:
    """Truncate doubles; limits are compared as doubles, so that 2^63 still becomes the largest BIGINT."""
    wide = target.kind is Kind.BIGINT
    limits = np.iinfo(np.int64 if wide else np.int32)
    good = (np.floor(number) <= float(limits.max)) & (np.ceil(number) >= float(limits.min))
    cut = np.trunc(np.where(good, number, 0.0))
    top = cut >= 2.0**63
    whole = np.where(top, limits.max, np.where(top, 0.0, cut).astype(np.int64))
    return _integer(Vector(whole, narrowed(valid, good)), target)


def _decimal_to_integer(value: Vector, source: DataType, target: DataType) -> Vector:
    if source.precision > 18 and target.kind is not Kind.BIGINT:
        # Spark casts decimals of more digits than a 64-bit number has by way of a double.
        return _double_to_integer(as_double(value, source), value.valid, target)
    size = decimals.floored(np.abs(value.values), source.scale, up=False)
    whole, valid = np.where(value.values < 0, -size, size), value.valid
    if whole.dtype == object:
        good = ((whole < 2**63) & (whole >= -(2**63))).astype(bool)
        whole, valid = np.where(good, whole, 0).astype(np.int64), narrowed(valid, good)
    return _integer(Vector(whole, valid), target)


def _double_to_decimal(value: Vector, target: DataType) -> Vector:
    """Take the shortest decimal that means the double, as Java prints it, and round that."""
    number = value.values.astype(np.float64)
    good = np.abs(number) < 10.0 ** (target.precision - target.scale + 1)  # NaN and infinities are not
    size, quick = rounded_units(number, target.scale)
    units: Array = np.where(quick, np.copysign(size, number), 0.0).astype(np.int64)
    slow = np.flatnonzero(good & ~quick)
    if len(slow):
        units = units.astype(object)
        units[slow] = [decimals.in_units(Decimal(repr(x)), target.scale) for x in number[slow].tolist()]
    return decimals.bounded(units, narrowed(value.valid, good), target)


def midnight(days: Array, valid: Mask | None) -> Vector:
    """Return dates as timestamps; NULL beyond the last day that has one."""
    inside = (days >= -_LAST_DAY) & (days <= _LAST_DAY)
    return Vector(days.astype(np.int64) * DAY, narrowed(valid, inside))


def _from_time(value: Vector, source: DataType, target: DataType) -> Vector:
    if source.kind is Kind.DATE:
        return midnight(value.values, value.valid)
    if target.kind is Kind.DATE:
        return Vector((value.values // DAY).astype(np.int32), value.valid)
    if target.is_time:
        return value
    if target.is_integer:
        return _integer(Vector(value.values // SECOND, value.valid), target)
    if target.kind is Kind.DECIMAL:
        return decimals.converted(value, 6, target)  # microseconds
    return Vector((value.values / float(SECOND)).astype(dtype_of(target)), value.valid)


def _to_time(value: Vector, source: DataType) -> Vector:
    """Return seconds since the epoch as a timestamp."""
    if source.kind is Kind.DECIMAL:
        size = decimals.floored(decimals.times(np.abs(value.values), SECOND), source.scale, up=False)
        return Vector(decimals.low_bits(np.where(value.values < 0, -size, size)), value.valid)
    if source.is_fractional:
        return _double_to_integer(value.values.astype(np.float64) * SECOND, value.valid, BIGINT)
    if source.kind is Kind.BOOLEAN:
        return Vector(value.values.astype(np.int64), value.valid)
    limits, most = np.iinfo(np.int64), np.iinfo(np.int64).max // SECOND
    seconds = value.values.astype(np.int64)
    micros = np.where(seconds > most, limits.max, np.where(seconds < -most, limits.min, seconds * SECOND))
    return Vector(micros, value.valid)
