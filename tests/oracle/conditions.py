"""Comparison and three-valued logic."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.oracle.expressions import Dialect, Expression, operands_type
from tests.oracle.types import BOOLEAN, Row, SqlType, Value, common_type, widen


def order(left: Value, right: Value) -> int:
    """Compare two values of one type: −1, 0 or 1. NaN equals NaN and is larger than any number."""
    if isinstance(left, float) and isinstance(right, float) and (math.isnan(left) or math.isnan(right)):
        return math.isnan(left) - math.isnan(right)
    return (left > right) - (left < right)  # type: ignore[operator]


COMPARISONS: dict[str, Callable[[int], bool]] = {
    "=": lambda sign: sign == 0,
    "<>": lambda sign: sign != 0,
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}


def compare(op: str, left: Value, right: Value, in_type: SqlType) -> bool | None:
    """Compare two values after widening; NULL if either is."""
    if left is None or right is None:
        return None
    return COMPARISONS[op](order(widen(left, in_type), widen(right, in_type)))


def all_of(*truths: bool | None) -> bool | None:
    """AND: false if any is false, else NULL if any is NULL."""
    if any(truth is False for truth in truths):
        return False
    return None if any(truth is None for truth in truths) else True


def any_of(*truths: bool | None) -> bool | None:
    """OR: true if any is true, else NULL if any is NULL."""
    if any(truth is True for truth in truths):
        return True
    return None if any(truth is None for truth in truths) else False


def negate(truth: bool | None) -> bool | None:
    """NOT: NULL stays NULL."""
    return None if truth is None else not truth


def truth(value: Value) -> bool | None:
    """Check that a value is a truth value."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"not a boolean: {value!r}")
    return value


class Condition(Expression):
    """An expression that is true, false or NULL."""

    __slots__ = ()

    @property
    def type(self) -> SqlType:
        return BOOLEAN


@dataclass(frozen=True, slots=True)
class Compare(Condition):
    """`left op right`, op one of = <> < <= > >=."""

    op: str
    left: Expression
    right: Expression

    def evaluate(self, row: Row) -> Value:
        in_type = operands_type(self.left, self.right)
        return compare(self.op, self.left.evaluate(row), self.right.evaluate(row), in_type)

    def text(self, dialect: Dialect) -> str:
        return f"({self.left.text(dialect)} {self.op} {self.right.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class And(Condition):
    """`left AND right`."""

    left: Expression
    right: Expression

    def evaluate(self, row: Row) -> Value:
        return all_of(truth(self.left.evaluate(row)), truth(self.right.evaluate(row)))

    def text(self, dialect: Dialect) -> str:
        return f"({self.left.text(dialect)} AND {self.right.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Or(Condition):
    """`left OR right`."""

    left: Expression
    right: Expression

    def evaluate(self, row: Row) -> Value:
        return any_of(truth(self.left.evaluate(row)), truth(self.right.evaluate(row)))

    def text(self, dialect: Dialect) -> str:
        return f"({self.left.text(dialect)} OR {self.right.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class Not(Condition):
    """`NOT x`."""

    of: Expression

    def evaluate(self, row: Row) -> Value:
        return negate(truth(self.of.evaluate(row)))

    def text(self, dialect: Dialect) -> str:
        return f"(NOT {self.of.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)


@dataclass(frozen=True, slots=True)
class IsNull(Condition):
    """`x IS [NOT] NULL`."""

    of: Expression
    negated: bool = False

    def evaluate(self, row: Row) -> Value:
        return (self.of.evaluate(row) is None) != self.negated

    def text(self, dialect: Dialect) -> str:
        return f"({self.of.text(dialect)} IS {'NOT ' if self.negated else ''}NULL)"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)


@dataclass(frozen=True, slots=True)
class In(Condition):
    """`x [NOT] IN (a, b, …)`, which is `x = a OR x = b OR …`."""

    of: Expression
    options: tuple[Expression, ...]
    negated: bool = False

    def evaluate(self, row: Row) -> Value:
        in_type = self.of.type
        for option in self.options:
            in_type = common_type(in_type, option.type)
        value = self.of.evaluate(row)
        found = any_of(*(compare("=", value, option.evaluate(row), in_type) for option in self.options))
        return negate(found) if self.negated else found

    def text(self, dialect: Dialect) -> str:
        options = ", ".join(option.text(dialect) for option in self.options)
        return f"({self.of.text(dialect)} {'NOT ' if self.negated else ''}IN ({options}))"

    def children(self) -> tuple[Expression, ...]:
        return self.of, *self.options


@dataclass(frozen=True, slots=True)
class Between(Condition):
    """`x [NOT] BETWEEN low AND high`, which is `x >= low AND x <= high`."""

    of: Expression
    low: Expression
    high: Expression
    negated: bool = False

    def evaluate(self, row: Row) -> Value:
        value = self.of.evaluate(row)
        inside = all_of(
            compare(">=", value, self.low.evaluate(row), operands_type(self.of, self.low)),
            compare("<=", value, self.high.evaluate(row), operands_type(self.of, self.high)),
        )
        return negate(inside) if self.negated else inside

    def text(self, dialect: Dialect) -> str:
        of, low, high = (part.text(dialect) for part in (self.of, self.low, self.high))
        return f"({of} {'NOT ' if self.negated else ''}BETWEEN {low} AND {high})"

    def children(self) -> tuple[Expression, ...]:
        return self.of, self.low, self.high
