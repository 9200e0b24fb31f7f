"""The types of expressions over two types: Spark 4's rules with ANSI mode on."""

from collections.abc import Sequence
from decimal import Decimal
from functools import reduce

from weft.expression import Expression, Literal
from weft.types import BIGINT, DOUBLE, MAX_PRECISION, NULL, TIMESTAMP, DataType, Kind, decimal


def common_type(left: DataType | None, right: DataType) -> DataType | None:
    """Return the least type that holds both, or None; arrays and structs have none, not even with their like.

    >>> str(common_type(DataType(Kind.INT), DataType(Kind.DECIMAL, 4, 2)))
    'decimal(12,2)'
    """
    if right.is_nested or (left is not None and left.is_nested):
        return None
    if left is None or left == right or right.kind is Kind.NULL:
        return left
    if left.kind is Kind.NULL:
        return right
    if left.is_numeric and right.is_numeric:
        return _common_number(left, right)
    if left.is_time and right.is_time:
        kinds = {left.kind, right.kind}
        return TIMESTAMP if Kind.TIMESTAMP in kinds else DataType(Kind.TIMESTAMP_NTZ)
    return None


def common_of(types: Sequence[DataType]) -> DataType | None:
    """Return the least type that holds all, or None."""
    start: DataType | None = NULL
    return reduce(common_type, types, start)


def _common_number(left: DataType, right: DataType) -> DataType:
    if left.is_fractional or right.is_fractional:
        # Only FLOAT with FLOAT stays FLOAT: a float cannot hold every INT.
        return DOUBLE
    if left.is_integer and right.is_integer:
        return left if left.bits >= right.bits else right
    left, right = left.as_decimal(), right.as_decimal()
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    excess = max(0, precision - MAX_PRECISION)
    return DataType(Kind.DECIMAL, precision - excess, max(0, scale - excess))


def arithmetic(operator: str, left: Expression, right: Expression) -> DataType | None:
    """Return the type of `left operator right` for + - * / % div, or None where it does not apply."""
    a, b = left.type, right.type
    if a.kind is Kind.NULL or b.kind is Kind.NULL:
        if operator == "/" and a.kind is Kind.NULL:
            return DOUBLE if b.is_numeric or b.kind is Kind.NULL else None
        a = b = b if a.kind is Kind.NULL else a
    if a.kind is Kind.NULL:
        return BIGINT if operator == "div" else DOUBLE
    if not (a.is_numeric and b.is_numeric):
        return None
    fractional = a.is_fractional or b.is_fractional
    if operator == "div":
        return None if fractional else BIGINT
    if Kind.DECIMAL in (a.kind, b.kind) and not fractional:
        # A whole constant takes the digits it has, as in Spark.
        exact = [
            DataType(Kind.DECIMAL, len(str(abs(side.value))), 0)
            if isinstance(side, Literal) and type.is_integer and isinstance(side.value, int)
            else type.as_decimal()
            for side, type in ((left, a), (right, b))
        ]
        return decimal_result(operator, *exact)
    return DOUBLE if operator == "/" else _common_number(a, b) if a != b else a


def decimal_result(operator: str, left: DataType, right: DataType) -> DataType:
    """Return the type of arithmetic on two decimals.

    >>> str(decimal_result("/", DataType(Kind.DECIMAL, 10, 2), DataType(Kind.DECIMAL, 5, 1)))
    'decimal(17,8)'
    """
    scale = max(left.scale, right.scale)
    wholes = left.precision - left.scale, right.precision - right.scale
    if operator == "*":
        return decimal(left.precision + right.precision + 1, left.scale + right.scale)
    if operator == "/":
        scale = max(6, left.scale + right.precision + 1)
        return decimal(wholes[0] + right.scale + scale, scale)
    if operator == "%":
        return decimal(min(wholes) + scale, scale)
    return decimal(max(wholes) + scale + 1, scale)


def rounded(type: DataType, digits: int) -> DataType:
    """Return the type of `round(x, digits)`."""
    if type.kind is not Kind.DECIMAL:
        return type
    whole = type.precision - type.scale + 1
    if digits < 0:
        return DataType(Kind.DECIMAL, min(max(whole, 1 - digits), MAX_PRECISION), 0)
    scale = min(digits, type.scale)
    return DataType(Kind.DECIMAL, min(whole + scale, MAX_PRECISION), scale)


def exact_type(value: Decimal) -> DataType:
    """Return the decimal type of a constant: 0.05 is decimal(2,2)."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    return DataType(Kind.DECIMAL, max(len(digits) + max(0, exponent), scale, 1), scale)


def castable(source: DataType, target: DataType) -> bool:
    """Say whether CAST applies."""
    if source.is_nested or target.is_nested:
        return False
    if source.kind in (target.kind, Kind.NULL) or Kind.STRING in (source.kind, target.kind):
        return True
    if source.is_numeric or source.kind is Kind.BOOLEAN:
        return target.is_numeric or target.kind is Kind.BOOLEAN or (source.is_numeric and target == TIMESTAMP)
    if source.is_time:
        return target.is_time or (source == TIMESTAMP and target.is_numeric)
    return False
