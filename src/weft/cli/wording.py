"""Formats times, durations and texts of others for people."""

from datetime import UTC, datetime, timedelta

NONE = "–"
"""Shown where there is no value."""
STATE_STYLES = {"running": "green", "paused": "yellow", "failed": "bold red"}
"""Colours of the states of queries that matter."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def moment(microseconds: int | None) -> str:
    """Return an event time in UTC.

    >>> moment(1_767_225_900_000_000), moment(1_500_000)
    ('2026-01-01 00:05:00', '1970-01-01 00:00:01.500')
    """
    if microseconds is None:
        return NONE
    try:
        time = _EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return f"{microseconds} µs"
    return time.strftime("%Y-%m-%d %H:%M:%S") + (
        f".{time.microsecond // 1000:03d}" if time.microsecond else ""
    )


def window(start: int, end: int) -> str:
    """Return a window's bounds, with the day once if it begins and ends on the same.

    >>> window(1_767_225_900_000_000, 1_767_226_620_000_000)
    '2026-01-01 00:05:00 – 00:17:00'
    """
    begins, ends = moment(start), moment(end)
    day, _, time = ends.partition(" ")
    return f"{begins} – {time if day == begins.partition(' ')[0] else ends}"


def span(seconds: float) -> str:
    """Return a duration in its two largest units.

    >>> [span(seconds) for seconds in (0.0421, 9.44, 200, 7_500, 300_000, -3)]
    ['0.042 s', '9.4 s', '3 min 20 s', '2 h 5 min', '3 d 11 h', '−3.0 s']
    """
    if seconds < 0:
        return f"−{span(-seconds)}"
    if seconds < 60:
        return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"
    rest = round(seconds)
    parts: list[str] = []
    for length, unit in _UNITS:
        count, rest = divmod(rest, length)
        if count or parts:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def one_line(text: str) -> str:
    """Return the first line of a text, without what would move the cursor or colour the terminal.

    >>> one_line("  refused\\x1b[2J by\\tthe host\\nmore")
    'refused [2J by the host'
    """
    return printable(text.strip().partition("\n")[0])


def printable(text: str) -> str:
    """Return all of a text on one line, without what would move the cursor or colour the terminal.

    >>> printable("a\\tstream\\nof \\x1b[2Jodd name")
    'a stream of  [2Jodd name'
    """
    return "".join(character if character.isprintable() else " " for character in text)
