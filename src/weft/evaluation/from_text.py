"""Strings as booleans, numbers and times, as Spark reads them: times in part, with few digits, with zones."""

import math
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa

from weft.evaluation import decimals
from weft.evaluation.vector import DAY, Vector, both, dtype_of, validity
from weft.query.zones import zone_of
from weft.types import DataType, Kind

_BLANKS = bytes(range(0x21))
_BLANKS_AND_DELETE = _BLANKS + b"\x7f"
_INTEGER = re.compile(rb"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?", re.ASCII)
_HEX = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?\d+[dDfF]?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_WORDS = {
    "inf": math.inf, "+inf": math.inf, "infinity": math.inf, "+infinity": math.inf,
    "-inf": -math.inf, "-infinity": -math.inf, "nan": math.nan,
}  # fmt: skip
_JAVA_WORDS = {"NaN", "+NaN", "-NaN"}
_TRUE, _FALSE = (b"t", b"true", b"y", b"yes", b"1"), (b"f", b"false", b"n", b"no", b"0")
_DATE = re.compile(rb"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    rb"(?:([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(.*))?)?)?)?)?)",
    re.DOTALL,
)
_CLOCK = re.compile(rb"T?(\d{1,2})(?::(\d{1,2})(?::(.*))?)?", re.DOTALL)
_SECONDS = re.compile(rb"(\d{1,2})(?:(\.)(\d*))?(\D.*)?", re.DOTALL)


def days_of(year: int, month: int, day: int) -> int | None:
    """Return a day since 1970 in the Gregorian calendar, however far away; None if there is no such day."""
    cycles, of_cycle = divmod(year, 400)
    try:
        # Years repeat after 400; 2000 to 2399 are among those that Python knows.
        return (date(2000 + of_cycle, month, day) - date(1970, 1, 1)).days + (cycles - 5) * 146_097
    except ValueError:
        return None


def date_of(text: bytes) -> int | None:
    """Return a date as its day since 1970."""
    match = _DATE.fullmatch(text.strip(_BLANKS_AND_DELETE))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    return days_of(int(sign + year), int(month or 1), int(day or 1))


def timestamp_of(text: bytes, *, zoned: bool) -> int | None:
    """Return a timestamp as microseconds since 1970; a zone in the text counts if `zoned`, else it is UTC."""
    stripped = text.strip(_BLANKS_AND_DELETE)
    match = _TIMESTAMP.fullmatch(stripped)
    if match is not None:
        sign, year, month, day, *clock = match.groups()
        days = days_of(int(sign + year), int(month or 1), int(day or 1))
        return None if days is None else _moment(days, clock, zoned)
    just_time = _CLOCK.fullmatch(stripped) if zoned and (b":" in stripped or text.startswith(b"T")) else None
    return None if just_time is None else _moment(None, list(just_time.groups()), zoned)


def _moment(days: int | None, clock: list[bytes | None], zoned: bool) -> int | None:
    hour, minute, rest = int(clock[0] or 0), int(clock[1] or 0), clock[2]
    seconds = _SECONDS.fullmatch(rest) if rest is not None else None
    if rest is not None and seconds is None:
        return None
    second, _, fraction, zone_name = seconds.groups() if seconds else (b"0", None, None, None)
    if hour > 23 or minute > 59 or int(second) > 59:
        return None
    micros = ((hour * 60 + minute) * 60 + int(second)) * 1_000_000 + int((fraction or b"")[:6].ljust(6, b"0"))
    zone: tzinfo | None = UTC
    if zone_name is not None:
        zone = zone_of(zone_name.decode("utf-8", "replace").strip())
    if zone is None:
        return None
    if days is None:
        days = (datetime.now(zone).date() - date(1970, 1, 1)).days
    moment = days * DAY + micros
    if zoned and zone is not UTC:
        moment -= _offset(zone, days, micros)
    return moment if -(2**63) <= moment < 2**63 else None


