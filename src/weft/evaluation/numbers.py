"""Functions of numbers: roots, logarithms, powers, signs and rounding."""

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

from weft.evaluation import decimals
from weft.evaluation.vector import Array, Mask, Vector, both, narrowed
from weft.expression import Call, Literal
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


def _of_double(operation: Callable[[Array], Array]) -> Callable[[Call, Vector], Vector]:
    return lambda call, value: Vector(operation(as_double(value, call.args[0].type)), value.valid)


def _signs(values: Array) -> Array:
    # The sign of −0.0 is −0.0, that of NaN is NaN.
    return np.where((values == 0) | np.isnan(values), values, np.copysign(1.0, values))


square_root, exponential, sign = _of_double(np.sqrt), _of_double(np.exp), _of_double(_signs)


def _logarithm(operation: Callable[[Array], Array]) -> Callable[[Call, Vector], Vector]:
    """Return a logarithm that is NULL for 0 and below."""

    def apply(call: Call, value: Vector) -> Vector:
        number = as_double(value, call.args[0].type)
        return Vector(operation(number), narrowed(value.valid, ~(number <= 0)))

    return apply


natural_logarithm, decimal_logarithm = _logarithm(np.log), _logarithm(np.log10)


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


def floor(call: Call, value: Vector) -> Vector:
    """Return the whole numbers below."""
    return _whole(call, value, up=False)


def ceiling(call: Call, value: Vector) -> Vector:
    """Return the whole numbers above."""
    return _whole(call, value, up=True)


def _whole(call: Call, value: Vector, *, up: bool) -> Vector:
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
    return value if places >= 0 else _rounded_integer(value, -places)


def _rounded_integer(value: Vector, zeros: int) -> Vector:
    """Round to tens, hundreds, …; NULL where that does not fit."""
    values, limits = value.values, np.iinfo(value.values.dtype)
    if zeros > 19:
        return Vector(np.zeros_like(values), value.valid)
    size = np.where(values < 0, -values.astype(np.int64), values).astype(np.int64).view(np.uint64)
    unit = np.uint64(10**zeros)
    quotient = size // unit
    rest = size - quotient * unit
    size = (quotient + (rest >= unit - rest)) * unit
    good = np.where(values < 0, size <= np.uint64(-int(limits.min)), size <= np.uint64(limits.max))
    signed = np.where(values < 0, -size.view(np.int64), size.view(np.int64)).astype(values.dtype)
    return Vector(signed, narrowed(value.valid, good))


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
