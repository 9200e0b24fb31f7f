"""Dates and timestamps as Spark reads them from text: in part, with few digits, with zones, just a time."""

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

from weft.evaluation.vector import DAY

_BLANKS = bytes(range(0x21)) + b"\x7f"
_DATE = re.compile(rb"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    rb"(?:([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(.*))?)?)?)?)?)",
    re.DOTALL,
)
_CLOCK = re.compile(rb"T?(\d{1,2})(?::(\d{1,2})(?::(.*))?)?", re.DOTALL)
_SECONDS = re.compile(rb"(\d{1,2})(?:(\.)(\d*))?(\D.*)?", re.DOTALL)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{2}))?")
_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo", "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare", "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
"""Java's short names of zones."""


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
    match = _DATE.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    return days_of(int(sign + year), int(month or 1), int(day or 1))


def timestamp_of(text: bytes, *, zoned: bool) -> int | None:
    """Return a timestamp as microseconds since 1970; a zone in the text counts if `zoned`, else it is UTC."""
    stripped = text.strip(_BLANKS)
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


def zone_of(name: str) -> tzinfo | None:
    """Return a zone by any of its names in Java."""
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    name = _SHORT.get(name, name)
    match = _OFFSET.fullmatch(name)
    if match is None:
        try:
            return ZoneInfo(name)
        except (ValueError, OSError, KeyError):
            return None
    hours, minutes, seconds = (int(part or 0) for part in match.group(2, 3, 4))
    if hours > 18 or minutes > 59 or seconds > 59 or (hours == 18 and minutes + seconds > 0):
        return None
    span = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return timezone(-span if match.group(1) == "-" else span)
