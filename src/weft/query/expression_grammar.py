"""The grammar of expressions: operators in Spark's order of precedence, operands, and the names of types."""

from collections.abc import Callable

from weft.errors import NotAllowed, Span, TypeMismatch, UnknownName, suggestion
from weft.query.cursor import MAX_DEPTH, RESERVED, Cursor, too_deep
from weft.query.duration import duration_literal
from weft.query.lexer import TokenKind
from weft.query.syntax import (
    Constant,
    FieldName,
    Invocation,
    Name,
    Node,
    Number,
    Operation,
    Star,
    Text,
    TimeText,
)
from weft.types import DATE, MAX_PRECISION, TIMESTAMP, DataType, Kind

_OR, _AND, _NOT, _PREDICATE, _COMPARISON, _UNARY, _CAST = 1, 2, 3, 4, 5, 11, 12

WINDOW_WORDS = frozenset({"RANGE", "WINDOW"})
"""Words with which a window in brackets begins."""
_BINARY: dict[str, tuple[int, str]] = {
    "=": (_COMPARISON, "="), "==": (_COMPARISON, "="), "<>": (_COMPARISON, "<>"), "!=": (_COMPARISON, "<>"),
    "<": (_COMPARISON, "<"), "<=": (_COMPARISON, "<="), ">": (_COMPARISON, ">"), ">=": (_COMPARISON, ">="),
    "<=>": (_COMPARISON, "<=>"),
    "|": (6, "|"), "^": (7, "^"), "&": (8, "&"),
    "+": (9, "+"), "-": (9, "-"), "||": (9, "concat"),
    "*": (10, "*"), "/": (10, "/"), "%": (10, "%"), "DIV": (10, "div"),
}  # fmt: skip
"""Symbol or word: how tightly it binds, and its canonical name."""
AT_TIME_ZONE = "at time zone"
"""The operator that is one of two functions, by the type of its operand."""
_CONNECTIVES = {"OR": (_OR, "or"), "AND": (_AND, "and")}
_PREDICATES = frozenset({"IS", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP"})
_PATTERNS = {"LIKE": "like", "ILIKE": "ilike", "RLIKE": "rlike", "REGEXP": "rlike"}


def expression(cursor: Cursor, minimum: int = 0) -> Node:
    """Read an expression whose operators bind at least as tightly as `minimum`."""
    cursor.depth += 1
    if cursor.depth > MAX_DEPTH:
        raise too_deep(cursor.span())
    start = cursor.index
    left = _prefix(cursor)
    # A predicate cannot be an operand of what binds tighter: `a IN (1) = b` is refused, as in Spark.
    ceiling = _CAST
    while True:
        key = cursor.token.key
        if (binary := _BINARY.get(key)) and minimum <= binary[0] <= ceiling:
            cursor.advance()
            if cursor.token.key in ("ANY", "ALL", "SOME"):
                raise cursor.refusal(f"{cursor.token.key} is not in the language; compare with IN (…)")
            right = expression(cursor, binary[0] + 1)
            left = Operation(binary[1], (left, right), cursor.span_from(start))
        elif (connective := _CONNECTIVES.get(key)) and minimum <= connective[0]:
            left, ceiling = _connected(cursor, left, start, *connective), connective[0]
        elif key in _PREDICATES and minimum <= _PREDICATE <= ceiling:
            left, ceiling = _predicate(cursor, left, start), _AND
        elif key == "::" and ceiling == _CAST:
            cursor.advance()
            type = data_type(cursor)
            left = Operation("cast", (left,), cursor.span_from(start), type)
        elif key == "AT" and ceiling == _CAST and cursor.peek().key == "TIME":
            left = _at_time_zone(cursor, left, start)
        else:
            cursor.depth -= 1
            return left


def _at_time_zone(cursor: Cursor, left: Node, start: int) -> Node:
    cursor.accept("AT", "TIME")
    cursor.expect("ZONE")
    zone = _primary(cursor)
    return Operation(AT_TIME_ZONE, (left, zone), cursor.span_from(start))


def _prefix(cursor: Cursor) -> Node:
    start = cursor.index
    if cursor.accept("NOT") or cursor.accept("!"):
        return Operation("not", (expression(cursor, _NOT),), cursor.span_from(start))
    if cursor.accept("-"):
        if cursor.token.kind is TokenKind.NUMBER:
            text = "-" + cursor.advance().text
            return Number(cursor.span_from(start), text)
        return Operation("neg", (expression(cursor, _UNARY),), cursor.span_from(start))
    if cursor.accept("+"):
        return expression(cursor, _UNARY)
    return _accessed(cursor)


def _accessed(cursor: Cursor) -> Node:
    """Read an operand, and which elements and fields are taken of it: `top_k(path, 3)[0].value`."""
    start = cursor.index
    node = _primary(cursor)
    while True:
        # A bracket after ON may be a window, which stands in the wrong place.
        if cursor.at("[") and cursor.peek().key not in WINDOW_WORDS:
            cursor.advance()
            index = expression(cursor)
            cursor.expect("]")
            node = Operation("subscript", (node, index), cursor.span_from(start))
        elif cursor.accept("."):
            if cursor.token.kind not in (TokenKind.WORD, TokenKind.QUOTED):
                raise cursor.mistake("expected the name of a field")
            name = FieldName(cursor.span(), cursor.advance().text)
            node = Operation("field", (node, name), cursor.span_from(start))
        else:
            return node


def _connected(cursor: Cursor, left: Node, start: int, power: int, operator: str) -> Node:
    """Read a whole chain at once, so that a thousand terms become one flat node."""
    word = cursor.token.key
    terms = [left]
    while cursor.accept(word):
        terms.append(expression(cursor, power + 1))
    flat: list[Node] = []
    for term in terms:
        flat.extend(term.args if isinstance(term, Operation) and term.operator == operator else (term,))
    return Operation(operator, tuple(flat), cursor.span_from(start))


def _predicate(cursor: Cursor, left: Node, start: int) -> Node:
    read = _is if cursor.accept("IS") else _test
    negated = cursor.accept("NOT")
    node = read(cursor, left, start)
    if not negated:
        return node
    # IS NOT DISTINCT FROM is a negation of one.
    if isinstance(node, Operation) and node.operator == "not":
        return node.args[0]
    return Operation("not", (node,), cursor.span_from(start))


def _is(cursor: Cursor, left: Node, start: int) -> Node:
    if cursor.accept("NULL") or cursor.accept("UNKNOWN"):
        return Operation("is_null", (left,), cursor.span_from(start))
    if cursor.accept("DISTINCT", "FROM"):
        right = expression(cursor, _COMPARISON)
        same = Operation("<=>", (left, right), cursor.span_from(start))
        return Operation("not", (same,), same.span)
    if cursor.at("TRUE") or cursor.at("FALSE"):
        truth = Constant(cursor.span(), cursor.advance().key == "TRUE")
        return Operation("<=>", (left, truth), cursor.span_from(start))
    raise cursor.mistake("expected NULL, TRUE, FALSE or DISTINCT FROM")


def _test(cursor: Cursor, left: Node, start: int) -> Node:
    if cursor.accept("BETWEEN"):
        low = expression(cursor, _COMPARISON)
        cursor.expect("AND")
        high = expression(cursor, _COMPARISON)
        span = cursor.span_from(start)
        bounds = Operation(">=", (left, low), span), Operation("<=", (left, high), span)
        return Operation("and", bounds, span)
    if cursor.accept("IN"):
        return _in(cursor, left, start)
    name = _PATTERNS.get(cursor.token.key)
    if name is None:
        raise cursor.mistake("expected BETWEEN, IN or LIKE")
    cursor.advance()
    pattern = expression(cursor, _COMPARISON)
    if cursor.at("ESCAPE"):
        raise cursor.refusal("ESCAPE is not in the language; escape with a backslash")
    return Operation(name, (left, pattern), cursor.span_from(start))


def _in(cursor: Cursor, left: Node, start: int) -> Node:
    cursor.expect("(")
    cursor.refuse_subquery()
    items = cursor.listed(expression)
    cursor.expect(")")
    span = cursor.span_from(start)
    if all(isinstance(item, Number | Text | Constant | TimeText) for item in items):
        return Operation("in", (left, *items), span)
    tests = tuple(Operation("=", (left, item), span) for item in items)
    return tests[0] if len(tests) == 1 else Operation("or", tests, span)


_CONSTANTS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}
_TIMES: dict[str, DataType] = {
    "DATE": DATE, "TIMESTAMP": TIMESTAMP, "TIMESTAMP_LTZ": TIMESTAMP,
    "TIMESTAMP_NTZ": DataType(Kind.TIMESTAMP_NTZ),
}  # fmt: skip
_QUANTITIES = (TokenKind.STRING, TokenKind.NUMBER)
_CALLABLE_RESERVED = frozenset({"LEFT", "RIGHT", "LIKE", "ILIKE", "RLIKE"})


def _primary(cursor: Cursor) -> Node:
    token, span = cursor.token, cursor.span()
    if token.kind is TokenKind.NUMBER:
        return Number(span, cursor.advance().text)
    if token.kind is TokenKind.STRING:
        return Text(span, cursor.advance().text)
    if token.key == "(":
        cursor.advance()
        cursor.refuse_subquery()
        inner = expression(cursor)
        if cursor.at(","):
            raise cursor.refusal("rows of several values are not in the language; compare them one by one")
        cursor.expect(")")
        return inner
    if token.key == "." and cursor.peek().kind is TokenKind.NUMBER:
        cursor.advance()
        return Number((span[0], cursor.span()[1]), "." + cursor.advance().text)
    if token.kind is TokenKind.WORD:
        return _word(cursor)
    if token.kind is TokenKind.QUOTED:
        return _call(cursor) if cursor.peek().key == "(" else _column(cursor)
    raise cursor.mistake("expected an expression")


def _word(cursor: Cursor) -> Node:
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
        return _case(cursor)
    if following.key == "(" and (token.key not in RESERVED or token.key in _CALLABLE_RESERVED):
        if token.key == "EXISTS":
            raise cursor.refusal("EXISTS is not in the language; join a static table instead")
        return _SPECIAL.get(token.key, _call)(cursor)
    if token.key in RESERVED:
        raise cursor.mistake("expected an expression")
    return _column(cursor)


def _column(cursor: Cursor) -> Name:
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


def _call(cursor: Cursor) -> Node:
    start = cursor.index
    name_span, name = cursor.span(), cursor.advance().text
    cursor.expect("(")
    distinct = cursor.accept("DISTINCT")
    if not distinct:
        cursor.accept("ALL")
    args: tuple[Node, ...] = ()
    if not cursor.accept(")"):
        args = tuple(cursor.listed(_argument))
        cursor.expect(")")
    filter, within = None, cursor.accept("WITHIN", "GROUP")
    if within:
        for word in ("(", "ORDER", "BY"):
            cursor.expect(word)
        ordered = expression(cursor)
        descending = cursor.accept("DESC")
        cursor.accept("ASC")
        args = (ordered, *args, Constant(cursor.span(), descending))
        cursor.expect(")")
    if cursor.accept("FILTER", "("):
        cursor.expect("WHERE")
        filter = expression(cursor)
        cursor.expect(")")
    if cursor.at("OVER"):
        problem = "window functions (OVER) are not in the language; write the window after the stream"
        raise NotAllowed(problem, span=cursor.span_from(start))
    span = cursor.span_from(start)
    if name.casefold() not in SUGAR or distinct or filter is not None or within:
        return Invocation(name, name_span, args, span, distinct, filter, within)
    count, express = SUGAR[name.casefold()]
    if len(args) != count:
        plural = "" if count == 1 else "s"
        raise TypeMismatch(f"{name} takes {count} argument{plural}, found {len(args)}", span=span)
    return express(args, span)


def _argument(cursor: Cursor) -> Node:
    cursor.refuse_subquery()
    span = cursor.span()
    return Star(span) if cursor.accept("*") else expression(cursor)


_FIELDS = {
    "YEAR": "year", "YEARS": "year", "MONTH": "month", "MONTHS": "month", "DAY": "day", "DAYS": "day",
    "DAYOFWEEK": "dayofweek", "DOW": "dayofweek", "HOUR": "hour", "HOURS": "hour",
    "MINUTE": "minute", "MINUTES": "minute", "QUARTER": "quarter", "DOY": "dayofyear", "WEEK": "weekofyear",
    "WEEKS": "weekofyear",
}  # fmt: skip


def _case(cursor: Cursor) -> Node:
    """Read CASE in either form; ELSE NULL is added where there is no ELSE."""
    start = cursor.index
    cursor.advance()
    subject = None if cursor.at("WHEN") else expression(cursor)
    parts: list[Node] = []
    while cursor.accept("WHEN"):
        test = expression(cursor)
        parts.append(test if subject is None else Operation("=", (subject, test), test.span))
        cursor.expect("THEN")
        parts.append(expression(cursor))
    if not parts:
        raise cursor.mistake("expected WHEN")
    parts.append(expression(cursor) if cursor.accept("ELSE") else Constant(cursor.span(), None))
    cursor.expect("END")
    return Operation("case", tuple(parts), cursor.span_from(start))


def _cast(cursor: Cursor) -> Node:
    start = cursor.index
    cursor.advance()
    cursor.expect("(")
    operand = expression(cursor)
    cursor.expect("AS")
    type = data_type(cursor)
    cursor.expect(")")
    return Operation("cast", (operand,), cursor.span_from(start), type)


def _extract(cursor: Cursor) -> Node:
    start = cursor.index
    cursor.advance()
    cursor.expect("(")
    field, span = cursor.advance(), cursor.span_from(cursor.index - 1)
    name = _FIELDS.get(field.text.upper())
    if name is None:
        fields = "YEAR, QUARTER, MONTH, WEEK, DAY, DAYOFWEEK, DOY, HOUR, MINUTE"
        # In Spark its value has a fraction, unlike second().
        hint = "; write second(…) for the whole second" if field.key == "SECOND" else f"; known are {fields}"
        raise NotAllowed(f"EXTRACT({field.text} FROM …) is not in the language{hint}", span=span)
    cursor.expect("FROM")
    operand = expression(cursor)
    cursor.expect(")")
    return Operation(name, (operand,), cursor.span_from(start))


def _position(cursor: Cursor) -> Node:
    """Read POSITION(part IN whole), or a call with commas."""
    start = cursor.index
    name_span, name = cursor.span(), cursor.advance().text
    cursor.expect("(")
    args = [expression(cursor, _COMPARISON)]
    if cursor.accept("IN"):
        args.append(expression(cursor))
    else:
        cursor.expect(",")
        args += cursor.listed(expression)
    cursor.expect(")")
    return Invocation(name, name_span, tuple(args), cursor.span_from(start))


_SPECIAL: dict[str, Callable[[Cursor], Node]] = {
    "CAST": _cast, "TRY_CAST": _cast, "EXTRACT": _extract, "POSITION": _position,
}  # fmt: skip
"""Words whose brackets have a grammar of their own."""


SUGAR: dict[str, tuple[int, Callable[[tuple[Node, ...], Span], Node]]] = {
    "if": (3, lambda args, span: Operation("case", args, span)),
    "nullif": (2, lambda args, span: Operation(
        "case", (Operation("=", args, span), Constant(span, None), args[0]), span
    )),
    "nvl2": (3, lambda args, span: Operation(
        "case", (Operation("is_null", args[:1], span), args[2], args[1]), span
    )),
    "to_timestamp": (1, lambda args, span: Operation("cast", args, span, TIMESTAMP)),
    "isnull": (1, lambda args, span: Operation("is_null", args, span)),
    "isnotnull": (1, lambda args, span: Operation("not", (Operation("is_null", args, span),), span)),
}  # fmt: skip
"""Functions that are other operations in other words, with their numbers of arguments."""


_NAMES: dict[str, Kind] = {
    "BOOLEAN": Kind.BOOLEAN, "BOOL": Kind.BOOLEAN,
    "TINYINT": Kind.TINYINT, "BYTE": Kind.TINYINT,
    "SMALLINT": Kind.SMALLINT, "SHORT": Kind.SMALLINT,
    "INT": Kind.INT, "INTEGER": Kind.INT,
    "BIGINT": Kind.BIGINT, "LONG": Kind.BIGINT,
    "FLOAT": Kind.FLOAT, "REAL": Kind.FLOAT, "DOUBLE": Kind.DOUBLE,
    "DECIMAL": Kind.DECIMAL, "DEC": Kind.DECIMAL, "NUMERIC": Kind.DECIMAL,
    "STRING": Kind.STRING, "TEXT": Kind.STRING, "VARCHAR": Kind.STRING, "CHAR": Kind.STRING,
    "BINARY": Kind.BINARY, "DATE": Kind.DATE,
    "TIMESTAMP": Kind.TIMESTAMP, "TIMESTAMP_LTZ": Kind.TIMESTAMP, "TIMESTAMP_NTZ": Kind.TIMESTAMP_NTZ,
}  # fmt: skip
_NESTED = frozenset({"ARRAY", "MAP", "STRUCT", "VARIANT", "INTERVAL"})
_SIZED = frozenset({"VARCHAR", "CHAR"})


def data_type(cursor: Cursor) -> DataType:
    """Read a type."""
    token, span = cursor.token, cursor.span()
    if token.key in _NESTED:
        raise TypeMismatch(f"queries cannot use type {token.key}; leave the column out", span=span)
    if token.kind is not TokenKind.WORD:
        raise cursor.mistake("expected a type")
    kind = _NAMES.get(token.key)
    if kind is None:
        raise UnknownName(f'unknown type "{token.text}"{suggestion(token.key, _NAMES)}', span=span)
    cursor.advance()
    if token.key in _SIZED and cursor.accept("("):
        _whole_number(cursor)
        cursor.expect(")")
    if kind is not Kind.DECIMAL:
        return DataType(kind)
    start, precision, scale = cursor.index, 10, 0
    if cursor.accept("("):
        precision = _whole_number(cursor)
        scale = _whole_number(cursor) if cursor.accept(",") else 0
        cursor.expect(")")
    if not (1 <= precision <= MAX_PRECISION and scale <= precision):
        problem = (
            f"DECIMAL({precision},{scale}) does not exist; at most {MAX_PRECISION} digits, scale included"
        )
        raise TypeMismatch(problem, span=cursor.span_from(start))
    return DataType(Kind.DECIMAL, precision, scale)


def _whole_number(cursor: Cursor) -> int:
    token = cursor.token
    if token.kind is not TokenKind.NUMBER or not token.text.isdecimal() or len(token.text) > 6:
        raise cursor.mistake("expected a whole number")
    return int(cursor.advance().text)
