"""Durations: `12 min`, `90s`, `1 hour 30 minutes`, as whole milliseconds, and their grammar."""

import re
from fractions import Fraction
from functools import lru_cache

from weft.errors import BadWindow
from weft.query.cursor import RESERVED, Cursor, error_span
from weft.query.lexer import TokenKind
from weft.query.syntax import Interval, Text

MAX_DURATION_MS = 3_653 * 86_400_000
"""Ten years: more is probably a mistake in the unit."""

_MILLISECONDS: dict[str, Fraction] = {
    spelling: Fraction(length)
    for length, spellings in (
        (Fraction(1, 1_000_000), "ns nsec nsecs nano nanos nanosecond nanoseconds"),
        (Fraction(1, 1_000), "us µs usec usecs micro micros microsecond microseconds"),
        (1, "ms msec msecs milli millis millisecond milliseconds"),
        (1_000, "s sec secs second seconds"),
        (60_000, "m min mins minute minutes"),
        (3_600_000, "h hr hrs hour hours"),
        (86_400_000, "d day days"),
        (604_800_000, "w week weeks"),
    )
    for spelling in spellings.split()
}
_VARYING = frozenset("mon mons month months quarter quarters y yr yrs year years".split())
_TERM = re.compile(r"([+-]?)\s*(\d{1,18}(?:\.\d{1,9})?)\s*([^\W\d_]+)[\s,]*", re.ASCII | re.IGNORECASE)
_EXAMPLE = "write a number and a unit, as in '12 min' or '1 hour 30 minutes'"


def is_unit(word: str) -> bool:
    """Say whether a word is a unit of time, varying ones included."""
    return word.casefold() in _MILLISECONDS or word.casefold() in _VARYING


# Thousands of queries have windows of a few hundred different lengths.
@lru_cache(maxsize=4_096)
def parse_duration(text: str, *, signed: bool = False) -> int:
    """Read a duration as milliseconds; each term of a signed one may be negative.

    >>> parse_duration("12 min"), parse_duration("1 hour 30 minutes"), parse_duration("250ms")
    (720000, 5400000, 250)
    >>> parse_duration("-1 hour 30 minutes", signed=True)
    -1800000
    """
    total = sum(_terms(text, signed), Fraction(0))
    if total.denominator != 1:
        raise BadWindow(f"duration \"{text}\" is not a whole number of milliseconds; the finest is '1 ms'")
    if abs(total) > MAX_DURATION_MS:
        raise BadWindow(f'duration "{_short(text)}" is longer than ten years; check its unit')
    return int(total)


def _terms(text: str, signed: bool) -> list[Fraction]:
    rest = re.sub(r"\A\s*interval\b", "", text.replace("µ", "u"), flags=re.IGNORECASE).strip()
    if not rest:
        raise BadWindow(f"a duration is empty; {_EXAMPLE}")
    terms = []
    while rest:
        match = _TERM.match(rest)
        if match is None:
            raise BadWindow(f'"{_short(text)}" is not a duration; {_EXAMPLE}')
        sign, number, unit = match.groups()
        if sign == "-" and not signed:
            raise BadWindow(f'duration "{_short(text)}" is negative; {_EXAMPLE}')
        if unit.casefold() in _VARYING:
            problem = f'duration "{_short(text)}" has no fixed length'
            raise BadWindow(f"{problem}; count days instead, as in '30 days'")
        length = _MILLISECONDS.get(unit.casefold())
        if length is None:
            raise BadWindow(f'unknown unit of time "{_short(unit)}" in "{_short(text)}"; {_EXAMPLE}')
        terms.append(Fraction(sign + number) * length)
        rest = rest[match.end() :]
    return terms


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"


_FOLLOWING = RESERVED | frozenset("SLIDE OFFSET DELAY SKEW UNIT EVENT OPTIONS LIFETIME TO".split())
"""Words that may follow a duration, so they are not units."""


def duration_literal(cursor: Cursor) -> Interval | Text:
    """Read `'12 min'`, `12 MINUTES`, or either after INTERVAL."""
    start = cursor.index
    prefixed = cursor.accept("INTERVAL")
    if not prefixed and cursor.token.kind is TokenKind.STRING and not is_unit(cursor.peek().text):
        return Text(cursor.span(), cursor.advance().text)
    parts: list[str] = []
    while True:
        signed = cursor.at("-") or cursor.at("+")
        quantity = cursor.peek() if signed else cursor.token
        is_number = quantity.kind in (TokenKind.NUMBER, TokenKind.STRING)
        if not is_number and not (quantity.kind is TokenKind.WORD and quantity.text[0].isdigit()):
            break
        sign = cursor.advance().text if signed else ""
        parts.append(sign + cursor.advance().text)
        # Any word after a bare number is taken for a unit, and checked later.
        is_bare, unit = quantity.text.strip().lstrip("+-").isdecimal(), cursor.token
        if unit.kind is TokenKind.WORD and unit.key not in _FOLLOWING and (is_bare or is_unit(unit.text)):
            parts.append(cursor.advance().text)
    if not parts:
        raise cursor.mistake("expected a duration such as '12 min'")
    if cursor.at("TO"):
        raise cursor.refusal("INTERVAL … TO … is not in the language; write '1 hour 30 minutes'")
    return Interval(cursor.span_from(start), " ".join(parts))


def milliseconds(node: Interval | Text, *, signed: bool = False) -> int:
    """Return the length of a duration."""
    with error_span(node.span):
        return parse_duration(node.text if isinstance(node, Interval) else node.value, signed=signed)


def read_duration(cursor: Cursor) -> int:
    """Read a duration as milliseconds."""
    return milliseconds(duration_literal(cursor))


def read_period(cursor: Cursor, clause: str) -> int:
    """Read the duration of a clause, which must be longer than 0, as milliseconds."""
    start = cursor.index
    period_ms = read_duration(cursor)
    if period_ms == 0:
        raise BadWindow(f"{clause} takes a duration longer than 0", span=cursor.span_from(start))
    return period_ms
