"""The grammar of durations, in windows and clauses."""

from weft.errors import BadWindow
from weft.query.cursor import RESERVED, Cursor, error_span
from weft.query.duration import is_unit, parse_duration
from weft.query.lexer import TokenKind
from weft.query.syntax import Interval, Text

_FOLLOWING = RESERVED | frozenset("SLIDE OFFSET DELAY SKEW UNIT EVENT OPTIONS LIFETIME TO".split())
"""Words that may follow a duration, so they are not units."""


def duration_literal(cursor: Cursor) -> Interval | Text:
    """Read `'12 min'`, `12 MINUTES`, or either after INTERVAL."""
    start = cursor.index
    prefixed = cursor.accept("INTERVAL")
    if not prefixed and cursor.token.kind is TokenKind.STRING and not is_unit(cursor.peek().text):
        return Text(cursor.span(), cursor.advance().text)
    parts: list[str] = []
    while _at_quantity(cursor):
        sign = cursor.advance().text if cursor.at("-") or cursor.at("+") else ""
        token = cursor.advance()
        parts.append(sign + token.text)
        if _at_unit(cursor, bare=token.text.strip().lstrip("+-").isdecimal()):
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


def _at_quantity(cursor: Cursor) -> bool:
    token = cursor.peek() if cursor.at("-") or cursor.at("+") else cursor.token
    numeric = token.kind is TokenKind.WORD and token.text[0].isdigit()
    return numeric or token.kind in (TokenKind.NUMBER, TokenKind.STRING)


def _at_unit(cursor: Cursor, *, bare: bool) -> bool:
    """Say whether a unit follows; any word after a bare number is taken for one, and checked later."""
    token = cursor.token
    is_word = token.kind is TokenKind.WORD and token.key not in _FOLLOWING
    return is_word and (bare or is_unit(token.text))