def _offset(zone: tzinfo, days: int, micros: int) -> int:
    """Return a zone's offset at a local time; in a gap it is that before the gap, as in Java."""
    within = days if abs(days) < 700_000 else days % 146_097  # Python's calendar ends with year 9999
    local = datetime(1970, 1, 1) + timedelta(days=within, microseconds=micros)
    offset = zone.utcoffset(local)
    assert offset is not None
    return offset // timedelta(microseconds=1)


def parsed(texts: pa.Array, target: DataType) -> Vector:
    """Return strings as values of a type; NULL where they have no such value."""
    encoded = texts.dictionary_encode()
    read, dtype = _reader(target), dtype_of(target)
    if len(encoded.dictionary) == 0:
        return Vector(np.zeros(len(texts), dtype=dtype), np.zeros(len(texts), dtype=bool))
    parsed = [None if word is None else read(word) for word in encoded.dictionary.to_pylist()]
    good = np.array([value is not None for value in parsed], dtype=bool)
    values = np.array(
        [0 if value is None else value for value in parsed],
        dtype=object if target.kind is Kind.DECIMAL else dtype,
    )
    if target.kind is Kind.DECIMAL:
        values = decimals.compact(values)
    rows = encoded.indices.fill_null(0).to_numpy()
    return Vector(values[rows], both(validity(texts), good[rows]))


def _reader(target: DataType) -> Callable[[bytes], Any]:
    kind = target.kind
    if kind is Kind.BOOLEAN:
        return _boolean
    if target.is_integer:
        limits = np.iinfo(dtype_of(target))
        return lambda word: _integer(word, int(limits.min), int(limits.max))
    if kind is Kind.DECIMAL:
        return lambda word: _decimal(word, target)
    if kind is Kind.DATE:
        return date_of
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return lambda word: timestamp_of(word, zoned=kind is Kind.TIMESTAMP)
    return _double if kind is Kind.DOUBLE else _single


def _boolean(word: bytes) -> bool | None:
    folded = word.strip(_BLANKS_AND_DELETE).lower()
    return True if folded in _TRUE else False if folded in _FALSE else None


def _integer(word: bytes, least: int, most: int) -> int | None:
    digits = word.strip(_BLANKS_AND_DELETE)
    if not _INTEGER.fullmatch(digits) or len(digits.lstrip(b"+-0")) > 19:
        return None
    value = int(digits)
    return value if least <= value <= most else None


def _java_text(word: bytes) -> str:
    """Return a string as Java's trim() leaves it."""
    return word.decode("utf-8", "replace").strip(_BLANKS.decode())


def _double(word: bytes) -> float | None:
    digits = _java_text(word)
    if _DOUBLE.fullmatch(digits):
        return float(digits.rstrip("dDfF"))
    if digits in _JAVA_WORDS:
        return math.nan
    if _HEX.fullmatch(digits):
        try:
            return float.fromhex(digits.rstrip("dDfF") if digits[-1] in "dDfF" else digits)
        except OverflowError:
            return -math.inf if digits.startswith("-") else math.inf
    return _WORDS.get(digits.lower())


def _single(word: bytes) -> float | None:
    """Return the nearest float: not always the one nearest to the nearest double."""
    double, digits = _double(word), _java_text(word)
    if double is None or not math.isfinite(double):
        return double
    between = decimals.is_between_floats(np.array(double)) and _DOUBLE.fullmatch(digits)
    return decimals.nudged(double, Decimal(digits.rstrip("dDfF"))) if between else double


def _decimal(word: bytes, target: DataType) -> int | None:
    """Return a decimal in units of its scale."""
    digits = _java_text(word)
    if not _DECIMAL.fullmatch(digits):
        return None
    try:
        number = Decimal(digits)
    except InvalidOperation:
        return None
    _, figures, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    if len(figures) + exponent > 38:
        return None
    # Only a few characters make an exponent for which 10**exponent would fill the memory.
    units = decimals.in_units(number, target.scale) if abs(exponent) <= 400 else 0
    return units if abs(units) < 10**target.precision else None
