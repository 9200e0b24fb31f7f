"""The grammar of expressions: constants, names, calls and everything in brackets."""

from collections.abc import Callable

from weft.errors import NotAllowed
from weft.query.cursor import RESERVED, Cursor
from weft.query.data_types import data_type
from weft.query.duration import is_unit
from weft.query.lexer import TokenKind
from weft.query.syntax import (
    Constant,
    Interval,
    Name,
    Node,
    Number,
    Star,
    Text,
    TimeText,
    invocation,
    operation,
)
from weft.types import DATE, TIMESTAMP, DataType, Kind

Rule = Callable[[Cursor], Node]
_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_TIMES: dict[str, DataType] = {
    "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": DataType(Kind.TIMESTAMP_NTZ),
}  # fmt: skip
_CALLABLE_RESERVED = frozenset({"LEFT", "RIGHT", "LIKE", "ILIKE", "RLIKE"})
_FIELDS = {
    "YEAR": "year", "YEARS": "year", "MONTH": "month", "MONTHS": "month", "DAY": "day", "DAYS": "day",
    "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "HOUR": "hour", "HOURS": "hour",
    "MINUTE": "minute", "MINUTES": "minute",
}  # fmt: skip


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
    if token.key == "INTERVAL" and following.kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.WORD):
        return duration_literal(cursor)
    if token.key == "CASE":
        return _case(cursor, expression)
    if following.key == "(" and (token.key not in RESERVED or token.key in _CALLABLE_RESERVED):
        special = _SPECIAL.get(token.key)
        return special(cursor, expression) if special else _call(cursor, expression)
    if token.key in RESERVED:
        raise cursor.mistake("expected an expression")
    return _name(cursor)


def _name(cursor: Cursor) -> Name:
    start = cursor.index
    parts = [cursor.advance().text]
    while cursor.accept("."):
        if cursor.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
            raise cursor.mistake("expected a column")
        parts.append(cursor.advance().text)
    return Name(cursor.span_from(start), tuple(parts))


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
        bare = token.kind is TokenKind.NUMBER or token.text.strip().lstrip("+-").isdecimal()
        if cursor.token.kind is TokenKind.WORD and (
            is_unit(cursor.token.text) or (bare and token.text.isdecimal())
        ):
            parts.append(cursor.advance().text)
    if not parts:
        raise cursor.mistake("expected a duration such as '12 min'")
    if cursor.at("TO"):
        raise NotAllowed(
            "INTERVAL … TO … is not in the language; write '1 hour 30 minutes'", span=cursor.span()
        )
    return Interval(cursor.span_from(start), " ".join(parts))


def _at_quantity(cursor: Cursor) -> bool:
    token = cursor.peek() if cursor.at("-") or cursor.at("+") else cursor.token
    numeric = token.kind is TokenKind.WORD and token.text[0].isdigit()
    return numeric or token.kind in (TokenKind.NUMBER, TokenKind.STRING)


def _case(cursor: Cursor, expression: Rule) -> Node:
    start = cursor.index
    cursor.advance()
    subject = None if cursor.at("WHEN") else expression(cursor)
    parts: list[Node] = []
    while cursor.accept("WHEN"):
        test = expression(cursor)
        parts.append(test if subject is None else operation("=", (subject, test), test.span))
        cursor.expect("THEN")
        parts.append(expression(cursor))
    if not parts:
        raise cursor.mistake("expected WHEN")
    parts.append(expression(cursor) if cursor.accept("ELSE") else Constant(cursor.span(), None))
    cursor.expect("END")
    return operation("case", tuple(parts), cursor.span_from(start))


def _cast(cursor: Cursor, expression: Rule) -> Node:
    start = cursor.index
    cursor.advance()
    cursor.expect("(")
    operand = expression(cursor)
    cursor.expect("AS")
    type = data_type(cursor)
    cursor.expect(")")
    return operation("cast", (operand,), cursor.span_from(start), type)


def _extract(cursor: Cursor, expression: Rule) -> Node:
    start = cursor.index
    cursor.advance()
    cursor.expect("(")
    field, span = cursor.advance(), cursor.span_from(cursor.index - 1)
    name = _FIELDS.get(field.text.upper())
    if name is None:
        fields = "YEAR, MONTH, DAY, DAYOFWEEK, HOUR, MINUTE"
        # In Spark its value has a fraction, unlike second().
        hint = "; write second(…) for the whole second" if field.key == "SECOND" else f"; known are {fields}"
        raise NotAllowed(f"EXTRACT({field.text} FROM …) is not in the language{hint}", span=span)
    cursor.expect("FROM")
    operand = expression(cursor)
    cursor.expect(")")
    return operation(name, (operand,), cursor.span_from(start))


def _exists(cursor: Cursor, expression: Rule) -> Node:
    raise NotAllowed("EXISTS is not in the language; join a static table instead", span=cursor.span())


_SPECIAL: dict[str, Callable[[Cursor, Rule], Node]] = {
    "CAST": _cast, "TRY_CAST": _cast, "EXTRACT": _extract, "EXISTS": _exists,
}  # fmt: skip


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
