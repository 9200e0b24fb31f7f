"""Decimals as Spark computes them: exact, rounded half up, NULL where the type has too few digits.

They are whole numbers in units of the scale: int64 where no step can overflow, Python integers elsewhere.
Integers are decimals of scale 0, once they are int64.
"""

import math
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from weft.evaluation.vector import Array, Mask, Vector, both, narrowed
from weft.types import DataType

_LIMIT = 1 << 63
_PRODUCTS = Context(prec=39, rounding=ROUND_HALF_UP)
"""How Spark rounds products before it rounds them to the scale."""
_QUOTIENTS = Context(prec=39, rounding=ROUND_DOWN)
"""Quotients of remainders and `div` with more digits than this are NULL in Spark."""
_NEGATED = Context(prec=34, rounding=ROUND_HALF_EVEN)
"""How Scala rounds a decimal whose sign it changes."""
_POWERS = [10**digits for digits in range(160)]


def peak(values: Array) -> int:
    """Return the largest magnitude."""
    if len(values) == 0:
        return 0
    return max(-int(values.min()), int(values.max()))


def compact(values: Array) -> Array:
    """Return whole numbers as int64 if they fit."""
    if values.dtype == object and peak(values) < _LIMIT:
        return values.astype(np.int64)
    return values


def units(vector: Vector) -> Vector:
    """Return integers of any width as decimals of scale 0."""
    if vector.values.dtype in (np.int64, object):
        return vector
    return Vector(vector.values.astype(np.int64), vector.valid)


def _wide(values: Array) -> Array:
    return values if values.dtype == object else values.astype(object)


def times(values: Array, factor: int) -> Array:
    """Return values times a constant."""
    largest = peak(values)
    if factor == 1 or largest == 0:
        return values
    if values.dtype != object and largest * factor < _LIMIT:
        return values * factor
    return _wide(values) * factor


def divided(values: Array, divisor: Any) -> Array:
    """Return quotients by positive numbers, rounded half up, that is away from zero."""
    size = np.abs(values)
    quotient = size // divisor
    rest = size - quotient * divisor
    quotient = quotient + (rest >= divisor - rest)
    signed: Array = np.where(values < 0, -quotient, quotient)
    return signed


def rescaled(values: Array, scale: int, target: int) -> Array:
    """Return values in units of another scale, rounded half up."""
    if target >= scale:
        return times(values, _POWERS[target - scale])
    divisor = _POWERS[scale - target]
    if values.dtype != object and divisor < _LIMIT and peak(values) < _LIMIT:
        return divided(values, divisor)
    return compact(divided(_wide(values), divisor))


def bounded(values: Array, valid: Mask | None, type: DataType) -> Vector:
    """Return values in a decimal type; NULL where they have too many digits."""
    if values.dtype != object and type.precision > 18:
        return Vector(values, valid)
    limit = _POWERS[type.precision]
    if peak(values) < limit:
        return Vector(compact(values), valid)
    good = ((values < limit) & (values > -limit)).astype(bool)
    return Vector(compact(np.where(good, values, 0)), narrowed(valid, good))


def converted(vector: Vector, scale: int, target: DataType) -> Vector:
    """Return a decimal, or a whole number, whose scale is 0, in another decimal type."""
    return bounded(rescaled(vector.values, scale, target.scale), vector.valid, target)


def to_double(values: Array, scale: int) -> Array:
    """Return the nearest doubles."""
    if values.dtype != object and scale <= 22 and (scale == 0 or peak(values) <= 1 << 53):
        return values / 10.0**scale if scale else values.astype(np.float64)
    # Python divides whole numbers of any length with one rounding.
    nearest: Array = (_wide(values) / _POWERS[scale]).astype(np.float64)
    return nearest


def add(left: Vector, right: Vector, scales: tuple[int, int], type: DataType, sign: int = 1) -> Vector:
    """Return sums, or differences if the sign is −1."""
    scale = max(scales)
    a, b = rescaled(left.values, scales[0], scale), rescaled(right.values, scales[1], scale)
    if a.dtype == object or b.dtype == object or peak(a) + peak(b) >= _LIMIT:
        a, b = _wide(a), _wide(b)
    total = a + b if sign > 0 else a - b
    return bounded(rescaled(total, scale, type.scale), both(left.valid, right.valid), type)


def multiply(left: Vector, right: Vector, scales: tuple[int, int], type: DataType) -> Vector:
    """Return products."""
    a, b = left.values, right.values
    if a.dtype != object and b.dtype != object and peak(a) * peak(b) < _LIMIT:
        product = a * b
    else:
        product = _shortened(_wide(a) * _wide(b), _PRODUCTS)
    return bounded(rescaled(product, sum(scales), type.scale), both(left.valid, right.valid), type)


def divide(left: Vector, right: Vector, scales: tuple[int, int], type: DataType) -> Vector:
    """Return quotients; NULL where the divisor is 0."""
    valid, divisor = _nonzero(left, right)
    shift = type.scale - scales[0] + scales[1]
    size, unit = _magnitudes(left.values, times(divisor, _POWERS[max(0, -shift)]))
    quotient = _long_quotient(size, unit, max(0, shift))
    return bounded(np.where((left.values < 0) != (divisor < 0), -quotient, quotient), valid, type)


def _magnitudes(a: Array, b: Array) -> tuple[Array, Array]:
    if a.dtype == object or b.dtype == object or max(peak(a), peak(b)) >= _LIMIT:
        a, b = _wide(a), _wide(b)
    return np.abs(a), np.abs(b)


