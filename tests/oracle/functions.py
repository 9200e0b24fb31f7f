"""CASE, COALESCE, string functions and casts."""

import math
import re
from dataclasses import dataclass
from decimal import Decimal

from tests.oracle.conditions import truth
from tests.oracle.expressions import Dialect, Expression
from tests.oracle.types import INT, NULL, STRING, Row, SqlType, Value, common_type, fit_integer, widen


@dataclass(frozen=True, slots=True)
class Case(Expression):
    """`CASE WHEN c THEN v … [ELSE v] END`."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression | None = None

    @property
    def type(self) -> SqlType:
        to = NULL if self.otherwise is None else self.otherwise.type
        for _, value in self.branches:
            to = common_type(to, value.type)
        return to

    def evaluate(self, row: Row) -> Value:
        for condition, value in self.branches:
            if truth(condition.evaluate(row)):
                return widen(value.evaluate(row), self.type)
        return None if self.otherwise is None else widen(self.otherwise.evaluate(row), self.type)

    def text(self, dialect: Dialect) -> str:
        branches = "".join(f" WHEN {c.text(dialect)} THEN {v.text(dialect)}" for c, v in self.branches)
        otherwise = "" if self.otherwise is None else f" ELSE {self.otherwise.text(dialect)}"
        return f"CASE{branches}{otherwise} END"

    def children(self) -> tuple[Expression, ...]:
        below = tuple(part for branch in self.branches for part in branch)
        return below if self.otherwise is None else (*below, self.otherwise)


@dataclass(frozen=True, slots=True)
class Coalesce(Expression):
    """`coalesce(a, b, …)`: the first that is not NULL."""

    options: tuple[Expression, ...]

    @property
    def type(self) -> SqlType:
        to = NULL
        for option in self.options:
            to = common_type(to, option.type)
        return to

    def evaluate(self, row: Row) -> Value:
        for option in self.options:
            value = option.evaluate(row)
            if value is not None:
                return widen(value, self.type)
        return None

    def text(self, dialect: Dialect) -> str:
        return f"coalesce({', '.join(option.text(dialect) for option in self.options)})"

    def children(self) -> tuple[Expression, ...]:
        return self.options


@dataclass(frozen=True, slots=True)
class Upper(Expression):
    """`upper(s)`."""

    of: Expression

    @property
    def type(self) -> SqlType:
        return STRING

    def evaluate(self, row: Row) -> Value:
        value = self.of.evaluate(row)
        return value.upper() if isinstance(value, str) else None

    def text(self, dialect: Dialect) -> str:
        return f"upper({self.of.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)


@dataclass(frozen=True, slots=True)
class Length(Expression):
    """`length(s)`, in code points."""

    of: Expression

    @property
    def type(self) -> SqlType:
        return INT

    def evaluate(self, row: Row) -> Value:
        value = self.of.evaluate(row)
        return len(value) if isinstance(value, str) else None

    def text(self, dialect: Dialect) -> str:
        return f"length({self.of.text(dialect)})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)


_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]+\Z")
_BLANKS = "".join(map(chr, range(0x21)))


@dataclass(frozen=True, slots=True)
class Cast(Expression):
    """`CAST(x AS INT | BIGINT)` of a string or a number; NULL where the value does not convert."""

    of: Expression
    to: SqlType

    @property
    def type(self) -> SqlType:
        return self.to

    def evaluate(self, row: Row) -> Value:
        value = self.of.evaluate(row)
        match value:
            case str():
                word = value.strip(_BLANKS)
                return fit_integer(int(word), self.to) if _WHOLE_NUMBER.match(word) else None
            case float():
                return fit_integer(math.trunc(value), self.to) if math.isfinite(value) else None
            case int() | Decimal():
                return fit_integer(math.trunc(value), self.to)
        return None

    def text(self, dialect: Dialect) -> str:
        function = "CAST" if dialect is Dialect.WEFT else "try_cast"
        return f"{function}({self.of.text(dialect)} AS {self.to})"

    def children(self) -> tuple[Expression, ...]:
        return (self.of,)
