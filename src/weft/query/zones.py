"""Time zones by name, as Java knows them."""

import re
from datetime import UTC, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{1,2}))?(?::?(\d{2}))?")
_FIXED = re.compile(r"[+-](?:0\d|1[0-7]):[0-5]\d|[+-]18:00")
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


def is_constant_zone(name: str) -> bool:
    """Say whether a query may name a zone so: by a region, UTC, GMT, Z or an offset such as +02:00.

    Java's short names are not among them: its BST is in Dhaka.
    """
    return fixed_offset(name) is not None or name in regions()


def fixed_offset(name: str) -> timedelta | None:
    """Return the offset of a zone that has the same at all times, by its name; None for regions.

    >>> fixed_offset("-02:30")
    datetime.timedelta(days=-1, seconds=77400)
    """
    if name not in ("UTC", "GMT", "Z") and not _FIXED.fullmatch(name):
        return None
    zone = zone_of(name)
    return None if zone is None else zone.utcoffset(None)


@lru_cache(maxsize=1)
def regions() -> frozenset[str]:
    """Return the names of regions, such as Europe/Paris."""
    return frozenset(name for name in available_timezones() if "/" in name)
