"""Constants: their values, types and conversions."""

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from weft.errors import Span, TypeMismatch
from weft.expression import Literal
from weft.query.coercion import exact_type
from weft.types import BIGINT, DATE, DOUBLE, INT, MAX_PRECISION, DataType, Kind

_EXACT = Context(prec=100)
_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+))(e[+-]?\d+)?(bd|[lsydf])?", re.ASCII | re.IGNORECASE)
_SUFFIXES = {
    "l": BIGINT, "s": DataType(Kind.SMALLINT), "y": DataType(Kind.TINYINT),
    "d": DOUBLE, "f": DataType(Kind.FLOAT),
}  # fmt: skip
_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?\s*(\S+)?)?", re.ASCII
)
_OFFSET = re.compile(r"([+-])(\d{1,2}):?(\d{2})?", re.ASCII)


def number(text: str, span: Span) -> Literal:
    """Read a number as Spark types it: 5 is INT, 2.5 DECIMAL(2,1), 1e3 DOUBLE.

    >>> print(number("2.50", (0, 4)).type)
    decimal(3,2)
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise TypeMismatch(f'"{text}" is not a number', span=span)
    digits, exponent, suffix = match.group(1), match.group(2) or "", (match.group(3) or "").lower()
    if suffix in _SUFFIXES and _SUFFIXES[suffix].is_integer and not exponent and "." not in digits:
        return _integer(digits, _SUFFIXES[suffix], span)
    if suffix in ("d", "f") or (exponent and not suffix):
        value = float(digits + exponent)
        if math.isinf(value):
            raise TypeMismatch("this number is too large for a double", span=span)
        return Literal(value, _SUFFIXES.get(suffix, DOUBLE), span)
    if suffix == "bd" or "." in digits:
        return _decimal(digits + exponent, span)
    return _integer(digits, None, span)


def _integer(digits: str, type: DataType | None, span: Span) -> Literal:
    if len(digits) > MAX_PRECISION + 1:
        return _decimal(digits, span)
    value = int(digits)
    for candidate in (type,) if type else (INT, BIGINT):
        if -(1 << (candidate.bits - 1)) <= value < 1 << (candidate.bits - 1):
            return Literal(value, candidate, span)
    if type is not None:
        raise TypeMismatch(f"{digits} does not fit into {type}", span=span)
    return _decimal(digits, span)


def _decimal(text: str, span: Span) -> Literal:
    exponent = text.lower().partition("e")[2]
    # An exponent that large would be written out digit by digit below.
    if len(text) <= 100 and len(exponent) <= 4:
        value = Decimal(text)
        type = exact_type(value)
        if type.precision <= MAX_PRECISION:
            return Literal(value.quantize(Decimal(1).scaleb(-type.scale), context=_EXACT), type, span)
    problem = f"this number has more than {MAX_PRECISION} digits; write it as a double, as in 1e40"
    raise TypeMismatch(problem, span=span)


def time_literal(text: str, type: DataType, span: Span | None) -> Literal:
    """Read a date or timestamp; one without a zone is UTC."""
    value = date_of(text) if type == DATE else timestamp_of(text)
    if value is None:
        example = "2026-01-31" if type == DATE else "2026-01-31 12:00:00"
        raise TypeMismatch(f"'{text[:60]}' is not a {type}; write it as in '{example}'", span=span)
    return Literal(value, type, span)


def date_of(text: str) -> date | None:
    """Read a date, or return None."""
    match = _DATE.fullmatch(text.strip())
    try:
        return date(*map(int, match.groups())) if match else None
    except ValueError:
        return None


def timestamp_of(text: str) -> datetime | None:
    """Read a timestamp in UTC, or return None."""
    match = _TIMESTAMP.fullmatch(text.strip())
    day = date_of(match.group(1)) if match else None
    if match is None or day is None:
        return None
    hour, minute, second = (int(part or 0) for part in match.group(2, 3, 4))
    micros = int((match.group(5) or "")[:6].ljust(6, "0"))
    try:
        name = match.group(6) or "Z"
        offset = _OFFSET.fullmatch(name)
        if offset is not None:
            span = timedelta(hours=int(offset.group(2)), minutes=int(offset.group(3) or 0))
            zone: tzinfo = timezone(-span if offset.group(1) == "-" else span)
        else:
            zone = UTC if name.upper() in ("Z", "UTC", "GMT") else ZoneInfo(name)
        local = datetime(day.year, day.month, day.day, hour, minute, second, micros, tzinfo=zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError, ZoneInfoNotFoundError, OSError):
        return None
