"""The grammar of durations, in windows and clauses."""

from weft.errors import BadWindow, NotAllowed
from weft.query.cursor import RESERVED, Cursor
from weft.query.duration import is_unit, parse_duration
from weft.query.lexer import TokenKind
from weft.query.syntax import Interval, Text

_FOLLOWING = RESERVED | frozenset("SLIDE OFFSET DELAY SKEW UNIT EVENT OPTIONS LIFETIME TO".split())
"""Words that may stand after a duration, hence are no unit."""


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
        raise NotAllowed(
            "INTERVAL … TO … is not in the language; write '1 hour 30 minutes'", span=cursor.span()
        )
    return Interval(cursor.span_from(start), " ".join(parts))


def read_duration(cursor: Cursor) -> int:
    """Read a duration as milliseconds."""
    node = duration_literal(cursor)
    try:
        return parse_duration(node.text if isinstance(node, Interval) else node.value)
    except BadWindow as error:
        error.span = node.span
        raise


def read_period(cursor: Cursor, clause: str) -> int:
    """Read the duration of a clause, which must be longer than 0, as milliseconds."""
    start = cursor.index
    found = read_duration(cursor)
    if found == 0:
        raise BadWindow(f"{clause} takes a duration longer than 0", span=cursor.span_from(start))
    return found


def _at_quantity(cursor: Cursor) -> bool:
    token = cursor.peek() if cursor.at("-") or cursor.at("+") else cursor.token
    numeric = token.kind is TokenKind.WORD and token.text[0].isdigit()
    return numeric or token.kind in (TokenKind.NUMBER, TokenKind.STRING)


def _at_unit(cursor: Cursor, *, bare: bool) -> bool:
    """Say whether a unit follows; after a bare number any word is taken for one, and found wanting later."""
    token = cursor.token
    if token.kind is not TokenKind.WORD or token.key in _FOLLOWING:
        return False
    return bare or is_unit(token.text)
