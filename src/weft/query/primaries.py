"""The grammar of expressions: constants, names, calls and everything in brackets."""

from weft.errors import NotAllowed
from weft.query.cursor import RESERVED, Cursor
from weft.query.interval_literal import duration_literal
from weft.query.lexer import Token, TokenKind
from weft.query.special_forms import SPECIAL, SUGAR, Rule, case
from weft.query.syntax import (
    Constant,
    Name,
    Node,
    Number,
    Star,
    Text,
    TimeText,
    invocation,
)
from weft.types import DATE, TIMESTAMP, DataType, Kind

_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_TIMES: dict[str, DataType] = {
    "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": DataType(Kind.TIMESTAMP_NTZ),
}  # fmt: skip
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
    if cursor.at("SELECT") or cursor.at("WITH"):
        raise NotAllowed(
            "subqueries are not in the language; join a static table instead", span=cursor.span()
        )
    inner = expression(cursor)
    if cursor.at(","):
        raise NotAllowed(
            "rows of several values are not in the language; compare them one by one", span=cursor.span()
        )
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
    if token.key == "INTERVAL" and _begins_duration(following):
        return duration_literal(cursor)
    if token.key == "CASE":
        return case(cursor, expression)
    if following.key == "(" and (token.key not in RESERVED or token.key in _CALLABLE_RESERVED):
        special = SPECIAL.get(token.key)
        return special(cursor, expression) if special else _call(cursor, expression)
    if token.key in RESERVED:
        raise cursor.mistake("expected an expression")
    return _name(cursor)


def _begins_duration(token: Token) -> bool:
    return token.kind in (TokenKind.STRING, TokenKind.NUMBER) or token.text[:1].isdigit()


def _name(cursor: Cursor) -> Name:
    start = cursor.index
    parts = [cursor.advance().text]
    while cursor.accept("."):
        if cursor.at("*"):
            raise NotAllowed(
                "SELECT * is not in the language; name the columns", span=cursor.span_from(start)
            )
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
    args = _arguments(cursor, expression)
    filter = _filter(cursor, expression)
    if cursor.at("OVER"):
        problem = "window functions (OVER) are not in the language; write the window after the stream"
        raise NotAllowed(problem, span=cursor.span_from(start))
    span = cursor.span_from(start)
    sugar = SUGAR.get(name.casefold())
    if sugar is not None and not distinct and filter is None:
        return sugar(name, args, span)
    return invocation(name, name_span, args, span, distinct=distinct, filter=filter)


def _arguments(cursor: Cursor, expression: Rule) -> tuple[Node, ...]:
    if cursor.accept(")"):
        return ()
    args = [_argument(cursor, expression)]
    while cursor.accept(","):
        args.append(_argument(cursor, expression))
    cursor.expect(")")
    return tuple(args)


def _argument(cursor: Cursor, expression: Rule) -> Node:
    if cursor.at("SELECT") or cursor.at("WITH"):
        raise NotAllowed(
            "subqueries are not in the language; join a static table instead", span=cursor.span()
        )
    if cursor.at("*"):
        return Star(cursor.span_from(_passed(cursor)))
    return expression(cursor)


def _passed(cursor: Cursor) -> int:
    cursor.advance()
    return cursor.index - 1


def _filter(cursor: Cursor, expression: Rule) -> Node | None:
    if not cursor.accept("FILTER", "("):
        return None
    cursor.expect("WHERE")
    condition = expression(cursor)
    cursor.expect(")")
    return condition
