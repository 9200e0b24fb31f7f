"""Three-valued logic, choices between values, and comparisons in Spark's order.

NaN equals itself and is greatest, −0.0 equals 0.0, strings are bytes.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.evaluation.casts import converted
from weft.evaluation.vector import Array, Mask, Vector, both, chosen, mask
from weft.expression import Call, Expression, Literal
from weft.query.coercion import common_type
from weft.types import DataType, Kind


def connective(*, decisive: bool) -> Callable[..., Vector]:
    """Return AND or OR: the decisive value if any part has it, else NULL if any part is NULL."""

    def apply(call: Call, *parts: Vector) -> Vector:
        decided, valid = np.zeros(1, dtype=bool), None
        for part in parts:
            here = Vector(part.values.astype(bool, copy=False) ^ (not decisive), part.valid)
            known = both(valid, part.valid)
            decided = holding(Vector(decided, valid)) | holding(here)
            valid = None if known is None else decided | known
        return Vector(decided if decisive else ~decided, valid)

    return apply


def negation(call: Call, value: Vector) -> Vector:
    """Return NOT."""
    return Vector(~value.values.astype(bool, copy=False), value.valid)


def is_null(call: Call, value: Vector) -> Vector:
    """Say where a value is NULL."""
    if value.valid is None:
        return Vector(np.zeros(len(value.values), dtype=bool), None)
    return Vector(~value.valid, None)


def holding(condition: Vector) -> Mask:
    """Return where a condition is true: neither false nor NULL."""
    values: Mask = condition.values.astype(bool, copy=False)
    return values if condition.valid is None else values & condition.valid


def case(call: Call, *arguments: Vector) -> Vector:
    """Return the value of the first branch whose condition holds."""
    result = converted(arguments[-1], call.args[-1].type, call.type)
    branches = list(zip(arguments[0:-1:2], arguments[1::2], call.args[1::2], strict=True))
    for condition, value, source in reversed(branches):
        result = chosen(holding(condition), converted(value, source.type, call.type), result)
    return result


def coalesce(call: Call, *arguments: Vector) -> Vector:
    """Return the first value that is not NULL."""
    result = converted(arguments[0], call.args[0].type, call.type)
    for argument, source in zip(arguments[1:], call.args[1:], strict=True):
        if result.valid is None:
            return result
        result = chosen(result.valid, result, converted(argument, source.type, call.type))
    return result


_common = lru_cache(maxsize=4096)(common_type)
_ARROW: dict[str, Callable[..., Any]] = {
    "=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal,
}  # fmt: skip
_NUMPY: dict[str, Any] = {
    "=": np.equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
}  # fmt: skip
_NEGATED = {"<": np.greater_equal, "<=": np.greater, ">": np.less_equal, ">=": np.less}


def compare(operator: str, left: Vector, right: Vector, type: DataType) -> Mask:
    """Return where a comparison of two vectors of one type holds; undefined where either is NULL."""
    a, b = left.values, right.values
    if isinstance(a, pa.Array):
        if len(a) != len(b):
            a, b = (a[0], b) if len(a) == 1 else (a, b[0])
        return mask(_ARROW[operator](a, b))
    if type.is_fractional:
        if operator != "=":
            return _ordered_doubles(operator, a, b)
        equal: Mask = a == b
        shorter = a if len(a) <= len(b) else b
        return equal | ((a != a) & (b != b)) if (shorter != shorter).any() else equal
    result = _NUMPY[operator](a, b)
    return result if result.dtype == bool else result.astype(bool)  # type: ignore[no-any-return]


def _ordered_doubles(operator: str, a: Array, b: Array) -> Mask:
    """Compare with NaN above all else: NumPy says false, so where true is right the opposite is negated."""
    if len(b) == 1 and b[0] == b[0]:
        return _NUMPY[operator](a, b) if operator[0] == "<" else ~_NEGATED[operator](a, b)
    if len(a) == 1 and a[0] == a[0]:
        return _NUMPY[operator](a, b) if operator[0] == ">" else ~_NEGATED[operator](a, b)
    if operator[0] == ">":
        return _ordered_doubles("<" + operator[1:], b, a)
    result: Mask = ~_NEGATED[operator](a, b)  # true wherever there is a NaN
    nans = a != a
    if nans.any():
        result &= ~nans | (b != b) if operator == "<=" else ~nans
    return result


def _alike(call: Call, left: Vector, right: Vector) -> tuple[Vector, Vector, DataType]:
    """Return two vectors in the type in which they are compared."""
    a, b = call.args
    type = compared_type(a, b)
    return converted(left, a.type, type), converted(right, b.type, type), type


def compared_type(left: Expression, right: Expression) -> DataType:
    """Return the type in which two expressions are compared."""
    a, b = left.type, right.type
    if a != b and Kind.DECIMAL in (a.kind, b.kind):
        a, b = as_written(left), as_written(right)
    return _common(a, b) or a


def as_written(argument: Expression) -> DataType:
    """Return the type in which an argument is compared with a decimal: a whole constant keeps its digits."""
    if isinstance(argument, Literal) and isinstance(argument.value, int):
        # Spark casts a constant whose type is not the one that its digits have.
        fits = -(2**31) <= argument.value < 2**31
        if argument.type.kind is (Kind.INT if fits else Kind.BIGINT):
            return DataType(Kind.DECIMAL, len(str(abs(argument.value))), 0)
    return argument.type


def comparison(operator: str, *, negated: bool = False) -> Callable[[Call, Vector, Vector], Vector]:
    """Return the comparison of that name, or its opposite."""

    def apply(call: Call, left: Vector, right: Vector) -> Vector:
        a, b, type = _alike(call, left, right)
        result = compare(operator, a, b, type)
        return Vector(~result if negated else result, both(a.valid, b.valid))

    return apply


def same(call: Call, left: Vector, right: Vector) -> Vector:
    """Say where two values are equal or both NULL."""
    a, b, type = _alike(call, left, right)
    result = compare("=", a, b, type)
    if a.valid is not None or b.valid is not None:
        left_valid = np.True_ if a.valid is None else a.valid
        right_valid = np.True_ if b.valid is None else b.valid
        result = (result & left_valid & right_valid) | ~(left_valid | right_valid)
    return Vector(result, None)


def member(call: Call, value: Vector, *options: Vector) -> Vector:
    """Say where a value is among options: NULL if it is not, and one of them is NULL."""
    types = [argument.type for argument in call.args]
    type = types[0]
    for other in types[1:]:
        type = _common(type, other) or type
    if type.kind is Kind.NULL:
        return Vector(np.zeros(1, dtype=bool), np.zeros(1, dtype=bool))
    sought = converted(value, types[0], type)
    held: Mask = np.zeros(1, dtype=bool)
    known: Mask | None = None
    for option, source in zip(options, types[1:], strict=True):
        candidate = converted(option, source, type)
        equal = compare("=", sought, candidate, type)
        held = held | (equal if candidate.valid is None else equal & candidate.valid)
        known = both(known, candidate.valid)
    if known is None:
        return Vector(held, sought.valid)
    return Vector(held, both(held | known, sought.valid))


def extreme(operator: str) -> Callable[..., Vector]:
    """Return `greatest` or `least`: of values that are not NULL, the first of equal ones."""

    def apply(call: Call, *arguments: Vector) -> Vector:
        best: Vector | None = None
        for argument, source in zip(arguments, call.args, strict=True):
            value = converted(argument, source.type, call.type)
            if best is None:
                best = value
                continue
            better = compare(operator, value, best, call.type)
            if value.valid is not None:
                better = better & value.valid
            if best.valid is not None:
                better = better | (~best.valid if value.valid is None else ~best.valid & value.valid)
            best = chosen(better, value, best)
        assert best is not None
        return best

    return apply
