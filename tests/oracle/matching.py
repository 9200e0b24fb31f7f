"""Tests that are no ordinary comparison: <=>, IS TRUE, LIKE and its kin, and times written as strings."""

import re
from dataclasses import dataclass
from enum import StrEnum

from tests.oracle.conditions import Condition, compare, truth
from tests.oracle.expressions import Dialect, Expression, Literal, operands_type
from tests.oracle.types import Row, SqlType, Value


@dataclass(frozen=True, slots=True)
class NullSafe(Condition):
    """`left <=> right`: equal, or both NULL; never NULL itself."""

    left: Expression
    right: Expression

    def evaluate(self, row: Row) -> Value:
        left, right = self.left.evaluate(row), self.right.evaluate(row)
        if left is None or right is None:
            return left is None and right is None
        return compare("=", left, right, operands_type(self.left, self.right))

    def text(self, dialect: Dialect) -> str:
        return f"({self.left.text(dialect)} <=> {self.right.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return self.left, self.right


@dataclass(frozen=True, slots=True)
class IsTruth(Condition):
    """`x IS [NOT] TRUE` or `x IS [NOT] FALSE`; never NULL."""

    of: Expression
    wanted: bool
    negated: bool = False

    def evaluate(self, row: Row) -> Value:
        return (truth(self.of.evaluate(row)) is self.wanted) != self.negated

    def text(self, dialect: Dialect) -> str:
        return f"({self.of.text(dialect)} IS {'NOT ' if self.negated else ''}{str(self.wanted).upper()})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)


class Matcher(StrEnum):
    """How a pattern is read."""

    LIKE = "LIKE"
    ILIKE = "ILIKE"
    RLIKE = "RLIKE"


@dataclass(frozen=True, slots=True)
class Like(Condition):
    """`x [NOT] LIKE 'pattern'`, or ILIKE, or RLIKE; patterns here have no escapes."""

    of: Expression
    pattern: str
    matcher: Matcher = Matcher.LIKE
    negated: bool = False

    def evaluate(self, row: Row) -> Value:
        value = self.of.evaluate(row)
        if not isinstance(value, str):
            return None
        return self._matches(value) != self.negated

    def _matches(self, value: str) -> bool:
        if self.matcher is Matcher.RLIKE:
            return re.search(self.pattern, value) is not None
        pattern = self.pattern
        if self.matcher is Matcher.ILIKE:
            value, pattern = value.lower(), pattern.lower()
        wild = {"%": ".*", "_": "."}
        parts = [wild.get(sign) or re.escape(sign) for sign in pattern]
        return re.fullmatch("".join(parts), value, re.DOTALL) is not None

    def text(self, dialect: Dialect) -> str:
        pattern = Literal(self.pattern).text(dialect)
        return f"({self.of.text(dialect)} {'NOT ' if self.negated else ''}{self.matcher} {pattern})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)


@dataclass(frozen=True, slots=True)
class Quoted(Expression):
    """A date or timestamp written as a plain string, which what stands beside it makes a time."""

    of: Literal

    @property
    def type(self) -> SqlType:
        return self.of.type

    def evaluate(self, row: Row) -> Value:
        return self.of.evaluate(row)

    def text(self, dialect: Dialect) -> str:
        return "'" + self.of.text(dialect).split("'")[1] + "'"
