"""Further functions, each a function of Python's beside the SQL that calls it."""

import hashlib
import math
import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from random import Random

from tests.oracle.expressions import EPOCH, Column, Dialect, Expression, Literal
from tests.oracle.types import BIGINT, DATE, INT, STRING, TIMESTAMP, Kind, Row, SqlType, Value

Apply = Callable[..., Value]
"""Takes the values of the arguments; none is NULL."""


@dataclass(frozen=True, slots=True)
class Scalar(Expression):
    """A call whose template has a `{}` for each argument; NULL where an argument is."""

    template: str
    args: tuple[Expression, ...]
    of: SqlType
    apply: Apply

    @property
    def type(self) -> SqlType:
        return self.of

    def evaluate(self, row: Row) -> Value:
        values = [argument.evaluate(row) for argument in self.args]
        return None if None in values else self.apply(*values)

    def text(self, dialect: Dialect) -> str:
        template = self.template
        if dialect is Dialect.SPARK:
            # Spark has no operator for it.
            template = re.sub(r"\{\} AT TIME ZONE ('[^']*')", r"from_utc_timestamp({}, \1)", template)
        return template.format(*(argument.text(dialect) for argument in self.args))

    def children(self) -> tuple[Expression, ...]:
        return self.args


@dataclass(frozen=True, slots=True)
class Extreme(Expression):
    """`greatest(a, b, …)` or `least(a, b, …)` of one type; NULLs are skipped, NaN is greatest."""

    greatest: bool
    args: tuple[Expression, ...]

    @property
    def type(self) -> SqlType:
        return self.args[0].type

    def evaluate(self, row: Row) -> Value:
        values = [value for value in (argument.evaluate(row) for argument in self.args) if value is not None]
        if not values:
            return None
        key = lambda value: (isinstance(value, float) and math.isnan(value), value)  # noqa: E731
        return max(values, key=key) if self.greatest else min(values, key=key)  # type: ignore[arg-type]

    def text(self, dialect: Dialect) -> str:
        name = "greatest" if self.greatest else "least"
        return f"{name}({', '.join(argument.text(dialect) for argument in self.args)})"

    def children(self) -> tuple[Expression, ...]:
        return self.args


# Strings


def _split_part(word: str, number: int) -> str:
    parts = word.split("a")
    at = number - 1 if number > 0 else len(parts) + number
    return parts[at] if 0 <= at < len(parts) else ""


def _substring_index(word: str, count: int) -> str:
    parts = word.split(" ")
    return " ".join(parts[:count] if count > 0 else parts[count:])


def _first_group(pattern: str) -> Apply:
    def find(word: str) -> str:
        match = re.search(pattern, word)
        return (match.group(1) or "") if match else ""

    return find


def _padded(word: str, size: int) -> str:
    return word[:size].rjust(size, "*")


def _code(word: str) -> int:
    return ord(word[0]) if word else 0


STRINGS: tuple[tuple[str, SqlType, Apply], ...] = (
    ("split_part({}, 'a', 1)", STRING, lambda word: _split_part(word, 1)),
    ("split_part({}, 'a', -2)", STRING, lambda word: _split_part(word, -2)),
    ("substring_index({}, ' ', 1)", STRING, lambda word: _substring_index(word, 1)),
    ("substring_index({}, ' ', -1)", STRING, lambda word: _substring_index(word, -1)),
    ("regexp_extract({}, '([a-z]+)', 1)", STRING, _first_group("([a-z]+)")),
    ("regexp_extract({}, '^(.)?b')", STRING, _first_group("^(.)?b")),
    ("regexp_replace({}, '[a-y]+', '<$0>')", STRING, lambda word: re.sub("[a-y]+", r"<\g<0>>", word)),
    ("reverse({})", STRING, lambda word: word[::-1]),
    ("lpad({}, 3, '*')", STRING, lambda word: _padded(word, 3)),
    ("repeat({}, 2)", STRING, lambda word: word * 2),
    ("translate({}, 'ab', 'x')", STRING, lambda word: word.replace("a", "x").replace("b", "")),
    ("md5({})", STRING, lambda word: hashlib.md5(word.encode()).hexdigest()),
    ("hex({})", STRING, lambda word: word.encode().hex().upper()),
    ("instr({}, 'b')", INT, lambda word: word.find("b") + 1),
    ("locate('a', {}, 2)", INT, lambda word: word.find("a", 1) + 1),
    ("ascii({})", INT, _code),
    ("octet_length({})", INT, lambda word: len(word.encode())),
)
"""Functions of a string."""

