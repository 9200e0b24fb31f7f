"""The aggregate functions: how each is lifted to primitives and lowered to its value.

To add one, write its `Aggregate` here and put it into `AGGREGATES`; nothing else names an aggregate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa

from weft.aggregates.partial import Combine, Objects, Partial, Primitive, to_arrow
from weft.expression import Call, Expression, Literal
from weft.types import BIGINT, DOUBLE, INT, MAX_PRECISION, DataType, Kind

Partials = Sequence[Partial]
_LIMB = 32
_LIMB_MASK = (1 << _LIMB) - 1
_EXACT = Context(prec=120, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """An aggregate function."""

    name: str
    result: Callable[[DataType], DataType | None]
    """The result's type for an argument's type, or None where the function does not apply."""
    lift: Callable[[Expression | None], tuple[Primitive, ...]]
    """The primitives that determine it."""
    lower: Callable[[Partials, DataType], pa.Array]
    """Its values, given the combined primitives and the result's type."""
    takes: str
    """The arguments it applies to, in words."""
    can_overflow: bool = False
    """Whether it may be NULL for values that are not NULL."""


def count_of(argument: Expression | None) -> Primitive:
    """Return the primitive that counts rows, or values that are not NULL."""
    return Primitive(("count",), argument, Combine.ADD, (BIGINT,))


def _cast(argument: Expression, type: DataType) -> Expression:
    return argument if argument.type == type else Call("cast", (argument,), type)


def _sum_of(argument: Expression, type: DataType) -> Primitive:
    return Primitive(("sum",), argument, Combine.ADD, (type,))


def _limbs(argument: Expression) -> tuple[Primitive, ...]:
    """Split 64-bit integers so that no sum of up to 2^31 of them can overflow."""
    high = Call("shiftright", (argument, Literal(_LIMB, INT)), BIGINT)
    low = Call("&", (argument, Literal(_LIMB_MASK, BIGINT)), BIGINT)
    return _sum_of(high, BIGINT), _sum_of(low, BIGINT)


def _lift_sum(argument: Expression | None) -> tuple[Primitive, ...]:
    assert argument is not None
    type = argument.type
    if type.is_fractional:
        return (_sum_of(_cast(argument, DOUBLE), DOUBLE),)
    if type.kind is Kind.BIGINT:
        return _limbs(argument)
    if type.is_integer:
        return (_sum_of(_cast(argument, BIGINT), BIGINT),)
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
        return partials[0].fields[0]
    high, low, rest = (partial.fields[0].astype(object) for partial in partials)
    exact: Objects = (high * (1 << _LIMB) + low) * 10**20 + rest
    return exact


def _carried(partials: Partials) -> tuple[Objects, Objects]:
    """Return the limbs of 64-bit sums, with all but 32 bits of the lower one carried to the upper one."""
    high, low = (partial.fields[0] for partial in partials)
    return high + (low >> _LIMB), low & _LIMB_MASK


def _lower_sum(partials: Partials, type: DataType) -> pa.Array:
    valid = partials[0].valid_mask()
    if type.is_fractional or (type.kind is Kind.BIGINT and len(partials) == 1):
        return to_arrow(partials[0].fields[0], valid, type)
    if type.kind is Kind.BIGINT:
        high, low = _carried(partials)
        fits = (high >= -(1 << (_LIMB - 1))) & (high < 1 << (_LIMB - 1))
        return to_arrow((high << _LIMB) | low, valid & fits, type)
    total, bound = _total(partials), 10**type.precision
    inside = (total < bound) & (total > -bound)
    return to_arrow(total, valid & inside.astype(bool), type)


def _result_sum(argument: DataType) -> DataType | None:
    if argument.is_fractional:
        return DOUBLE
    if argument.is_integer:
        return BIGINT
    if argument.kind is Kind.DECIMAL:
        return DataType(Kind.DECIMAL, min(argument.precision + 10, MAX_PRECISION), argument.scale)
    return None


