"""Arithmetic with Spark's result types; every error is NULL."""

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tests.oracle.expressions import Dialect, Expression, operand_decimal
from tests.oracle.types import (
    BIGINT,
    DOUBLE,
    INT,
    INTEGER_BOUNDS,
    Kind,
    Row,
    SqlType,
    Value,
    adjusted_decimal,
    fit_decimal,
    fit_integer,
)


@dataclass(frozen=True, slots=True)
class Arithmetic(Expression):
    """`left op right` of two numbers, op one of + - * / %."""

    op: str
    left: Expression
    right: Expression

    @property
    def type(self) -> SqlType:
        left, right = self.left.type, self.right.type
        if Kind.DOUBLE in (left.kind, right.kind):
            return DOUBLE
        if Kind.DECIMAL in (left.kind, right.kind):
            return _decimal_result(self.op, operand_decimal(self.left), operand_decimal(self.right))
        if self.op == "/":
            return DOUBLE
        return BIGINT if BIGINT in (left, right) else INT

    def evaluate(self, row: Row) -> Value:
        left, right = self.left.evaluate(row), self.right.evaluate(row)
        if left is None or right is None:
            return None
        to = self.type
        if self.op in ("/", "%") and right == 0:
            return None
        if to.kind is Kind.DOUBLE:
            return _double_result(self.op, float(left), float(right))  # type: ignore[arg-type]
        if to.kind is Kind.DECIMAL:
            return fit_decimal(_exact(self.op, Fraction(left), Fraction(right)), to)  # type: ignore[arg-type]
        return fit_integer(int(_exact(self.op, Fraction(left), Fraction(right))), to)  # type: ignore[arg-type]

    def text(self, dialect: Dialect) -> str:
        left, right = self.left.text(dialect), self.right.text(dialect)
        if dialect is Dialect.WEFT:
            return f"({left} {self.op} {right})"
        name = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
        return f"{name[self.op]}({left}, {right})"

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


def _exact(op: str, left: Fraction, right: Fraction) -> Fraction:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "%":
            return left - right * math.trunc(left / right)  # the sign of the dividend
    raise ValueError(f"no such operator: {op}")


def _double_result(op: str, left: float, right: float) -> float:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return left / right
        case "%":
            return math.nan if math.isinf(left) else math.fmod(left, right)
    raise ValueError(f"no such operator: {op}")


def _decimal_result(op: str, left: SqlType, right: SqlType) -> SqlType:
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    scale = max(s1, s2)
    match op:
        case "+" | "-":
            return adjusted_decimal(max(p1 - s1, p2 - s2) + scale + 1, scale)
        case "*":
            return adjusted_decimal(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(6, s1 + p2 + 1)
            return adjusted_decimal(p1 - s1 + s2 + scale, scale)
        case "%":
            return adjusted_decimal(min(p1 - s1, p2 - s2) + scale, scale)
    raise ValueError(f"no such operator: {op}")


@dataclass(frozen=True, slots=True)
class Abs(Expression):
    """`abs(x)`; NULL for the integer that has no positive counterpart."""

    of: Expression

    @property
    def type(self) -> SqlType:
        return self.of.type

    def evaluate(self, row: Row) -> Value:
        value = self.of.evaluate(row)
        if value is None:
            return None
        if isinstance(value, int):
            return fit_integer(abs(value), self.type)
        # Not abs(): that rounds a Decimal to the context's 28 digits.
        return value.copy_abs() if isinstance(value, Decimal) else abs(value)  # type: ignore[arg-type]

    def text(self, dialect: Dialect) -> str:
        inner = self.of.text(dialect)
        if dialect is Dialect.SPARK and self.type.is_integer:
            lowest = 1 - INTEGER_BOUNDS[self.type.kind]
            return f"CASE WHEN {inner} < {lowest} THEN NULL ELSE abs({inner}) END"
        return f"abs({inner})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)