# Times: a TIMESTAMP is microseconds since 1970.

_HOUR = 3_600_000_000


def _shown(pattern: str) -> Apply:
    return lambda micros: (EPOCH + timedelta(microseconds=micros)).strftime(pattern)


def _weekday(micros: int) -> str:
    moment = EPOCH + timedelta(microseconds=micros)
    return f"{moment:%a} {moment.day}"


TIMES: tuple[tuple[str, SqlType, Apply], ...] = (
    ("date_format({}, 'yyyy-MM-dd HH:mm')", STRING, _shown("%Y-%m-%d %H:%M")),
    ("date_format({}, 'E d')", STRING, _weekday),
    ("{} AT TIME ZONE '+05:30'", TIMESTAMP, lambda micros: micros + 11 * _HOUR // 2),
    ("to_utc_timestamp({}, '-08:00')", TIMESTAMP, lambda micros: micros + 8 * _HOUR),
    ("quarter({})", INT, lambda micros: ((EPOCH + timedelta(microseconds=micros)).month + 2) // 3),
    ("weekofyear({})", INT, lambda micros: (EPOCH + timedelta(microseconds=micros)).isocalendar().week),
    ("unix_timestamp({})", BIGINT, lambda micros: micros // 10**6 if micros > 0 else -(-micros // 10**6)),
)
"""Functions of a TIMESTAMP."""

DATES: tuple[tuple[str, SqlType, Apply], ...] = (
    ("date_sub({}, 30)", DATE, lambda day: day - timedelta(days=30)),
    ("datediff({}, DATE '2024-02-29')", INT, lambda day: (day - date(2024, 2, 29)).days),
    ("last_day({})", DATE, lambda day: day.replace(day=monthrange(day.year, day.month)[1])),
    ("add_months({}, -1)", DATE, lambda day: _month_earlier(day)),
    ("dayofyear({})", INT, lambda day: day.timetuple().tm_yday),
    ("weekday({})", INT, lambda day: day.weekday()),
    ("date_format({}, 'dd/MM/yy')", STRING, lambda day: day.strftime("%d/%m/%y")),
)
"""Functions of a DATE."""


def _month_earlier(day: date) -> date:
    last = day.replace(day=1) - timedelta(days=1)
    return min(last, last.replace(day=1) + timedelta(days=day.day - 1))


def _bucket(value: float) -> Value:
    if math.isnan(value):
        return None
    return 0 if value < -2 else 6 if value >= 8 else int(5.0 * (value + 2) / 10) + 1


NUMBERS: tuple[tuple[str, SqlType, Apply], ...] = (
    ("width_bucket({}, -2, 8, 5)", BIGINT, lambda number: _bucket(float(number))),
    ("hex(CAST({} AS BIGINT))", STRING, lambda number: f"{int(number) & (2**64 - 1):X}"),
)
"""Functions of a whole number."""

_BY_KIND = {
    Kind.STRING: STRINGS, Kind.TIMESTAMP: TIMES, Kind.DATE: DATES, Kind.INT: NUMBERS, Kind.BIGINT: NUMBERS,
    Kind.DOUBLE: NUMBERS[:1],
}  # fmt: skip


def random_scalar(rng: Random, column: Column) -> Expression:
    """Return a function of a column, or the column itself where there is none of its type."""
    if rng.random() < 0.15 and column.type.kind in (Kind.INT, Kind.BIGINT, Kind.STRING):
        zero = Literal("b") if column.type.kind is Kind.STRING else Literal(5)
        many = (column, *(zero,) * 3) if column.type.kind is not Kind.BIGINT else (column,) * 3
        return Extreme(rng.random() < 0.5, many)
    known = _BY_KIND.get(column.type.kind)
    if known is None:
        return column
    template, of, apply = rng.choice(known)
    return Scalar(template, (column,), of, apply)