def _result_avg(argument: DataType) -> DataType | None:
    if argument.kind is not Kind.DECIMAL:
        return DOUBLE if argument.is_numeric else None
    # Spark keeps four more digits on either side of the point, up to its bounds.
    precision, scale = min(argument.precision + 4, MAX_PRECISION), min(argument.scale + 4, MAX_PRECISION)
    return DataType(Kind.DECIMAL, precision, scale)


def _lower_avg(partials: Partials, type: DataType) -> pa.Array:
    *sums, counts = partials
    valid = sums[0].valid_mask()
    divisor = np.where(counts.fields[0] == 0, 1, counts.fields[0])
    if type.kind is Kind.DECIMAL:
        return _decimal_average(sums, divisor, valid, type)
    if len(sums) == 1:
        return to_arrow(sums[0].fields[0] / divisor, valid, type)
    high, low = _carried(sums)
    return to_arrow((high * float(1 << _LIMB) + low) / divisor, valid, type)


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


def _lower_first(partials: Partials, type: DataType) -> pa.Array:
    return to_arrow(partials[0].fields[0], partials[0].valid_mask(), type)


def _extreme(name: str, combine: Combine) -> Aggregate:
    def lift(argument: Expression | None) -> tuple[Primitive, ...]:
        assert argument is not None
        return (Primitive((name,), argument, combine, (argument.type,)),)

    return Aggregate(
        name=name, result=lambda argument: argument if argument.kind is not Kind.OTHER else None, lift=lift,
        lower=_lower_first, takes="a number, string, boolean, date or time",
    )  # fmt: skip


def _lift_moments(argument: Expression | None) -> tuple[Primitive, ...]:
    assert argument is not None
    lifts = ("count", "avg", "var_pop")
    return (Primitive(lifts, _cast(argument, DOUBLE), Combine.MOMENTS, (BIGINT, DOUBLE, DOUBLE)),)


def _moments(name: str, *, sample: bool, root: bool) -> Aggregate:
    def lower(partials: Partials, type: DataType) -> pa.Array:
        count, _, variance = partials[0].fields
        divisor = count - 1 if sample else count
        with np.errstate(all="ignore"):
            value = variance * (count / np.where(divisor == 0, 1, divisor))
            value = np.sqrt(value) if root else value
        return to_arrow(value, divisor > 0, type)

    return Aggregate(
        name=name, result=lambda argument: DOUBLE if argument.is_numeric else None, lift=_lift_moments,
        lower=lower, takes="a number",
    )  # fmt: skip


AGGREGATES: tuple[Aggregate, ...] = (
    Aggregate(
        name="count", result=lambda _: BIGINT, lift=lambda argument: (count_of(argument),),
        lower=_lower_first, takes="anything, or *",
    ),
    Aggregate(
        name="sum", result=_result_sum, lift=_lift_sum, lower=_lower_sum, takes="a number", can_overflow=True
    ),
    Aggregate(
        name="avg", result=_result_avg, lift=lambda argument: (*_lift_sum(argument), count_of(argument)),
        lower=_lower_avg, takes="a number", can_overflow=True,
    ),
    _extreme("min", Combine.LEAST),
    _extreme("max", Combine.GREATEST),
    _moments("var_pop", sample=False, root=False),
    _moments("var_samp", sample=True, root=False),
    _moments("stddev_pop", sample=False, root=True),
    _moments("stddev_samp", sample=True, root=True),
)  # fmt: skip

SYNONYMS: dict[str, str] = {
    "mean": "avg", "variance": "var_samp", "stddev": "stddev_samp", "std": "stddev_samp",
    "variance_pop": "var_pop", "variance_samp": "var_samp",
}  # fmt: skip
"""Other spellings, as Spark has them."""

_BY_NAME = {aggregate.name: aggregate for aggregate in AGGREGATES}


def aggregate(name: str) -> Aggregate | None:
    """Return the aggregate with a name or synonym, in any case, or None.

    >>> aggregate("MEAN").name
    'avg'
    """
    folded = name.casefold()
    return _BY_NAME.get(SYNONYMS.get(folded, folded))
