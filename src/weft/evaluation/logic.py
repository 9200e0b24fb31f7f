"""Three-valued logic and choices between values."""

import numpy as np

from weft.evaluation.casts import converted
from weft.evaluation.vector import Mask, Vector, chosen
from weft.expression import Call


def _known(vector: Vector) -> tuple[Mask, Mask | None]:
    return vector.values.astype(bool, copy=False), vector.valid


def conjunction(call: Call, *parts: Vector) -> Vector:
    """Return AND: false if any part is, else NULL if any part is."""
    result, valid = _known(parts[0])
    for part in parts[1:]:
        values, known = _known(part)
        if valid is not None or known is not None:
            certain = _false(result, valid) | _false(values, known)
            neither = _valid(valid, known)
            valid = certain | neither
            # Where one part is NULL the other is false, or the result is NULL.
            result = result & values & ~certain
        else:
            result = result & values
    return Vector(result, valid)


def disjunction(call: Call, *parts: Vector) -> Vector:
    """Return OR: true if any part is, else NULL if any part is."""
    result, valid = _known(parts[0])
    for part in parts[1:]:
        values, known = _known(part)
        if valid is not None or known is not None:
            certain = _true(result, valid) | _true(values, known)
            valid = certain | _valid(valid, known)
            result = certain
        else:
            result = result | values
    return Vector(result, valid)


def _true(values: Mask, valid: Mask | None) -> Mask:
    return values if valid is None else values & valid


def _false(values: Mask, valid: Mask | None) -> Mask:
    return ~values if valid is None else ~values & valid


def _valid(left: Mask | None, right: Mask | None) -> Mask:
    if left is None:
        assert right is not None
        return right
    return left if right is None else left & right


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
