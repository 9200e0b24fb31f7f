"""Arithmetic and operations on bits; overflow and division by zero give NULL."""

from collections.abc import Callable
from typing import Any

import numpy as np

from weft.evaluation import decimals
from weft.evaluation.numbers import as_double, scale_of
from weft.evaluation.vector import Array, Mask, Vector, both, chosen, dtype_of, narrowed
from weft.expression import Call, Literal
from weft.query.coercion import common_type
from weft.types import DataType, Kind

_ZERO = DataType(Kind.DECIMAL, 1, 0)
_SMALL = 4_096
"""Up to this many rows it is quicker to check each result than to find the bounds of the inputs."""


def add(call: Call, left: Vector, right: Vector) -> Vector:
    """Return sums."""
    return _ring(call, left, right, np.add, 1)


def subtract(call: Call, left: Vector, right: Vector) -> Vector:
    """Return differences."""
    return _ring(call, left, right, np.subtract, -1)


def _ring(call: Call, left: Vector, right: Vector, operation: Any, sign: int) -> Vector:
    type = call.type
    if type.kind is Kind.DECIMAL:
        return decimals.add(*_units(call, left, right), type, sign)
    a, b = _operands(call, left, right)
    valid = both(left.valid, right.valid)
    result = operation(a, b)
    if type.is_fractional:
        return Vector(result, valid)
    if len(result) > _SMALL and _stays_inside(a, b, sign):
        return Vector(result, valid)
    # Overflow: the result's sign is neither that of a nor the one that b pulls towards.
    wrapped = (a ^ result) & ((b ^ result) if sign > 0 else ~(b ^ result)) < 0
    return Vector(result, narrowed(valid, ~wrapped) if wrapped.any() else valid)


def _stays_inside(a: Array, b: Array, sign: int) -> bool:
    limits = np.iinfo(a.dtype)
    low, high = int(b.min()), int(b.max())
    if sign < 0:
        low, high = -high, -low
    return int(a.max()) + high <= limits.max and int(a.min()) + low >= limits.min


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
    a, b = _divisible(left, call.args[0].type), _divisible(right, call.args[1].type)
    # NumPy converts to doubles piece by piece, which saves copies of the columns.
    quotient = np.true_divide(a, b, dtype=np.float64)
    return Vector(quotient, narrowed(both(left.valid, right.valid), b != 0))


def _divisible(value: Vector, type: DataType) -> Array:
    return as_double(value, type) if type.kind is Kind.DECIMAL else value.values


def remainder(call: Call, left: Vector, right: Vector) -> Vector:
    """Return remainders, with the sign of the dividend."""
    if call.type.kind is Kind.DECIMAL:
        return decimals.remainder(*_units(call, left, right), call.type)
    a, b = _operands(call, left, right)
    good = b != 0
    valid = narrowed(both(left.valid, right.valid), good)
    return Vector(np.fmod(a, b if call.type.is_fractional else np.where(good, b, 1)), valid)


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


def _bitwise(operation: Callable[[Array, Array], Array]) -> Callable[..., Vector]:
    def apply(call: Call, left: Vector, right: Vector) -> Vector:
        a, b = _operands(call, left, right)
        return Vector(operation(a, b), both(left.valid, right.valid))

    return apply


bit_and, bit_or, bit_xor = map(_bitwise, (np.bitwise_and, np.bitwise_or, np.bitwise_xor))


def _shift(operation: Callable[[Array, Any], Array]) -> Callable[..., Vector]:
    """Shift by the low 5 or 6 bits of a constant, as Java does."""

    def apply(call: Call, value: Vector, _: Vector) -> Vector:
        bits = call.args[1]
        assert isinstance(bits, Literal)
        dtype = dtype_of(call.type)
        count = dtype.type(int(str(bits.value)) & (8 * dtype.itemsize - 1))
        return Vector(operation(value.values.astype(dtype, copy=False), count), value.valid)

    return apply


shift_left, shift_right = _shift(np.left_shift), _shift(np.right_shift)


def _operands(call: Call, left: Vector, right: Vector) -> tuple[Array, Array]:
    return _operand(left, call.args[0].type, call.type), _operand(right, call.args[1].type, call.type)


def _operand(value: Vector, type: DataType, target: DataType) -> Array:
    if type.kind is target.kind:
        return value.values  # type: ignore[no-any-return]
    if type.kind is Kind.DECIMAL:
        return as_double(value, type)
    return value.values.astype(dtype_of(target))  # type: ignore[no-any-return]


def _units(call: Call, left: Vector, right: Vector) -> tuple[Vector, Vector, tuple[int, int]]:
    """Return operands of decimal arithmetic as whole numbers, with their scales."""
    scales = scale_of(call.args[0].type), scale_of(call.args[1].type)
    return decimals.units(left), decimals.units(right), scales
