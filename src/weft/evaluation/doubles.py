"""Functions of doubles, and of other numbers as doubles."""

from collections.abc import Callable

import numpy as np

from weft.evaluation.numbers import as_double
from weft.evaluation.vector import Array, Vector, both, narrowed
from weft.expression import Call


def of_double(operation: Callable[[Array], Array]) -> Callable[[Call, Vector], Vector]:
    """Return a function of doubles as one of any numbers."""
    return lambda call, value: Vector(operation(as_double(value, call.args[0].type)), value.valid)


def of_doubles(operation: Callable[[Array, Array], Array]) -> Callable[[Call, Vector, Vector], Vector]:
    """Return a function of two doubles as one of any numbers."""

    def apply(call: Call, left: Vector, right: Vector) -> Vector:
        a, b = as_double(left, call.args[0].type), as_double(right, call.args[1].type)
        return Vector(operation(a, b), both(left.valid, right.valid))

    return apply


def signs(values: Array) -> Array:
    """Return the signs of doubles; that of −0.0 is −0.0, that of NaN is NaN."""
    return np.where((values == 0) | np.isnan(values), values, np.copysign(1.0, values))


def logarithm(operation: Callable[[Array], Array]) -> Callable[[Call, Vector], Vector]:
    """Return a logarithm that is NULL for 0 and below."""

    def apply(call: Call, value: Vector) -> Vector:
        number = as_double(value, call.args[0].type)
        return Vector(operation(number), narrowed(value.valid, ~(number <= 0)))

    return apply


def log1p(call: Call, value: Vector) -> Vector:
    """Return the logarithm of one more, NULL for −1 and below."""
    number = as_double(value, call.args[0].type)
    return Vector(np.log1p(number), narrowed(value.valid, ~(number <= -1)))


def angle(y: Array, x: Array) -> Array:
    """Return the angle of a point; −0.0 is 0.0, as in Spark."""
    return np.arctan2(y + 0.0, x + 0.0)


def power(call: Call, base: Vector, exponent: Vector) -> Vector:
    """Return powers; those of ±1 to NaN or to an infinity are NaN, as in Java and unlike in C."""
    a, b = as_double(base, call.args[0].type), as_double(exponent, call.args[1].type)
    unclear = ((a == 1) & np.isnan(b)) | ((np.abs(a) == 1) & np.isinf(b))
    return Vector(np.where(unclear, np.nan, np.power(a, b)), both(base.valid, exponent.valid))


def is_nan(call: Call, value: Vector) -> Vector:
    """Say whether numbers are NaN; NULL is not."""
    if not call.args[0].type.is_fractional:
        return Vector(np.zeros(len(value.values), dtype=bool), None)
    nans = np.isnan(value.values)
    return Vector(nans if value.valid is None else nans & value.valid, None)


def width_bucket(call: Call, value: Vector, low: Vector, high: Vector, buckets: Vector) -> Vector:
    """Return the bucket, among so many of one width between two bounds, in the order of the bounds."""
    number, first, last = (
        as_double(one, argument.type) for one, argument in zip((value, low, high), call.args, strict=False)
    )
    count = buckets.values.astype(np.int64)
    good = (count > 0) & (count < np.iinfo(np.int64).max) & ~np.isnan(number)
    good = good & np.isfinite(first) & np.isfinite(last) & (first != last)
    rising = first < last
    least, most = np.minimum(first, last), np.maximum(first, last)
    travelled = np.where(rising, number - least, most - number)
    bucket = _saturated(count.astype(np.float64) * travelled / (most - least)) + 1
    bucket = np.where(np.where(rising, number < first, number > first), 0, bucket)
    bucket = np.where(np.where(rising, number >= last, number <= last), count + 1, bucket)
    valid = both(both(value.valid, low.valid), both(high.valid, buckets.valid))
    return Vector(bucket, narrowed(valid, good))


def _saturated(values: Array) -> Array:
    """Return doubles truncated to 64 bits as in Java: the largest for what is larger, 0 for NaN."""
    large = values >= 2.0**63
    inside = np.where(large | np.isnan(values) | (values < -(2.0**63)), 0.0, values).astype(np.int64)
    return np.where(large, np.iinfo(np.int64).max, inside)
