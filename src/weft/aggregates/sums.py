"""Sums and averages, exact however large: how they are lifted, combined without overflow, and lowered."""

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa

from weft.aggregates.aggregate import Constants, Partials
from weft.aggregates.combine import ADD
from weft.aggregates.partial import Objects, Primitive, to_arrow
from weft.expression import Call, Expression, Literal
from weft.types import BIGINT, DOUBLE, INT, MAX_PRECISION, DataType, Kind

LIMB = 32
"""Bits of the lower half of a 64-bit integer."""
LIMB_MASK = (1 << LIMB) - 1
_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)


def count_of(argument: Expression | None) -> Primitive:
    """Return the primitive that counts rows, or values that are not NULL."""
    return Primitive(("count",), () if argument is None else (argument,), ADD, (BIGINT,))


def cast_to(argument: Expression, type: DataType) -> Expression:
    """Return an expression as one of another type."""
    return argument if argument.type == type else Call("cast", (argument,), type)


def _sum_of(argument: Expression, type: DataType) -> Primitive:
    return Primitive(("sum",), (argument,), ADD, (type,))


def _limbs(argument: Expression) -> tuple[Primitive, ...]:
    """Split 64-bit integers so that no sum of up to 2^31 of them can overflow."""
    high = Call("shiftright", (argument, Literal(LIMB, INT)), BIGINT)
    low = Call("&", (argument, Literal(LIMB_MASK, BIGINT)), BIGINT)
    return _sum_of(high, BIGINT), _sum_of(low, BIGINT)


def lift_sum(argument: Expression) -> tuple[Primitive, ...]:
    """Return the primitives of a sum, which cannot overflow."""
    type = argument.type
    if type.is_fractional:
        return (_sum_of(cast_to(argument, DOUBLE), DOUBLE),)
    if type.kind is Kind.BIGINT:
        return _limbs(argument)
    if type.is_integer:
        return (_sum_of(cast_to(argument, BIGINT), BIGINT),)
    if type.precision + 10 <= MAX_PRECISION:
        return (_sum_of(argument, DataType(Kind.DECIMAL, type.precision + 10, type.scale)),)
    return _wide_limbs(argument)


def _wide_limbs(argument: Expression) -> tuple[Primitive, ...]:
    """Split decimals of more than 28 digits at the 20th, so that no sum overflows."""
    scale = argument.type.scale
    unit = Decimal(1).scaleb(20 - scale)
    divisor = Literal(unit, DataType(Kind.DECIMAL, max(21, scale), scale))
    rest = DataType(Kind.DECIMAL, 20 if scale <= 20 else scale, scale)
    quotient = Call("div", (argument, divisor), BIGINT)
    remainder = Call("%", (argument, divisor), rest)
    sums = DataType(Kind.DECIMAL, min(rest.precision + 10, MAX_PRECISION), scale)
    return *_limbs(quotient), _sum_of(remainder, sums)


def _total(partials: Partials) -> Objects:
    """Return exact sums of decimals as Python integers, in units of their scale."""
    if len(partials) == 1:
        total: Objects = partials[0].fields[0]
        return total
    high, low, rest = (partial.fields[0].astype(object) for partial in partials)
    exact: Objects = (high * (1 << LIMB) + low) * 10**20 + rest
    return exact


def _carried(partials: Partials) -> tuple[Objects, Objects]:
    """Return the limbs of 64-bit sums, with all but 32 bits of the lower one carried to the upper one."""
    high, low = (partial.fields[0] for partial in partials)
    return high + (low >> LIMB), low & LIMB_MASK


def lower_sum(partials: Partials, type: DataType, constants: Constants = ()) -> pa.Array:
    """Return sums; NULL where one does not fit its type."""
    valid = partials[0].valid_mask()
    if type.is_fractional or (type.kind is Kind.BIGINT and len(partials) == 1):
        return to_arrow(partials[0].fields[0], valid, type)
    if type.kind is Kind.BIGINT:
        high, low = _carried(partials)
        fits = (high >= -(1 << (LIMB - 1))) & (high < 1 << (LIMB - 1))
        return to_arrow((high << LIMB) | low, valid & fits, type)
    total, bound = _total(partials), 10**type.precision
    inside = (total < bound) & (total > -bound)
    return to_arrow(total, valid & inside.astype(bool), type)


def result_sum(argument: DataType) -> DataType | None:
    """Return the type of sums of values of a type."""
    if argument.is_fractional:
        return DOUBLE
    if argument.is_integer:
        return BIGINT
    if argument.kind is Kind.DECIMAL:
        return DataType(Kind.DECIMAL, min(argument.precision + 10, MAX_PRECISION), argument.scale)
    return None


def result_avg(argument: DataType) -> DataType | None:
    """Return the type of averages of values of a type."""
    if argument.kind is not Kind.DECIMAL:
        return DOUBLE if argument.is_numeric else None
    # Spark keeps four more digits on either side of the point, up to its bounds.
    precision, scale = min(argument.precision + 4, MAX_PRECISION), min(argument.scale + 4, MAX_PRECISION)
    return DataType(Kind.DECIMAL, precision, scale)


def lower_avg(partials: Partials, type: DataType, constants: Constants = ()) -> pa.Array:
    """Return averages, given sums and counts."""
    *sums, counts = partials
    valid = sums[0].valid_mask()
    divisor = np.where(counts.fields[0] == 0, 1, counts.fields[0])
    if type.kind is Kind.DECIMAL:
        return _decimal_average(sums, divisor, valid, type)
    if len(sums) == 1:
        return to_arrow(sums[0].fields[0] / divisor, valid, type)
    high, low = _carried(sums)
    return to_arrow((high * float(1 << LIMB) + low) / divisor, valid, type)


def _decimal_average(sums: Partials, divisor: Objects, valid: Objects, type: DataType) -> pa.Array:
    # The argument's scale is not in the result's type once precision ran out, so it is read off the sum's.
    scale = sums[-1].types[0].scale
    total = _total(sums)
    step = Decimal(1).scaleb(-type.scale)
    values = np.empty(len(total), dtype=object)
    # As in Spark, an average whose sum does not fit the type of sums is NULL, though it would fit itself.
    digits = sums[0].types[0].precision if len(sums) == 1 else MAX_PRECISION
    inside = valid & (np.abs(total) < 10**digits).astype(bool)
    for row in np.flatnonzero(inside):
        value = _EXACT.divide(Decimal(int(total[row])).scaleb(-scale, _EXACT), Decimal(int(divisor[row])))
        rounded = value.quantize(step, context=_EXACT)
        values[row] = int(rounded.scaleb(type.scale, _EXACT))
        inside[row] = abs(values[row]) < 10**type.precision
    return to_arrow(values, inside, type)
