"""The grammar of expressions: constants, names, calls and everything in brackets."""

from weft.errors import NotAllowed
from weft.query.cursor import RESERVED, Cursor
from weft.query.interval_literal import duration_literal
from weft.query.lexer import TokenKind
from weft.query.special_forms import SPECIAL, SUGAR, Rule, case
from weft.query.syntax import Constant, Name, Node, Number, Star, Text, TimeText, invocation
from weft.types import DATE, TIMESTAMP, DataType, Kind

_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_TIMES: dict[str, DataType] = {
    "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": DataType(Kind.TIMESTAMP_NTZ),
}  # fmt: skip
_QUANTITIES = (TokenKind.STRING, TokenKind.NUMBER)
_CALLABLE_RESERVED = frozenset({"LEFT", "RIGHT", "LIKE", "ILIKE", "RLIKE"})


def primary(cursor: Cursor, expression: Rule) -> Node:
    """Read an operand."""
    token, span = cursor.token, cursor.span()
    if token.kind is TokenKind.NUMBER:
        return Number(span, cursor.advance().text)
    if token.kind is TokenKind.STRING:
        return Text(span, cursor.advance().text)
    if token.key == "(":
        return _bracketed(cursor, expression)
    if token.key == "." and cursor.peek().kind is TokenKind.NUMBER:
        cursor.advance()
        return Number((span[0], cursor.span()[1]), "." + cursor.advance().text)
    if token.kind is TokenKind.WORD:
        return _word(cursor, expression)
    if token.kind is TokenKind.QUOTED:
        return _call(cursor, expression) if cursor.peek().key == "(" else _name(cursor)
    raise cursor.mistake("expected an expression")


def _bracketed(cursor: Cursor, expression: Rule) -> Node:
    cursor.advance()
    cursor.refuse_subquery()
    inner = expression(cursor)
    if cursor.at(","):
        raise cursor.refusal("rows of several values are not in the language; compare them one by one")
    cursor.expect(")")
    return inner


def _word(cursor: Cursor, expression: Rule) -> Node:
    token, following = cursor.token, cursor.peek()
    if token.key in _CONSTANTS:
        return Constant(cursor.span(), _CONSTANTS[cursor.advance().key])
    if token.key in _TIMES and following.kind is TokenKind.STRING:
        start = cursor.index
        type, value = _TIMES[cursor.advance().key], cursor.advance().text
        return TimeText(cursor.span_from(start), value, type)
    if token.key == "INTERVAL" and (following.kind in _QUANTITIES or following.text[:1].isdigit()):
        return duration_literal(cursor)
    if token.key == "CASE":
        return case(cursor, expression)
    if following.key == "(" and (token.key not in RESERVED or token.key in _CALLABLE_RESERVED):
        special = SPECIAL.get(token.key)
        return special(cursor, expression) if special else _call(cursor, expression)
    if token.key in RESERVED:
        raise cursor.mistake("expected an expression")
    return _name(cursor)


def _name(cursor: Cursor) -> Name:
    start = cursor.index
    parts = [cursor.advance().text]
    while cursor.accept("."):
        if cursor.at("*"):
            problem = "SELECT * is not in the language; name the columns"
            raise NotAllowed(problem, span=cursor.span_from(start))
        if cursor.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise cursor.mistake("expected a column")
        parts.append(cursor.advance().text)
    return Name(cursor.span_from(start), tuple(parts))


def _call(cursor: Cursor, expression: Rule) -> Node:
    start = cursor.index
    name_span, name = cursor.span(), cursor.advance().text
    cursor.expect("(")
    distinct = cursor.accept("DISTINCT")
    if not distinct:
        cursor.accept("ALL")
    args: list[Node] = []
    if not cursor.accept(")"):
        args = cursor.listed(lambda cursor: _argument(cursor, expression))
        cursor.expect(")")
    filter = _filter(cursor, expression)
    if cursor.at("OVER"):
        problem = "window functions (OVER) are not in the language; write the window after the stream"
        raise NotAllowed(problem, span=cursor.span_from(start))
    span = cursor.span_from(start)
    sugar = SUGAR.get(name.casefold())
    if sugar is not None and not distinct and filter is None:
        return sugar(name, tuple(args), span)
    return invocation(name, name_span, tuple(args), span, distinct=distinct, filter=filter)


def _argument(cursor: Cursor, expression: Rule) -> Node:
    cursor.refuse_subquery()
    span = cursor.span()
    return Star(span) if cursor.accept("*") else expression(cursor)


def _filter(cursor: Cursor, expression: Rule) -> Node | None:
    if not cursor.accept("FILTER", "("):
        return None
    cursor.expect("WHERE")
    condition = expression(cursor)
    cursor.expect(")")
    return condition
