"""Durations: `12 min`, `90s`, `1 hour 30 minutes`, as whole milliseconds."""

import re
from fractions import Fraction
from functools import lru_cache

from weft.errors import BadWindow

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
        length = _term(text, number, unit)
        terms.append(-length if sign == "-" else length)
        rest = rest[match.end() :]
    return terms


def _term(text: str, number: str, unit: str) -> Fraction:
    if unit.casefold() in _VARYING:
        problem = f'duration "{_short(text)}" has no fixed length'
        raise BadWindow(f"{problem}; count days instead, as in '30 days'")
    length = _MILLISECONDS.get(unit.casefold())
    if length is None:
        raise BadWindow(f'unknown unit of time "{_short(unit)}" in "{_short(text)}"; {_EXAMPLE}')
    return Fraction(number) * length


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:40] + "…"
