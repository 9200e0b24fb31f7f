"""Arithmetic and rounding, with NULL for overflow and division by zero; operations on bits."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np

from weft.evaluation import decimals
from weft.evaluation.vector import Array, Mask, Vector, both, chosen, dtype_of, narrowed
from weft.expression import Call, Literal
from weft.query.coercion import common_type
from weft.types import DataType, Kind

_EXACT = Context(prec=800, rounding=ROUND_HALF_UP)


def scale_of(type: DataType) -> int:
    """Return the scale of a decimal, 0 for others."""
    return type.scale if type.kind is Kind.DECIMAL else 0


def as_double(vector: Vector, type: DataType) -> Array:
    """Return numbers as doubles."""
    if type.kind is Kind.DECIMAL:
        return decimals.to_double(vector.values, type.scale)
    return vector.values.astype(np.float64, copy=False)  # type: ignore[no-any-return]


def whole(call: Call, value: Vector, *, up: bool) -> Vector:
    """Return the whole numbers below, or above."""
    source = call.args[0].type
    if source.kind is Kind.DECIMAL:
        return decimals.bounded(decimals.floored(value.values, source.scale, up=up), value.valid, call.type)
    if source.is_integer:
        return Vector(value.values.astype(np.int64), value.valid)
    number = value.values.astype(np.float64)
    inside = (number >= -(2.0**63)) & (number < 2.0**63)
    cut = (np.ceil if up else np.floor)(np.where(inside, number, 0.0))
    return Vector(cut.astype(np.int64), narrowed(value.valid, inside))


def places_of(call: Call) -> int:
    """Return the number of places to which a call of `round` rounds."""
    digits = call.args[1] if len(call.args) > 1 else None
    return int(str(digits.value)) if isinstance(digits, Literal) else 0


def rounded(call: Call, value: Vector, *_: Vector) -> Vector:
    """Return numbers rounded half up, that is away from zero."""
    places, source = places_of(call), call.args[0].type
    if source.kind is Kind.DECIMAL:
        scale = min(places, source.scale)
        shortened = decimals.rescaled(value.values, source.scale, scale)
        return decimals.bounded(decimals.rescaled(shortened, scale, call.type.scale), value.valid, call.type)
    if source.is_fractional:
        doubles = _rounded_double(value.values.astype(np.float64), places)
        return Vector(doubles.astype(value.values.dtype), value.valid)
    if places >= 0:
        return value
    # To tens, hundreds, …; NULL where that does not fit.
    values, limits, unit = value.values, np.iinfo(value.values.dtype), 10**-places
    whole = decimals.divided(values.astype(object), unit) * unit
    good = ((whole >= int(limits.min)) & (whole <= int(limits.max))).astype(bool)
    return Vector(np.where(good, whole, 0).astype(values.dtype), narrowed(value.valid, good))


def _rounded_double(values: Array, places: int) -> Array:
    """Round the shortest decimal that denotes the double: exactly near a tie, quickly elsewhere."""
    units, quick = rounded_units(values, places)
    result = np.where(quick, np.copysign(units / 10.0 ** min(max(places, 0), 22), values), values)
    slow = ~quick & np.isfinite(values)
    if slow.any():
        unit = Decimal(1).scaleb(-places)
        result[slow] = [float(_EXACT.quantize(Decimal(repr(x)), unit)) for x in values[slow].tolist()]
    return np.where(result == 0, np.abs(result), result)  # a decimal has no −0


def rounded_units(values: Array, places: int) -> tuple[Array, Mask]:
    """Return magnitudes in units of the last place, rounded half up, and where that is certain.

    It is certain where the product is exact enough to tell on which side of a tie the decimal lies.
    """
    scaled = np.abs(values) * 10.0 ** min(max(places, 0), 22)
    whole = np.floor(scaled)
    rest = scaled - whole
    quick = (np.abs(rest - 0.5) > 2.0**-10) & (scaled < 2.0**40) & (0 <= places <= 22)
    return whole + (rest >= 0.5), quick


_ZERO = DataType(Kind.DECIMAL, 1, 0)
_SMALL = 4_096
"""Up to this many rows it is quicker to check each result than to find the bounds of the inputs."""


def add(call: Call, left: Vector, right: Vector, *, sign: int = 1) -> Vector:
    """Return sums, or differences if the sign is −1."""
    type = call.type
    if type.kind is Kind.DECIMAL:
        return decimals.add(*_units(call, left, right), type, sign)
    a, b = _operands(call, left, right)
    valid = both(left.valid, right.valid)
    result = a + b if sign > 0 else a - b
    if type.is_fractional:
        return Vector(result, valid)
    if len(result) > _SMALL:
        limits, low, high = np.iinfo(a.dtype), int(b.min()), int(b.max())
        if sign < 0:
            low, high = -high, -low
        if int(a.max()) + high <= limits.max and int(a.min()) + low >= limits.min:
            return Vector(result, valid)
    # Overflow: the result's sign is neither that of a nor the one that b pulls towards.
    wrapped = (a ^ result) & ((b ^ result) if sign > 0 else ~(b ^ result)) < 0
    return Vector(result, narrowed(valid, ~wrapped) if wrapped.any() else valid)


def multiply(call: Call, left: Vector, right: Vector) -> Vector:
    """Return products."""
    type = call.type
    if type.kind is Kind.DECIMAL:
        return decimals.multiply(*_units(call, left, right), type)
    a, b = _operands(call, left, right)
    valid = both(left.valid, right.valid)
    if type.is_fractional:
        return Vector(a * b, valid)
    limits = np.iinfo(a.dtype)
    if a.dtype.itemsize < 8:
        product = a.astype(np.int64) * b
        good = (product >= limits.min) & (product <= limits.max)
        return Vector(product.astype(a.dtype), narrowed(valid, good))
    product = a * b
    if decimals.peak(a) * decimals.peak(b) > limits.max:
        valid = narrowed(valid, _product_fits(a, b, product))
    return Vector(product, valid)


def _product_fits(a: Array, b: Array, product: Array) -> Mask:
    """Say where a 64-bit product did not overflow: far from the limit by doubles, near it exactly."""
    size = np.abs(a.astype(np.float64) * b)
    good: Mask = size < 9.2e18
    for row in np.flatnonzero(~good & (size < 9.3e18)):
        exact = int(a[row if len(a) > 1 else 0]) * int(b[row if len(b) > 1 else 0])
        good[row] = exact == int(product[row])
    return good


def divide(call: Call, left: Vector, right: Vector) -> Vector:
    """Return quotients."""
    if call.type.kind is Kind.DECIMAL:
        return decimals.divide(*_units(call, left, right), call.type)
    a, b = (
        as_double(value, argument.type) if argument.type.kind is Kind.DECIMAL else value.values
        for value, argument in zip((left, right), call.args, strict=True)
    )
    # NumPy converts to doubles piece by piece, which saves copies of the columns.
    quotient = np.true_divide(a, b, dtype=np.float64)
    return Vector(quotient, narrowed(both(left.valid, right.valid), b != 0))


def remainder(call: Call, left: Vector, right: Vector) -> Vector:
    """Return remainders, with the sign of the dividend."""
    if call.type.kind is Kind.DECIMAL:
        return decimals.remainder(*_units(call, left, right), call.type)
    a, b = _operands(call, left, right)
    good = b != 0
    valid = narrowed(both(left.valid, right.valid), good)
    return Vector(np.fmod(a, b if call.type.is_fractional else np.where(good, b, 1)), valid)


def positive_remainder(call: Call, left: Vector, right: Vector) -> Vector:
    """Return remainders with the sign of the divisor; integers wrap around as in Java, in 32 or 64 bits."""
    a, b = _operands(call, left, right)
    if call.type.is_integer and call.type.bits < 32:
        a, b = a.astype(np.int32), b.astype(np.int32)
    good = b != 0
    b = b if call.type.is_fractional else np.where(good, b, b.dtype.type(1))
    rest = np.fmod(a, b)
    rest = np.where(rest < 0, np.fmod(rest + b, b), rest)
    return Vector(rest.astype(dtype_of(call.type)), narrowed(both(left.valid, right.valid), good))


def whole_divide(call: Call, left: Vector, right: Vector) -> Vector:
    """Return quotients truncated to whole numbers."""
    if Kind.DECIMAL in (call.args[0].type.kind, call.args[1].type.kind):
        compared = common_type(call.args[1].type, _ZERO)
        return decimals.whole_quotient(*_units(call, left, right), compared.scale if compared else 0)
    a, b = left.values.astype(np.int64), right.values.astype(np.int64)
    good = (b != 0) & ~((a == np.iinfo(np.int64).min) & (b == -1))
    return Vector(_truncated_quotient(a, b, good), narrowed(both(left.valid, right.valid), good))


def floor_divide(call: Call, left: Vector, right: Vector) -> Vector:
    """Return quotients rounded down where the divisor is positive, as windows by whole numbers need them."""
    a, b = left.values.astype(np.int64), right.values.astype(np.int64)
    good = b != 0
    safe = np.where(good, b, 1)
    rest = np.fmod(a, safe)
    rest = np.where(rest < 0, np.fmod(rest + safe, safe), rest)
    return Vector(_truncated_quotient(a - rest, b, good), narrowed(both(left.valid, right.valid), good))


def _truncated_quotient(a: Array, b: Array, good: Mask) -> Array:
    safe = np.where(good, b, 1)
    quotient: Array = (a - np.fmod(a, safe)) // safe
    return quotient


def negate(call: Call, value: Vector) -> Vector:
    """Return values with the other sign."""
    if call.type.kind is Kind.DECIMAL:
        return decimals.negated(value, call.type)
    return Vector(-value.values, _negatable(call, value))


def absolute(call: Call, value: Vector) -> Vector:
    """Return magnitudes."""
    if call.type.kind is Kind.DECIMAL:
        return chosen((value.values < 0).astype(bool), decimals.negated(value, call.type), value)
    return Vector(np.abs(value.values), _negatable(call, value))


def _negatable(call: Call, value: Vector) -> Mask | None:
    """Return which values have a negative: of whole numbers all but the lowest."""
    if not call.type.is_integer:
        return value.valid
    return narrowed(value.valid, value.values != np.iinfo(value.values.dtype).min)


def bitwise(operation: Callable[[Array, Array], Array]) -> Callable[..., Vector]:
    """Return an operation on the bits of two whole numbers."""

    def apply(call: Call, left: Vector, right: Vector) -> Vector:
        a, b = _operands(call, left, right)
        return Vector(operation(a, b), both(left.valid, right.valid))

    return apply


def shift(operation: Callable[[Array, Any], Array]) -> Callable[..., Vector]:
    """Return a shift by the low 5 or 6 bits of a constant, as Java does."""

    def apply(call: Call, value: Vector, _: Vector) -> Vector:
        bits = call.args[1]
        assert isinstance(bits, Literal)
        dtype = dtype_of(call.type)
        count = dtype.type(int(str(bits.value)) & (8 * dtype.itemsize - 1))
        return Vector(operation(value.values.astype(dtype, copy=False), count), value.valid)

    return apply


def _operands(call: Call, left: Vector, right: Vector) -> tuple[Array, Array]:
    """Return operands as arrays of the result's type."""
    arrays = []
    for value, argument in zip((left, right), call.args, strict=True):
        if argument.type.kind is call.type.kind:
            arrays.append(value.values)
        elif argument.type.kind is Kind.DECIMAL:
            arrays.append(as_double(value, argument.type))
        else:
            arrays.append(value.values.astype(dtype_of(call.type)))
    return arrays[0], arrays[1]


def _units(call: Call, left: Vector, right: Vector) -> tuple[Vector, Vector, tuple[int, int]]:
    """Return operands of decimal arithmetic as whole numbers, with their scales."""
    scales = scale_of(call.args[0].type), scale_of(call.args[1].type)
    return decimals.units(left), decimals.units(right), scales