def _long_quotient(size: Array, divisor: Array, digits: int) -> Array:
    """Return quotients with a number of digits after the point, rounded half up, by long division.

    A few digits at a time: then remainders, and often quotients, stay within 64 bits, where dividends with as
    many zeros would not.
    """
    quotient = size // divisor
    rest = size - quotient * divisor
    room = 18 if size.dtype == object else max(0, len(str(_LIMIT // (peak(divisor) + 1))) - 1)
    if room == 0:
        rest, divisor, room = _wide(rest), _wide(divisor), 18
    while digits > 0:
        step = min(room, digits)
        rest = rest * _POWERS[step]
        more = rest // divisor
        rest = rest - more * divisor
        quotient = times(quotient, _POWERS[step])
        wide = more.dtype == object or peak(quotient) + _POWERS[step] >= _LIMIT
        quotient = (_wide(quotient) if wide else quotient) + more
        digits -= step
    return quotient + (rest >= divisor - rest)  # type: ignore[no-any-return]


def _nonzero(left: Vector, right: Vector) -> tuple[Mask | None, Array]:
    """Return where a division can be made, and divisors with 1 for 0."""
    nonzero = (right.values != 0).astype(bool)
    valid = narrowed(both(left.valid, right.valid), nonzero)
    return valid, right.values if nonzero.all() else np.where(nonzero, right.values, 1)


def remainder(left: Vector, right: Vector, scales: tuple[int, int], type: DataType) -> Vector:
    """Return remainders with the sign of the dividend; NULL where the quotient has more than 39 digits."""
    valid, divisor = _nonzero(left, right)
    scale = max(scales)
    a, b = rescaled(left.values, scales[0], scale), rescaled(divisor, scales[1], scale)
    size, unit = _magnitudes(a, b)
    quotient = size // unit
    rest = size - quotient * unit
    if quotient.dtype == object:
        valid = narrowed(valid, _has_spark_digits(quotient))
    return bounded(rescaled(np.where(a < 0, -rest, rest), scale, type.scale), valid, type)


def whole_quotient(left: Vector, right: Vector, scales: tuple[int, int], zeros: int) -> Vector:
    """Return quotients truncated to whole numbers, and these to 64 bits, as Spark's `div` does.

    A divisor that is 0 when rounded to `zeros` places counts as 0, as it does in a comparison with 0.
    """
    compared = Vector(rescaled(right.values, scales[1], min(zeros, scales[1])), None)
    valid, _ = _nonzero(left, compared)
    valid, divisor = both(valid, right.valid), _nonzero(left, right)[1]
    scale = max(scales)
    a, b = _wide(rescaled(left.values, scales[0], scale)), _wide(rescaled(divisor, scales[1], scale))
    size = np.abs(a) // np.abs(b)
    good = _has_spark_digits(size) & (size < _POWERS[38]).astype(bool)
    quotient = np.where((a < 0) != (b < 0), -size, size)
    return Vector(low_bits(quotient), narrowed(valid, good))


def low_bits(values: Array) -> Array:
    """Return the low 64 bits of whole numbers, as Java's longValue does."""
    if values.dtype != object:
        return values
    return (values & ((1 << 64) - 1)).astype(np.uint64).view(np.int64)


def _has_spark_digits(quotients: Array) -> Mask:
    shortened = _shortened(quotients, _QUOTIENTS)
    if shortened is quotients:
        return np.ones(len(quotients), dtype=bool)
    return (shortened == quotients).astype(bool)  # type: ignore[no-any-return]


def _shortened(values: Array, context: Context) -> Array:
    """Return whole numbers with the digits that a context has."""
    if peak(values) < _POWERS[context.prec]:
        return values
    return np.array([int(context.create_decimal(value)) for value in values], dtype=object)


def negated(vector: Vector, type: DataType) -> Vector:
    """Return decimals with the other sign."""
    values = -_wide(vector.values) if peak(vector.values) >= _LIMIT else -vector.values
    return bounded(_shortened(values, _NEGATED), vector.valid, type)


def in_units(number: Decimal, scale: int) -> int:
    """Return a decimal number in units of a scale, rounded half up.

    >>> in_units(Decimal("-2.675"), 2)
    -268
    """
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    size, shift = int("".join(map(str, digits))), exponent + scale
    if shift < 0:
        unit: int = 10**-shift
        size = (size + unit // 2) // unit
    else:
        size *= int(10**shift)
    return -size if sign else size


def is_between_floats(doubles: Array) -> Mask:
    """Say where doubles lie half way between two floats; the number that was rounded to one does not."""
    return (doubles.view(np.int64) & 0x1FFFFFFF) == 0x10000000  # type: ignore[no-any-return]


def nudged(double: float, exact: Decimal) -> float:
    """Return the double nearest to a decimal moved towards it, so that it is rounded to the right float."""
    if exact == Decimal(double):
        return double
    return math.nextafter(double, math.inf if exact > Decimal(double) else -math.inf)


def floored(values: Array, scale: int, *, up: bool) -> Array:
    """Return the whole numbers below, or above, decimals."""
    divisor = _POWERS[scale]
    if values.dtype != object and divisor >= _LIMIT:
        values = _wide(values)
    whole = values // divisor
    return compact(whole + (whole * divisor != values) if up else whole)
